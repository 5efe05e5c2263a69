"""Numeric decomposition: low rank is found again, distributions stay distributions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgg.diagnostics import GrammarError
from fgg.runtime.model import decompose as decomposing
from fgg.runtime.model.decompose import Decomposition, decompose, smallest_rank
from fgg.runtime.program.bind import product_of

AXES = "abcdefg"


def low_rank(shape: tuple[int, ...], rank: int, seed: int, *, signed: bool = False) -> Any:
    """A random array of at most this rank."""
    random = np.random.default_rng(seed)
    draw: Any = random.standard_normal if signed else random.random
    parts = [draw((rank, n)) for n in shape]
    terms = ",".join(f"q{AXES[i]}" for i in range(len(shape)))
    return np.einsum(f"{terms}->{AXES[: len(shape)]}", *parts, optimize=True)


def conditional(array: Any, given: int) -> Any:
    """The array normalised over all axes but the first ones; its rank stays."""
    return array / array.sum(axis=tuple(range(given, array.ndim)), keepdims=True)


def error(weights: Any, decomposition: Decomposition, left: int) -> float:
    difference = weights - product_of(decomposition.pieces, left)
    return float(np.linalg.norm(difference) / np.linalg.norm(weights))


@settings(max_examples=25)
@given(
    shape=st.lists(st.integers(2, 7), min_size=2, max_size=4).map(tuple),
    rank=st.integers(1, 3),
    seed=st.integers(0, 1000),
    left=st.sampled_from([None, 0, 1]),
)
def test_nonnegative_low_rank_is_found_again(
    shape: tuple[int, ...], rank: int, seed: int, left: int | None
) -> None:
    weights = low_rank(shape, rank, seed)
    if left is not None:
        weights = conditional(weights, left)
    decomposition = decompose(weights, left, rank, restarts=12)
    assert decomposition.relative_error < 1e-6
    assert decomposition.relative_error == pytest.approx(
        error(weights, decomposition, left or 0), abs=1e-15
    )
    assert all(bool((piece >= 0).all()) for piece in decomposition.pieces)
    assert [piece.shape for piece in decomposition.pieces] == [
        (*shape[: left or 0], rank),
        *((rank, n) for n in shape[left or 0 :]),
    ]


@settings(max_examples=25)
@given(
    shape=st.lists(st.integers(3, 7), min_size=2, max_size=4).map(tuple),
    rank=st.integers(1, 2),
    seed=st.integers(0, 1000),
)
def test_signed_low_rank_is_found_again(shape: tuple[int, ...], rank: int, seed: int) -> None:
    weights = low_rank(shape, rank, seed, signed=True)
    assert decompose(weights, None, rank, nonnegative=False).relative_error < 1e-6


@settings(max_examples=25)
@given(
    shape=st.lists(st.integers(2, 5), min_size=2, max_size=3).map(tuple),
    rank=st.integers(1, 4),
    seed=st.integers(0, 1000),
    left=st.integers(0, 1),
)
def test_pieces_are_distributions_whatever_the_error(
    shape: tuple[int, ...], rank: int, seed: int, left: int
) -> None:
    random = np.random.default_rng(seed)
    weights = conditional(random.random(shape) * (random.random(shape) > 0.3) + 1e-3, left)
    decomposition = decompose(weights, left, rank, restarts=2, sweeps=100)
    for number, piece in enumerate(decomposition.pieces):
        np.testing.assert_allclose(piece.sum(axis=-1), 1, rtol=1e-12, err_msg=str(number))
    whole = product_of(decomposition.pieces, left)
    np.testing.assert_allclose(whole.sum(axis=tuple(range(left, len(shape)))), 1, rtol=1e-12)
    assert decomposition.relative_error == pytest.approx(
        error(weights, decomposition, left), abs=1e-14
    )


def test_several_nodes_left_of_the_arrow_stay_together() -> None:
    weights = conditional(low_rank((6, 5, 4), 3, 0), 1).reshape(2, 3, 5, 4)
    decomposition = decompose(weights, 2, 3)
    assert [piece.shape for piece in decomposition.pieces] == [(2, 3, 3), (3, 5), (3, 4)]
    assert decomposition.relative_error < 1e-6


def test_a_large_factor_of_low_rank() -> None:
    """60 x 60 x 60 at rank 20, within 1e-4; it comes much nearer."""
    decomposition = decompose(low_rank((60, 60, 60), 20, 0), None, 20, restarts=2)
    assert decomposition.converged and decomposition.relative_error < 1e-6


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("shape", [(9, 8), (5, 4, 6)])
def test_the_error_goes_down_with_the_rank(shape: tuple[int, ...], nonnegative: bool) -> None:
    weights = np.random.default_rng(3).random(shape)
    errors = [
        decompose(weights, None, rank, nonnegative=nonnegative).relative_error
        for rank in (1, 2, 3, 4, 6, 8)
    ]
    assert all(after <= before + 1e-9 for before, after in pairwise(errors))


@pytest.mark.parametrize(("shape", "rank"), [((4, 7), 4), ((7, 4), 9), ((3, 2, 4), 6)])
def test_nothing_is_lost_at_a_high_rank(shape: tuple[int, ...], rank: int) -> None:
    weights = conditional(np.random.default_rng(0).random(shape), 1)
    decomposition = decompose(weights, 1, rank)
    assert decomposition.method == "exact" and decomposition.relative_error < 1e-15
    assert all(bool((piece >= 0).all()) for piece in decomposition.pieces)
    np.testing.assert_allclose(decomposition.pieces[0].sum(axis=-1), 1, rtol=1e-12)


def test_signed_matrices_have_the_error_of_their_singular_values() -> None:
    weights = np.random.default_rng(0).standard_normal((8, 11))
    values = np.linalg.svd(weights, compute_uv=False)
    for rank in (1, 3, 7, 8, 12):
        decomposition = decompose(weights, 1, rank, nonnegative=False)
        wanted = np.sqrt((values[rank:] ** 2).sum() / (values**2).sum())
        assert decomposition.method == "svd"
        assert decomposition.relative_error == pytest.approx(wanted, abs=1e-14)


def test_the_same_seed_gives_the_same_pieces() -> None:
    weights = np.random.default_rng(0).random((5, 6, 4))
    one, two = (decompose(weights, None, 3, seed=7, restarts=2) for _ in range(2))
    other = decompose(weights, None, 3, seed=8, restarts=1, sweeps=3)
    for a, b, c in zip(one.pieces, two.pieces, other.pieces, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()


def test_weights_may_be_tensors_of_any_float_type() -> None:
    weights = torch.rand(4, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert decompose(weights, None, 2).pieces[1].dtype == np.float64


def test_weights_of_zero_are_decomposed_exactly() -> None:
    decomposition = decompose(np.zeros((3, 4)), None, 2)
    assert decomposition.relative_error == 0 and not product_of(decomposition.pieces, 0).any()


def test_too_few_sweeps_are_reported() -> None:
    decomposition = decompose(np.random.default_rng(0).random((6, 6, 6)), None, 4, sweeps=3)
    assert not decomposition.converged
    assert [note.code for note in decomposition.notes] == ["F441"]


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize(("shape", "rank"), [((12, 10), 3), ((12, 10), 4), ((7, 8, 6), 3)])
def test_the_smallest_rank_is_that_of_the_weights(
    shape: tuple[int, ...], rank: int, nonnegative: bool
) -> None:
    weights = low_rank(shape, rank, 5)
    smallest = smallest_rank(weights, None, 1e-5, nonnegative=nonnegative)
    assert smallest.rank == rank and smallest.relative_error <= 1e-5 and not smallest.notes


def test_a_search_ends_where_pieces_are_no_smaller() -> None:
    weights = np.random.default_rng(0).random((6, 6, 6))
    smallest = smallest_rank(weights, None, 1e-3, restarts=2)
    assert [note.code for note in smallest.notes] == ["F442"]
    assert smallest.rank == 12 and smallest.relative_error > 1e-3
    assert smallest_rank(weights, None, 1e-3, restarts=2, limit=4).rank == 4
    assert smallest_rank(weights[0], None, 1e-9).method == "exact"


@pytest.mark.parametrize(
    ("weights", "rank", "code"),
    [
        (np.ones((3, 3)), 0, "F440"),
        (np.ones((3, 3)), -1, "F440"),
        (np.ones((3, 3)), True, "F440"),
        (np.ones((3, 3)), 2.0, "F440"),
        (np.ones(3), 2, "F440"),
        (np.array([[1.0, np.nan], [0, 1]]), 1, "F417"),
        (np.array([[1.0, np.inf], [0, 1]]), 1, "F417"),
        (-np.ones((2, 2)), 1, "F417"),
        ([["a", "b"]], 1, "F417"),
        (np.ones((2, 2)), 10**9, "F420"),
        (np.broadcast_to(0.0, (10**5, 10**5)), 2, "F420"),
    ],
)
def test_what_cannot_be_decomposed_is_refused(weights: Any, rank: Any, code: str) -> None:
    with pytest.raises(GrammarError) as error:
        decompose(weights, None, rank)
    assert [d.code for d in error.value.diagnostics] == [code]


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan")])
def test_a_tolerance_is_positive(tolerance: float) -> None:
    with pytest.raises(GrammarError) as error:
        smallest_rank(np.ones((2, 2)), None, tolerance)
    assert error.value.diagnostics[0].code == "F440"


def test_memory_is_estimated_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgg.runtime.memory.available_bytes", lambda device: 1000)
    monkeypatch.setattr(decomposing, "fit", None)
    with pytest.raises(GrammarError) as error:
        decompose(np.random.default_rng(0).random((120, 120, 120)), None, 5)
    assert error.value.diagnostics[0].code == "F420"


def test_errors_are_those_of_tensorly() -> None:
    """An independent implementation comes no nearer, on weights of full rank."""
    tensorly = pytest.importorskip("tensorly.decomposition")
    weights = np.random.default_rng(1).random((7, 6, 5))
    ours = decompose(weights, None, 4).relative_error
    for seed in range(4):
        model = tensorly.non_negative_parafac_hals(
            weights, 4, n_iter_max=500, init="random", random_state=seed
        )
        parts = ",".join(f"{axis}q" for axis in "abc")
        theirs = np.einsum(f"q,{parts}->abc", model.weights, *model.factors)
        assert ours <= np.linalg.norm(weights - theirs) / np.linalg.norm(weights) + 1e-3
