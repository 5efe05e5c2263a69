"""Fitting a sum of products of vectors to an array: alternating least squares, signed or not.

The model of an array X is Σ_q a_q ⊗ b_q ⊗ …, with a matrix for each axis that has the vectors as
its columns, `[axis, rank]`. All arrays are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.progress import steps
from fgg.runtime.model.cpd_polish import polish, row_products

Array = NDArray[np.float64]

EXACT = 1e-8  # a relative error below it is not improved
STALLED = 1e-6  # a fit has converged if ten sweeps improve the error by less than this part of it
WINDOW = 10
TRIAL = 40  # sweeps after which the best of several starts is chosen
ALTERNATING = 200  # sweeps after which all axes are improved together
INNER = 3  # passes of coordinate descent in an update


@dataclass(frozen=True)
class Fit:
    """Matrices `[axis, rank]`, the relative error of their model, and how the fit went."""

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
) -> Fit:
    """The best fit of several starts: each gets a few sweeps, the best one all that it needs.

    `start` is one start more: matrices of the same or of a smaller rank, which are extended.
    """
    work = _Fitting(array, nonnegative)
    generator = np.random.default_rng(seed)
    starts = [work.random(rank, generator) for _ in range(restarts)]
    if not nonnegative and restarts:
        starts[0] = work.leading(rank, generator)
    if start is not None:
        starts.append(work.extended(start, rank, generator))
    trials = [work.run(item, min(TRIAL, sweeps)) for item in starts]
    best = min(trials, key=lambda found: found.error)
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
        draw: Any = generator.random if self.nonnegative else generator.standard_normal
        return self.scaled([draw((size, rank)) for size in self.shape])

    def leading(self, rank: int, generator: np.random.Generator) -> list[Array]:
        """The leading singular vectors along each axis, and random ones where they are too few."""
        found = []
        for unfolded in self.unfolded:
            _, vectors = np.linalg.eigh(unfolded @ unfolded.T)
            known = vectors[:, ::-1][:, :rank]
            more = generator.standard_normal((len(unfolded), rank - known.shape[1]))
            found.append(np.concatenate([known, more], axis=1))
        return self.scaled(found)

    def extended(
        self, start: Sequence[Array], rank: int, generator: np.random.Generator
    ) -> list[Array]:
        """Matrices of a smaller rank with small random columns besides."""
        more = self.random(rank - start[0].shape[1], generator)
        small = 1e-3 ** (1 / len(more))
        return [np.concatenate([a, small * b], axis=1) for a, b in zip(start, more, strict=True)]

    def scaled(self, matrices: Sequence[Array]) -> list[Array]:
        """Matrices times a number, so that their model is as large as the array."""
        gram = np.prod([m.T @ m for m in matrices], axis=0)
        size = sqrt(max(float(gram.sum()), 0.0))
        scale = (self.norm / size) ** (1 / len(matrices)) if size > 0 and self.norm > 0 else 1.0
        return [m * scale for m in matrices]

    def error(self, matrices: Sequence[Array]) -> float:
        """The relative error of the model, from its residual; a difference of norms cancels."""
        residual = self.unfolded[0] - matrices[0] @ row_products(matrices, 0).T
        return float(np.linalg.norm(residual)) / self.norm

    def run(self, start: Sequence[Array], sweeps: int) -> Fit:
        """Sweeps of updates, each from a point that is extrapolated from the last two.

        A sweep that makes the error worse is taken back, and the next one starts where it is best;
        then it cannot get worse, so the error goes down.
        """
        best = [np.array(m) for m in start]
        point = [m.copy() for m in best]
        error, reach, limit = self.error(best), 0.5, 1.0
        errors = [error]
        for number in steps(range(1, sweeps + 1), "sweep"):
            found = self.sweep(best, point, reach)
            new = self.error(found)
            if new <= error:
                reach = min(limit, reach * 1.05)
                limit = min(1.0, limit * 1.01)
                best, error = found, new
            else:
                limit, reach = reach, reach / 1.5
                point = [m.copy() for m in best]
            errors.append(error)
            before = errors[-WINDOW - 1] if number >= WINDOW else inf
            if error < EXACT or before - error <= STALLED * error:
                return Fit(tuple(best), error, True, number)
        return Fit(tuple(best), error, False, sweeps)

    def improved(self, found: Fit, sweeps: int) -> Fit:
        """A fit after so many sweeps in all, if it is not done before."""
        left = sweeps - found.sweeps
        if found.converged or left <= 0:
            return found
        if found.sweeps < ALTERNATING:
            more = self.run(found.matrices, left)
        else:
            matrices, done, steps = polish(
                self.array,
                found.matrices,
                nonnegative=self.nonnegative,
                steps=left,
                exact=EXACT,
                stalled=STALLED,
            )
            more = Fit(tuple(matrices), self.error(matrices), done, steps)
        if more.error > found.error:
            return Fit(found.matrices, found.error, more.converged, found.sweeps + more.sweeps)
        return Fit(more.matrices, more.error, more.converged, found.sweeps + more.sweeps)

    def sweep(self, best: Sequence[Array], point: list[Array], reach: float) -> list[Array]:
        """Updated matrices, one axis after the other; the point moves on beyond them."""
        found = []
        for axis, unfolded in enumerate(self.unfolded):
            target = unfolded @ row_products(point, axis)
            gram = np.prod([m.T @ m for i, m in enumerate(point) if i != axis], axis=0)
            new = self.update(point[axis], target, gram)
            found.append(new)
            beyond = new + reach * (new - best[axis])
            point[axis] = np.maximum(beyond, 0) if self.nonnegative else beyond
        return found


def _solved(target: Array, gram: Array) -> Array | None:
    """The matrix A that solves A G = T, regularised by a hair; None where there is none."""
    hair = 1e-14 * max(float(np.trace(gram)), 1e-300)
    try:
        found = np.linalg.solve(gram + hair * np.eye(len(gram)), target.T).T
    except np.linalg.LinAlgError:
        return None
    return np.array(found, dtype=np.float64) if bool(np.isfinite(found).all()) else None


def _solve(start: Array, target: Array, gram: Array) -> Array:
    """The matrix A that solves A G = T, or the one that there is."""
    found = _solved(target, gram)
    return start.copy() if found is None else found


def _descend(start: Array, target: Array, gram: Array) -> Array:
    """A non-negative A nearer to A G = T; rows are apart from each other.

    A row whose solution is non-negative is that solution. In other rows, column after column is
    set to its best value.
    """
    solved = _solved(target, gram)
    if solved is None:
        solved, rows = start.copy(), np.arange(len(start))
    else:
        rows = np.flatnonzero((solved < 0).any(axis=1))
    found, target = start[rows], target[rows]
    for _ in range(INNER):
        for q, weight in enumerate(gram.diagonal()):
            if weight > 0:
                step = (target[:, q] - found @ gram[:, q]) / weight
                np.maximum(found[:, q] + step, 0, out=found[:, q])
    solved[rows] = found
    return solved
