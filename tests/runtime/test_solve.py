"""The reference engine against the definition: every semiring, on grammars that can be enumerated."""

from __future__ import annotations

from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from torch import Tensor

from fgg.grammar import Grammar
from fgg.runtime.semirings.modular import PRIME
from fgg.runtime.solve import solve
from fgg.semantics import brute_force
from tests.runtime.enumeration import Tree, trees
from tests.runtime.grammars import started_anywhere


def value(grammar: Grammar, semiring: str, **options: Any) -> Any:
    """The value of a grammar as a number, or as an array."""
    found = solve(grammar, semiring, **options).value
    if not isinstance(found, Tensor) and semiring in ("counting", "exact"):
        found = np.asarray(found, dtype=object)
    array = found.detach().numpy() if isinstance(found, Tensor) else np.asarray(found)
    return array[()] if array.ndim == 0 else array


def close(found: Any, expected: Any, tolerance: float = 1e-10) -> bool:
    """Whether numbers or arrays agree to a relative tolerance, with the same shape."""
    x, y = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    return x.shape == y.shape and bool(np.allclose(x, y, rtol=tolerance, atol=0))


def check_all_semirings(grammar: Grammar) -> None:
    """Compare every semiring with the sum over all derivations and assignments."""
    expected = np.asarray(brute_force(grammar, {}))
    assert close(value(grammar, "real"), expected)
    with np.errstate(divide="ignore"):
        logs = np.asarray(value(grammar, "log"))
        assert close(np.exp(logs), expected, 1e-10)
        finite = expected > 0
        assert np.array_equal(np.isneginf(logs), ~finite)
        assert np.allclose(logs[finite], np.log(expected[finite]), rtol=1e-10, atol=1e-10)
    cells: dict[tuple[int, ...], list[Tree]] = {i: [] for i in np.ndindex(*expected.shape)}
    for cell, tree in trees(grammar):
        cells[cell].append(tree)
    found = {s: np.asarray(value(grammar, s)) for s in ("boolean", "gf")}
    found |= {s: np.asarray(value(grammar, s), dtype=object) for s in ("counting", "exact")}
    best = np.asarray(value(grammar, "max"))
    for cell, below in cells.items():
        total = sum((tree.weight for tree in below), start=Fraction(0))
        assert found["counting"][cell] == len(below)
        assert type(found["counting"][cell]) is int
        assert found["boolean"][cell] == bool(below)
        assert found["exact"][cell] == total
        residue = total.numerator * pow(total.denominator, -1, PRIME) % PRIME
        assert found["gf"][cell] == residue
        if below:
            top = max(tree.weight for tree in below)
            assert exp(best[cell]) == pytest.approx(float(top), rel=1e-10, abs=0)
        else:
            assert best[cell] == -np.inf


@settings(max_examples=550)
@given(started_anywhere())
def test_every_semiring_agrees_with_enumeration(grammar: Grammar) -> None:
    check_all_semirings(grammar)


@pytest.mark.slow
@settings(max_examples=20_000, derandomize=False, database=None)
@given(started_anywhere())
def test_every_semiring_agrees_with_enumeration_on_twenty_thousand_grammars(
    grammar: Grammar,
) -> None:
    check_all_semirings(grammar)
