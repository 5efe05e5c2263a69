"""Ranks and null spaces of matrices over GF(p), by blocks through BLAS.

Columns are taken a block at a time: rows are eliminated within the block by themselves, and the
rest of the matrix catches up in one product [L U, with row exchanges]. The rank is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.progress import steps
from fgg.runtime.identify.fields import Prime

BLOCK = 16


@dataclass(frozen=True, eq=False)
class Echelon:
    """A matrix in echelon form: rows with the columns of their pivots."""

    field: Prime
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
        found = torch.zeros(count, len(free), dtype=torch.float64)
        if not free:
            return found
        found[free, range(len(free))] = 1.0
        # From the last pivot up: x_c = -(Σ over columns right of c) / pivot.
        for row in range(self.rank - 1, -1, -1):
            pivot = self.pivots[row]
            known = field.matmul(self.rows[row : row + 1, pivot + 1 :], found[pivot + 1 :])
            unit = pow(int(self.rows[row, pivot]), -1, field.prime)
            scale = field.reduce(torch.tensor(float(-unit % field.prime), dtype=torch.float64))
            found[pivot] = field.multiply(scale, known[0])
        return found


def echelon(matrix: Tensor, field: Prime) -> Echelon:
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
        found = len(panel.pivots)
        if found and last < columns:
            rest = a[done:, last:].index_select(0, torch.from_numpy(panel.order))
            top = field.matmul(panel.unlower(), rest[:found])
            lower = field.reduce(_tensor(panel.lower[found:, :found]))
            below = field.matmul(lower, top)
            a[done : done + found, last:] = top
            a[done + found :, last:] = field.reduce(rest[found:].sub_(below))
        a[done:, first:last] = field.reduce(_tensor(panel.rows))
        pivots += [first + c for c in panel.pivots]
        done += found
    return Echelon(field, a[:done], tuple(pivots))


class _Panel:
    """Elimination within a few columns: `order` of rows, and the multipliers that were used."""

    def __init__(self, columns: Tensor, field: Prime) -> None:
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
        found = np.eye(size, dtype=np.int64)
        for i in range(1, size):
            found[i] -= (self.lower[i, :i, None] * found[:i] % self.prime).sum(axis=0)
            found[i] %= self.prime
        # As all elements of the field: of least absolute value.
        return _tensor(np.where(found > self.prime // 2, found - self.prime, found))


def _tensor(array: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(array.astype(np.float64))
