"""Max-plus: the log-weight of the best derivation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgg.runtime.interpret.semirings.base import ArraySemiring, Numbers

Floats = NDArray[np.float64]


class MaxPlus(ArraySemiring[np.float64]):
    """(R with -inf, max, +) on logarithms of weights."""

    name = "max"
    zero, one, dtype = -np.inf, 0.0, np.float64
    plus, times = np.maximum, np.add

    def convert(self, weights: Numbers) -> Floats:
        """The logarithms of the weights."""
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(weights, dtype=np.float64))

    def convert_logs(self, logs: Numbers) -> Floats:
        """The logarithms themselves."""
        return np.asarray(logs, dtype=np.float64)

    def multiply(self, x: Floats, y: Floats) -> Floats:
        """The sum of logarithms; zero times infinity is zero."""
        with np.errstate(invalid="ignore"):
            total = np.asarray(x + y)
        return np.where(np.isnan(total), self.zero, total)
