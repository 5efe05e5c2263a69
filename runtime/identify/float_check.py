"""A second opinion in double precision: singular values, their gap, and null directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from fgg.runtime.identify.fields import RealField
from fgg.runtime.identify.parameters import ParameterPoint, Parameters
from fgg.runtime.identify.prepared_case import Question

Floats = NDArray[np.float64]

GAP = 1e3
"""Below this ratio of the least value kept and the greatest dropped, the rank is uncertain."""
MAX_ROWS = 2**14
MAX_ENTRIES = 2**23
MAX_WORDS = 2**26
MAX_WORK = 2**31
"""Of all passes together, in numbers that they keep."""
MAX_PARAMETERS = 2_000


@dataclass(frozen=True, eq=False)
class SecondOpinion:
    """The rank in float64: how many singular values exceed `tolerance`, and how clear that is.

    `gap` is the ratio of the least singular value above the tolerance and the greatest below it
    (or, if there is none below, the tolerance itself). `rows` moments were differentiated one by
    one, or as many random functionals of them if `sampled`.
    """

    rank: int
    verdict: str
    singular_values: tuple[float, ...]
    gap: float
    tolerance: float
    rows: int
    sampled: bool

    def as_json(self) -> dict[str, object]:
        """The opinion as a JSON object."""
        return {
            "rank": self.rank,
            "verdict": self.verdict,
            "gap": self.gap,
            "tolerance": self.tolerance,
            "rows": self.rows,
            "sampled": self.sampled,
            "singular_values": list(self.singular_values),
        }


@dataclass(frozen=True, eq=False)
class SingularSpace:
    """The second opinion, and the singular vectors that give null directions."""

    opinion: SecondOpinion
    place: ParameterPoint
    right: Floats
    """Right singular vectors as rows; those of the least values are the last."""


def second_opinion(question: Question) -> SingularSpace | None:
    """The singular values of the Jacobian in float64; None where it is too large for that."""
    parameters = question.parameters
    count = parameters.count
    if not 0 < count <= MAX_PARAMETERS:
        return None
    rng = np.random.default_rng([question.seed, 2])
    place = parameters.point(RealField(), rng)
    total = question.moments
    values = sum(token.size for case in question.cases for token in case.tokens)
    work = sum(case.entries for case in question.cases)
    sampled = total > MAX_ROWS or total * count > MAX_ENTRIES
    sampled |= total * values > MAX_WORDS or total * work > MAX_WORK
    matrix = question.sketch(place, rng) if sampled else question.every(place)
    return SingularSpace(*_opinion(matrix.numpy(), sampled, place))


def _opinion(
    matrix: Floats, sampled: bool, place: ParameterPoint
) -> tuple[SecondOpinion, ParameterPoint, Floats]:
    rows, count = matrix.shape
    svd = torch.linalg.svd(torch.from_numpy(matrix), full_matrices=rows < count)
    values, right = svd.S.numpy(), svd.Vh.numpy()
    full = np.zeros(count)
    full[: len(values)] = values
    greatest = float(values[0]) if len(values) else 0.0
    tolerance = max(rows, count) * float(np.finfo(float).eps) * greatest
    rank = int((full > tolerance).sum())
    tiny = float(np.finfo(float).tiny)
    below = float(full[rank]) if rank < count else tolerance
    # Where all that is below is exactly zero, the tolerance says how near it could have been.
    below = max(below, tolerance * 1e-3, tiny)
    gap = float(full[rank - 1]) / below if rank else np.inf
    verdict = "uncertain" if gap < GAP else "yes" if rank == count else "no"
    opinion = SecondOpinion(rank, verdict, tuple(map(float, full)), gap, tolerance, rows, sampled)
    return opinion, place, right


@dataclass(frozen=True, eq=False)
class Direction:
    """A way to move parameters together that no moment notices: a change of each factor.

    `moves` has the factors that take part, by name (of pieces, where a factor has a rank), each
    with an array of its own shape. The greatest change is 1.
    """

    moves: Mapping[str, Floats]

    def largest(self, number: int) -> list[tuple[str, tuple[int, ...], float]]:
        """The entries that change most: factor, index, change."""
        entries = [
            (name, tuple(map(int, index)), float(array[tuple(index)]))
            for name, array in self.moves.items()
            for index in np.argwhere(array)
        ]
        return sorted(entries, key=lambda entry: -abs(entry[2]))[:number]


def directions(
    decomposed: SingularSpace, parameters: Parameters, rank: int
) -> tuple[Direction, ...]:
    """A basis of the null directions at a point, as sparse as choosing coordinates makes it.

    The exact rank says how many there are. Each has 1 at a coordinate of its own and 0 at those
    of the others.
    """
    from scipy.linalg import qr

    basis = decomposed.right[rank:]
    if not len(basis):
        return ()
    _, _, order = qr(basis, mode="economic", pivoting=True)
    square = basis[:, order[: len(basis)]]
    spread: Floats = np.asarray(np.linalg.solve(square, basis), dtype=np.float64)
    result = []
    for vector in spread:
        moves = _moves(vector, parameters)
        greatest = max(float(np.abs(array).max()) for array in moves.values())
        result.append(Direction({name: array / greatest for name, array in moves.items()}))
    return tuple(result)


def _moves(vector: Floats, parameters: Parameters) -> dict[str, Floats]:
    """A vector over the coordinates as changes of the leaves."""
    moves: dict[str, Floats] = {}
    least = 1e-9 * float(np.abs(vector).max())
    kept: Floats = np.where(np.abs(vector) < least, 0.0, vector)
    first = 0
    for leaf in parameters.leaves:
        entries = kept[first : first + leaf.coordinates]
        first += leaf.coordinates
        if entries.any():
            flat = np.zeros(prod(leaf.shape))
            flat[leaf.entries[0].numpy()] = entries
            last = -flat.reshape(leaf.rows, -1).sum(axis=1)
            flat[leaf.lasts.numpy()] = np.where(np.abs(last) < 1e-9, 0.0, last)
            moves[leaf.name] = flat.reshape(leaf.shape)
    return moves
