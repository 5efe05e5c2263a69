"""Finite moves that change no moment: null directions followed by Newton projection.

A null direction is a tangent at one point. From there, a step along the tangent is taken back to
the set of parameters with the same moments, by Newton's method with least changes, then the tangent
is projected onto the new null space, and so on, until an entry has moved far enough or is nearly 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.runtime.identify.fields import RealField, one_thread
from fgg.runtime.identify.float_check import Direction
from fgg.runtime.identify.functionals import Words
from fgg.runtime.identify.jet_pass import z_of
from fgg.runtime.identify.observations import KeptTokens
from fgg.runtime.identify.parameters import ParameterPoint
from fgg.runtime.identify.prepared_case import PLAIN, Question

Floats = NDArray[np.float64]

MAX_MOMENTS = 1024
MAX_PARAMETERS = 100
MAX_WORK = 2**23
"""Of one pass over all moments, in numbers that it keeps."""
TOLERANCE = 1e-12
"""How far the moments at the end of a move may be from those at its start."""
STEP = 0.05
FAR = 0.25
"""How far an entry moves at most."""
LEAST = 1e-3
"""No entry comes closer to 0 than this, or than it was."""
ATTEMPTS = 16


class MomentMap:
    """The moments of a question as a function of the coordinates, in float64."""

    def __init__(self, question: Question, place: ParameterPoint) -> None:
        self.question = question
        self.parameters = question.parameters
        self.base = place
        self.words: list[Words] = []
        for case, parts in zip(question.cases, question.parts, strict=True):
            kept: list[KeptTokens] = []
            for part in parts:
                kept += [part] if isinstance(part, KeptTokens) else part.parts(len(case.tokens))
            self.words.append(case.sentence(RealField()).every(kept))

    def place(self, coordinates: Floats) -> ParameterPoint:
        """The factors at some coordinates."""
        tables = self.parameters.tables(torch.from_numpy(coordinates))
        return self.parameters.at(RealField(), {**self.base.arrays, **tables})

    def coordinates(self, place: ParameterPoint) -> Floats:
        """The coordinates of a point."""
        return self.parameters.coordinates(place.arrays).numpy()

    def values(self, place: ParameterPoint) -> Floats:
        """All moments."""
        rows = [
            z_of(case.soft, RealField(), PLAIN, case.arrays(place), words)[:, 0]
            for case, words in zip(self.question.cases, self.words, strict=True)
        ]
        return torch.cat(rows).numpy()

    def rows(self, place: ParameterPoint) -> Floats:
        """The Jacobian of all moments."""
        rows: list[Tensor] = [
            case.jacobian(place, PLAIN, words)[:, 0]
            for case, words in zip(self.question.cases, self.words, strict=True)
        ]
        return torch.cat(rows).numpy()


def is_small(question: Question) -> bool:
    """Whether all moments can be computed again and again."""
    work = question.moments * sum(case.entries for case in question.cases)
    few = 0 < question.parameters.count <= MAX_PARAMETERS and question.moments <= MAX_MOMENTS
    return few and work <= MAX_WORK


@dataclass(frozen=True, eq=False)
class Move:
    """Two points with the same moments: the factors that differ, before and after.

    `distance` is how far an entry has moved at most, `difference` how much a moment differs.
    """

    before: Mapping[str, Floats]
    after: Mapping[str, Floats]
    distance: float
    difference: float

    def as_json(self) -> dict[str, object]:
        """The move as a JSON object."""
        return {
            "before": {name: array.tolist() for name, array in self.before.items()},
            "after": {name: array.tolist() for name, array in self.after.items()},
            "distance": self.distance,
            "difference": self.difference,
        }


def move_along(
    question: Question, place: ParameterPoint, direction: Direction, rank: int
) -> Move | None:
    """A finite move that begins along a null direction; None if it does not get anywhere."""
    with one_thread():
        follower = _Follower(MomentMap(question, place), rank)
        moves = []
        for sign in (1.0, -1.0):
            moves.append(follower.follow(direction, sign))
            if moves[-1] is not None and moves[-1].distance >= FAR:
                break
        return max(filter(None, moves), key=lambda move: move.distance, default=None)


class _Space(NamedTuple):
    """A singular value decomposition."""

    left: Floats
    values: Floats
    right: Floats


class _Follower:
    """Follows a curve in the set of points that have the moments of the first."""

    def __init__(self, moments: MomentMap, rank: int) -> None:
        self.moments = moments
        self.rank = rank
        self.wanted = moments.values(moments.base)
        self.least = min(LEAST, self.smallest(moments.base) / 2)

    def smallest(self, place: ParameterPoint) -> float:
        """The smallest weight of a free table, structural zeros left out."""
        leaves = self.moments.parameters.leaves
        return min(float(place.arrays[leaf.name][leaf.mask].min()) for leaf in leaves)

    def follow(self, direction: Direction, sign: float) -> Move | None:
        """The move along a direction, or against it."""
        moments = self.moments
        start = moments.coordinates(moments.base)
        tables = {
            leaf.name: torch.from_numpy(direction.moves.get(leaf.name, np.zeros(leaf.shape)))
            for leaf in moments.parameters.leaves
        }
        tangent: Floats = moments.parameters.coordinates(tables).numpy()
        tangent = sign * tangent / np.abs(tangent).max()
        at, place, step = start, moments.base, STEP
        for _ in range(ATTEMPTS):
            if self.distance(place) >= FAR or step < 1e-4:
                break
            space = self.space(place)
            null = space.right[self.rank :]
            tangent = null.T @ (null @ tangent)
            size = float(np.abs(tangent).max())
            if size < 1e-9:
                break
            tangent = tangent / size
            nearer = self.projected(at + step * tangent, space)
            if nearer is None:
                step /= 2
                continue
            at, place = nearer, moments.place(nearer)
        return self.move(place)

    def space(self, place: ParameterPoint) -> _Space:
        """The singular vectors of the Jacobian at a point."""
        return _Space(*np.linalg.svd(self.moments.rows(place)))

    def projected(self, coordinates: Floats, space: _Space) -> Floats | None:
        """The point nearby with the wanted moments; None if it is not found, or not inside.

        Newton's method with the Jacobian of the last point, from which this one is not far.
        """
        kept = slice(0, self.rank)
        for _ in range(20):
            place = self.moments.place(coordinates)
            if self.smallest(place) < self.least:
                return None
            residual = self.moments.values(place) - self.wanted
            if np.abs(residual).max() <= TOLERANCE / 1000:
                return coordinates
            if np.abs(residual).max() > 1:
                return None
            change = space.left[:, kept].T @ residual / space.values[kept]
            coordinates = coordinates - space.right[kept].T @ change
        place = self.moments.place(coordinates)
        good = np.abs(self.moments.values(place) - self.wanted).max() <= TOLERANCE
        return coordinates if good and self.smallest(place) >= self.least else None

    def distance(self, place: ParameterPoint) -> float:
        """How far an entry is from where it began."""
        base = self.moments.base.arrays
        leaves = self.moments.parameters.leaves
        return max(float((place.arrays[x.name] - base[x.name]).abs().max()) for x in leaves)

    def move(self, place: ParameterPoint) -> Move | None:
        """The move to a point, its moments compared once more."""
        distance = self.distance(place)
        difference = float(np.abs(self.moments.values(place) - self.wanted).max())
        if distance < STEP / 2 or difference > TOLERANCE:
            return None
        base = self.moments.base.arrays
        names = [
            leaf.name
            for leaf in self.moments.parameters.leaves
            if float((place.arrays[leaf.name] - base[leaf.name]).abs().max()) > 1e-9
        ]
        before = {name: base[name].numpy() for name in names}
        after = {name: place.arrays[name].numpy() for name in names}
        return Move(before, after, distance, difference)
