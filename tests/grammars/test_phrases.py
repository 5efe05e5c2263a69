"""Phrase structure grammars of the library, each compared with the model that it claims to be."""

from __future__ import annotations

import numpy as np
import pytest

from fgg.grammar.semantics import brute_force, derivations
from fgg.rewrite.ground import ground
from tests.helpers.library import CATALAN, LATENT, ask, count, either, library, parameters
from tests.oracles import library_models as direct


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
