"""Booleans: whether there is a derivation at all."""

from __future__ import annotations

import numpy as np

from fgg.runtime.interpret.semirings.base import ArraySemiring, Bools, Numbers


class Boolean(ArraySemiring[np.bool_]):
    """({false, true}, or, and)."""

    name = "boolean"
    zero, one, dtype = False, True, np.bool_
    plus, times = np.logical_or, np.logical_and

    def convert(self, weights: Numbers) -> Bools:
        """True where a weight is not 0."""
        return np.asarray(weights != 0, dtype=bool)

    def convert_logs(self, logs: Numbers) -> Bools:
        """True where a logarithm is not that of 0."""
        return np.asarray(np.asarray(logs) > -np.inf)
