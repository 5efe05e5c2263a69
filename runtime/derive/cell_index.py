"""The index arithmetic of a plan's steps, for one cell at a time.

Reading a derivation asks for the same few expressions at each of its cells, so every expression
becomes a Python function once. A step that looks up tables has no such functions;
`fgg.runtime.derive.plan_choices` then evaluates its expressions one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NoReturn, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from fgg.grammar import Clamp, Edge
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr, Lookup, Monomial
from fgg.plan import LEVEL, Bound, Loop, Potential, Step
from fgg.runtime.derive.choices import Ints
from fgg.runtime.interpret.charts import AnyCharts

Numbers = int | Ints
"""One number for all points, or one for each, `[points]`."""
Truths = bool | NDArray[np.bool_]
"""The same for truth values."""


class Function(Protocol):
    """An expression as a function of named numbers. It raises LooksUp for a look-up."""

    @overload
    def __call__(self, values: Mapping[str, int], /) -> int: ...
    @overload
    def __call__(self, values: Mapping[str, Numbers], /) -> Numbers: ...


Ends = tuple[tuple[Function, int], ...]
"""The terms of a bound: functions and their divisors."""


class LooksUp(Exception):
    """An expression looks up a table, so it has no function."""


def function_of(expr: Expr) -> Function:
    """An expression as a function."""
    return _function(expr.terms)


@lru_cache(maxsize=4096)
def _function(terms: tuple[tuple[Monomial, int], ...]) -> Function:
    products = []
    for monomial, coefficient in terms:
        if any(isinstance(atom, Lookup) for atom in monomial):
            return _looks_up
        products.append(" * ".join([str(coefficient), *(f"v[{atom!r}]" for atom in monomial)]))
    # Numbers and quoted names only: nothing of the user's is carried out.
    function: Function = eval(f"lambda v: {' + '.join(products) or '0'}")
    return function


def _looks_up(values: Mapping[str, Numbers]) -> NoReturn:
    raise LooksUp


@dataclass(frozen=True)
class Index:
    """An expression and its function."""

    expr: Expr
    function: Function

    @staticmethod
    def of(expr: Expr) -> Index:
        """The index that an expression stands for."""
        return Index(expr, function_of(expr))


class Points(Protocol):
    """The points of a step for one cell: settings of its index variables."""

    @property
    def count(self) -> int:
        """How many points there are."""

    def at(self, index: Index) -> Numbers:
        """An index at each point."""


@dataclass(frozen=True)
class NamedPoints:
    """Points by the values of names: numbers, or arrays `[points]`."""

    values: Mapping[str, Numbers]
    count: int

    def at(self, index: Index) -> Numbers:
        """An index at each point."""
        return index.function(self.values)


@dataclass(frozen=True)
class LookedUpPoints:
    """Points of a step that looks up tables, by the values `[points]` of whole expressions."""

    values: Mapping[Expr, Ints]
    count: int

    def at(self, index: Index) -> Numbers:
        """An index at each point."""
        return self.values[index.expr]


@dataclass(frozen=True)
class StorageIndex:
    """Where an edge or a clamp reads: indices, and the storage in which they must lie."""

    indices: tuple[Index, ...]
    low: tuple[int, ...]
    extents: tuple[int, ...]

    def inside(self, values: Mapping[str, Numbers]) -> Truths:
        """Whether all indices lie in the storage, at each point."""
        result: Truths = True
        for index, low, extent in zip(self.indices, self.low, self.extents, strict=True):
            place = index.function(values) - low
            result = result & ((place >= 0) & (place < extent))
        return result

    def at(self, points: Points) -> tuple[Numbers, ...]:
        """The place in the storage, at each point."""
        return tuple(points.at(i) - low for i, low in zip(self.indices, self.low, strict=True))


@dataclass(frozen=True)
class EdgeIndex:
    """An edge: the name of the array of its weights, its nodes, and where it reads the array.

    A factor has the same weights everywhere, and no `place`.
    """

    edge: Edge
    array: str
    nodes: tuple[str, ...]
    place: StorageIndex | None


@dataclass(frozen=True)
class ClampIndex:
    """A clamp, and where it reads its input."""

    clamp: Clamp
    place: StorageIndex


class StepIndex:
    """The index arithmetic of a step; the same for all cells and items of a batch."""

    def __init__(self, charts: AnyCharts, step: Step, level: Expr | None) -> None:
        self.charts = charts
        self.step = step
        plan, grammar = charts.plan, charts.plan.grammar
        self.family = grammar.nonterminal[step.head].indices
        self.stored = plan.chart[step.head].stored
        self.sizes = {n.name: domain_size(grammar, n.domain) for n in step.rule.rhs.nodes}
        potentials = {p.factor: p.name for p in plan.preparations if isinstance(p, Potential)}
        self.clamps = tuple(
            ClampIndex(c, self.storage(c.indices, (0,) * len(c.indices), self.input_extents(c)))
            for c in step.rule.rhs.clamps
        )
        self.edges = tuple(self.edge(edge, potentials) for edge in step.rule.rhs.edges)
        # The edges that go on with another cell.
        self.children = tuple(
            (edge.edge, edge.nodes) for edge in self.edges if edge.edge.label in grammar.nonterminal
        )
        self.level = None if level is None else function_of(level)
        self.guards = tuple(map(function_of, step.guards))
        self.masks = tuple(function_of(mask.expr) for mask in step.masks)
        self.heads = tuple(map(function_of, step.head_index))
        self.variables = {n: Index.of(e) for n, e in step.variables.items()}
        self.loops = tuple((x.name, _ends(x.low), _ends(x.high)) for x in step.positions)
        self.splits = tuple((x.name, _ends(x.low), _ends(x.high)) for x in step.splits)
        self.split_names = tuple(split.name for split in step.splits)
        self.solved = _solved(step.head_index, step.positions)
        exprs = [mask.expr for mask in step.masks] + [i.expr for i in self.indices]
        self.is_fast = self.solved is not None and not any(e for x in exprs for e in x.lookups())

    @cached_property
    def places(self) -> list[StorageIndex]:
        """Where clamps and edges read."""
        return [c.place for c in self.clamps] + [e.place for e in self.edges if e.place is not None]

    @property
    def indices(self) -> list[Index]:
        """All indices that are evaluated at the points of a cell."""
        return [i for x in self.places for i in x.indices] + [*self.variables.values()]

    def input_extents(self, clamp: Clamp) -> tuple[int, ...]:
        """The extents of a clamp's input."""
        return self.charts.batch.tokens[clamp.input].shape[1:]

    def storage(
        self, indices: Sequence[Expr], low: tuple[int, ...], extents: Sequence[int]
    ) -> StorageIndex:
        """A place in storage; its indices in terms of the step's loops."""
        in_loops = tuple(Index.of(index.substitute(self.step.variables)) for index in indices)
        return StorageIndex(in_loops, low, tuple(extents))

    def edge(self, edge: Edge, potentials: Mapping[str, str]) -> EdgeIndex:
        """An edge; `potentials` has the prepared array of each factor that is an input."""
        grammar = self.charts.plan.grammar
        nodes = tuple(a.node for a in edge.attachments)
        if edge.label in grammar.factor:
            return EdgeIndex(edge, edge.label, nodes, None)
        if edge.label in grammar.nonterminal:
            indices = [edge.indices[i] for i in self.charts.plan.chart[edge.label].stored]
            low = self.charts.low[edge.label]
            extents = self.charts.arrays[edge.label].shape[: len(low)]
            return EdgeIndex(edge, edge.label, nodes, self.storage(indices, low, extents))
        name = potentials[edge.label]
        extents = self.charts.prepared.arrays[name].shape[: len(edge.indices)]
        low = (0,) * len(edge.indices)
        return EdgeIndex(edge, name, nodes, self.storage(edge.indices, low, extents))

    def points(self, known: Mapping[str, int], indices: Sequence[int]) -> NamedPoints | None:
        """The points at which the step's head is the cell at these indices; None without any."""
        assert self.solved is not None
        values = dict(known)
        values.update(zip(self.family, indices, strict=True))
        values[LEVEL] = 0 if self.level is None else self.level(values)
        for guard in self.guards:
            if guard(values) < 0:
                return None
        for name, place, coefficient, rest in self.solved:
            values[name] = (indices[self.stored[place]] - rest(values)) // coefficient
        for name, low, high in self.loops:
            if not _low(low, values) <= values[name] <= _high(high, values):
                return None
        for i, head in zip(self.stored, self.heads, strict=True):
            if indices[i] != head(values):
                return None
        return self.live(values)

    def live(self, values: Mapping[str, int]) -> NamedPoints | None:
        """The points, over all splits, at which masks hold and all is read inside its storage."""
        ranges = [
            np.arange(_low(low, values), _high(high, values) + 1) for _, low, high in self.splits
        ]
        if len(ranges) > 1:
            ranges = [grid.reshape(-1) for grid in np.meshgrid(*ranges, indexing="ij")]
        spread: dict[str, Numbers] = dict(values)
        spread.update(zip(self.split_names, ranges, strict=True))
        count = len(ranges[0]) if ranges else 1
        if not count:
            return None
        alive: Truths = True
        for mask in self.masks:
            alive = alive & (mask(spread) >= 0)
        for place in self.places:
            alive = alive & place.inside(spread)
        if not isinstance(alive, np.ndarray):
            return NamedPoints(spread, count) if alive else None
        left = int(alive.sum())
        if left < count:
            spread.update(
                (name, split[alive]) for name, split in zip(self.split_names, ranges, strict=True)
            )
        return NamedPoints(spread, left) if left else None


