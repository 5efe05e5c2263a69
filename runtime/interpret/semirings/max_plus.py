"""Max-plus: the log-weight of the best derivation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.runtime.interpret.semirings.base import ArraySemiring


class MaxPlus(ArraySemiring):
    """(R with -inf, max, +) on logarithms of weights."""

    name = "max"
    zero, one, dtype = -np.inf, 0.0, np.float64

    def convert(self, weights: NDArray[Any]) -> NDArray[Any]:
        """The logarithms of the weights."""
        with np.errstate(divide="ignore"):
            logs: NDArray[Any] = np.log(np.asarray(weights, dtype=float))
        return logs

    def convert_logs(self, logs: Any) -> NDArray[Any]:
        """The logarithms themselves."""
        return np.asarray(logs, dtype=float)

    def multiply(self, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        """Addition; nothing times infinity is nothing."""
        with np.errstate(invalid="ignore"):
            total = np.asarray(x + y)
        return np.where(np.isnan(total), self.zero, total)

    def reduce(self, array: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
        """The maximum over some axes."""
        return np.asarray(array.max(axis=axes)) if axes else array

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int], NDArray[Any]]], shape: Sequence[int]
    ) -> NDArray[Any]:
        """The maximum of all entries of a row."""
        total = self.full(shape, one=False)
        for rows, values in parts:
            np.maximum.at(total, np.asarray(rows), values)
        return total
