"""Refusals: inputs, weights and options that do not fit a program, and work that is too large."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import fgg
from fgg.runtime.program.program import Program


@pytest.fixture(scope="module")
def pcfg() -> Program:
    return fgg.compile(fgg.load("pcfg_dense", sizes={"nt": 2, "pt": 3, "words": 4}))


@pytest.fixture(scope="module")
def hmm() -> Program:
    return fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4}))


@pytest.mark.parametrize(
    ("inputs", "lengths", "message"),
    [
        ({"w": [[0, 9]]}, None, "9 is not a value of `W`"),
        ({"w": [[0, -3]]}, None, "-3 is not a value"),
        ({"v": [[0]]}, None, "there is no input `v`"),
        ({"w": [["x"]]}, None, "`x` is not a value of `W`: .w.0.. of item 0"),
        ({"w": 3}, None, "a list of items is expected"),
        ({"w": torch.zeros(2, 3)}, None, "whole numbers"),
        ({"w": torch.zeros(3, dtype=torch.long)}, None, "the first axis is the batch"),
        ({"w": [[0, 1]]}, [3], "item 0 has 2 entries, 3 are expected"),
        ({"w": torch.zeros(1, 2, dtype=torch.long)}, [3], "2 positions; the lengths need 3"),
        ({"w": [[0], [1]]}, [1], "2 items"),
        ({"w": []}, None, "at least one item"),
        ({}, None, "length `n` is not known"),
        ({}, {"m": [1]}, "there is no length `m`"),
        ({}, [-1], "whole numbers from 0 up"),
        ({}, [1.5], "whole numbers"),
    ],
)
def test_bad_inputs_are_reported(
    hmm: Program, inputs: dict[str, object], lengths: object, message: str
) -> None:
    weights = hmm.weights(seed=0)
    with pytest.raises(fgg.GrammarError, match=message):
        hmm.log_z(weights, inputs, lengths)  # type: ignore[arg-type]


def test_bad_weights_are_reported(hmm: Program) -> None:
    weights = hmm.weights(seed=0)
    with pytest.raises(fgg.GrammarError, match="F416"):
        hmm.log_z({n: w for n, w in weights.items() if n != "trans"}, {"w": [[0]]})
    with pytest.raises(fgg.GrammarError, match="have shape"):
        hmm.log_z({**weights, "trans": torch.ones(2, 2)}, {"w": [[0]]})
    with pytest.raises(fgg.GrammarError, match="which is not a factor"):
        hmm.log_z({**weights, "tran": torch.ones(2, 2)}, {"w": [[0]]})


def test_what_would_not_fit_is_refused(pcfg: Program) -> None:
    with pytest.raises(fgg.GrammarError, match="F420"):
        pcfg.log_z(pcfg.weights(seed=0), {}, [10_000_000])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w - 1, "`trans` are negative"),
        (lambda w: w * float("nan"), "NaN"),
        (lambda w: w + float("inf"), "infinite"),
        (lambda w: w.double(), "all must be float32 or all float64"),
        (lambda w: w.to(torch.complex64), "complex64"),
    ],
)
def test_weights_that_are_no_weights_are_reported(
    hmm: Program, change: Callable[[Tensor], Tensor], message: str
) -> None:
    weights = hmm.weights(seed=0)
    with pytest.raises(fgg.GrammarError, match=message):
        hmm.log_z({**weights, "trans": change(weights["trans"])}, {"w": [[0, 1]]})


def test_what_is_asked_of_charts_is_refused_too_where_it_would_not_fit(pcfg: Program) -> None:
    post = pcfg.model().posterior(lengths=[10_000_000])
    for question in (post.best, post.sample, post.entropy):
        with pytest.raises(fgg.GrammarError, match="F420"):
            question()


def test_sizes_of_a_grammar_that_declares_none_are_refused() -> None:
    with pytest.raises(fgg.GrammarError, match="F410") as caught:
        fgg.load("branching", sizes={"k": 2})
    assert caught.value.diagnostics[0].help == "it declares none"


def test_mistakes_in_compiling_are_named() -> None:
    with pytest.raises(TypeError, match="a grammar is expected"):
        fgg.compile("hmm")  # type: ignore[arg-type]
    grammar = fgg.load("hmm")
    for sizes in ({"zz": 2}, {"k": 0}):
        with pytest.raises(fgg.GrammarError, match="F410"):
            fgg.compile(grammar, sizes=sizes)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda hmm: hmm.log_z(hmm.weights(seed=0), [[0, 1]]), "inputs are given by name"),
        (lambda hmm: hmm.posterior(hmm.weights(seed=0), 3), "inputs are given by name"),
        (lambda hmm: hmm.log_z(None, {"w": [[0]]}), "weights are given by name"),
        (
            lambda hmm: hmm.weights(seed="a"),
            "`seed` is a whole number from 0 up, below .*, not 'a'",
        ),
        (lambda hmm: hmm.weights(seed=2**63), "below .*, not 9223372036854775808"),
        (lambda hmm: hmm.model(seed=-1), "below .*, not -1"),
        (lambda hmm: hmm.posterior(hmm.weights(seed=0), {"w": [[0]]}).log_prob(3), "derivations"),
        (lambda hmm: hmm.model().fit(None), "data are a list of items, not None"),
        (lambda hmm: hmm.model().score({"w": 5}), "data are a list of items, not 5"),
    ],
)
def test_what_is_of_another_kind_is_reported(
    hmm: Program, ask: Callable[[Program], object], message: str
) -> None:
    with pytest.raises(fgg.GrammarError, match=message):
        ask(hmm)


def test_seeds_of_numpy_are_whole_numbers(hmm: Program) -> None:
    weights = hmm.weights(seed=np.int64(3))  # type: ignore[arg-type]
    assert all(torch.equal(w, weights[name]) for name, w in hmm.weights(seed=3).items())