def _ends(bound: Bound) -> Ends:
    return tuple((function_of(expr), divisor) for expr, divisor in bound.terms)


def _low(ends: Ends, values: Mapping[str, int]) -> int:
    return max(-(-f(values) // d) for f, d in ends)


def _high(ends: Ends, values: Mapping[str, int]) -> int:
    return min(f(values) // d for f, d in ends)


def _solved(
    heads: Sequence[Expr], loops: Sequence[Loop]
) -> tuple[tuple[str, int, int, Function], ...] | None:
    """How each loop follows from the head's indices: `(index - rest) // coefficient`.

    Where that leaves a remainder no point has the index. None if some loop does not follow.
    """
    left = [loop.name for loop in loops]
    solved: list[tuple[str, int, int, Function]] = []
    while left:
        for place, expr in enumerate(heads):
            unknown = [name for name in left if name in set(expr.names())]
            if len(unknown) != 1:
                continue
            (name,) = unknown
            terms = [(m, c) for m, c in expr.terms if name in m]
            if len(terms) == 1 and terms[0][0] == (name,):
                coefficient = terms[0][1]
                rest = expr - Expr.of(name) * coefficient
                solved.append((name, place, coefficient, function_of(rest)))
                left.remove(name)
                break
        else:
            return None
    return tuple(solved)
