"""Cells of charts, and the choices there are to rewrite one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fgg.plan import Step

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """A family at an index, with values for its external nodes."""

    family: str
    indices: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """A rule, the values of its index variables and of its nodes."""

    step: Step
    variables: Mapping[str, int]
    values: Mapping[str, int]


@dataclass(frozen=True)
class Part:
    """What one step offers a cell: log-weights `[points, *inner nodes]`.

    `points` has the rule's variables at each point, or the same number for all; `seen` the values
    of nodes that the point alone decides.
    """

    step: Step
    points: Mapping[str, NDArray[np.int64] | int]
    fixed: Mapping[str, int]
    inner: tuple[str, ...]
    scores: Floats
    seen: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)


@dataclass(frozen=True)
class Choices:
    """All ways to rewrite a cell, with their log-weights one after the other."""

    parts: tuple[Part, ...]

    @cached_property
    def scores(self) -> Floats:
        """The log-weights of all choices, best completions or sums below them included."""
        if not self.parts:
            return np.zeros(0)
        return np.concatenate([part.scores.reshape(-1) for part in self.parts])

    @cached_property
    def sums(self) -> Floats:
        """Running sums of the weights, relative to the greatest one."""
        return np.cumsum(np.exp(self.scores - self.scores.max()))

    @cached_property
    def offsets(self) -> Sequence[int]:
        """Where the choices of each part begin."""
        return [0, *accumulate(part.scores.size for part in self.parts)]

    def decode(self, position: int) -> Choice:
        """The choice at a position among the scores."""
        number = bisect_right(self.offsets, position) - 1
        part = self.parts[number]
        place = np.unravel_index(position - self.offsets[number], part.scores.shape)
        values = dict(part.fixed)
        values |= {name: int(v) for name, v in zip(part.inner, place[1:], strict=True)}
        values |= {name: int(found[place[0]]) for name, found in part.seen.items()}
        variables = {
            name: int(found[place[0]] if isinstance(found, np.ndarray) else found)
            for name, found in part.points.items()
        }
        return Choice(part.step, variables, values)
