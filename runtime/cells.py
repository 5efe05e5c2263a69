"""The ways to go on from a cell of a plan's charts: every rule, split and assignment."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.domains import domain_size
from fgg.grammar import Clamp, Edge
from fgg.index import Expr
from fgg.plan import Potential, Step
from fgg.runtime.chart import diagonal
from fgg.runtime.choices import Cell, Choice, Choices, Floats, Part
from fgg.runtime.expand import MAX_CHOICES
from fgg.runtime.frames import Frame, Scope
from fgg.runtime.plan_charts import Charts
from fgg.runtime.preparing import plain, tokens

CACHED_BYTES = 2**28
"""How much of the choices of cells is remembered for each item."""


class Cells:
    """The cells of one item, with values in `log` or `max`."""

    def __init__(self, charts: Charts, item: int, shared: dict[str, Floats] | None = None) -> None:
        self.charts = charts
        self.plan = charts.plan
        self.grammar = charts.plan.grammar
        self.item = item
        self.scope = Scope(charts.plan, charts.batch.item(item))
        self.lengths = {n: int(v[0]) for n, v in self.scope.batch.lengths.items()}
        self.known = {**self.scope.known, **self.lengths}
        # Arrays of logarithms that all items have in common.
        self.arrays: dict[str, Floats] = {} if shared is None else shared
        self.potentials = {
            p.factor: p.name for p in self.plan.preparations if isinstance(p, Potential)
        }
        self.steps: dict[str, list[Step]] = {}
        self.levels: dict[str, Expr] = {}
        for stage in self.plan.stages:
            self.levels.update(stage.level)
            for step in stage.steps:
                self.steps.setdefault(step.head, []).append(step)
        self._places: dict[tuple[int, int], dict[tuple[int, ...], tuple[int, ...]]] = {}
        self._choices: OrderedDict[Cell, Choices] = OrderedDict()
        self._bytes = 0

    @property
    def start(self) -> list[Cell]:
        """The cells of the start symbol."""
        start = self.grammar.start
        indices = tuple(int(i.evaluate(self.known) or 0) for i in start.indices)
        domains = self.grammar.nonterminal[start.label].domains
        sizes = [domain_size(self.grammar, d) for d in domains]
        return [Cell(start.label, indices, values) for values in np.ndindex(*sizes)]

    def array(self, name: str) -> Floats:
        """A parameter, a table or a chart as logarithms."""
        if name not in self.arrays:
            found = self.charts.arrays.get(name)
            if found is None:
                found = self.charts.prepared.arrays[name]
            self.arrays[name] = plain(found).astype(float)
        return self.arrays[name]

    def place(self, cell: Cell) -> list[int]:
        """Where a cell stands in its chart."""
        stored = self.plan.chart[cell.family].stored
        low = self.charts.low[cell.family]
        return [cell.indices[i] - first for i, first in zip(stored, low, strict=True)]

    def inside(self, cell: Cell) -> float:
        """The log-value of a cell."""
        if cell.family not in self.plan.chart:
            return -np.inf
        array = self.array(cell.family)
        index = self.place(cell)
        if any(not 0 <= i < n for i, n in zip(index, array.shape, strict=False)):
            return -np.inf
        return float(array[(*index, self.item, *cell.values)])

    def choices(self, cell: Cell) -> Choices:
        """All ways to rewrite a cell; those of cells seen of late are remembered."""
        if cell in self._choices:
            self._choices.move_to_end(cell)
            return self._choices[cell]
        parts = [self.part(step, cell) for step in self.steps.get(cell.family, ())]
        found = Choices(tuple(part for part in parts if part is not None))
        self._choices[cell] = found
        self._bytes += found.scores.nbytes
        while self._bytes > CACHED_BYTES and len(self._choices) > 1:
            _, old = self._choices.popitem(last=False)
            self._bytes -= old.scores.nbytes
        return found

    # one step

    def part(self, step: Step, cell: Cell) -> Part | None:
        """What a step offers a cell."""
        fixed: dict[str, int] = {}
        for name, value in zip(step.head_axes, cell.values, strict=True):
            if fixed.setdefault(name, value) != value:
                return None  # a node that is external twice has one value
        frame = self.frame(step, cell)
        if frame is None:
            return None
        live = self.live(step, frame)
        if not live.any():
            return None
        points = {n: self.spread(frame, e)[0][live] for n, e in step.variables.items()}
        operands: list[tuple[Floats, tuple[str, ...]]] = []
        for clamp in step.rule.rhs.clamps:
            found = self.evidence(step, clamp, frame, live)
            name = clamp.attachment.node
            if len(found) and bool((found == found[0]).all()) and found[0] != -1:
                value = int(found[0])
                if value < 0 or fixed.setdefault(name, value) != value:
                    return None
            else:
                operands.append((self.indicator(step, name, found), (name,)))
        for edge in step.rule.rhs.edges:
            operands.append((self.edge(step, edge, frame, live, fixed), _nodes(edge)))
        inner = tuple(n.name for n in step.rule.rhs.nodes if n.name not in fixed)
        sizes = {n.name: domain_size(self.grammar, n.domain) for n in step.rule.rhs.nodes}
        count = int(live.sum())
        shape = (count, *(sizes[name] for name in inner))
        if prod(shape) > MAX_CHOICES:
            raise GrammarError([_too_many(step, prod(shape))])
        total = np.zeros(shape)
        for array, names in operands:
            total += _aligned(array, names, fixed, inner)
        return Part(step, points, fixed, inner, total)

    def frame(self, step: Step, cell: Cell) -> Frame | None:
        """The points of a step at which its head is a cell: one position, all splits."""
        family = self.grammar.nonterminal[cell.family]
        own = dict(zip(family.indices, cell.indices, strict=True))
        level = 0
        if cell.family in self.levels:
            level = int(self.levels[cell.family].evaluate({**self.known, **own}) or 0)
        whole = self.scope.frame(step, level)
        if whole is None:
            return None
        key = (id(step), level)
        if key not in self._places:
            self._places[key] = self.places(step, whole)
        stored = self.plan.chart[cell.family].stored
        point = self._places[key].get(tuple(cell.indices[i] for i in stored))
        if point is None:
            return None
        ranges = dict(whole.ranges)
        for loop, value in zip(step.positions, point, strict=True):
            ranges[loop.name] = (value, 1)
        return Frame(self.scope, ranges, level)

    def places(self, step: Step, frame: Frame) -> dict[tuple[int, ...], tuple[int, ...]]:
        """For each head that a step has on a level, the position at which it has it."""
        ranges = {loop.name: frame.ranges[loop.name] for loop in step.positions}
        inner = Frame(self.scope, ranges, frame.level)
        heads = [self.spread(inner, expr)[0].tolist() for expr in step.head_index]
        loops = [self.spread(inner, Expr.of(name))[0].tolist() for name in ranges]
        count = prod(length for _, length in ranges.values())
        return {
            tuple(head[i] for head in heads): tuple(loop[i] for loop in loops) for i in range(count)
        }

    def spread(self, frame: Frame, expr: Expr) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """An expression at all points of a frame in order, and where it means anything."""
        shape = [count for _, count in frame.ranges.values()] + [1]
        value, valid = frame.evaluate(expr)
        return (
            np.broadcast_to(np.asarray(value, dtype=np.int64), shape).reshape(-1),
            np.broadcast_to(np.asarray(valid, dtype=bool), shape).reshape(-1),
        )

    def live(self, step: Step, frame: Frame) -> NDArray[np.bool_]:
        """The points at which a step's masks hold and all its indices mean something."""
        found = np.ones(prod(count for _, count in frame.ranges.values()), dtype=bool)
        for mask in step.masks:
            value, valid = self.spread(frame, mask.expr)
            found &= (value >= 0) & valid
        for edge in step.rule.rhs.edges:
            if edge.label in self.grammar.factor:
                continue
            for index, low, extent in zip(*self.storage(step, edge), strict=True):
                value, valid = self.spread(frame, index)
                found &= valid & (value >= low) & (value < low + extent)
        for clamp in step.rule.rhs.clamps:
            own = self.scope.batch.tokens[clamp.input]
            for axis, expr in enumerate(clamp.indices):
                value, valid = self.spread(frame, expr.substitute(step.variables))
                found &= valid & (value >= 0) & (value < own.shape[axis + 1])
        return found

    def storage(
        self, step: Step, edge: Edge
    ) -> tuple[list[Expr], tuple[int, ...], tuple[int, ...]]:
        """An edge's stored indices over the loops, and where its storage begins and how far."""
        indices = [index.substitute(step.variables) for index in edge.indices]
        if edge.label in self.grammar.nonterminal:
            stored = self.plan.chart[edge.label].stored
            indices = [indices[i] for i in stored]
            low = self.charts.low[edge.label]
            return indices, low, self.array(edge.label).shape[: len(low)]
        array = self.array(self.potentials[edge.label])
        return indices, (0,) * len(indices), array.shape[: len(indices)]

    def edge(
        self,
        step: Step,
        edge: Edge,
        frame: Frame,
        live: NDArray[np.bool_],
        fixed: Mapping[str, int],
    ) -> Floats:
        """An edge's log-weights `[points, *nodes that are not fixed]`; repeated nodes stay."""
        states = tuple(fixed.get(name, slice(None)) for name in _nodes(edge))
        if edge.label in self.grammar.factor:
            return np.asarray(self.array(edge.label)[states])[None]
        indices, low, _ = self.storage(step, edge)
        name = self.potentials.get(edge.label, edge.label)
        index = tuple(
            self.spread(frame, expr)[0][live] - first
            for expr, first in zip(indices, low, strict=True)
        )
        item = np.full(int(live.sum()), self.item)
        return self.array(name)[(*index, item, *states)]

    def evidence(
        self, step: Step, clamp: Clamp, frame: Frame, live: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """The token of a clamp at each point."""
        own = tokens(self.grammar, self.scope.batch, clamp.input, clamp.path)
        index = tuple(
            self.spread(frame, expr.substitute(step.variables))[0][live] for expr in clamp.indices
        )
        return np.asarray(own[(np.zeros(int(live.sum()), dtype=int), *index)])

    def indicator(self, step: Step, node: str, found: NDArray[np.int64]) -> Floats:
        """Evidence as log-weights `[points, values of the node]`."""
        size = domain_size(self.grammar, step.rule.rhs.by_name[node].domain)
        agrees = (found[:, None] == np.arange(size)) | (found[:, None] == -1)
        return np.where(agrees, 0.0, -np.inf)

    # a choice

    def evaluate(self, choice: Choice, expr: Expr) -> int:
        """An index expression of a chosen rule."""
        value = expr.evaluate({**self.known, **choice.variables}, self.look_up)
        assert value is not None, "a choice has indices that mean something"
        return value

    def look_up(self, table: str, position: tuple[int, ...]) -> int | None:
        """An entry of a look-up table, or None outside it."""
        own = self.scope.batch.tables[table][0]
        extents = [e.evaluate(self.known) or 0 for e in self.grammar.table[table].shape]
        if any(not 0 <= i < n for i, n in zip(position, extents, strict=True)):
            return None
        return int(own[position])

    def children(self, choice: Choice) -> list[Cell]:
        """The cells that a chosen rule goes on with."""
        return [
            Cell(
                edge.label,
                tuple(self.evaluate(choice, index) for index in edge.indices),
                tuple(choice.values[name] for name in _nodes(edge)),
            )
            for edge in choice.step.rule.rhs.edges
            if edge.label in self.grammar.nonterminal
        ]

    def edge_weight(self, choice: Choice) -> float:
        """The log-weight of a chosen rule's factors."""
        total = 0.0
        for edge in choice.step.rule.rhs.edges:
            states = tuple(choice.values[name] for name in _nodes(edge))
            if edge.label in self.grammar.factor:
                total += float(self.array(edge.label)[states])
            elif edge.label in self.potentials:
                index = tuple(self.evaluate(choice, i) for i in edge.indices)
                array = self.array(self.potentials[edge.label])
                total += float(array[(*index, self.item, *states)])
        return total


def _nodes(edge: Edge) -> tuple[str, ...]:
    return tuple(a.node for a in edge.attachments)


def _aligned(
    array: Floats, names: Sequence[str], fixed: Mapping[str, int], inner: Sequence[str]
) -> Any:
    """An array `[points, *nodes that are not fixed]` with an axis for each inner node."""
    left = tuple(name for name in names if name not in fixed)
    if len(array.shape) > 1 + len(left):  # an indicator of a node that was fixed later
        array = array[(slice(None), *(fixed.get(name, slice(None)) for name in names))]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(left), 1)}
    array, letters = diagonal(array, (0, *(numbers[name] for name in left)))
    present = [name for name in inner if name in numbers]
    array = array.transpose([letters.index(0), *(letters.index(numbers[n]) for n in present)])
    extents = iter(array.shape[1:])
    return array.reshape((array.shape[0], *(next(extents) if n in numbers else 1 for n in inner)))


def _too_many(step: Step, count: int) -> Diagnostic:
    return Diagnostic(
        code="F420",
        message=f"rule `{step.rule.name}` has {count:,} assignments of its inner nodes and splits",
        help="factorise the grammar first, so that its fragments are small",
    )
