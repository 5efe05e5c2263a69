"""Booleans: whether there is a derivation at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.runtime.interpret.semirings.base import ArraySemiring


class Boolean(ArraySemiring):
    """({false, true}, or, and)."""

    name = "boolean"
    zero, one, dtype = False, True, np.bool_

    def convert(self, weights: NDArray[Any]) -> NDArray[Any]:
        """True where a weight is not 0."""
        return np.asarray(weights != 0, dtype=bool)

    def convert_logs(self, logs: Any) -> NDArray[Any]:
        """True where a logarithm is not that of 0."""
        return np.asarray(np.asarray(logs) > -np.inf)

    def multiply(self, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        """Conjunction."""
        return np.asarray(np.logical_and(x, y))

    def reduce(self, array: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
        """Disjunction over some axes."""
        return np.asarray(array.any(axis=axes))

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int], NDArray[Any]]], shape: Sequence[int]
    ) -> NDArray[Any]:
        """Disjunction of all entries of a row."""
        total = self.full(shape, one=False)
        for rows, values in parts:
            np.logical_or.at(total, np.asarray(rows), values)
        return total
