"""The laws of the semirings, on random weights."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgg.runtime.interpret.semirings import SEMIRINGS, AnySemiring
from fgg.runtime.interpret.semirings.log import Log

NAMES = tuple(SEMIRINGS)
WEIGHTS = st.one_of(
    st.integers(0, 3).map(Fraction), st.fractions(min_value=0, max_value=5, max_denominator=9)
)
SHAPE = (2, 3)


def arrays(shape: tuple[int, ...] = SHAPE) -> st.SearchStrategy[Any]:
    """Arrays of weights as fractions."""
    size = int(np.prod(shape))
    return st.lists(WEIGHTS, min_size=size, max_size=size).map(
        lambda flat: np.array([*flat, Fraction(0)], dtype=object)[:-1].reshape(shape)
    )


def convert(ring: AnySemiring, weights: Any) -> Any:
    """Weights as a semiring wants them."""
    return ring.convert(weights if ring.exactly else np.asarray(weights, dtype=float))


def plain(array: Any) -> Any:
    """An array as numpy has it."""
    return array.numpy() if isinstance(array, torch.Tensor) else np.asarray(array)


def times(ring: AnySemiring, x: Any, y: Any) -> Any:
    """The product entry by entry."""
    return ring.contract(x, (0, 1), y, (0, 1), (0, 1))


def plus(ring: AnySemiring, *parts: Any) -> Any:
    """The sum entry by entry."""
    return ring.accumulate([([0, 1], part) for part in parts], SHAPE)


def same(x: Any, y: Any) -> bool:
    """Whether arrays agree, exactly unless they are floats."""
    x, y = plain(x), plain(y)
    if x.shape != y.shape:
        return False
    if x.dtype == float:
        return bool(np.allclose(x, y, rtol=1e-12, atol=1e-12, equal_nan=False))
    return bool((x == y).all())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12)
@given(x=arrays(), y=arrays(), z=arrays())
def test_addition_and_multiplication_form_a_semiring(name: str, x: Any, y: Any, z: Any) -> None:
    ring = SEMIRINGS[name]()
    a, b, c = (convert(ring, w) for w in (x, y, z))
    zero, one = ring.full(SHAPE, one=False), ring.full(SHAPE, one=True)
    assert same(plus(ring, a, b), plus(ring, b, a))
    assert same(plus(ring, plus(ring, a, b), c), plus(ring, a, plus(ring, b, c)))
    assert same(plus(ring, a, b, c), plus(ring, plus(ring, a, b), c))
    assert same(plus(ring, a, zero), a)
    assert same(times(ring, a, b), times(ring, b, a))
    assert same(times(ring, times(ring, a, b), c), times(ring, a, times(ring, b, c)))
    assert same(times(ring, a, one), a)
    assert same(times(ring, a, zero), zero)
    left = times(ring, a, plus(ring, b, c))
    assert same(left, plus(ring, times(ring, a, b), times(ring, a, c)))


@pytest.mark.parametrize("name", ["real", "log", "gf", "exact", "boolean"])
@settings(max_examples=12)
@given(x=arrays(), y=arrays((3, 2)))
def test_conversion_keeps_sums_and_products(name: str, x: Any, y: Any) -> None:
    ring = SEMIRINGS[name]()
    found = ring.contract(convert(ring, x), (0, 1), convert(ring, y), (1, 2), (0, 2))
    assert same(found, convert(ring, x.dot(y)))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(x=arrays(), y=arrays((3, 2)))
def test_a_contraction_is_a_sum_of_products_in_any_order_of_axes(name: str, x: Any, y: Any) -> None:
    ring = SEMIRINGS[name]()
    a, b = convert(ring, x), convert(ring, y)
    found = ring.contract(a, (7, 3), b, (3, 5), (5, 7))
    flipped = ring.contract(
        ring.permute(b, (1, 0)), (5, 3), ring.permute(a, (1, 0)), (3, 7), (5, 7)
    )
    assert same(found, flipped)
    whole = ring.contract(a, (7, 3), b, (3, 5), (7, 3, 5))
    assert same(ring.permute(ring.reduce(whole, (1,)), (1, 0)), found)
    outer = ring.contract(a, (0, 1), b, (2, 3), ())
    assert same(outer, ring.reduce(ring.contract(a, (0, 1), b, (2, 3), (0, 1, 2, 3)), (0, 1, 2, 3)))


@pytest.mark.parametrize("name", NAMES)
@given(x=arrays())
@settings(max_examples=8)
def test_rows_are_taken_stacked_and_joined(name: str, x: Any) -> None:
    ring = SEMIRINGS[name]()
    a = convert(ring, x)
    assert same(ring.take(a, [1, 0, 1]), plain(a)[[1, 0, 1]])
    assert same(ring.take(a, [2, 2], axis=1), plain(a)[:, [2, 2]])
    assert same(ring.stack([a, a]), np.stack([plain(a)] * 2))
    assert same(ring.concatenate([a, a]), np.concatenate([plain(a)] * 2))
    assert same(ring.expand(a[:, :1], SHAPE), np.broadcast_to(plain(a)[:, :1], SHAPE))
    assert np.array_equal(ring.nonzero(a), np.asarray(x != 0, dtype=bool))


@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_entries_is_zero(name: str) -> None:
    ring = SEMIRINGS[name]()
    found = ring.accumulate([([2, 2], ring.full((2, 2), one=True))], (4, 2))
    assert same(found[:2], ring.full((2, 2), one=False))
    twice = {"real": 2, "log": np.log(2), "max": 0, "boolean": True}.get(name, 2)
    assert plain(found)[2].tolist() == pytest.approx([twice] * 2)


def test_logarithms_keep_what_real_numbers_lose() -> None:
    ring = SEMIRINGS["log"]()
    x = torch.tensor([[-1000.0, -2000.0], [-inf, -5000.0]], dtype=torch.float64)
    y = torch.tensor([-3000.0, -500.0], dtype=torch.float64)
    found = ring.contract(x, (0, 1), y, (1,), (0,))
    assert found.tolist() == pytest.approx([-2500.0, -5500.0])
    assert ring.contract(x, (0, 1), x, (0, 1), ()).item() == pytest.approx(-2000.0)
    far = torch.tensor([0.0, -2000.0], dtype=torch.float64)
    near = torch.tensor([-2000.0, 0.0], dtype=torch.float64)
    assert ring.contract(far, (0,), near, (0,), ()).item() == pytest.approx(-2000 + np.log(2))


def test_gradients_of_log_zero_are_numbers() -> None:
    ring = Log()
    weights = torch.tensor([[0.0, 2.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    logs = ring.convert(weights)
    total = ring.reduce(ring.contract(logs, (0, 1), logs, (1, 2), (0, 2)), (0, 1))
    (grad,) = torch.autograd.grad(ring.reduce(logs, (0, 1)), weights, retain_graph=True)
    assert grad.tolist() == [[0.0, 0.5], [0.0, 0.0]]
    (grad,) = torch.autograd.grad(total, weights)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_contractions_in_pieces_agree_with_whole_ones(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    x = np.array([Fraction(int(v), 4) for v in rng.integers(0, 5, 35)]).reshape(7, 5)
    ring = SEMIRINGS[name]()
    a = convert(ring, x)
    whole = ring.contract(a, (0, 1), a, (2, 1), (0, 2))
    monkeypatch.setattr("fgg.runtime.interpret.semirings.log.MAX_PRODUCT", 60)
    for block in (60, 3):
        monkeypatch.setattr("fgg.runtime.interpret.semirings.base.BLOCK", block)
        assert same(ring.contract(a, (0, 1), a, (2, 1), (0, 2)), whole)
