"""CP decompositions of arrays: alternating least squares, and two that need no search.

The model of an array X is Σ_q a_q ⊗ b_q ⊗ …. For each axis of X there is a matrix `[axis, rank]`
whose columns are the vectors. All arrays are float64, and matrices non-negative if asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from fgg.progress import steps
from fgg.runtime.model.cpd_polish import polish, row_products

Array = NDArray[np.float64]

EXACT = 1e-8  # a smaller relative error counts as converged
STALLED = 1e-6  # a fit has converged if WINDOW sweeps improve the error by a smaller share
WINDOW = 10
TRIAL = 40  # sweeps after which the best of several starts is chosen
ALTERNATING = 200  # sweeps after which all axes are improved together (`polish`)
INNER = 3  # passes of coordinate descent in an update


@dataclass(frozen=True)
class CpdFit:
    """A matrix `[axis, rank]` for each axis, and the relative error of their model."""

    matrices: tuple[Array, ...]
    error: float
    converged: bool
    sweeps: int


def fit(
    array: Array,
    rank: int,
    *,
    nonnegative: bool,
    restarts: int,
    sweeps: int,
    seed: int,
    start: Sequence[Array] | None = None,
) -> CpdFit:
    """The best fit of several random starts: each gets a few sweeps, the best one up to `sweeps`.

    `start` is a further start: a matrix `[axis, rank]` for each axis, of this rank or a smaller
    one, which is extended.
    """
    work = _Fitting(array, nonnegative)
    generator = np.random.default_rng(seed)
    starts = [work.random(rank, generator) for _ in range(restarts)]
    if not nonnegative and restarts:
        starts[0] = work.leading(rank, generator)
    if start is not None:
        starts.append(work.extended(start, rank, generator))
    trials = [work.run(item, min(TRIAL, sweeps)) for item in starts]
    best = min(trials, key=lambda trial: trial.error)
    for limit in (ALTERNATING, sweeps):
        best = work.improved(best, min(limit, sweeps))
    return best


class _Fitting:
    """An array, unfolded once along each axis."""

    def __init__(self, array: Array, nonnegative: bool) -> None:
        self.array, self.shape = array, array.shape
        self.unfolded = [
            np.ascontiguousarray(np.moveaxis(array, axis, 0).reshape(size, -1))
            for axis, size in enumerate(array.shape)
        ]
        self.norm = float(np.linalg.norm(array))
        self.nonnegative = nonnegative
        self.update: Callable[[Array, Array, Array], Array] = _descend if nonnegative else _solve

    def random(self, rank: int, generator: np.random.Generator) -> list[Array]:
        """Random matrices `[axis, rank]`."""
        shapes = [(size, rank) for size in self.shape]
        if self.nonnegative:
            return self.scaled([generator.random(shape) for shape in shapes])
        return self.scaled([generator.standard_normal(shape) for shape in shapes])

    def leading(self, rank: int, generator: np.random.Generator) -> list[Array]:
        """The leading singular vectors along each axis, and random ones where they are too few."""
        matrices = []
        for unfolded in self.unfolded:
            _, vectors = np.linalg.eigh(unfolded @ unfolded.T)
            known = vectors[:, ::-1][:, :rank]
            more = generator.standard_normal((len(unfolded), rank - known.shape[1]))
            matrices.append(np.concatenate([known, more], axis=1))
        return self.scaled(matrices)

    def extended(
        self, start: Sequence[Array], rank: int, generator: np.random.Generator
    ) -> list[Array]:
        """Matrices of a smaller rank, extended by small random columns."""
        more = self.random(rank - start[0].shape[1], generator)
        small = 1e-3 ** (1 / len(more))
        return [np.concatenate([a, small * b], axis=1) for a, b in zip(start, more, strict=True)]

    def scaled(self, matrices: Sequence[Array]) -> list[Array]:
        """The matrices times a number, such that their model has the norm of the array."""
        gram = np.prod([m.T @ m for m in matrices], axis=0)
        size = sqrt(max(float(gram.sum()), 0.0))
        scale = (self.norm / size) ** (1 / len(matrices)) if size > 0 and self.norm > 0 else 1.0
        return [m * scale for m in matrices]

    def error(self, matrices: Sequence[Array]) -> float:
        """The relative error of the model, from its residual; a difference of norms cancels."""
        residual = self.unfolded[0] - matrices[0] @ row_products(matrices, 0).T
        return float(np.linalg.norm(residual)) / self.norm

    def run(self, start: Sequence[Array], sweeps: int) -> CpdFit:
        """Sweeps of updates, each from a point extrapolated from the last two.

        A sweep that increases the error is undone, and the next one starts at the best matrices
        without extrapolation, so the error of the result never goes up.
        """
        best = [np.array(m) for m in start]
        point = [m.copy() for m in best]
        error, reach, limit = self.error(best), 0.5, 1.0
        errors = [error]
        for number in steps(range(1, sweeps + 1), "sweep"):
            updated = self.sweep(best, point, reach)
            new = self.error(updated)
            if new <= error:
                reach = min(limit, reach * 1.05)
                limit = min(1.0, limit * 1.01)
                best, error = updated, new
            else:
                limit, reach = reach, reach / 1.5
                point = [m.copy() for m in best]
            errors.append(error)
            before = errors[-WINDOW - 1] if number >= WINDOW else inf
            if error < EXACT or before - error <= STALLED * error:
                return CpdFit(tuple(best), error, True, number)
        return CpdFit(tuple(best), error, False, sweeps)

    def improved(self, before: CpdFit, sweeps: int) -> CpdFit:
        """A fit after up to `sweeps` sweeps in all, unless it has converged before."""
        left = sweeps - before.sweeps
        if before.converged or left <= 0:
            return before
        if before.sweeps < ALTERNATING:
            more = self.run(before.matrices, left)
        else:
            matrices, done, steps = polish(
                self.array,
                before.matrices,
                nonnegative=self.nonnegative,
                steps=left,
                exact=EXACT,
                stalled=STALLED,
            )
            more = CpdFit(tuple(matrices), self.error(matrices), done, steps)
        best = before if more.error > before.error else more
        return CpdFit(best.matrices, best.error, more.converged, before.sweeps + more.sweeps)

    def sweep(self, best: Sequence[Array], point: list[Array], reach: float) -> list[Array]:
        """The matrices, updated one axis after the other; `point` moves beyond them by `reach`."""
        updated = []
        for axis, unfolded in enumerate(self.unfolded):
            target = unfolded @ row_products(point, axis)
            gram = np.prod([m.T @ m for i, m in enumerate(point) if i != axis], axis=0)
            new = self.update(point[axis], target, gram)
            updated.append(new)
            beyond = new + reach * (new - best[axis])
            point[axis] = np.maximum(beyond, 0) if self.nonnegative else beyond
        return updated


def _solved(target: Array, gram: Array) -> Array | None:
    """The matrix A with A G = T, slightly regularised; None if there is none.

    A and T are `[axis, rank]`, G is the Gram matrix `[rank, rank]`.
    """
    hair = 1e-14 * max(float(np.trace(gram)), 1e-300)
    try:
        solution = np.linalg.solve(gram + hair * np.eye(len(gram)), target.T).T
    except np.linalg.LinAlgError:
        return None
    return np.array(solution, dtype=np.float64) if bool(np.isfinite(solution).all()) else None


def _solve(start: Array, target: Array, gram: Array) -> Array:
    """The matrix A with A G = T, or a copy of the start if there is none."""
    solution = _solved(target, gram)
    return start.copy() if solution is None else solution


def _descend(start: Array, target: Array, gram: Array) -> Array:
    """A non-negative A nearer to A G = T, each row by itself.

    A row whose solution is non-negative becomes that solution. In the other rows, one column after
    the other is set to its best value.
    """
    solved = _solved(target, gram)
    if solved is None:
        solved, rows = start.copy(), np.arange(len(start))
    else:
        rows = np.flatnonzero((solved < 0).any(axis=1))
    descent, target = start[rows], target[rows]
    for _ in range(INNER):
        for q, weight in enumerate(gram.diagonal()):
            if weight > 0:
                step = (target[:, q] - descent @ gram[:, q]) / weight
                np.maximum(descent[:, q] + step, 0, out=descent[:, q])
    solved[rows] = descent
    return solved


def truncated_svd(array: Array, rank: int) -> tuple[Array, ...]:
    """The best approximation of a matrix, `[rows, rank]` and `[columns, rank]`, padded with 0."""
    left, values, right = np.linalg.svd(array, full_matrices=False)
    kept = min(rank, len(values))
    matrices = np.zeros((len(left), rank)), np.zeros((right.shape[1], rank))
    matrices[0][:, :kept] = left[:, :kept] * values[:kept]
    matrices[1][:, :kept] = right[:kept].T
    return matrices


def lossless(array: Array, rank: int) -> tuple[Array, ...]:
    """Matrices `[axis, rank]` without error: one product for each index of all axes but one."""
    whole = int(np.argmax(array.shape))
    others = [n for axis, n in enumerate(array.shape) if axis != whole]
    points = np.indices(others).reshape(len(others), -1)
    matrices = [np.zeros((n, rank)) for n in array.shape]
    columns = np.arange(points.shape[1])
    rows = iter(points)
    for axis, matrix in enumerate(matrices):
        if axis == whole:
            matrix[:, : len(columns)] = np.moveaxis(array, whole, 0).reshape(len(matrix), -1)
        else:
            matrix[next(rows), columns] = 1.0
    return tuple(matrices)
