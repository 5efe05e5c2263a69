from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from fgg.runtime.identify.fields import PrimeField, RealField, echelon

P = 2**31 - 1
FIELD = PrimeField(P)


def whole(array: Tensor) -> list[int]:
    return [int(x) % P for x in array.reshape(-1).tolist()]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return FIELD.uniform(shape, np.random.default_rng(seed))


@pytest.mark.parametrize("terms", [1, 7, 128, 129, 400])
def test_products_of_residues_are_exact_however_many_terms_there_are(terms: int) -> None:
    x, y = drawn(3, terms), drawn(terms, 2, seed=1)
    extreme = torch.full_like(x, float(P // 2))
    for left in (x, extreme, -extreme):
        wanted = [
            sum(int(left[i, k]) * int(y[k, j]) for k in range(terms)) % P
            for i in range(3)
            for j in range(2)
        ]
        assert whole(FIELD.matmul(left, y)) == wanted
        row = FIELD.dot(left.T.contiguous(), y[:, :1].expand(terms, 3))
        assert whole(row) == [wanted[2 * i] for i in range(3)]


def test_products_entry_by_entry_are_exact() -> None:
    x, y = drawn(5, 1), drawn(1, 4, seed=1)
    wanted = [int(a) * int(b) % P for a in x[:, 0] for b in y[0]]
    assert whole(FIELD.multiply(x, y)) == wanted


def test_fractions_become_residues() -> None:
    array = np.array([Fraction(1, 3), Fraction(-2, 7), 0.5], dtype=object)
    third, other, half = FIELD.convert(array)
    assert int(third) * 3 % P == 1
    assert int(other) * 7 % P == P - 2
    assert int(half) * 2 % P == 1


def test_distributions_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    mask = torch.tensor([[1, 1, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0]], dtype=torch.bool)
    assert whole(FIELD.distribution(4, 3, rng, mask).sum(1)) == [1] * 4
    assert torch.allclose(RealField().distribution(4, 3, rng, mask).sum(1), torch.ones(4).double())
    for field in (FIELD, RealField()):
        drawn = field.distribution(4, 3, rng, mask)
        assert bool((drawn[~mask] == 0).all()) and bool((drawn[mask] != 0).all())


def test_inverses_are_inverse_and_singular_matrices_are_refused() -> None:
    matrix = drawn(6, 6)
    matrix[0, 0] = 0.0  # a pivot that must be exchanged
    unit = FIELD.matmul(matrix, FIELD.inverse(matrix))
    assert whole(unit) == whole(torch.eye(6))
    for field in (FIELD, RealField()):
        with pytest.raises(ZeroDivisionError):
            field.inverse(torch.zeros(2, 2, dtype=torch.float64))


@pytest.mark.parametrize(
    ("rows", "columns", "rank"), [(1, 1, 1), (40, 30, 30), (30, 70, 11), (70, 50, 49), (20, 33, 0)]
)
def test_ranks_and_null_spaces_are_exact(rows: int, columns: int, rank: int) -> None:
    left, right = drawn(rows, rank), drawn(rank, columns, seed=1)
    matrix = FIELD.matmul(left, right) if rank else torch.zeros(rows, columns).double()
    # The first columns are zero: pivots are not where one would expect them.
    matrix[:, : min(5, columns - rank)] = 0.0
    found = echelon(matrix, FIELD)
    assert found.rank == rank
    null = found.null_space()
    assert null.shape == (columns, columns - rank)
    if columns > rank:
        assert not FIELD.matmul(matrix, null).any()
        assert echelon(null, FIELD).rank == columns - rank
