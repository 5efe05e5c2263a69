"""The last stretch of a fit: a quasi-Newton method on all matrices of the model at once.

Alternating updates come near quickly and then crawl along valleys. L-BFGS-B (Byrd, Lu, Nocedal &
Zhu 1995) sees the curvature, and keeps bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from fgg.progress import stage

Array = NDArray[np.float64]

MEMORY = 20
WINDOW = 20


def row_products(matrices: Sequence[Array], axis: int) -> Array:
    """The products of the rows of all matrices but one, `[other axes, rank]`."""
    others = [m for i, m in enumerate(matrices) if i != axis]
    found = others[0]
    for matrix in others[1:]:
        found = (found[:, None, :] * matrix[None]).reshape(-1, matrix.shape[1])
    return found


def polish(
    array: Array,
    start: Sequence[Array],
    *,
    nonnegative: bool,
    steps: int,
    exact: float,
    stalled: float,
) -> tuple[list[Array], bool, int]:
    """Matrices `[axis, rank]` of a smaller error, whether it has come to rest, and the steps.

    It has where it is below `exact`, relative to the array, or where the last steps have improved
    it by a part of less than `stalled`.
    """
    norm = float(np.linalg.norm(array))
    begin = _balanced(start, norm)
    model = _Model(array / norm, begin)
    first, _ = model.value(np.concatenate([m.ravel() for m in begin]))
    # The sum of squares would go far below the numbers that the method's tests are made for.
    scale = 1 / max(first, 1e-300)
    values = [1.0]

    def scaled(point: Array) -> tuple[float, Array]:
        value, gradient = model.value(point)
        return value * scale, gradient * scale

    def watch(intermediate_result: Any) -> None:
        values.append(float(intermediate_result.fun))
        polishing.done += 1
        if is_done():
            raise StopIteration

    def is_done() -> bool:
        error = sqrt(2 * values[-1] / scale)
        before = sqrt(2 * values[-1 - WINDOW] / scale) if len(values) > WINDOW else None
        return error < exact or (before is not None and before - error <= stalled * error)

    with stage("polishing step", steps) as polishing:
        result = minimize(
            scaled,
            np.concatenate([m.ravel() for m in begin]),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * sum(m.size for m in begin) if nonnegative else None,
            callback=watch,
            options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": MEMORY, "ftol": 0, "gtol": 0},
        )
    unit = norm ** (1 / array.ndim)
    found = [m * unit for m in model.matrices(result.x)]
    return found, result.status == 0 or is_done(), int(result.nit)


def _balanced(matrices: Sequence[Array], norm: float) -> list[Array]:
    """Matrices for the array divided by its norm, with columns of equal norms."""
    norms = np.array([np.linalg.norm(m, axis=0) for m in matrices])
    alive = norms.min(axis=0) > 0
    common = np.where(alive, np.prod(norms, axis=0) / norm, 0.0) ** (1 / len(matrices))
    return [
        m / np.where(own > 0, own, 1.0) * common for m, own in zip(matrices, norms, strict=True)
    ]


class _Model:
    """Half the squared distance of a model from an array, and its gradient."""

    def __init__(self, array: Array, start: Sequence[Array]) -> None:
        self.array = array
        self.flat = array.reshape(len(array), -1)
        self.shapes = [m.shape for m in start]
        self.cuts = np.cumsum([m.size for m in start])[:-1]

    def matrices(self, point: Array) -> list[Array]:
        parts = np.split(np.asarray(point), self.cuts)
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def value(self, point: Array) -> tuple[float, Array]:
        found = self.matrices(point)
        residual = found[0] @ row_products(found, 0).T - self.flat
        whole = residual.reshape(self.array.shape)
        gradient = [
            np.moveaxis(whole, axis, 0).reshape(size, -1) @ row_products(found, axis)
            for axis, size in enumerate(self.array.shape)
        ]
        return 0.5 * float(np.vdot(residual, residual)), np.concatenate(
            [g.ravel() for g in gradient]
        )
