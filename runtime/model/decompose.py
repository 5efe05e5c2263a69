"""Numeric decomposition: from the weights of a factor to pieces whose product approximates them.

The pieces are those of `fgg.factors.pieces`. With a left side a (all its nodes together; none for a
potential) and right nodes b, c, …,

    F(a, b, c)  ≈  Σ_q  F_0(a, q) F_1(q, b) F_2(q, c)          [RS §2.2]

is a CP decomposition of the array `[a, b, c]`. Non-negative pieces to the right of the rank node
are normalised over their own node, and piece 0 absorbs the scales λ_q. If the factor has an arrow,
piece 0 is then normalised over the rank, so that the product is exactly a distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite, prod, sqrt

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fgg.diagnostics import Diagnostic, refuse
from fgg.runtime.memory import require
from fgg.runtime.model.cpd_fit import CpdFit, fit, lossless, truncated_svd
from fgg.runtime.program.bind import MAX_ENTRIES, product_of

Array = NDArray[np.float64]

RESTARTS = 8
SWEEPS = 2000
MAX_RANK = 65536


@dataclass(frozen=True)
class Decomposition:
    """The pieces of a factor, and how well their product approximates its weights.

    `relative_error` is the norm of weights minus product, over the norm of the weights. `method` is
    `svd`, `als`, `nonnegative als`, or `exact` if the rank is so high that nothing is lost. `notes`
    are warnings for the user.
    """

    pieces: tuple[Array, ...]
    relative_error: float
    converged: bool
    method: str
    sweeps: int = 0
    notes: tuple[Diagnostic, ...] = ()

    @property
    def rank(self) -> int:
        """The number of products in the sum over the rank."""
        return int(self.pieces[0].shape[-1])

    @property
    def entries(self) -> int:
        """The number of weights in all pieces."""
        return sum(piece.size for piece in self.pieces)


def decompose(
    weights: ArrayLike | Tensor,
    given: int | None,
    rank: int,
    *,
    nonnegative: bool = True,
    restarts: int = RESTARTS,
    seed: int = 0,
    sweeps: int = SWEEPS,
    name: str = "factor",
) -> Decomposition:
    """The pieces of a factor's weights, whose first `given` axes are left of the rank node.

    Matrices that may have signs are decomposed by SVD, everything else by alternating least squares
    in float64: the best of several random starts, determined by `seed`. Raises GrammarError for
    unfit weights or ranks (F417, F440), and for what would need too much memory (F420).
    """
    work = _Decomposer(weights, given, nonnegative, restarts, seed, sweeps, name)
    return work.decomposition(rank)


def smallest_rank(
    weights: ArrayLike | Tensor,
    given: int | None,
    tolerance: float,
    *,
    limit: int | None = None,
    nonnegative: bool = True,
    restarts: int = RESTARTS,
    seed: int = 0,
    sweeps: int = SWEEPS,
    name: str = "factor",
) -> Decomposition:
    """The decomposition of the smallest rank found whose relative error is within a tolerance.

    The rank is doubled until the error is small enough, and then bisected. Each fit starts from the
    one before, so a higher rank has a smaller error. The search ends at rank `limit` (by default
    where the pieces have as many entries as the weights) and returns the best with a note (F442).
    """
    if not isfinite(tolerance) or tolerance <= 0:
        refuse("F440", f"a tolerance of {tolerance:g} for `{name}` is not positive")
    work = _Decomposer(weights, given, nonnegative, restarts, seed, sweeps, name)
    return work.search(tolerance, limit)


class _Decomposer:
    """The weights as an array `[left, *right]`, or `[*right]` if no node is left of the rank."""

    def __init__(
        self,
        weights: ArrayLike | Tensor,
        given: int | None,
        nonnegative: bool,
        restarts: int,
        seed: int,
        sweeps: int,
        name: str,
    ) -> None:
        if restarts < 1 or sweeps < 1:
            raise ValueError("at least one start and one sweep are needed")
        self.given, self.nonnegative, self.name = given or 0, nonnegative, name
        self.normal = given is not None and nonnegative
        self.options = {"restarts": restarts, "seed": seed, "sweeps": sweeps}
        self.weights = _checked(weights, nonnegative, name)
        shape = self.weights.shape
        if len(shape) < 2:
            refuse("F440", f"factor `{name}` has fewer than two nodes, so it has no rank")
        assert self.given < len(shape)
        left = (prod(shape[: self.given]),) if self.given else ()
        self.array = self.weights.reshape(*left, *shape[self.given :])
        self.norm = float(np.linalg.norm(self.array))
        self.exact_rank = self.array.size // max(self.array.shape)

    def decomposition(self, rank: int) -> Decomposition:
        return self.finished(*self.factored(rank))

    def factored(self, rank: int, start: Sequence[Array] | None = None) -> tuple[CpdFit, str]:
        """A fit of the array of this rank, and the method that found it."""
        self.check_rank(rank)
        if self.norm == 0:
            return CpdFit(
                tuple(np.zeros((n, rank)) for n in self.array.shape), 0.0, True, 0
            ), "exact"
        if self.array.ndim == 2 and not self.nonnegative:
            return CpdFit(truncated_svd(self.array, rank), 0.0, True, 0), "svd"
        if rank >= self.exact_rank:
            return CpdFit(lossless(self.array, rank), 0.0, True, 0), "exact"
        best = fit(self.array, rank, nonnegative=self.nonnegative, start=start, **self.options)
        return best, "nonnegative als" if self.nonnegative else "als"

    def check_rank(self, rank: int) -> None:
        """Raise GrammarError for a rank that is invalid, or would need too much memory."""
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
            refuse("F440", f"rank {rank} of factor `{self.name}` is not a positive number")
        shape = self.array.shape
        entries = rank * sum(shape)
        if rank > MAX_RANK or entries > MAX_ENTRIES:
            at = f"`{self.name}` at rank {rank:,}"
            refuse("F420", f"the pieces of {at} have {entries:,} entries")
        # The array unfolded along each axis, its residual, row products, and Gram matrices.
        needed = (len(shape) + 2) * self.array.size + 2 * rank * self.array.size // min(shape)
        needed = 8 * (needed + 2 * entries + 3 * rank * rank)
        require(needed, torch.device("cpu"), f"decomposing `{self.name}` at rank {rank:,}")

    def finished(self, best: CpdFit, method: str) -> Decomposition:
        """The decomposition that a fit stands for, with the error of its pieces."""
        pieces = self.scaled(best.matrices)
        difference = self.weights - product_of(pieces, self.given)
        error = float(np.linalg.norm(difference)) / self.norm if self.norm else 0.0
        notes = []
        if not best.converged:
            message = (
                f"the decomposition of `{self.name}` was still improving after "
                f"{best.sweeps:,} sweeps (relative error {error:.2g})"
            )
            help = "allow more sweeps, or another rank"
            notes.append(Diagnostic(code="F441", message=message, help=help))
        return Decomposition(
            tuple(pieces), error, best.converged, method, best.sweeps, tuple(notes)
        )

    def scaled(self, matrices: Sequence[Array]) -> list[Array]:
        """The pieces, in the order and axes of `fgg.factors.pieces`, with all scales in piece 0."""
        rank = matrices[0].shape[1]
        left = matrices[0] if self.given else np.ones((1, rank))
        right = []
        for matrix in matrices[1:] if self.given else matrices:
            # Non-negative columns are scaled to sum 1, others to norm 1.
            scale = matrix.sum(axis=0) if self.nonnegative else np.linalg.norm(matrix, axis=0)
            left = left * scale
            empty = scale == 0
            spread = 1 / len(matrix) if self.nonnegative else 1 / sqrt(len(matrix))
            right.append(np.where(empty, spread, matrix / np.where(empty, 1.0, scale)).T)
        if self.normal:
            total = left.sum(axis=1, keepdims=True)
            left = np.where(total > 0, left / np.where(total > 0, total, 1.0), 1 / rank)
        shape = self.weights.shape[: self.given]
        return [left.reshape(*shape, rank), *map(np.ascontiguousarray, right)]

    def search(self, tolerance: float, limit: int | None) -> Decomposition:
        """The decomposition of smallest rank within the tolerance, by doubling and bisection."""
        last = self.limit() if limit is None else limit
        self.check_rank(last)
        if self.array.ndim == 2 and not self.nonnegative:
            return self.search_spectrum(tolerance, last)
        below, rank = 0, 1
        start: CpdFit | None = None
        while True:
            trial, method = self.factored(rank, None if start is None else start.matrices)
            done = self.finished(trial, method)
            if done.relative_error <= tolerance or rank >= last:
                break
            below, start, rank = rank, trial, min(2 * rank, last)
        if done.relative_error > tolerance:
            return self.not_reached(done, tolerance)
        best = done
        while best.rank - below > 1:
            middle = (below + best.rank) // 2
            trial, method = self.factored(middle, None if start is None else start.matrices)
            done = self.finished(trial, method)
            if done.relative_error <= tolerance:
                best = done
            else:
                below, start = middle, trial
        return best

    def search_spectrum(self, tolerance: float, last: int) -> Decomposition:
        """The same for a matrix with signs, from its singular values [Eckart & Young 1936]."""
        values = np.linalg.svd(self.array, compute_uv=False)
        tails = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1])
        rank = max(1, int((tails > tolerance * self.norm).sum()))
        done = self.decomposition(min(rank, last))
        reached = done.relative_error <= tolerance * (1 + 1e-9)
        return done if reached else self.not_reached(done, tolerance)

    def limit(self) -> int:
        """The least rank at which pieces are no smaller than the whole, or nothing is lost."""
        useful = ceil(self.array.size / sum(self.array.shape))
        return int(min(self.exact_rank, max(useful, *self.array.shape), MAX_RANK))

    def not_reached(self, done: Decomposition, tolerance: float) -> Decomposition:
        """A decomposition with a note (F442) that its error is above the tolerance."""
        message = (
            f"no rank up to {done.rank:,} brings `{self.name}` within {tolerance:g}: "
            f"the relative error is {done.relative_error:.2g}"
        )
        help = "these weights are not of low rank: low rank has to come from the model"
        note = Diagnostic(code="F442", message=message, help=help)
        return replace(done, notes=(*done.notes, note))


def _checked(weights: ArrayLike | Tensor, nonnegative: bool, name: str) -> Array:
    """The weights as a float64 array. Raises GrammarError (F417, F420)."""
    if isinstance(weights, Tensor):
        weights = weights.detach().cpu().numpy()
    entries = getattr(weights, "size", 0)
    if isinstance(entries, int) and entries > MAX_ENTRIES:
        refuse("F420", f"factor `{name}` has {entries:,} entries")
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        refuse("F417", f"weights for `{name}` are not an array of numbers")
    if not array.size or not bool(np.isfinite(array).all()):
        refuse("F417", f"weights for `{name}` are not all finite")
    if nonnegative and bool((array < 0).any()):
        refuse(
            "F417",
            f"weights for `{name}` are negative in places",
            "signed pieces are possible, but no program runs with them",
        )
    return array
