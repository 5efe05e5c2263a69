"""The grammars of the library, each compared with the model that it claims to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise, product
from math import comb, exp
from typing import Any

import numpy as np
import pytest

from fgg.compiler.resolve.load import load, load_file
from fgg.factors.maps import groups
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.semantics import brute_force, derivations
from fgg.library import library_names, library_text, library_title
from fgg.rewrite.ground import ground
from fgg.runtime.program.bind import within_blocks
from tests.oracles import library_models as direct
from tests.oracles.library_models import Floats, Weights

Sizes = dict[str, int]

NAMES = (
    *("branching", "cnf", "crf", "ctc", "dep_i", "dep_ie", "dep_ies", "dmv", "dyck", "eisner"),
    *("hmm", "hmm_blocks", "hmm_rank", "hsmm", "lcm", "lexpcfg", "lexpcfg_rank", "lhmm", "lpcfg"),
    *("morphology", "pair_hmm", "pcfg", "pcfg_dense", "pcfg_i", "pcfg_ie", "pcfg_la", "qcfg"),
    *("rna", "semicrf", "tagger"),
)
LATENT = {"nt": 2, "pt": 1, "h": 2, "words": 2}
CATALAN = [0, 1, 1, 2, 5, 14]
TREES = [0, 1, 2, 7, 30, 143]


def library(name: str, sizes: Sizes) -> Grammar:
    """A library grammar with some of its sizes set."""
    return _library(name, tuple(sizes.items()))


@cache
def _library(name: str, sizes: tuple[tuple[str, int], ...]) -> Grammar:
    return load(name, sizes=dict(sizes))


def ask(name: str, query: str | None, weights: Weights, sizes: Sizes, **inputs: Any) -> Any:
    """The value of a library grammar by enumeration."""
    return brute_force(ground(library(name, sizes), query=query, inputs=inputs), weights)


def count(name: str, query: str | None, sizes: Sizes | None = None, **lengths: int) -> int:
    """The number of derivations of a library grammar for given lengths."""
    grammar = ground(library(name, sizes or {}), query=query, lengths=lengths)
    return len(list(derivations(grammar)))


def parameters(name: str, sizes: Sizes, seed: int = 0) -> dict[str, Floats]:
    """Random weights for all parameters of a grammar, normalised where it says so."""
    grammar = library(name, sizes)
    rng = np.random.default_rng(seed)
    weights: dict[str, Floats] = {}
    for factor in grammar.factors:
        if factor.value is None:
            array = rng.random([domain_size(grammar, domain) for domain in factor.domains]) + 0.1
            blocks = groups(grammar, factor)
            if blocks is not None:
                array = within_blocks(array, blocks)
            elif factor.given is not None:
                array /= array.sum(tuple(range(factor.given, array.ndim)), keepdims=True)
            weights[factor.name] = array
    if name == "dep_ies":
        weights["root"] = stationary(weights["arc"])
    return weights


def stationary(matrix: Floats) -> Floats:
    """The distribution that a step of a chain keeps."""
    return np.asarray(np.linalg.matrix_power(matrix, 200)[0])


def either(weights: Weights, own: str, shared: str) -> Floats:
    """The weights of a direction, or those that both directions share."""
    return weights[own] if own in weights else weights[shared]


def strings(size: int, n: int) -> list[list[int]]:
    """All strings of n tokens."""
    return [list(w) for w in product(range(size), repeat=n)]


def test_the_library_is_complete() -> None:
    assert library_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_there_is_nothing_to_say_about_a_library_grammar(name: str) -> None:
    assert load_file(name).diagnostics == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_library_grammar_says_what_it_models_and_whence(name: str) -> None:
    text, title = library_text(name), library_title(name)
    assert text.startswith(f"# {name}.fgg: {title}\n#\n")
    assert any(character.isdigit() for character in title), "no year"
    comment = text.split("\n\n")[0]
    grammar = library(name, {})
    for declared in (*grammar.size, *grammar.query):
        assert f" {declared} " in comment.replace(",", " "), f"`{declared}` is not explained"


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_normalised_except_in_random_fields(name: str) -> None:
    free = [f.name for f in library(name, {}).factors if f.value is None and f.given is None]
    assert free == (["trans"] if name in ("crf", "semicrf") else [])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, [0, 1, 1, 1, 1]) for name in ("hmm", "hmm_blocks", "lhmm")),
        *((name, [1, 1, 1, 1, 1]) for name in ("hmm_rank", "lcm")),
        ("hsmm", [0, 1, 2, 4, 8]),
        *((name, CATALAN) for name in ("cnf", "pcfg_i", "pcfg_ie")),
        *((name, CATALAN) for name in ("pcfg", "pcfg_dense", "lpcfg", "pcfg_la", "qcfg")),
        ("lexpcfg", [0, 1, 1 * 2, 2 * 4, 5 * 8]),
        *((name, TREES) for name in ("dep_i", "dep_ie", "dep_ies", "dmv")),
        ("rna", [0, *(len(direct.rna_structures(0, n)) for n in range(1, 8))]),
        ("dyck", [1, 0, 1, 0, 2, 0, 5]),
    ],
)
def test_derivations_of_strings_are_the_structures(name: str, expected: list[int]) -> None:
    assert [count(name, "string", n=n) for n in range(len(expected))] == expected


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("cnf", lambda k, d: (k - 1) + k * (k * k - 1) + k * (d - 1)),
        ("pcfg_i", lambda k, d: (k - 1) + 2 * k * (k - 1) + k * (d - 1)),
        ("pcfg_ie", lambda k, d: (k - 1) + k * (k - 1) + k * (d - 1)),
        ("hmm", lambda k, d: (k - 1) + k * (k - 1) + k * (d - 1)),
        ("lcm", lambda k, d: (k - 1) + k * (d - 1)),
        ("dep_i", lambda k, d: (d - 1) * (2 * d + 1)),
        ("dep_ie", lambda k, d: d * d - 1),
        ("dep_ies", lambda k, d: d * (d - 1)),
    ],
)
def test_models_of_hsu_kakade_and_liang_have_their_number_of_parameters(
    name: str, number: Callable[[int, int], int]
) -> None:
    sizes = {"d": 5} if name.startswith("dep") else {"k": 3, "d": 5}
    found = 0
    for factor in library(name, sizes).factors:
        array = parameters(name, sizes)[factor.name]
        if factor.definition is None:
            found += array.size - int(np.prod(array.shape[: factor.given]))
    assert found == number(3, 5)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *((name, {"k": 2, "d": 2}) for name in ("hmm", "hmm_rank", "lhmm", "hsmm", "lcm", "cnf")),
        *((name, {"k": 2, "d": 2}) for name in ("pcfg_i", "pcfg_ie")),
        *((name, {"nt": 1, "pt": 2, "words": 2}) for name in ("pcfg", "pcfg_dense", "lexpcfg")),
        *(("lpcfg", {"nt": 1, "pt": 2, "words": 2, "r": 2}), ("pcfg_la", LATENT)),
        ("qcfg", {"nt": 1, "pt": 2, "labels": 1, "words": 2}),
        *((name, {"d": 2}) for name in ("dep_i", "dep_ie", "dep_ies")),
        *(("dmv", {"tags": 2}), ("rna", {})),
    ],
)
def test_every_derivation_observes_every_word_once(name: str, sizes: Sizes) -> None:
    weights = parameters(name, sizes)
    kept = ground(library(name, sizes), query="string", lengths={"n": 3})
    doubled = {
        f"w_{i}": [2.0] * domain_size(kept, kept.factor[f"w_{i}"].domains[0]) for i in range(3)
    }
    missing = ask(name, "string", weights, sizes, w=[-1] * 3)
    assert missing > 0
    assert brute_force(kept, {**weights, **doubled}) == pytest.approx(2**3 * missing)


CHAINS: dict[str, Callable[[Weights, Sequence[int]], float]] = {
    "hmm": direct.hmm,
    "hmm_rank": direct.hmm_rank,
    "lhmm": direct.hmm,
    "hsmm": direct.hsmm,
    "lcm": direct.lcm,
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_strings_of_a_chain_have_their_probability_and_sum_to_one(name: str, n: int) -> None:
    sizes = {"k": 2, "d": 3}
    weights = parameters(name, sizes)
    total = 0.0
    for w in strings(3, n):
        found = ask(name, "string", weights, sizes, w=w)
        assert found == pytest.approx(CHAINS[name](weights, w))
        total += found
    assert total == pytest.approx(1)
    assert ask(name, "string", weights, sizes, w=[-1] * n) == pytest.approx(1)


@pytest.mark.parametrize("n", [1, 2])
def test_strings_of_a_blocked_chain_have_their_probability_and_sum_to_one(n: int) -> None:
    sizes = {"m": 2, "k": 2, "d": 4}
    weights = parameters("hmm_blocks", sizes)
    total = 0.0
    for w in strings(4, n):
        found = ask("hmm_blocks", "string", weights, sizes, w=w)
        assert found == pytest.approx(direct.hmm_blocks(weights, w))
        total += found
    assert total == pytest.approx(1)
    assert ask("hmm_blocks", "string", weights, sizes, w=[-1] * n) == pytest.approx(1)


def test_segments_are_at_most_as_long_as_the_longest_duration() -> None:
    sizes = {"k": 2, "d": 2, "dmax": 2}
    weights = parameters("hsmm", sizes)
    for w in ([0, 1, 1, 0], [0, 0, 1, 1]):
        found = ask("hsmm", "string", weights, sizes, w=w)
        assert found == pytest.approx(direct.hsmm(weights, w))
    assert ask("hsmm", "string", weights, sizes, w=[-1] * 4) == pytest.approx(1)


@pytest.mark.parametrize("y", [[-1, -1, -1], [1, -1, 0], [1, 0, 1], [-1], [0]])
def test_crf_sums_over_the_taggings_that_agree(y: list[int]) -> None:
    weights = parameters("crf", {"k": 2})
    score = np.random.default_rng(1).normal(size=(len(y), 2))
    expected = 0.0
    for tags in strings(2, len(y)):
        if all(known in (-1, t) for known, t in zip(y, tags, strict=True)):
            steps = np.prod([weights["trans"][a, b] for a, b in pairwise(tags)])
            expected += float(steps) * exp(sum(score[i, t] for i, t in enumerate(tags)))
    found = ask("crf", "tags", weights, {"k": 2}, y=y, score=score.tolist())
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("n", "lmax", "number"), [(1, 2, 1), (3, 9, 4), (4, 2, 5), (4, 9, 8)])
def test_semicrf_sums_over_segmentations(n: int, lmax: int, number: int) -> None:
    sizes = {"k": 2, "lmax": lmax}
    weights = parameters("semicrf", sizes)
    score = np.random.default_rng(1).normal(size=(n, n + 1, 2))
    expected, segmentations = 0.0, list(direct.compositions(n, lmax))
    for lengths in segmentations:
        for tags in strings(2, len(lengths)):
            weight, start = 1.0, 0
            for position, (length, tag) in enumerate(zip(lengths, tags, strict=True)):
                weight *= exp(score[start, start + length, tag])
                weight *= weights["trans"][tags[position - 1], tag] if position else 1.0
                start += length
            expected += weight
    unknown = [[-1] * (n + 1)] * n
    found = ask("semicrf", "segments", weights, sizes, y=unknown, score=score.tolist())
    assert found == pytest.approx(expected)
    assert count("semicrf", "segments", sizes, n=n) == number == len(segmentations)


def test_semicrf_weighs_one_known_segmentation() -> None:
    sizes = {"k": 2}
    weights = parameters("semicrf", sizes)
    score = np.random.default_rng(1).normal(size=(3, 4, 2))
    y = [[-2] * 4 for _ in range(3)]
    y[0][2], y[2][3] = 1, 0
    found = ask("semicrf", "segments", weights, sizes, y=y, score=score.tolist())
    expected = exp(score[0, 2, 1] + score[2, 3, 0]) * weights["trans"][1, 0]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["cnf", "pcfg_i", "pcfg_ie"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_uniform_topologies_have_no_weight_of_their_own(name: str, n: int) -> None:
    sizes = {"k": 2, "d": 2}
    weights = parameters(name, sizes)
    if name == "cnf":
        binary = weights["binary"]
    else:
        left, right = either(weights, "left", "child"), either(weights, "right", "child")
        binary = np.einsum("ab,ac->abc", left, right)
    for w in ([0, 1, 1, 0][:n], [1, 0, 0, 0][:n]):
        found = ask(name, "string", weights, sizes, w=w)
        expected = direct.inside(weights["root"], binary, weights["emit"], w)
        assert found == pytest.approx(expected)
    assert ask(name, "string", weights, sizes, w=[-1] * n) == pytest.approx(CATALAN[n])


@pytest.mark.parametrize("name", ["pcfg", "pcfg_dense", "lpcfg"])
@pytest.mark.parametrize("w", [[0], [0, 1], [1, 0, 1]])
def test_pcfg_strings_have_their_inside_probability(name: str, w: list[int]) -> None:
    sizes = {"nt": 2, "pt": 2, "words": 2} | ({} if name == "pcfg_dense" else {"r": 2})
    weights = parameters(name, sizes)
    binary = weights.get("binary")
    if binary is None:
        binary = np.einsum("ar,rbc->abc", weights["left"], weights["right"])
    expected = direct.phrase_inside(weights["root"], binary, weights["emit"], w)
    assert ask(name, "string", weights, sizes, w=w) == pytest.approx(expected)
    assert (expected == 0) == (len(w) == 1)


def test_latent_annotations_are_summed_over_an_observed_tree() -> None:
    weights = parameters("pcfg_la", LATENT)
    root, binary, emit = (weights[name] for name in ("root", "binary", "emit"))
    tree = {
        **{"left": [1, -1, 3, -1, -1], "right": [2, -1, 4, -1, -1]},
        **{"phrase": [1, -2, 0, -2, -2], "tag": [-2, 0, -2, 0, 0], "w": [-2, 0, -2, 1, 1]},
    }
    grammar = ground(library("pcfg_la", LATENT), query="tree", inputs=tree)
    (derivation,) = derivations(grammar)
    assert str(derivation) == "(root (binary_0 word_1 (binary_2 word_3 word_4)))"
    found = brute_force(grammar, weights)
    # Values of C: phrase 0 is 0 and 1, phrase 1 is 2 and 3, the tag is 4 and 5.
    inner = np.einsum("abc,b,c->a", binary[0:2, 4:, 4:], emit[:, 1], emit[:, 1])
    outer = np.einsum("abc,b,c->a", binary[2:4, 4:, 0:2], emit[:, 0], inner)
    assert found == pytest.approx(float(root[2:4] @ outer))


def test_a_string_is_the_sum_of_its_trees() -> None:
    weights = parameters("pcfg_la", LATENT)
    trees = sum(
        ask(
            "pcfg_la",
            "tree",
            weights,
            LATENT,
            **{"left": [1, -1, -1], "right": [2, -1, -1], "w": [-2, 0, 1]},
            **{"phrase": [phrase, -2, -2], "tag": [-2, 0, 0]},
        )
        for phrase in range(2)
    )
    assert ask("pcfg_la", "string", weights, LATENT, w=[0, 1]) == pytest.approx(trees)
    expected = direct.phrase_inside(weights["root"], weights["binary"], weights["emit"], [0, 1])
    assert trees == pytest.approx(expected)


def test_brackets_leave_out_the_trees_that_cross_them() -> None:
    weights, word = parameters("pcfg_la", LATENT), [0, 1, 1]
    allowed = np.zeros((3, 4))
    whole = ask("pcfg_la", "bracketed", weights, LATENT, w=word, allowed=allowed.tolist())
    assert whole == pytest.approx(ask("pcfg_la", "string", weights, LATENT, w=word))
    parts = []
    for i, j in ((0, 2), (1, 3)):  # there are two trees, with one of these spans each
        one = allowed.copy()
        one[i, j] = -np.inf
        parts.append(ask("pcfg_la", "bracketed", weights, LATENT, w=word, allowed=one.tolist()))
    assert sum(parts) == pytest.approx(whole) and min(parts) > 0


def test_tags_are_states_that_are_seen() -> None:
    sizes = {"tags": 2, "words": 3}
    weights, word = parameters("tagger", sizes), [2, 0, 1]
    total = 0.0
    for tags in product(range(2), repeat=3):
        wanted = weights["init"][tags[0]] * np.prod(weights["emit"][list(tags), word])
        wanted *= np.prod([weights["trans"][a, b] for a, b in pairwise(tags)])
        found = ask("tagger", "tagged", weights, sizes, w=word, tag=list(tags))
        assert found == pytest.approx(wanted)
        total += found
    assert ask("tagger", "string", weights, sizes, w=word) == pytest.approx(total)
    assert ask("tagger", "tagged", weights, sizes, w=word, tag=[-1] * 3) == pytest.approx(total)


@pytest.mark.parametrize("w", [[0], [0, 1], [1, 0, 1], [0, 0, 0]])
def test_lexicalised_strings_sum_over_trees_and_heads(w: list[int]) -> None:
    sizes = {"nt": 2, "pt": 1, "words": 2}
    weights = parameters("lexpcfg", sizes)
    found = ask("lexpcfg", "string", weights, sizes, w=w)
    assert found == pytest.approx(direct.lexicalised(weights, w))


@pytest.mark.parametrize("w", [[0], [0, 1], [1, 0, 1], [0, 0, 0]])
def test_lexicalised_strings_with_one_factor_sum_over_trees_and_heads(w: list[int]) -> None:
    sizes = {"nt": 2, "pt": 1, "words": 2}
    weights = parameters("lexpcfg_rank", sizes)
    found = ask("lexpcfg_rank", None, weights, sizes, w=w)
    assert found == pytest.approx(direct.lexicalised(weights, w))
    assert count("lexpcfg_rank", None, sizes, n=len(w)) == (0, 1, 1 * 2, 2 * 4)[len(w)]


ALIGNED = {"nt": 2, "pt": 1, "labels": 2, "words": 2}


@pytest.mark.parametrize("s", [[], [1], [0, 1], [1, 1]])
@pytest.mark.parametrize("w", [[0], [0, 1], [1, 0, 1]])
def test_quasi_synchronous_trees_are_aligned_to_the_source(s: list[int], w: list[int]) -> None:
    weights = parameters("qcfg", ALIGNED)
    found = ask("qcfg", "aligned", weights, ALIGNED, s=s, w=w)
    assert found == pytest.approx(direct.quasi_synchronous(weights, 2, 2, s, w))
    # Every node of a tree over the target chooses a node of the source.
    trees = CATALAN[len(w)] * len(s) ** (2 * len(w) - 1)
    assert count("qcfg", "aligned", ALIGNED, m=len(s), n=len(w)) == trees


@pytest.mark.parametrize("w", [[0, 1], [1, 0, 1]])
def test_a_source_with_every_label_once_says_nothing(w: list[int]) -> None:
    weights = parameters("qcfg", ALIGNED)
    found = ask("qcfg", "string", weights, ALIGNED, w=w)
    assert found == pytest.approx(ask("qcfg", "aligned", weights, ALIGNED, s=[1, 0], w=w))
    expected = direct.phrase_inside(weights["root"], weights["binary"], weights["emit"], w)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["dep_i", "dep_ie", "dep_ies"])
@pytest.mark.parametrize("w", [[1], [0, 1], [1, 1, 0], [0, 2, 1, 0], [2, -1, 0]])
def test_dependency_models_sum_over_projective_trees(name: str, w: list[int]) -> None:
    weights = parameters(name, {"d": 3})
    left, right = either(weights, "left", "arc"), either(weights, "right", "arc")
    trees = list(direct.projective_trees(len(w)))
    known = [range(3) if word < 0 else [word] for word in w]  # a missing word is summed out
    expected = sum(
        direct.dependencies(weights["root"], left, right, words, heads)
        for heads in trees
        for words in product(*known)
    )
    assert len(trees) == TREES[len(w)]
    assert ask(name, "string", weights, {"d": 3}, w=w) == pytest.approx(expected)


def test_every_word_of_a_stationary_dependency_model_has_the_same_distribution() -> None:
    weights = parameters("dep_ies", {"d": 2})
    for position, word in product(range(3), range(2)):
        w = [word if i == position else -1 for i in range(3)]
        found = ask("dep_ies", "string", weights, {"d": 2}, w=w)
        assert found == pytest.approx(TREES[3] * weights["root"][word])


@pytest.mark.parametrize("w", [[1], [0, 1], [1, 0], [1, 1, 0], [0, 1, 0]])
def test_dmv_sums_over_trees_with_their_decisions(w: list[int]) -> None:
    weights = parameters("dmv", {"tags": 2})
    trees = direct.projective_trees(len(w))
    expected = sum(direct.valence(weights, w, heads) for heads in trees)
    assert ask("dmv", "string", weights, {"tags": 2}, w=w) == pytest.approx(expected)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_eisner_sums_the_scores_of_projective_trees(n: int) -> None:
    rng = np.random.default_rng(n)
    root, arc = rng.normal(size=n), rng.normal(size=(n, n))
    trees = list(direct.projective_trees(n))
    expected = sum(
        exp(sum(root[m] if h < 0 else arc[h, m] for m, h in enumerate(heads))) for heads in trees
    )
    found = ask("eisner", None, {}, {}, root=root.tolist(), arc=arc.tolist())
    assert found == pytest.approx(expected)
    assert count("eisner", None, n=n) == len(trees) == TREES[n]


@pytest.mark.parametrize("word", ["a", "ab", "aba", "abab", "ababa", "abbaba"])
def test_morphology_sums_over_templates_and_their_segments(word: str) -> None:
    lexicon = ["a", "b", "ab", "ba", "bab", "abab"]
    sizes, n = {"substrings": len(lexicon)}, len(word)
    weights = parameters("morphology", sizes)
    templates = ["stem"], ["stem", "mood"], ["subject", "stem", "mood"]
    longer = ["subject", "tense", "stem", "mood"], ["subject", "tense", "object", "stem", "mood"]
    expected, number = 0.0, 0
    for template, slots in enumerate((*templates, *longer)):
        for lengths in direct.compositions(n, n):
            if len(lengths) == len(slots):
                number += 1
                ends = np.cumsum(lengths)
                parts = [word[e - size : e] for e, size in zip(ends, lengths, strict=True)]
                if all(part in lexicon for part in parts):
                    morphemes = zip(slots, map(lexicon.index, parts), strict=True)
                    factors = [weights[slot][part] for slot, part in morphemes]
                    expected += float(weights["template"][template] * np.prod(factors))
    spans = [[word[i:j] for j in range(n + 1)] for i in range(n)]
    s = [[lexicon.index(x) if x in lexicon else -2 for x in row] for row in spans]
    assert ask("morphology", "word", weights, sizes, s=s) == pytest.approx(expected)
    assert count("morphology", "word", sizes, n=n) == number
    assert number == sum(comb(n - 1, boundaries) for boundaries in range(5))


@pytest.mark.parametrize("w", ["A", "GC", "GAAC", "GAAAC", "GGAACC", "GAACGAAC"])
def test_rna_sequences_have_their_probability(w: str) -> None:
    weights = parameters("rna", {})
    bases = ["ACGU".index(base) for base in w]
    assert ask("rna", "string", weights, {}, w=list(w)) == pytest.approx(direct.rna(weights, bases))


@pytest.mark.parametrize("x", [[], [0], [1, 0]])
@pytest.mark.parametrize("y", [[], [1], [0, 1, 1]])
def test_pair_hmm_sums_over_alignments(x: list[int], y: list[int]) -> None:
    weights = parameters("pair_hmm", {"letters": 2})
    found = ask("pair_hmm", "pair", weights, {"letters": 2}, x=x, y=y)
    assert found == pytest.approx(direct.pair_hmm(weights, x, y))
    alignments = sum(comb(len(x), k) * comb(len(y), k) * 2**k for k in range(3))  # Delannoy
    assert count("pair_hmm", "pair", n=len(x), m=len(y)) == alignments


@pytest.mark.parametrize("y", [[], [1], [1, 2], [2, 1], [1, 1], [2, 1, 1]])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_ctc_sums_over_the_frames_that_give_the_labels(y: list[int], n: int) -> None:
    score = np.random.default_rng(n).normal(size=(n, 3))
    paths = [a for a in strings(3, n) if direct.collapse(a) == y]
    grammar = ground(
        library("ctc", {"labels": 2}),
        lengths={"n": n},
        inputs={"y": y, "score": score.tolist()},
    )
    expected = sum(exp(sum(score[i, a] for i, a in enumerate(path))) for path in paths)
    assert brute_force(grammar, {}) == pytest.approx(expected)
    assert len(list(derivations(grammar))) == len(paths)


def test_branching_tends_to_the_probability_of_dying_out() -> None:
    grammar, z = library("branching", {}), 0.0
    for depth in range(6):
        assert brute_force(grammar, {}, max_depth=depth) == pytest.approx(z)
        z = 3 / 5 * z**2 + 2 / 5
    for _ in range(200):
        z = 3 / 5 * z**2 + 2 / 5
    assert z == pytest.approx(2 / 3)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_brackets_have_a_probability_if_they_balance(n: int) -> None:
    for w in map("".join, product("([)]", repeat=n)):
        rest = w
        while rest != (shorter := rest.replace("()", "").replace("[]", "")):
            rest = shorter
        expected = 0.0 if rest else (0.3 / 2) ** (n // 2) * 0.7 ** (n // 2 + 1)
        assert ask("dyck", "string", {}, {}, w=list(w)) == pytest.approx(expected)
