"""Weights in the JSON format: structured ones against an expansion entry by entry."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fgg.compiler import load_text, loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.semantics import brute_force
from fgg.grammar.values import Constant, Eye, Sparse, Table, Uniform
from fgg.json import to_json
from fgg.rewrite.plain import plain
from tests.generators.json_documents import (
    Json,
    one_factor,
    problems,
    read,
    value_of,
)


@st.composite
def tensors(draw: DrawFn) -> tuple[Json, list[int]]:
    """Structured weights and the sizes of their axes."""
    expand = draw(st.lists(st.integers(1, 3), max_size=2))
    shape = draw(st.lists(st.integers(1, 3), max_size=2))
    sizes = [*expand, *shape]
    weights = st.sampled_from([0, 0.0, 1, 0.5, 3])
    flat = draw(st.lists(weights, min_size=prod(shape), max_size=prod(shape)))
    leaves: st.SearchStrategy[Any] = st.just([])
    if sizes:
        leaves = st.integers(0, len(sizes) - 1)
    axis = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=2),
            st.builds(
                lambda before, term, after: {"before": before, "term": term, "after": after},
                st.integers(0, 2),
                inner,
                st.integers(0, 2),
            ),
        ),
        max_leaves=3,
    )
    vaxes: list[Any] = draw(st.lists(axis, max_size=3))
    vaxes += [i for i in range(len(sizes)) if i not in set(_leaves(vaxes))]
    data: Json = {"physical": np.array(flat, dtype=float).reshape(shape).tolist(), "vaxes": vaxes}
    if draw(st.booleans()) or expand:
        data["expand"] = expand
    if draw(st.booleans()):
        data["default"] = draw(weights)
    return data, [_axis_size(axis, sizes) for axis in vaxes]


def _leaves(axis: Any) -> list[int]:
    if isinstance(axis, int):
        return [axis]
    if isinstance(axis, dict):
        return _leaves(axis["term"])
    return [leaf for item in axis for leaf in _leaves(item)]


def _axis_size(axis: Any, sizes: list[int]) -> int:
    if isinstance(axis, int):
        return sizes[axis]
    if isinstance(axis, dict):
        return int(axis["before"] + _axis_size(axis["term"], sizes) + axis["after"])
    return prod(_axis_size(item, sizes) for item in axis)


def _position(axis: Any, sizes: list[int], index: tuple[int, ...]) -> int:
    if isinstance(axis, int):
        return index[axis]
    if isinstance(axis, dict):
        return int(axis["before"] + _position(axis["term"], sizes, index))
    position = 0
    for item in axis:
        position = position * _axis_size(item, sizes) + _position(item, sizes, index)
    return position


def expand_naively(data: Json) -> Any:
    """The tensor entry by entry, as the format describes it."""
    physical = np.array(data["physical"], dtype=float)
    expand = data.get("expand", [])
    physical = np.broadcast_to(physical, [*expand, *physical.shape])
    sizes = list(physical.shape)
    vaxes = data.get("vaxes", [*range(len(sizes))])
    result = np.full([_axis_size(axis, sizes) for axis in vaxes], float(data.get("default", 0)))
    for index in product(*map(range, sizes)):
        result[tuple(_position(axis, sizes, index) for axis in vaxes)] = physical[index]
    return result


def dense(grammar: Grammar) -> Any:
    return np.array(brute_force(grammar, {}))


@given(tensors())
def test_structured_weights_are_written_out(case: tuple[Json, list[int]]) -> None:
    data, sizes = case
    grammar = read(one_factor(data, *sizes))
    np.testing.assert_array_equal(dense(grammar), expand_naively(data))


@given(tensors())
def test_written_weights_are_what_was_read(case: tuple[Json, list[int]]) -> None:
    data, sizes = case
    grammar = read(one_factor(data, *sizes))
    again = read(json.loads(json.dumps(to_json(grammar))))
    np.testing.assert_array_equal(dense(again), expand_naively(data))


def test_weights_of_a_compiled_program() -> None:
    # A function from B * N to Maybe N: (true, n) gives `Just n`, (false, n) gives `Nothing`.
    just = {"physical": 1, "expand": [3], "vaxes": [[{"before": 1, "term": [], "after": 0}, 0]]}
    just["vaxes"] = [*just["vaxes"], {"before": 1, "term": 0, "after": 0}]  # type: ignore[misc]
    value = value_of(just, 6, 4)
    assert value == Table(
        tuple(tuple(float(i >= 3 and j == i - 2) for j in range(4)) for i in range(6))
    )
    # The constructor of a pair: an identity between (a, b) and a * b.
    pair = {"physical": 1.0, "expand": [10, 20], "vaxes": [0, 1, [0, 1]]}
    value = value_of(pair, 10, 20, 200)
    assert isinstance(value, Sparse) and len(value.entries) == 200
    assert value.entries[21] == ((1, 1, 21), 1.0)


def test_an_identity_is_recognised() -> None:
    eye = {"physical": [1.0] * 500, "vaxes": [0, 0]}
    assert value_of(eye, 500, 500) == Eye()
    grammar = read(one_factor(eye, 500, 500))
    assert (
        to_json(grammar)["interpretation"]
        == one_factor({"physical": 1.0, "expand": [500], "vaxes": [0, 0]}, 500, 500)[
            "interpretation"
        ]
    )


def test_a_repeated_number_is_a_constant() -> None:
    huge = {"physical": 0.5, "expand": [10**6, 10**6]}
    assert value_of(huge, 10**6, 10**6) == Constant(0.5)
    assert value_of(huge | {"physical": 1e-6}, 10**6, 10**6, given=1) == Uniform()
    assert value_of(
        {"physical": [[]], "default": 2, "vaxes": [{"before": 2, "term": 1, "after": 1}]}, 3
    ) == Constant(2)
    assert value_of(0.5) == value_of({"physical": 0.5}) == Constant(0.5)


def test_a_sparse_value_is_placed_in_its_box() -> None:
    entries = tuple(((900 + i, 3 + 2 * i), 1.0 + i) for i in range(4))
    grammar = loads("domain A = 1000\nfactor f(A, A)\nnonterminal S()\nstart S\nrule S -> f(a, b)")
    factor = replace(grammar.factor["f"], value=Sparse(entries))
    data: Any = to_json(replace(grammar, factors=(factor,)))
    weights = data["interpretation"]["factors"]["f"]["weights"]
    assert weights["vaxes"] == [
        {"before": 900, "term": 0, "after": 96},
        {"before": 3, "term": 1, "after": 990},
    ]
    assert np.shape(weights["physical"]) == (4, 7)
    assert read(data).factor["f"].value == Sparse(entries)


def test_a_selection_is_written_compactly() -> None:
    grammar = loads(
        """
        domain A = 100
        domain B = 30
        domain L = A * B
        domain U = A + L
        factor f(B)
        nonterminal S()
        start S
        rule S -> f(u.L.B) (u: U)
        """
    )
    data: Any = to_json(grammar)
    assert data["interpretation"]["factors"]["U_L_B"]["weights"] == {
        "physical": 1.0,
        "vaxes": [{"before": 100, "term": [0, 1], "after": 0}, 1],
        "expand": [100, 30],
    }
    assert read(data).factor["U_L_B"].value == plain(grammar).factor["U_L_B"].value


def test_arrays_are_written_out(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.array([[0.5, 0.25], [0, 1]], dtype="float32"))
    text = 'domain A = 2\nfactor f(A, A) = load("f.npy")\n'
    text += "nonterminal S()\nstart S\nrule S -> f(a, b)"
    grammar, _, _ = load_text(text, folder=str(tmp_path))
    assert grammar is not None
    assert read(to_json(grammar)).factor["f"].value == Table(((0.5, 0.25), (0.0, 1.0)))
    (tmp_path / "f.npy").unlink()
    with pytest.raises(GrammarError, match="F404"):
        to_json(grammar)


def test_more_weights_than_can_be_written_out_are_refused() -> None:
    grammar = loads(
        """
        domain A = 10000
        factor f(A, A) = {0: {0: 1}, 9999: {0: 1, 9999: 2}}
        nonterminal S()
        start S
        rule S -> f(a, b)
        """
    )
    with pytest.raises(GrammarError, match=r"F302.*100,000,000 weights"):
        to_json(grammar)


def test_too_large_tensors_are_refused() -> None:
    big = {"physical": [1, 2], "expand": [5000, 5000], "vaxes": [0, 1, 2]}
    assert [code for code, _ in problems(one_factor(big, 5000, 5000, 2))] == ["F407"]
    eye = {"physical": [1, 2], "expand": [10**6], "vaxes": [0, 0, 1], "default": 1}
    assert [code for code, _ in problems(one_factor(eye, 10**6, 10**6, 2))] == ["F407"]
