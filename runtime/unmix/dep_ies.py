"""DEP-IES from pairs of words: a polynomial of A, its eigenvectors, and its roots [ID §5.3].

Moments of pairs are mixtures of A^a diag(π) (Aᵀ)^b. A combination of them in which only powers
A^a diag(π) are left gives p(A); of sentences of two and three words it is A² + A. Eigenvectors of
p(A) are those of A, and eigenvalues are roots of p(λ) = β. Which root, moments tell: of λ² + λ = β
both λ and -1-λ are roots, and the principal one is often wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.runtime.unmix.mixing import Floats, Mixing, Observed, compound
from fgg.runtime.unmix.pcfg_ie import COLLISION, refuse_collision
from fgg.runtime.unmix.structure import Arcs

Complex = NDArray[np.complex128]
MAX_CHOICES = 2**12
BEYOND = 0.1
"""How far outside the unit circle an eigenvalue is still considered."""


@dataclass(frozen=True, eq=False)
class StationaryEstimate:
    """The matrix `arc` [parent, child], and how it was found.

    `polynomial` has the coefficients of p from the highest power down, `choices` the number of
    ways to choose roots that were compared, `residual` the greatest error of the moments of pairs.
    """

    arc: Floats
    root: Floats
    polynomial: tuple[float, ...]
    choices: int
    residual: float
    gap: float


@dataclass(frozen=True)
class ArcPolynomial:
    """p with p(A) diag(π) a combination of observations; coefficients from the highest power."""

    coefficients: tuple[float, ...]
    weights: Mapping[Observed, float]


def polynomial(mixed: Mixing, shape: Arcs) -> ArcPolynomial:
    """The polynomial of least degree whose value the moments determine.

    Raises GrammarError (F461) if they determine none.
    """
    longest = max(mixed.topologies, default=1)
    powers = [shape.power(n) for n in range(longest - 1, 0, -1)]  # highest first
    places = {backbone: i for i, backbone in enumerate(mixed.columns)}
    columns = [places[p] for p in powers if p in places]
    rest = np.delete(mixed.matrix, columns, axis=1)
    # Combinations of rows in which all other compound parameters cancel.
    left, values, _ = np.linalg.svd(rest, full_matrices=True)
    rank = int((values > 1e-10).sum())
    free = left[:, rank:].T @ mixed.matrix[:, columns]
    reduced = _echelon(free)
    if not len(reduced):
        message = f"pairs of words in sentences of {_lengths(mixed)} words determine no polynomial"
        help = "sentences of two and three words together determine `arc` squared plus `arc`"
        refuse("F461", message, help)
    row = reduced[-1]  # the leading power is the least possible
    target = {mixed.columns[i]: float(x) for i, x in zip(columns, row, strict=True) if x}
    weights = mixed.combination(target)
    assert weights is not None
    first = int(np.argmax(row != 0))
    # Coefficients are fractions of counts: what is next to a whole number is one.
    whole = np.where(np.abs(row - row.round()) < 1e-9, row.round(), row)
    return ArcPolynomial((*(float(x) for x in whole[first:]), 0.0), weights)


def _lengths(mixed: Mixing) -> str:
    lengths = [str(n) for n in sorted(mixed.topologies)]
    return " and ".join([", ".join(lengths[:-1]), lengths[-1]] if len(lengths) > 1 else lengths)


def _echelon(matrix: Floats) -> Floats:
    """The reduced echelon form, without rows of zeros."""
    rows = np.array(matrix)
    done = 0
    for column in range(rows.shape[1]):
        if done == len(rows):
            break
        pivot = done + int(np.argmax(np.abs(rows[done:, column])))
        if abs(rows[pivot, column]) < 1e-9:
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= np.outer(rows[others, column], rows[done])
        done += 1
    rows = rows[:done]
    rows[np.abs(rows) < 1e-9] = 0.0
    return rows


def recover(
    shape: Arcs,
    mixed: Mixing,
    moment: Callable[[Observed], Floats],
    root: Floats,
    *,
    exact: bool,
) -> StationaryEstimate:
    """The parameters of DEP-IES from moments of pairs and the distribution of words.

    Raises GrammarError: F461 if moments do not determine them, F463 if eigenvalues collide.
    """
    if root.min() <= 0:
        missing = int((root <= 0).sum())
        message = f"{missing} of {len(root)} words do not occur"
        help = "leave them out: the size of the vocabulary must be that of the sentences"
        refuse("F461", message, help)
    poly = polynomial(mixed, shape)
    value = np.zeros((shape.words, shape.words))
    for at, weight in poly.weights.items():
        value += weight * moment(at)
    value = value / root  # p(A), columns are parents
    if len(poly.coefficients) == 2:  # A itself
        a, choices, gap = value, 1, 1.0
    else:
        a, choices, gap = _by_roots(shape, mixed, poly, value, moment, root, exact)
    residual = _residual(shape, mixed, moment, a, root)
    return StationaryEstimate(a.T, root, poly.coefficients, choices, residual, gap)


def _by_roots(
    shape: Arcs,
    mixed: Mixing,
    poly: ArcPolynomial,
    value: Floats,
    moment: Callable[[Observed], Floats],
    root: Floats,
    exact: bool,
) -> tuple[Floats, int, float]:
    """A from p(A), with the roots of p(λ) = β chosen by the residual on the moments of pairs."""
    betas, vectors = np.linalg.eig(value)
    inverse = np.linalg.inv(vectors)
    groups = _groups(betas)
    options = [_roots(poly.coefficients, betas[group[0]]) for group in groups]
    ambiguous = [i for group, each in zip(groups, options, strict=True) for i in group if each[1:]]
    gap = _least_gap(betas, ambiguous)
    if exact and gap < COLLISION:
        refuse_collision(
            f"two eigenvalues of the polynomial {text(poly.coefficients)} of `{shape.arc}` are "
            "the same, and have several roots",
            "sentences of up to five words determine it without eigenvalues: `--max-length 5`",
        )
    observed = {at: moment(at) for at in mixed.rows}

    def made(choice: Sequence[complex]) -> Floats:
        values = np.empty(len(betas), dtype=complex)
        for group, one in zip(groups, choice, strict=True):
            values[group[0]] = one
            values[group[-1]] = one if len(group) == 1 else np.conj(one)
        return np.asarray(((vectors * values) @ inverse).real)

    def error(choice: Sequence[complex]) -> float:
        a = made(choice)
        return max(float(np.abs(x).max()) for x in _errors(shape, mixed, observed, a, root))

    count = int(np.prod([float(len(each)) for each in options]))
    if count <= MAX_CHOICES:
        best = min(product(*options), key=error)
        return made(best), count, gap
    chosen = [each[0] for each in options]
    least, compared, better = error(chosen), 1, True
    while better:  # one root at a time, as long as that helps
        better = False
        for place, each in enumerate(options):
            for other in each:
                trial = [*chosen[:place], other, *chosen[place + 1 :]]
                compared += 1
                if (now := error(trial)) < least:
                    chosen, least, better = trial, now, True
    return made(chosen), compared, gap


def _groups(betas: Complex) -> list[list[int]]:
    """Eigenvalues by themselves if they are real, and in conjugate pairs."""
    groups: list[list[int]] = []
    scale = np.abs(betas).max()
    number = 0
    while number < len(betas):
        # LAPACK gives conjugate pairs next to each other.
        pair = number + 1 < len(betas) and abs(betas[number].imag) > 1e-12 * scale
        groups.append([number, number + 1] if pair else [number])
        number += 2 if pair else 1
    return groups


def _roots(coefficients: Sequence[float], beta: complex) -> list[complex]:
    """The roots of p(λ) = β that a stochastic matrix may have, the least modulus first.

    Of a real β these may come in conjugate pairs; then noise has made a double root of one, and
    its real part stands for both.
    """
    shifted = np.array(coefficients, dtype=complex)
    shifted[-1] -= beta
    roots = sorted(np.roots(shifted), key=abs)
    if abs(beta.imag) <= 1e-12 * max(abs(beta), 1.0):
        roots = [complex(x.real) for x in roots]
    inside = [complex(x) for x in roots if abs(x) <= 1 + BEYOND]
    return inside or [complex(roots[0])]


def _least_gap(betas: Complex, ambiguous: Sequence[int]) -> float:
    """The least distance from an eigenvalue with several roots to another, over the greatest.

    Where only one root is possible, any vectors of the same eigenvalue give the same matrix.
    """
    if len(betas) == 1 or not ambiguous:
        return 1.0
    apart = np.abs(betas[:, None] - betas[None, :]) + np.diag(np.full(len(betas), np.inf))
    return float(apart[list(ambiguous)].min() / np.abs(betas).max())


def _errors(
    shape: Arcs, mixed: Mixing, observed: Mapping[Observed, Floats], a: Floats, root: Floats
) -> list[Floats]:
    """Moments of pairs that parameters make, less those that are observed."""
    weights = {shape.arc: a.T, shape.root: root}
    psi = np.stack([compound(backbone, weights) for backbone in mixed.columns])
    made = np.einsum("op,pij->oij", mixed.matrix, psi)
    return [m - observed[at] for at, m in zip(mixed.rows, made, strict=True)]


def _residual(
    shape: Arcs,
    mixed: Mixing,
    moment: Callable[[Observed], Floats],
    a: Floats,
    root: Floats,
) -> float:
    observed = {at: moment(at) for at in mixed.rows}
    return max(float(np.abs(x).max()) for x in _errors(shape, mixed, observed, a, root))


def text(coefficients: Sequence[float]) -> str:
    """A polynomial as people write it."""
    degree = len(coefficients) - 1
    parts = []
    for power, c in zip(range(degree, -1, -1), coefficients, strict=True):
        if c:
            factor = "" if c == 1 else f"{c:.4g} "
            parts.append(f"{factor}λ^{power}" if power > 1 else f"{factor}λ")
    return " + ".join(parts)
