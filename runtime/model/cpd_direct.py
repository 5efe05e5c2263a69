"""Decompositions that need no search: of matrices with signs, and where the rank is high enough."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def truncated_svd(array: Array, rank: int) -> tuple[Array, ...]:
    """The best matrices of this rank, with zeros beyond the rank of the array."""
    left, values, right = np.linalg.svd(array, full_matrices=False)
    kept = min(rank, len(values))
    found = np.zeros((len(left), rank)), np.zeros((right.shape[1], rank))
    found[0][:, :kept] = left[:, :kept] * values[:kept]
    found[1][:, :kept] = right[:kept].T
    return found


def lossless(array: Array, rank: int) -> tuple[Array, ...]:
    """Matrices that lose nothing: a product for each choice of values of all axes but one."""
    whole = int(np.argmax(array.shape))
    others = [n for axis, n in enumerate(array.shape) if axis != whole]
    points = np.indices(others).reshape(len(others), -1)
    found = [np.zeros((n, rank)) for n in array.shape]
    columns = np.arange(points.shape[1])
    rows = iter(points)
    for axis, matrix in enumerate(found):
        if axis == whole:
            matrix[:, : len(columns)] = np.moveaxis(array, whole, 0).reshape(len(matrix), -1)
        else:
            matrix[next(rows), columns] = 1.0
    return tuple(found)
