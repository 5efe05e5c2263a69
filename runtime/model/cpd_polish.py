"""The last steps of a CP fit: a quasi-Newton method on all matrices of the model at once.

Alternating updates approach quickly and then slow down in narrow valleys. L-BFGS-B (Byrd, Lu,
Nocedal & Zhu 1995) uses the curvature, and respects bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Protocol

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
    products = others[0]
    for matrix in others[1:]:
        products = (products[:, None, :] * matrix[None]).reshape(-1, matrix.shape[1])
    return products


def polish(
    array: Array,
    start: Sequence[Array],
    *,
    nonnegative: bool,
    steps: int,
    exact: float,
    stalled: float,
) -> tuple[list[Array], bool, int]:
    """Matrices `[axis, rank]` of smaller error, whether the error has converged, and the steps.

    It has converged if it is below `exact`, relative to the norm of the array, or if the last
    `WINDOW` steps improved it by a share of less than `stalled`.
    """
    norm = float(np.linalg.norm(array))
    begin = _balanced(start, norm)
    model = _Objective(array / norm, begin)
    first, _ = model.value(np.concatenate([m.ravel() for m in begin]))
    # Unscaled, the sum of squares would fall far below the thresholds of the method.
    scale = 1 / max(first, 1e-300)
    values = [1.0]

    def scaled(point: Array) -> tuple[float, Array]:
        value, gradient = model.value(point)
        return value * scale, gradient * scale

    def watch(intermediate_result: _Step) -> None:
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
    matrices = [m * unit for m in model.matrices(result.x)]
    return matrices, result.status == 0 or is_done(), int(result.nit)


def _balanced(matrices: Sequence[Array], norm: float) -> list[Array]:
    """The matrices of a model divided by `norm`, with columns of equal norms on all axes."""
    norms = np.array([np.linalg.norm(m, axis=0) for m in matrices])
    alive = norms.min(axis=0) > 0
    common = np.where(alive, np.prod(norms, axis=0) / norm, 0.0) ** (1 / len(matrices))
    return [
        m / np.where(sizes > 0, sizes, 1.0) * common
        for m, sizes in zip(matrices, norms, strict=True)
    ]


class _Step(Protocol):
    """The argument that scipy passes to a callback; it holds the value of the objective."""

    fun: float


class _Objective:
    """Half the squared distance of a model from an array, and its gradient."""

    def __init__(self, array: Array, start: Sequence[Array]) -> None:
        self.array = array
        self.flat = array.reshape(len(array), -1)
        self.shapes = [m.shape for m in start]
        self.cuts = np.cumsum([m.size for m in start])[:-1]

    def matrices(self, point: Array) -> list[Array]:
        """The matrices `[axis, rank]` that a flat vector holds."""
        parts = np.split(np.asarray(point), self.cuts)
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def value(self, point: Array) -> tuple[float, Array]:
        """The objective and its gradient at a flat vector of all matrices."""
        matrices = self.matrices(point)
        residual = matrices[0] @ row_products(matrices, 0).T - self.flat
        whole = residual.reshape(self.array.shape)
        gradient = [
            np.moveaxis(whole, axis, 0).reshape(size, -1) @ row_products(matrices, axis)
            for axis, size in enumerate(self.array.shape)
        ]
        return 0.5 * float(np.vdot(residual, residual)), np.concatenate(
            [g.ravel() for g in gradient]
        )
