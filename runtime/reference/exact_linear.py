"""Linear systems solved exactly: over the fractions, and over a prime field."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

import numpy as np

from fgg.runtime.interpret.semirings.base import NumpyArray

Number = TypeVar("Number", int, Fraction)


class Singular(ArithmeticError):
    """The system has no unique solution."""


def solve_fractions(matrix: NumpyArray, right: NumpyArray) -> NumpyArray:
    """The solution x of `matrix @ x = right`, as fractions. Raises Singular."""
    rows = [[*map(Fraction, row), Fraction(b)] for row, b in zip(matrix, right, strict=True)]
    _eliminate(rows, lambda a, b: a / b, lambda a: a)
    return np.array([row[-1] for row in rows] + [Fraction(0)], dtype=object)[:-1]


def solve_modular(matrix: NumpyArray, right: NumpyArray, prime: int) -> NumpyArray:
    """The solution x of `matrix @ x = right` modulo a prime. Raises Singular."""
    rows = [[int(v) % prime for v in (*row, b)] for row, b in zip(matrix, right, strict=True)]
    _eliminate(rows, lambda a, b: a * pow(b, -1, prime) % prime, lambda a: a % prime)
    return np.array([row[-1] for row in rows], dtype=np.int64)


def _eliminate(
    rows: list[list[Number]],
    divide: Callable[[Number, Number], Number],
    reduce: Callable[[Number], Number],
) -> None:
    """Gauss-Jordan elimination in place; the last column has the right-hand sides."""
    for i in range(len(rows)):
        pivot = next((j for j in range(i, len(rows)) if rows[j][i]), None)
        if pivot is None:
            raise Singular
        rows[i], rows[pivot] = rows[pivot], rows[i]
        scale = rows[i][i]
        rows[i] = [divide(v, scale) for v in rows[i]]
        for j, row in enumerate(rows):
            if j != i and row[i]:
                factor = row[i]
                rows[j] = [reduce(a - factor * b) for a, b in zip(row, rows[i], strict=True)]
