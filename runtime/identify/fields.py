"""Two fields to compute in, on float64 tensors: GF(p), exactly, and the real numbers.

A residue is kept as the whole number of least absolute value, at most 2^30 for p < 2^31. A
product of two would not fit into the 53 bits of a float64, so one of them is split in two parts of
16 bits: matrix products then run through BLAS, and are exact for up to `MAX_TERMS` terms at a time.

Ranks and null spaces over GF(p) come from L U with row exchanges. Columns are eliminated a block at
a time; the rest of the matrix follows in one product. The rank is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.progress import steps
from fgg.runtime.interpret.semirings.base import NumpyArray

SHIFT = 65536.0
MAX_TERMS = 128
"""Terms of 2^45 that are added without loss, with room for the other half of a product."""


class Field(Protocol):
    """The operations of a field, on float64 tensors."""

    exact: bool

    def reduce(self, x: Tensor) -> Tensor:
        """The same elements in their normal form, after sums have made them large."""

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """The product, entry by entry, with broadcasting."""

    def dot(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the first axis of the product, entry by entry."""

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The matrix product, batched as `torch.matmul` is."""

    def convert(self, array: NumpyArray) -> Tensor:
        """Numbers or fractions as elements."""

    def inverse(self, matrix: Tensor) -> Tensor:
        """The inverse of a square matrix. Raises ZeroDivisionError if there is none."""

    def uniform(self, shape: Sequence[int], rng: np.random.Generator) -> Tensor:
        """Random elements."""

    def distribution(
        self, rows: int, columns: int, rng: np.random.Generator, mask: Tensor
    ) -> Tensor:
        """A random matrix whose rows sum to one, with zeros where the mask is False."""


class RealField:
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

    def convert(self, array: NumpyArray) -> Tensor:
        """Numbers or fractions as float64."""
        return torch.from_numpy(np.array(array, dtype=np.float64))

    def inverse(self, matrix: Tensor) -> Tensor:
        """The inverse of a square matrix."""
        result = torch.linalg.inv_ex(matrix)
        if int(result.info):
            raise ZeroDivisionError
        inverse: Tensor = result.inverse
        return inverse

    def uniform(self, shape: Sequence[int], rng: np.random.Generator) -> Tensor:
        """Numbers between -1 and 1."""
        return torch.from_numpy(rng.uniform(-1.0, 1.0, size=tuple(shape)))

    def distribution(
        self, rows: int, columns: int, rng: np.random.Generator, mask: Tensor
    ) -> Tensor:
        """Rows from a flat Dirichlet distribution over the entries of the mask."""
        drawn = (rng.exponential(size=(rows, columns)) + 1e-3) * mask.numpy()
        return torch.from_numpy(drawn / drawn.sum(axis=1, keepdims=True))


class PrimeField:
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
            partial = self.reduce(upper.mul_(SHIFT).add_((low * y[part]).sum(0)))
            total = partial if total is None else total.add_(partial)
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
            partial = self._matmul(x[..., part], y[..., part, :])
            total = partial if total is None else total.add_(partial)
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

    def convert(self, array: NumpyArray) -> Tensor:
        """Residues of numbers or fractions. Raises ZeroDivisionError where one has none."""
        p = self.prime

        def residue(number: Fraction | float) -> int:
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
            nonzero = torch.nonzero(rows[i:, i])
            if not len(nonzero):
                raise ZeroDivisionError
            pivot = i + int(nonzero[0])
            if pivot != i:
                rows[[i, pivot]] = rows[[pivot, i]]
            unit = pow(int(rows[i, i]), -1, self.prime)
            scale = self.reduce(torch.tensor(float(unit), dtype=torch.float64))
            scaled = self.multiply(scale, rows[i])
            column = rows[:, i : i + 1].clone()
            column[i] = 0
            rows = self.reduce(rows - self.multiply(column, scaled.unsqueeze(0)))
            rows[i] = scaled
        return rows[:, size:].contiguous()

    def uniform(self, shape: Sequence[int], rng: np.random.Generator) -> Tensor:
        """Residues, each as probable as any other."""
        drawn = rng.integers(self.prime, size=tuple(shape), dtype=np.int64)
        return self.reduce(torch.from_numpy(drawn.astype(np.float64)))

    def distribution(
        self, rows: int, columns: int, rng: np.random.Generator, mask: Tensor
    ) -> Tensor:
        """A random matrix whose rows sum to one, with zeros where the mask is False."""
        matrix = self.uniform((rows, columns), rng) * mask
        last = (torch.arange(columns) * mask).max(1, keepdim=True).values
        matrix.scatter_(1, last, 0.0)
        return matrix.scatter(1, last, self.reduce(1.0 - matrix.sum(1, keepdim=True)))


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two halves h, l of whole numbers: x = 65536 h + l, |l| <= 2^15."""
    high = torch.mul(x, 1.0 / SHIFT).round_()
    return high, torch.sub(x, high, alpha=SHIFT)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: arrays are small here, and threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# elimination

