"""The nearest distributions to estimates that are none."""

from __future__ import annotations

import numpy as np

from fgg.runtime.unmix.mixing import Floats


def project(rows: Floats) -> Floats:
    """The nearest point of the simplex to each row (the last axis), in Euclidean distance.

    It is max(x - t, 0), with the t for which it sums to one.
    """
    ordered = -np.sort(-rows, axis=-1)
    counts = np.arange(1, rows.shape[-1] + 1)
    shifts = (np.cumsum(ordered, axis=-1) - 1) / counts
    kept = np.maximum((ordered > shifts).sum(axis=-1, keepdims=True), 1)
    shift = np.take_along_axis(shifts, kept - 1, axis=-1)
    return np.asarray(np.maximum(rows - shift, 0.0))
