"""The index arithmetic of a plan's step as Python functions, for one cell at a time.

Reading a derivation asks the same few expressions at every one of its cells: here each is made
into a function once. A step that looks up tables has no such functions;
`fgg.runtime.derive.plan_choices` then evaluates its expressions one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from fgg.grammar import Clamp, Edge
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr, Lookup, Monomial
from fgg.plan import LEVEL, Bound, Loop, Potential, Step
from fgg.runtime.interpret.charts import AnyCharts

Function = Callable[[Mapping[str, Any]], Any]
Ends = tuple[tuple[Function, int], ...]


class Looked(Exception):
    """An expression looks up a table."""


def function_of(expr: Expr) -> Function:
    """An expression as a function of named numbers or arrays; it raises Looked for a look-up."""
    return _function(expr.terms)


@lru_cache(maxsize=4096)
def _function(terms: tuple[tuple[Monomial, int], ...]) -> Function:
    parts = []
    for monomial, coefficient in terms:
        if any(isinstance(atom, Lookup) for atom in monomial):
            return _looked
        parts.append(" * ".join([str(coefficient), *(f"v[{atom!r}]" for atom in monomial)]))
    # Numbers and quoted names only: nothing of the user's is carried out.
    found: Function = eval(f"lambda v: {' + '.join(parts) or '0'}")
    return found


def _looked(values: Mapping[str, Any]) -> Any:
    raise Looked


@dataclass(frozen=True)
class Index:
    """An expression and its function."""

    expr: Expr
    function: Function

    @staticmethod
    def of(expr: Expr) -> Index:
        """The index that an expression stands for."""
        return Index(expr, function_of(expr))


@dataclass(frozen=True)
class Points:
    """The points of a step for one cell: numbers, or arrays over the points.

    `values` has them by name, or, for a step that looks up tables, for whole expressions.
    """

    values: Mapping[Any, Any]
    count: int
    by_name: bool = True

    def at(self, index: Index) -> Any:
        """An index at each point."""
        return index.function(self.values) if self.by_name else self.values[index.expr]


@dataclass(frozen=True)
class Reference:
    """Where an edge or a clamp reads: indices, and the storage that they must hit."""

    indices: tuple[Index, ...]
    low: tuple[int, ...]
    extents: tuple[int, ...]

    def inside(self, values: Mapping[str, Any]) -> Any:
        """Whether all indices lie in the storage, at each point."""
        found: Any = True
        for index, low, extent in zip(self.indices, self.low, self.extents, strict=True):
            place = index.function(values) - low
            found = found & ((place >= 0) & (place < extent))
        return found

    def index(self, points: Points) -> tuple[Any, ...]:
        """The place in the storage, at each point."""
        return tuple(points.at(i) - low for i, low in zip(self.indices, self.low, strict=True))


@dataclass(frozen=True)
class EdgeCode:
    """An edge: the array that has its weights, its nodes, and where it reads (factors nowhere)."""

    edge: Edge
    array: str
    nodes: tuple[str, ...]
    place: Reference | None


@dataclass(frozen=True)
class ClampCode:
    """A clamp, and where it reads its input."""

    clamp: Clamp
    place: Reference


class StepCode:
    """What there is to know of a step for reading derivations, the same for all cells."""

    def __init__(self, charts: AnyCharts, step: Step, level: Expr | None) -> None:
        self.charts = charts
        self.step = step
        plan, grammar = charts.plan, charts.plan.grammar
        self.family = grammar.nonterminal[step.head].indices
        self.stored = plan.chart[step.head].stored
        self.sizes = {n.name: domain_size(grammar, n.domain) for n in step.rule.rhs.nodes}
        potentials = {p.factor: p.name for p in plan.preparations if isinstance(p, Potential)}
        self.clamps = tuple(
            ClampCode(c, self.reference(c.indices, (0,) * len(c.indices), self.input_extents(c)))
            for c in step.rule.rhs.clamps
        )
        self.edges = tuple(self.edge(edge, potentials) for edge in step.rule.rhs.edges)
        # The edges that go on with another cell.
        self.children = tuple(
            (code.edge, code.nodes) for code in self.edges if code.edge.label in grammar.nonterminal
        )
        self.level = None if level is None else function_of(level)
        self.guards = tuple(map(function_of, step.guards))
        self.masks = tuple(function_of(mask.expr) for mask in step.masks)
        self.heads = tuple(map(function_of, step.head_index))
        self.variables = {n: Index.of(e) for n, e in step.variables.items()}
        self.loops = tuple((x.name, _ends(x.low), _ends(x.high)) for x in step.positions)
        self.splits = tuple((x.name, _ends(x.low), _ends(x.high)) for x in step.splits)
        self.solved = _solved(step.head_index, step.positions)
        exprs = [mask.expr for mask in step.masks] + [i.expr for i in self.indices]
        self.is_fast = self.solved is not None and not any(e for x in exprs for e in x.lookups())

    @cached_property
    def places(self) -> list[Reference]:
        """Where edges and clamps read."""
        return [c.place for c in self.clamps] + [e.place for e in self.edges if e.place is not None]

    @property
    def indices(self) -> list[Index]:
        """Everything that is asked at the points of a cell."""
        return [i for x in self.places for i in x.indices] + [*self.variables.values()]

    def input_extents(self, clamp: Clamp) -> tuple[int, ...]:
        """How far an input reaches."""
        return self.charts.batch.tokens[clamp.input].shape[1:]

    def reference(
        self, indices: Sequence[Expr], low: tuple[int, ...], extents: Sequence[int]
    ) -> Reference:
        """A place in storage; its indices in terms of the step's loops."""
        own = tuple(Index.of(index.substitute(self.step.variables)) for index in indices)
        return Reference(own, low, tuple(extents))

    def edge(self, edge: Edge, potentials: Mapping[str, str]) -> EdgeCode:
        """What is known of an edge."""
        grammar = self.charts.plan.grammar
        nodes = tuple(a.node for a in edge.attachments)
        if edge.label in grammar.factor:
            return EdgeCode(edge, edge.label, nodes, None)
        if edge.label in grammar.nonterminal:
            indices = [edge.indices[i] for i in self.charts.plan.chart[edge.label].stored]
            low = self.charts.low[edge.label]
            extents = self.charts.arrays[edge.label].shape[: len(low)]
            return EdgeCode(edge, edge.label, nodes, self.reference(indices, low, extents))
        name = potentials[edge.label]
        extents = self.charts.prepared.arrays[name].shape[: len(edge.indices)]
        low = (0,) * len(edge.indices)
        return EdgeCode(edge, name, nodes, self.reference(edge.indices, low, extents))

    def points(self, known: Mapping[str, Any], indices: Sequence[int]) -> Points | None:
        """The points at which the head is the cell at some indices, if there are any."""
        values = dict(known)
        assert self.solved is not None
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
        return self.live(values, self.spread(values))

    def spread(self, values: dict[str, Any]) -> int:
        """Put the ranges of splits into the values, and return how many points there are."""
        ranges = [
            np.arange(_low(low, values), _high(high, values) + 1) for _, low, high in self.splits
        ]
        if len(ranges) > 1:
            ranges = [grid.reshape(-1) for grid in np.meshgrid(*ranges, indexing="ij")]
        for (name, _, _), found in zip(self.splits, ranges, strict=True):
            values[name] = found
        return len(ranges[0]) if ranges else 1

    def live(self, values: dict[str, Any], count: int) -> Points | None:
        """The points at which masks hold and everything is read inside its storage."""
        alive: Any = True
        for mask in self.masks:
            alive = alive & (mask(values) >= 0)
        for place in self.places:
            alive = alive & place.inside(values)
        if not count:
            return None
        if not isinstance(alive, np.ndarray):
            return Points(values, count) if alive else None
        found = int(alive.sum())
        if found < count:
            for name, _, _ in self.splits:
                values[name] = values[name][alive]
        return Points(values, found) if found else None


def _ends(bound: Bound) -> Ends:
    return tuple((function_of(expr), divisor) for expr, divisor in bound.terms)


def _low(ends: Ends, values: Mapping[str, Any]) -> Any:
    return max(-(-f(values) // d) for f, d in ends)


def _high(ends: Ends, values: Mapping[str, Any]) -> Any:
    return min(f(values) // d for f, d in ends)


def _solved(
    heads: Sequence[Expr], loops: Sequence[Loop]
) -> tuple[tuple[str, int, int, Function], ...] | None:
    """How each loop follows from the head's indices: `(index - rest) // coefficient`.

    Where that leaves a remainder no point has the index. None if some loop does not follow.
    """
    left = [loop.name for loop in loops]
    found: list[tuple[str, int, int, Function]] = []
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
                found.append((name, place, coefficient, function_of(rest)))
                left.remove(name)
                break
        else:
            return None
    return tuple(found)
