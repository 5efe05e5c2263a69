"""Two fields to compute in, on float64 tensors: GF(p), exactly, and the real numbers.

A residue is kept as the whole number of least absolute value, at most 2^30 for p < 2^31. A
product of two would not fit into the 53 bits of a float64, so one of them is split in two parts of
16 bits: matrix products then run through BLAS, and are exact for up to `MAX_TERMS` terms at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SHIFT = 65536.0
MAX_TERMS = 128
"""Terms of 2^45 that are added without loss, with room for the other half of a product."""


class Field(Protocol):
    """What the engine asks of a field; arrays are float64 tensors."""

    exact: bool

    def reduce(self, x: Tensor) -> Tensor:
        """The same elements in their normal form; what has grown by sums comes back to size."""

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """The product, entry by entry, with broadcasting."""

    def dot(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the first axis of the product, entry by entry."""

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The matrix product, batched as `torch.matmul` is."""

    def convert(self, array: NDArray[Any]) -> Tensor:
        """Numbers or fractions as elements."""

    def inverse(self, matrix: Tensor) -> Tensor:
        """The inverse of a square matrix. Raises ZeroDivisionError if there is none."""

    def uniform(self, shape: Sequence[int], rng: np.random.Generator) -> Tensor:
        """Random elements."""

    def distribution(self, rows: int, columns: int, rng: np.random.Generator) -> Tensor:
        """A random matrix whose rows sum to one."""


class Real:
    """The real numbers, in double precision."""

    exact = False

    def reduce(self, x: Tensor) -> Tensor:
        """The numbers themselves."""
        return x

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """The product, entry by entry, with broadcasting."""
        return x * y

    def dot(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the first axis of the product, entry by entry."""
        return (x * y).sum(0)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The matrix product."""
        return torch.matmul(x, y)

    def convert(self, array: NDArray[Any]) -> Tensor:
        """Numbers or fractions as float64."""
        return torch.from_numpy(np.array(array, dtype=np.float64))

    def inverse(self, matrix: Tensor) -> Tensor:
        """The inverse of a square matrix."""
        result = torch.linalg.inv_ex(matrix)
        if int(result.info):
            raise ZeroDivisionError
        found: Tensor = result.inverse
        return found

    def uniform(self, shape: Sequence[int], rng: np.random.Generator) -> Tensor:
        """Numbers between -1 and 1."""
        return torch.from_numpy(rng.uniform(-1.0, 1.0, size=tuple(shape)))

    def distribution(self, rows: int, columns: int, rng: np.random.Generator) -> Tensor:
        """Rows from a flat Dirichlet distribution."""
        drawn = rng.exponential(size=(rows, columns)) + 1e-3
        return torch.from_numpy(drawn / drawn.sum(axis=1, keepdims=True))


class Prime:
    """GF(p) for a prime between 2^30 and 2^31."""

    exact = True

    def __init__(self, prime: int) -> None:
        assert 2 < prime < 2**31
        self.prime = prime
        self._inverse = 1.0 / prime

    def reduce(self, x: Tensor) -> Tensor:
        """Residues of least absolute value, of whole numbers below 2^53."""
        quotient = torch.mul(x, self._inverse).round_()
        # The quotient times p is below 2^53, so this is exact.
        return torch.sub(x, quotient, alpha=self.prime)

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """The product, entry by entry, with broadcasting."""
        if x.numel() > y.numel():
            x, y = y, x
        high, low = _split(x)
        upper = self.reduce(high * y)
        return self.reduce(torch.addcmul(upper.mul_(SHIFT), low, y))

    def dot(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the first axis of the product, entry by entry."""
        total: Tensor | None = None
        for first in range(0, x.shape[0], MAX_TERMS):
            part = slice(first, first + MAX_TERMS)
            high, low = _split(x[part])
            upper = self.reduce((high * y[part]).sum(0))
            found = self.reduce(upper.mul_(SHIFT).add_((low * y[part]).sum(0)))
            total = found if total is None else total.add_(found)
        assert total is not None
        return total if x.shape[0] <= MAX_TERMS else self.reduce(total)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The matrix product."""
        count = x.shape[-1]
        if count <= MAX_TERMS:
            return self._matmul(x, y)
        total: Tensor | None = None
        for first in range(0, count, MAX_TERMS):
            part = slice(first, first + MAX_TERMS)
            found = self._matmul(x[..., part], y[..., part, :])
            total = found if total is None else total.add_(found)
        assert total is not None
        return self.reduce(total)

    def _matmul(self, x: Tensor, y: Tensor) -> Tensor:
        if x.numel() <= y.numel():
            high, low = _split(x)
            upper, lower = torch.matmul(high, y), torch.matmul(low, y)
        else:
            high, low = _split(y)
            upper, lower = torch.matmul(x, high), torch.matmul(x, low)
        return self.reduce(self.reduce(upper).mul_(SHIFT).add_(lower))

    def convert(self, array: NDArray[Any]) -> Tensor:
        """Residues of numbers or fractions. Raises ZeroDivisionError where one has none."""
        p = self.prime

        def residue(number: Any) -> int:
            value = Fraction(number)
            if value.denominator % p == 0:
                raise ZeroDivisionError
            return value.numerator * pow(value.denominator, -1, p) % p

        numbers = np.frompyfunc(residue, 1, 1)(np.asarray(array, dtype=object))
        return self.reduce(torch.from_numpy(np.array(numbers, dtype=np.float64)))

    def inverse(self, matrix: Tensor) -> Tensor:
        """The inverse of a square matrix, by elimination."""
        size = matrix.shape[0]
        rows = torch.cat([matrix, torch.eye(size, dtype=torch.float64)], dim=1)
        for i in range(size):
            found = torch.nonzero(rows[i:, i])
            if not len(found):
                raise ZeroDivisionError
            pivot = i + int(found[0])
            if pivot != i:
                rows[[i, pivot]] = rows[[pivot, i]]
            unit = pow(int(rows[i, i]), -1, self.prime)
            scale = self.reduce(torch.tensor(float(unit), dtype=torch.float64))
            own = self.multiply(scale, rows[i])
            column = rows[:, i : i + 1].clone()
            column[i] = 0
            rows = self.reduce(rows - self.multiply(column, own.unsqueeze(0)))
            rows[i] = own
        return rows[:, size:].contiguous()

    def uniform(self, shape: Sequence[int], rng: np.random.Generator) -> Tensor:
        """Residues, each as probable as any other."""
        drawn = rng.integers(self.prime, size=tuple(shape), dtype=np.int64)
        return self.reduce(torch.from_numpy(drawn.astype(np.float64)))

    def distribution(self, rows: int, columns: int, rng: np.random.Generator) -> Tensor:
        """A random matrix whose rows sum to one."""
        free = self.uniform((rows, columns - 1), rng)
        last = self.reduce(1.0 - free.sum(1, keepdim=True))
        return torch.cat([free, last], dim=1)


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two halves h, l of whole numbers: x = 65536 h + l, |l| <= 2^15."""
    high = torch.mul(x, 1.0 / SHIFT).round_()
    return high, torch.sub(x, high, alpha=SHIFT)
