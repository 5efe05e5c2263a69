"""A second evaluation has the numbers of the posterior, and decides nothing it contradicts."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest

from fgg.api import verify as verifying
from fgg.compiler import load, loads
from fgg.library import library_text
from fgg.runtime.reference.posterior import posterior
from fgg.runtime.verify import run as running
from fgg.runtime.verify.compared_sides import GroundSide
from fgg.runtime.verify.confirm import SecondEvaluation, log_value
from fgg.runtime.verify.floats import answer
from fgg.runtime.verify.items import Item
from fgg.runtime.verify.points import free_weights
from tests.helpers.peaked import small


def test_a_second_evaluation_has_log_z_uses_and_cells_of_the_posterior() -> None:
    grammar = small("hmm")
    free = free_weights(grammar)
    point = free.real("peaked", np.random.default_rng(3))
    source = GroundSide(grammar)
    item = Item({"n": 3}, {"w": np.array([0, 2, -1])})
    other, flat = SecondEvaluation(source, free, point), source.flat(item)
    assert flat is not None
    found = posterior(flat, weights=point.weights(flat))
    assert other.log_z(item) == pytest.approx(found.log_z, rel=1e-13)
    for name, counts in found.counts.items():
        if name not in grammar.factor:
            continue
        for place in np.ndindex(*counts.shape):
            again = other.uses(item, grammar.factor[name], place)
            assert again == pytest.approx(float(counts[place]), abs=1e-10), name
    for nonterminal in flat.nonterminals:
        family, index = nonterminal.origin or (nonterminal.name, ())
        counts = found.nonterminals[nonterminal.name]
        for state in np.ndindex(*counts.shape):
            again = other.cell(item, family, index, state)
            assert again == pytest.approx(float(counts[state]), abs=1e-10)


def test_a_second_evaluation_iterates_recursions() -> None:
    grammar = loads(
        "factor a() = 0.4 factor b() = 0.5 nonterminal S() start S "
        "rule two: S -> a S S rule none: S -> b"
    )
    root = (1 - (1 - 4 * 0.4 * 0.5) ** 0.5) / 0.8
    assert log_value(grammar, {}) == pytest.approx(log(root), rel=1e-13)
    critical = loads(
        "factor a() = 0.5 nonterminal S() start S rule two: S -> a S S rule none: S -> a"
    )
    assert log_value(critical, {}) is None  # it does not settle


def test_numbers_that_a_second_evaluation_contradicts_stay_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = answer

    def wrong(source: Any, item: Any, point: Any) -> Any:
        return replace(original(source, item, point), log_z=-1.0)

    monkeypatch.setattr(running, "answer", wrong)
    found = verifying.verify(load("hmm"), trials=1, length=2, items=6, peaked=False)
    assert found.verdict == "undecided" and found.counterexample is None
    assert any("second evaluation" in reason for reason in found.reasons)


def test_counterexamples_of_exact_comparisons_are_confirmed_by_enumeration() -> None:
    other = loads(library_text("hmm").replace("trans(t, u)", "trans(u, t)"))
    found = verifying.verify(load("hmm"), other, trials=1, length=3)
    assert found.counterexample is not None
    assert "one by one" in found.counterexample.confirmed
