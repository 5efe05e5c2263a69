"""Recovery: data drawn from a known grammar, and each method's held-out perplexity."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import pytest
import torch

import fgg
from fgg.runtime.learn import learn, perplexity
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

Sentences = list[list[int]]
TRUTH = {
    "init": [0.9, 0.1],
    "trans": [[0.1, 0.9], [0.8, 0.2]],
    "emit": [[0.6, 0.3, 0.1, 0.0, 0.0], [0.0, 0.05, 0.05, 0.4, 0.5]],
}


@cache
def program() -> Program:
    return fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 5}))


@cache
def drawn() -> tuple[Model, Sentences, Sentences]:
    """The true model, and what it says: for training, and held out."""
    truth = program().model(dtype=torch.float64, weights=TRUTH)
    missing = [-1] * 6
    derivations = truth.posterior(w=[missing]).sample(260, seed=4)[0]
    sentences = []
    for derivation in derivations:
        words = [step.values["o"] for step in derivation.steps if "o" in step.values]
        assert len(words) == 6
        sentences.append(words)
    return truth, sentences[:160], sentences[160:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("em", {"epochs": 60}),
        ("online-em", {"epochs": 15, "budget": 60}),
        ("vb", {"epochs": 60, "prior": 0.1}),
        ("cvb", {"epochs": 10, "prior": 0.1}),
        ("hastings", {"epochs": 12, "prior": 0.1, "burn_in": 8}),
        ("adam", {"epochs": 40, "rate": 0.1, "budget": 120}),
    ],
)
def test_held_out_perplexity_comes_near_to_that_of_the_truth(
    method: str, options: dict[str, Any]
) -> None:
    truth, train, held_out = drawn()
    best = perplexity(truth, held_out)
    unigram = perplexity_of_words(train, held_out)
    learned = learn(program(), train, method=method, seed=3, **options)
    reached = perplexity(learned.model, held_out)
    assert unigram > 1.25 * best  # there is something to be learned
    assert reached < 1.03 * best
    assert reached < perplexity(program().model(seed=3), held_out)


def perplexity_of_words(train: Sentences, held_out: Sentences) -> float:
    counts = torch.ones(5, dtype=torch.float64)
    for sentence in train:
        for word in sentence:
            counts[word] += 1
    logs = (counts / counts.sum()).log()
    words = [word for sentence in held_out for word in sentence]
    return float(torch.exp(-logs[words].mean()))


def test_a_grammar_that_branches_is_recovered_too() -> None:
    """A PCFG in which words tell the phrase that they begin: EM finds it from strings."""
    grammar = fgg.load("cnf", sizes={"k": 2, "d": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pcfg = fgg.compile(grammar)
    weights = {
        "root": [1.0, 0.0],
        "binary": [[[0.1, 0.8], [0.1, 0.0]], [[0.5, 0.0], [0.3, 0.2]]],
        "emit": [[0.8, 0.2, 0.0], [0.0, 0.1, 0.9]],
    }
    truth = pcfg.model(dtype=torch.float64, weights=weights)
    items = [[-1] * n for n in (2, 3, 4)]
    sentences = [
        [step.values["o"] for step in derivation.steps if "o" in step.values]
        for draws in truth.posterior(w=items).sample(60, seed=1)
        for derivation in draws
    ]
    train, held_out = sentences[::2], sentences[1::2]
    best = perplexity(truth, held_out)
    reached = min(
        perplexity(learn(pcfg, train, epochs=30, seed=seed).model, held_out) for seed in range(2)
    )
    assert reached < 1.08 * best
