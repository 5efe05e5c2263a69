"""Posterior predictive checks: a model that fits passes, one that cannot does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import fgg
from fgg.runtime.learn import EM, VB, CountingMethod, learn, predictive_checks
from fgg.runtime.learn.predictive import PredictiveCheck, posterior_draw

Corpus = Sequence[Mapping[str, Any]]


def repeats(corpus: Corpus) -> float:
    """How often a word comes twice in a row."""
    return float(sum(a == b for item in corpus for a, b in pairwise(item["w"])))


def zeros(corpus: Corpus) -> float:
    """How often word 0 comes."""
    return float(sum(list(item["w"]).count(0) for item in corpus))


def test_a_model_without_memory_cannot_make_words_that_repeat() -> None:
    chance = np.random.default_rng(1)
    sentences = [[w for w in chance.integers(3, size=4).tolist() for _ in "ab"] for _ in range(25)]
    ends = {}
    for states in (1, 4):
        program = fgg.compile(fgg.load("hmm", sizes={"k": states, "d": 3}))
        learned = learn(program, sentences, method="cvb", prior=0.3, epochs=30, seed=2)
        assert isinstance(learned.method, CountingMethod)
        statistics = {"repeats": repeats, "zeros": zeros}
        ends[states] = predictive_checks(learned.method, sentences, statistics, draws=20)
    assert ends[1]["repeats"].observed >= 100
    assert ends[1]["repeats"].p_value == 0.0, "one state has no memory"
    assert 0.02 < ends[1]["zeros"].p_value < 0.98, "but it knows how frequent words are"
    more, fewer = (np.mean(ends[k]["repeats"].replicated) for k in (4, 1))
    assert more > fewer + 10


def test_lengths_are_those_of_the_data_and_ties_count_by_half() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    sentences = [[0, 1, 2], [1], [2, 2]]
    learned = learn(program, sentences, method="vb", epochs=3)
    assert isinstance(learned.method, VB)
    words = {"words": lambda corpus: float(sum(len(item["w"]) for item in corpus))}
    (check,) = predictive_checks(learned.method, sentences, words, draws=3).values()
    assert check == PredictiveCheck(6.0, (6.0, 6.0, 6.0)) and check.p_value == 0.5
    weights = posterior_draw(learned.method, np.random.default_rng(0))
    assert all(bool((abs(w.sum(-1) - 1) < 1e-9).all()) for w in weights.values())


def test_em_has_no_posterior() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    with pytest.raises(fgg.GrammarError, match="has no posterior"):
        predictive_checks(EM(program.model()), [[0, 1]], {"zeros": zeros}, draws=1)
