"""Contractions of many arrays against numpy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fgg.diagnostics import GrammarError
from fgg.runtime.interpret.semirings import SEMIRINGS
from fgg.runtime.reference.contract import contract


@st.composite
def networks(draw: DrawFn) -> tuple[list[tuple[int, ...]], tuple[int, ...], dict[int, int]]:
    """Letters of some operands, letters of the result, extents of all letters."""
    sizes = {i: draw(st.integers(1, 3)) for i in range(draw(st.integers(0, 6)))}
    letters = st.lists(st.sampled_from(sorted(sizes)), max_size=3, unique=True) if sizes else None
    operands = [
        tuple(draw(letters)) if letters is not None else () for _ in range(draw(st.integers(0, 6)))
    ]
    out = tuple(draw(letters)) if letters is not None else ()
    return operands, out, sizes


@settings(max_examples=80)
@given(networks(), st.integers(0, 2**30))
def test_a_contraction_is_what_numpy_sums(
    network: tuple[list[tuple[int, ...]], tuple[int, ...], dict[int, int]], seed: int
) -> None:
    operands, out, sizes = network
    rng = np.random.default_rng(seed)
    real = [rng.integers(0, 4, [sizes[a] for a in letters]).astype(float) for letters in operands]
    parts: list[Any] = []
    for letter, size in sizes.items():
        parts += [np.ones(size), [letter]]
    for array, letters in zip(real, operands, strict=True):
        parts += [array, list(letters)]
    expected = np.einsum(*parts, list(out)) if parts else np.asarray(1.0)
    for name in ("real", "log"):
        ring = SEMIRINGS[name]()
        given_ = [(ring.convert(a), x) for a, x in zip(real, operands, strict=True)]
        found = np.asarray(contract(ring, given_, out, sizes))
        assert found.shape == expected.shape
        assert np.allclose(np.exp(found) if name == "log" else found, expected, rtol=1e-12)


def test_a_contraction_that_would_fill_the_memory_is_refused() -> None:
    ring = SEMIRINGS["boolean"]()
    nodes = range(12)
    pairs = [(a, b) for a in nodes for b in nodes if a < b]
    one = ring.full((40, 40), one=True)
    with pytest.raises(GrammarError, match="F420"):
        contract(ring, [(one, pair) for pair in pairs], (), dict.fromkeys(nodes, 40))
