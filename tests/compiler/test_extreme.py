"""Weights of all sizes: a program's number is right or refused, and the oracle knows which.

`python -m tests.generators.extreme_weights --count 1000 --seed 5000` tries more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import log
from warnings import warn

import numpy as np
import pytest
import torch

import tests.generators.extreme_weights
from fgg.compiler import loads
from fgg.diagnostics import Diagnostic, GrammarError
from fgg.runtime.program.program import Program
from tests.generators.extreme_weights import (
    CHAIN,
    SPACES,
    Case,
    cases,
    judge,
    outcomes,
    random_case,
    report,
)
from tests.oracles.comparing import Item, random_item, random_weights, reference
from tests.oracles.unbounded import Truth, truth


def chain(first: int, second: int, dtype: torch.dtype = torch.float64) -> Case:
    """Two states that never mix, one of which prefers the first word, on x^first y^second."""
    text = CHAIN.format(states=2, words=2)
    weights = {
        "init": np.array([0.5, 0.5]),
        "trans": np.eye(2),
        "emit": np.array([[0.9, 0.1], [0.1, 0.9]]),
    }
    item = Item({"n": first + second}, {"w": np.array([0] * first + [1] * second)})
    return Case("chain", text, loads(text), item, weights, dtype)


def answer(case: Case) -> Truth:
    found = truth(case.grammar, case.item, case.weights)
    assert found is not None
    return found


@pytest.mark.parametrize(("first", "second"), [(100, 60), (450, 400), (3, 2)])
def test_the_oracle_has_the_closed_form_of_a_chain_that_cannot_change(
    first: int, second: int
) -> None:
    found = answer(chain(first, second))
    a, b = first * log(0.9) + second * log(0.1), first * log(0.1) + second * log(0.9)
    want = np.logaddexp(a, b) + log(0.5)
    assert float(found.log_z) == pytest.approx(want, rel=1e-13)
    share = float(np.exp(a - np.logaddexp(a, b)))
    assert float(found.cells["X", (0,)][0]) == pytest.approx(share, rel=1e-10)
    assert float(found.weights["emit"][0, 0] * 0.9) == pytest.approx(first * share, rel=1e-10)


def test_the_oracle_is_the_reference_engine_on_ordinary_weights() -> None:
    for seed in range(12):
        case, rng = random_case(seed, pieces=seed % 3 == 2), random.Random(seed)
        weights = random_weights(case.grammar, rng)
        item = random_item(case.grammar, case.item.lengths, rng, missing=0.0)
        want = reference(case.grammar, item, weights)
        ordinary = Case("", case.text, case.grammar, item, weights, torch.float64)
        found = answer(ordinary)
        assert want is not None and judge(ordinary, "dense", found).verdict == "right"
        assert float(found.log_z) == pytest.approx(want.log_z, rel=1e-12, abs=1e-12)
        for name, array in want.weights.items():
            np.testing.assert_allclose(found.weights[name].astype(float), array, 1e-9, 1e-12)
        for name, array in want.potentials.items():
            np.testing.assert_allclose(found.potentials[name].astype(float), array, 1e-9, 1e-12)


def test_the_oracle_has_derivatives_at_zero_weights() -> None:
    text = """
    domain A = 2
    input w: A[n]
    factor f(A)
    factor h(A)
    nonterminal S()
    nonterminal X[i]() for 0 <= i < n
    start S
    rule S -> X[0]()
    rule S -> h(w[0])
    rule X[i]() -> f(w[i])
    """
    weights = {"f": np.array([0.0, 0.5]), "h": np.array([0.5, 0.5])}
    item = Item({"n": 1}, {"w": np.array([0])})
    found = answer(Case("zero", text, loads(text), item, weights, torch.float64))
    assert float(found.log_z) == pytest.approx(log(0.5))
    assert [float(x) for x in found.weights["f"]] == [2, 0]
    assert [float(x) for x in found.weights["h"]] == [2, 0]


def test_the_oracle_has_no_range() -> None:
    text = """
    domain A = 2
    input w: A[n]
    input factor phi[i]() for 0 <= i < n
    factor f(A)
    nonterminal S()
    nonterminal X[i]() for 0 <= i <= n
    start S
    rule S -> X[0]()
    rule X[i]() -> f(w[i]) phi[i]() X[i+1]() for i < n
    rule X[n]() ->
    """
    item = Item({"n": 50}, {"w": np.zeros(50, int), "phi": np.full(50, -1000.0)})
    case = Case("small", text, loads(text), item, {"f": np.array([1e-300, 1.0])}, torch.float64)
    found = answer(case)
    assert float(found.log_z) == pytest.approx(50 * (log(1e-300) - 1000), rel=1e-14)
    assert float(found.weights["f"][0] * 1e-300) == pytest.approx(50)
    assert [float(x) for x in found.potentials["phi"]] == pytest.approx([1.0] * 50)


def test_cases_are_the_same_on_every_run() -> None:
    for one, two in zip(cases(0, 8), cases(0, 8), strict=True):
        assert one.text == two.text and one.item.lengths == two.item.lengths
        assert all(np.array_equal(w, two.weights[name]) for name, w in one.weights.items())


def test_cases_have_extreme_weights_and_derivations() -> None:
    sizes = [
        abs(np.log10(w[w > 0])).max(initial=0.0)
        for case in cases(0, 8)
        for w in map(np.asarray, case.weights.values())
    ]
    assert max(sizes) > 200


def test_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    case = chain(3, 2)
    assert judge(case, "dense").verdict == "right"
    assert judge(case, "rank").reason == "F425"

    def wrong(case: Case, program: Program, answer: Truth) -> Iterator[str]:
        yield "log Z is 1, not 2"

    def warned(case: Case, program: Program, answer: Truth) -> Iterator[str]:
        warn("warning[F433]: a number is too small", stacklevel=1)
        yield "log Z is 1, not 2"

    def refused(case: Case, program: Program, answer: Truth) -> Iterator[str]:
        raise GrammarError([Diagnostic(code="F433", message="")])

    def broken(case: Case, program: Program, answer: Truth) -> Iterator[str]:
        raise IndexError("7")

    for function, verdict in (
        (wrong, "wrong"),
        (warned, "refused"),
        (refused, "refused"),
        (broken, "wrong"),
    ):
        monkeypatch.setattr(tests.generators.extreme_weights, "differences", function)
        assert judge(case, "dense").verdict == verdict


LONG = (10, 25, 35)  # where the longest chains are
BLOCKS = [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in range(0, 40, 5)]


@pytest.mark.parametrize("first", BLOCKS)
def test_five_cases_are_right_or_refused(first: int) -> None:
    found = [
        outcome
        for number, case in enumerate(cases(first, 5), first)
        for outcome in outcomes([case], ("auto", SPACES[1 + number % 10 % 3]))
    ]
    wrong = [outcome for outcome in found if outcome.verdict == "wrong"]
    assert not wrong, report(wrong)
    assert sum(outcome.verdict == "right" for outcome in found) >= len(found) // 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(24))
def test_432_cases_are_right_or_refused(block: int) -> None:
    found = [outcome for case in cases(40 + 18 * block, 18) for outcome in outcomes([case])]
    wrong = [outcome for outcome in found if outcome.verdict == "wrong"]
    assert not wrong, report(wrong)
