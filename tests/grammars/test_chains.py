"""Chains and random fields of the library, each compared with the model that it claims to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from math import comb, exp

import numpy as np
import pytest

from fgg.grammar.semantics import brute_force, derivations
from fgg.rewrite.ground import ground
from tests.helpers.library import ask, count, library, parameters, strings
from tests.oracles import library_models as direct
from tests.oracles.library_models import Weights

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