BLOCK = 16
"""The columns that are eliminated at a time."""


@dataclass(frozen=True, eq=False)
class Echelon:
    """A matrix in echelon form: rows with the columns of their pivots."""

    field: PrimeField
    rows: Tensor
    pivots: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The rank of the matrix."""
        return len(self.pivots)

    def null_space(self) -> Tensor:
        """A basis of {x : A x = 0} as columns: one for each column without a pivot, 1 there."""
        field, count = self.field, self.rows.shape[1]
        free = [c for c in range(count) if c not in set(self.pivots)]
        basis = torch.zeros(count, len(free), dtype=torch.float64)
        if not free:
            return basis
        basis[free, range(len(free))] = 1.0
        # From the last pivot up: x_c = -(Σ over columns right of c) / pivot.
        for row in range(self.rank - 1, -1, -1):
            pivot = self.pivots[row]
            known = field.matmul(self.rows[row : row + 1, pivot + 1 :], basis[pivot + 1 :])
            unit = pow(int(self.rows[row, pivot]), -1, field.prime)
            scale = field.reduce(torch.tensor(float(-unit % field.prime), dtype=torch.float64))
            basis[pivot] = field.multiply(scale, known[0])
        return basis


def echelon(matrix: Tensor, field: PrimeField) -> Echelon:
    """The echelon form of a matrix of residues, which is left as it is."""
    a = matrix.clone()
    rows, columns = a.shape
    done = 0
    pivots: list[int] = []
    for first in steps(range(0, columns, BLOCK), "block of columns"):
        if done == rows:
            break
        last = min(first + BLOCK, columns)
        panel = _Panel(a[done:, first:last], field)
        new = len(panel.pivots)
        if new and last < columns:
            rest = a[done:, last:].index_select(0, torch.from_numpy(panel.order))
            top = field.matmul(panel.unlower(), rest[:new])
            lower = field.reduce(_tensor(panel.lower[new:, :new]))
            below = field.matmul(lower, top)
            a[done : done + new, last:] = top
            a[done + new :, last:] = field.reduce(rest[new:].sub_(below))
        a[done:, first:last] = field.reduce(_tensor(panel.rows))
        pivots += [first + c for c in panel.pivots]
        done += new
    return Echelon(field, a[:done], tuple(pivots))


class _Panel:
    """Elimination within a few columns: `order` of rows, and the multipliers that were used."""

    def __init__(self, columns: Tensor, field: PrimeField) -> None:
        p = self.prime = field.prime
        rows = columns.numpy().astype(np.int64) % p
        count, width = rows.shape
        self.order = np.arange(count)
        self.lower = np.zeros((count, min(count, width)), dtype=np.int64)
        self.pivots: list[int] = []
        for column in range(width):
            done = len(self.pivots)
            below = np.flatnonzero(rows[done:, column])
            if not len(below):
                continue
            pivot = done + int(below[0])
            if pivot != done:
                for array in (rows, self.lower, self.order):
                    array[[done, pivot]] = array[[pivot, done]]
            unit = pow(int(rows[done, column]), -1, p)
            factors = rows[done + 1 :, column] * unit % p
            self.lower[done, done] = 1
            self.lower[done + 1 :, done] = factors
            # Products are below 2^62, so differences fit into 64 bits.
            rest = rows[done + 1 :, column:]
            rest -= factors[:, None] * rows[done, column:]
            rest %= p
            self.pivots.append(column)
            if len(self.pivots) == count:
                break
        self.rows = rows

    def unlower(self) -> Tensor:
        """The inverse of the triangle of multipliers of the rows that have pivots."""
        size = len(self.pivots)
        inverse = np.eye(size, dtype=np.int64)
        for i in range(1, size):
            inverse[i] -= (self.lower[i, :i, None] * inverse[:i] % self.prime).sum(axis=0)
            inverse[i] %= self.prime
        # As all elements of the field: of least absolute value.
        return _tensor(np.where(inverse > self.prime // 2, inverse - self.prime, inverse))


def _tensor(array: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(array.astype(np.float64))
