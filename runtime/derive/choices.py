"""The ways to rewrite a cell, as the search for derivations sees them.

`PlanChoices` reads them from a plan's charts, `GroundChoices` from the reference engine's solution
of a ground grammar. `fgg.runtime.derive.search` is written once, over the protocol `Choices`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.grammar import Rule
from fgg.runtime.reference.chart import diagonal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_CHOICES = 2**22
"""The most ways in which one rule may rewrite a cell."""


class Cell(NamedTuple):
    """A nonterminal at an index, with values for its external nodes."""

    family: str
    indices: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """A rule, the values of its index variables and of its nodes."""

    rule: Rule
    variables: Mapping[str, int]
    values: Mapping[str, int]


@dataclass(frozen=True)
class RuleChoices:
    """The ways in which one rule rewrites a cell: log-weights `[points, *inner nodes]`.

    A point is a setting of the rule's index variables. `points` has each variable's value at every
    point, or one number for all of them. `fixed` nodes have one value throughout; the values of
    `seen` nodes, `[points]`, depend on the point alone.
    """

    rule: Rule
    fixed: Mapping[str, int]
    inner: tuple[str, ...]
    scores: Floats
    points: Mapping[str, Ints | int] = field(default_factory=dict)
    seen: Mapping[str, Ints] = field(default_factory=dict)


@dataclass(frozen=True)
class CellChoices:
    """All ways to rewrite a cell. They are numbered: rule by rule, point by point."""

    cell: Cell
    rules: tuple[RuleChoices, ...]

    @cached_property
    def scores(self) -> Floats:
        """The log-weight of each choice, the inside values of the cells below included."""
        if not self.rules:
            return np.zeros(0)
        return np.concatenate([part.scores.reshape(-1) for part in self.rules])

    @cached_property
    def sums(self) -> Floats:
        """Running sums of the weights, relative to the greatest one."""
        return running_sums(self.scores)

    @cached_property
    def offsets(self) -> Sequence[int]:
        """The number of each rule's first choice."""
        return [0, *accumulate(part.scores.size for part in self.rules)]

    def ranked(self) -> NDArray[np.intp]:
        """The numbers of the choices of weight other than 0, best first."""
        order = np.argsort(-self.scores, kind="stable")
        return order[np.isfinite(self.scores[order])]

    def decode(self, number: int) -> Choice:
        """The choice of a number."""
        which = bisect_right(self.offsets, number) - 1
        part = self.rules[which]
        point, *inner = np.unravel_index(number - self.offsets[which], part.scores.shape)
        values = dict(part.fixed)
        values |= {name: int(value) for name, value in zip(part.inner, inner, strict=True)}
        values |= {name: int(at_points[point]) for name, at_points in part.seen.items()}
        variables = {
            name: int(value[point] if isinstance(value, np.ndarray) else value)
            for name, value in part.points.items()
        }
        return Choice(part.rule, variables, values)


class Choices(Protocol):
    """The cells of one item: their values, and the choices that lead from one to the next.

    Values are log-weights: of the best derivation below a cell to search, sums to draw.
    """

    @property
    def start(self) -> Sequence[Cell]:
        """The cells of the start symbol."""

    def inside(self, cell: Cell) -> float:
        """The log-value of a cell."""

    def at(self, cell: Cell) -> CellChoices:
        """All ways to rewrite a cell."""

    def best(self, ways: CellChoices) -> int:
        """The number of a cell's best choice, the first one under ties."""

    def ranked(self, ways: CellChoices) -> NDArray[np.intp]:
        """The numbers of a cell's choices of weight other than 0, best first."""

    def children(self, choice: Choice) -> Sequence[Cell]:
        """The cells that a choice goes on with, in the order of the rule's edges."""

    def edge_weight(self, choice: Choice) -> float:
        """The log-weight of a choice's factors."""


def running_sums(scores: Floats) -> Floats:
    """Running sums of weights given by their logarithms, relative to the greatest one."""
    return np.cumsum(np.exp(scores - scores.max()))


def aligned(
    array: Floats, names: Sequence[str], fixed: Mapping[str, int], inner: Sequence[str]
) -> Floats:
    """An array `[points, *nodes that are not fixed]` with an axis for each inner node.

    `names` are the array's nodes, fixed ones included; a node that stands twice has one value.
    """
    left = tuple(name for name in names if name not in fixed)
    if array.ndim == 1 + len(left) and left == tuple(name for name in inner if name in left):
        # In order already, and no node twice.
        extents = iter(array.shape[1:])
        wide = [next(extents) if name in left else 1 for name in inner]
        return array.reshape((array.shape[0], *wide))
    if len(array.shape) > 1 + len(left):  # an indicator of a node that was fixed later
        array = array[(slice(None), *(fixed.get(name, slice(None)) for name in names))]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(left), 1)}
    array, letters = diagonal(array, (0, *(numbers[name] for name in left)))
    present = [name for name in inner if name in numbers]
    array = array.transpose([letters.index(0), *(letters.index(numbers[n]) for n in present)])
    extents = iter(array.shape[1:])
    return array.reshape((array.shape[0], *(next(extents) if n in numbers else 1 for n in inner)))


def check_count(rule: Rule, count: int, what: str) -> None:
    """Refuse a rule that rewrites one cell in more than `MAX_CHOICES` ways."""
    if count > MAX_CHOICES:
        refuse(
            "F420",
            f"rule `{rule.name}` has {count:,} {what}",
            "factorise the grammar first, so that its fragments are small",
        )
