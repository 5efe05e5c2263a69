"""PCFG-IE from slices of its third moments: DECOMPOSE and the steps after it [ID §5.2].

With A = O T (words given the parent's state), the unmixed compound parameter is

    Ψ(η) = A diag(Aᵀη) T diag(π) Aᵀ

which is Ψ₃ of the paper, the transpose of Ψ₂: only so the diagonal stands next to the factor that
the eigenvectors give.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from fgg.diagnostics import refuse
from fgg.runtime.unmix.mixing import Floats

SINGULAR = 1e-12
COLLISION = 1e-7
"""Relative gaps of eigenvalues that rounding alone can make and unmake."""


@dataclass(frozen=True, eq=False)
class SpectralEstimate:
    """Parameters with rows that are distributions up to error, and how they were found.

    `root` [state], `child` [state, state], `emit` [state, word]. `gap` is the least distance of
    eigenvalues over their spread, `residual` the greatest error of the slices after projection,
    `complex` the number of directions without real eigenvalues.
    """

    root: Floats
    child: Floats
    emit: Floats
    gap: float
    residual: float
    directions: int
    complex: int

    @property
    def projected(self) -> tuple[Floats, Floats, Floats]:
        """The nearest distributions."""
        return project(self.root), project(self.child), project(self.emit)


def decompose(whole: Floats, slice: Floats, rank: int) -> tuple[Floats, Floats]:
    """The columns of M₁, each up to a factor, from X = M₁M₂ᵀ and Y = M₁DM₂ᵀ, and D's diagonal.

    They are eigenvectors: (U₁ᵀYU₂)(U₁ᵀXU₂)⁻¹ = VDV⁻¹, where U₁, U₂ span the ranges of X and Xᵀ
    [ID Lemma 1]. Both sides are scaled by the singular values, which balances the problem.
    """
    left, values, right = np.linalg.svd(whole, full_matrices=False)
    roots = np.sqrt(values[:rank])
    inner = (left[:, :rank] / roots).T @ slice @ (right[:rank].T / roots)
    eigenvalues, vectors = np.linalg.eig(inner)
    return (left[:, :rank] * roots) @ vectors, eigenvalues


def recover(
    whole: Floats, slices: Floats, directions: Floats, states: int, *, exact: bool
) -> SpectralEstimate:
    """The parameters of PCFG-IE from Ψ(1) and from Ψ(τ) for several τ; the best τ is chosen.

    The best one has the least residual over all slices. Raises GrammarError: F461 if Ψ(1) has too
    low a rank, F462 if no direction has real eigenvalues, F463 if eigenvalues collide in all.
    """
    check_rank(whole, states)
    best: SpectralEstimate | None = None
    turned, met = 0, 0
    for slice in slices:
        columns, values = decompose(whole, slice, states)
        gap = least_gap(values)
        if exact and gap < COLLISION:
            met += 1
            continue
        if np.abs(values.imag).max() > 1e-9 * np.abs(values).max():
            turned += 1
            continue
        parameters = _parameters(columns.real, whole)
        if parameters is None:
            met += 1
            continue
        residual = _residual(parameters, slices, directions)
        if best is None or residual < best.residual:
            best = SpectralEstimate(*parameters, gap, residual, len(slices), 0)
    if best is None:
        refuse_all(turned, met, len(slices))
    return replace(best, complex=turned)


def check_rank(whole: Floats, states: int) -> None:
    """Raise GrammarError (F461) if a matrix of moments has a lower rank than there are states."""
    values = np.linalg.svd(whole, compute_uv=False)
    rank = int((values > SINGULAR * values[0]).sum())
    if rank < states:
        message = f"the moments distinguish only {rank} of {states} states"
        help = (
            "the factors for words and for children must have full rank, and every state must "
            "occur as a root"
        )
        refuse("F461", message, help)


def least_gap(values: Floats) -> float:
    """The least distance of two eigenvalues, over the greatest."""
    if len(values) == 1:
        return 1.0
    apart = np.abs(values[:, None] - values[None, :])
    spread = float(apart.max())
    least = float((apart + np.diag(np.full(len(values), np.inf))).min())
    return least / spread if spread > 0 else 0.0


def _parameters(columns: Floats, whole: Floats) -> tuple[Floats, Floats, Floats] | None:
    """π, T and O as rows, from the columns of A and Ψ(1) = A T diag(π) Aᵀ."""
    sums = columns.sum(axis=0)
    if np.abs(sums).min() < 1e-12 * np.abs(columns).max():
        return None
    a = columns / sums
    inverse = np.linalg.pinv(a)
    root = inverse @ whole.sum(axis=0)  # 1ᵀΨ(1) = (Aπ)ᵀ
    if np.abs(root).min() == 0:
        return None
    step = inverse @ whole @ inverse.T / root  # T
    try:
        emit = np.linalg.solve(step.T, a.T)  # (A T⁻¹)ᵀ
    except np.linalg.LinAlgError:
        return None
    parameters = (root, step.T, emit)
    return parameters if all(bool(np.isfinite(x).all()) for x in parameters) else None


def _residual(
    parameters: tuple[Floats, Floats, Floats], slices: Floats, directions: Floats
) -> float:
    """The greatest error of a slice, with the estimate projected to distributions."""
    root, child, emit = (project(x) for x in parameters)
    a = child @ emit  # [state, word]: Aᵀ
    middle = child.T * root  # T diag(π)
    made = np.einsum("ai,ma,ab,bj->mij", a, directions @ a.T, middle, a, optimize=True)
    return float(np.abs(made - slices).max())


def refuse_all(turned: int, met: int, number: int) -> NoReturn:
    """Raise GrammarError: of `number` directions, some are `turned` (complex), others collide."""
    if turned >= met:
        message = f"eigenvalues are complex in all {number} directions"
        help = (
            "the moments are too far from those of any model of this kind: more sentences, fewer "
            "states, or EM from a random start"
        )
        refuse("F462", message, help)
    refuse_collision(f"eigenvalues collide in all {number} directions")


def refuse_collision(message: str, help: str = "use EM instead") -> NoReturn:
    """Raise GrammarError (F463): eigenvalues collide, so eigenvectors are not determined."""
    refuse("F463", message, help)


def directions(words: int, number: int, seed: int) -> Floats:
    """Random directions τ of unit length, `[directions, words]`."""
    drawn = np.random.default_rng(seed).normal(size=(number, words))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


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
