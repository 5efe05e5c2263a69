"""The ways to go on from a cell of a plan's charts: every rule, split and assignment."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.inputs.given import MISSING
from fgg.plan import Step
from fgg.runtime.derive.choices import Cell, Choice, Choices, Floats, Part
from fgg.runtime.derive.ground_choices import MAX_CHOICES
from fgg.runtime.derive.step_code import ClampCode, EdgeCode, Looked, Points, StepCode, function_of
from fgg.runtime.interpret.charts import AnyCharts
from fgg.runtime.interpret.frame import Frame, Scope
from fgg.runtime.interpret.prepare import tokens
from fgg.runtime.interpret.semirings.base import to_numpy
from fgg.runtime.reference.chart import diagonal

CACHED_BYTES = 2**28
"""How much of the choices of cells is remembered for each item."""


class Shared:
    """What the items of a batch have in common: logarithms, and the index arithmetic of steps."""

    def __init__(self, charts: AnyCharts) -> None:
        self.charts = charts
        self.arrays: dict[str, Floats] = {}
        self.codes: dict[str, list[StepCode]] = {}
        self.levels: dict[str, Expr] = {}
        self.code: dict[str, StepCode] = {}
        for stage in charts.plan.stages:
            self.levels.update(stage.level)
            for step in stage.steps:
                code = StepCode(charts, step, stage.level.get(step.head))
                self.codes.setdefault(step.head, []).append(code)
                self.code[step.rule.name] = code

    def array(self, name: str) -> Floats:
        """A parameter, a table or a chart as logarithms."""
        if name not in self.arrays:
            found = self.charts.arrays.get(name)
            if found is None:
                found = self.charts.prepared.arrays[name]
            self.arrays[name] = to_numpy(found).astype(float)
        return self.arrays[name]


class Cells:
    """The cells of one item, with values in `log` or `max`."""

    def __init__(self, shared: Shared, item: int) -> None:
        self.shared = shared
        self.charts = shared.charts
        self.plan = shared.charts.plan
        self.grammar = self.plan.grammar
        self.item = item
        self.scope = Scope(self.plan, self.charts.batch.item(item))
        self.lengths = {n: int(v[0]) for n, v in self.scope.batch.lengths.items()}
        self.known = {**self.scope.known, **self.lengths}
        self._tokens: dict[tuple[str, tuple[str, ...]], NDArray[np.int64]] = {}
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
        return self.shared.array(name)

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
        parts = [self.part(code, cell) for code in self.shared.codes.get(cell.family, ())]
        found = Choices(tuple(part for part in parts if part is not None))
        self._choices[cell] = found
        self._bytes += found.scores.nbytes
        while self._bytes > CACHED_BYTES and len(self._choices) > 1:
            _, old = self._choices.popitem(last=False)
            self._bytes -= old.scores.nbytes
        return found

    # one step

    def part(self, code: StepCode, cell: Cell) -> Part | None:
        """What a step offers a cell."""
        step = code.step
        fixed: dict[str, int] = {}
        for name, value in zip(step.head_axes, cell.values, strict=True):
            if fixed.setdefault(name, value) != value:
                return None  # a node that is external twice has one value
        points = code.points(self.known, cell.indices) if code.is_fast else self.looked(code, cell)
        if points is None:
            return None
        operands: list[tuple[Floats, tuple[str, ...]]] = []
        seen: dict[str, NDArray[np.int64]] = {}
        for clamp in code.clamps:
            found = self.evidence(clamp, points).reshape(-1)
            name = clamp.clamp.attachment.node
            first = int(found[0])
            if name in seen:
                operands.append((_agreement(found, seen[name]), ()))
            elif first != MISSING and (found.size == 1 or bool((found == first).all())):
                if first < 0 or fixed.setdefault(name, first) != first:
                    return None
            elif bool((found == MISSING).any()):
                operands.append((_indicator(code.sizes[name], found), (name,)))
            elif name in fixed:
                operands.append((_agreement(found, np.full_like(found, fixed[name])), ()))
            else:
                # Its value depends on the point alone: no axis for it.
                operands.append((np.where(found < 0, -np.inf, 0.0), ()))
                seen[name] = found.clip(min=0)
        for edge in code.edges:
            nodes = tuple(name for name in edge.nodes if name not in seen)
            operands.append((self.edge(edge, points, fixed, seen), nodes))
        inner = tuple(name for name in code.sizes if name not in fixed and name not in seen)
        shape = (points.count, *(code.sizes[name] for name in inner))
        if prod(shape) > MAX_CHOICES:
            raise GrammarError([_too_many(step, prod(shape))])
        total = np.zeros(shape)
        for array, names in operands:
            total += aligned(array, names, fixed, inner)
        variables = {name: points.at(index) for name, index in code.variables.items()}
        return Part(step, variables, fixed, inner, total, seen)

    def edge(
        self,
        edge: EdgeCode,
        points: Points,
        fixed: Mapping[str, int],
        seen: Mapping[str, NDArray[np.int64]],
    ) -> Floats:
        """An edge's log-weights `[points, *nodes that are not known]`; repeated nodes stay."""
        array = self.array(edge.array)
        if any(name in seen for name in edge.nodes):
            return self.edge_seen(edge, points, {**fixed, **seen})
        states = tuple(fixed.get(name, slice(None)) for name in edge.nodes)
        if edge.place is None:
            return np.asarray(array[states])[None]
        index = edge.place.index(points)
        found = array[(*index, self.item, *states)]
        # Without an array among the indices there is no axis of points.
        return found if any(isinstance(i, np.ndarray) for i in index) else np.asarray(found)[None]

    def edge_seen(self, edge: EdgeCode, points: Points, known: Mapping[str, Any]) -> Floats:
        """The same for an edge with nodes whose values depend on the point."""
        array = self.array(edge.array)
        front = 0 if edge.place is None else len(edge.place.indices) + 1
        key: list[Any] = [] if edge.place is None else [*edge.place.index(points), self.item]
        first = [i for i, name in enumerate(edge.nodes, front) if name in known]
        rest = [i for i, name in enumerate(edge.nodes, front) if name not in known]
        key += [known[edge.nodes[i - front]] for i in first]
        found: Floats = array.transpose([*range(front), *first, *rest])[tuple(key)]
        return found

    def evidence(self, clamp: ClampCode, points: Points) -> NDArray[np.int64]:
        """The token of a clamp at each point, or a single one for all."""
        key = (clamp.clamp.input, clamp.clamp.path)
        if key not in self._tokens:
            self._tokens[key] = tokens(self.grammar, self.scope.batch, *key)[0]
        return np.asarray(self._tokens[key][clamp.place.index(points)])

    # steps that look up tables

    def looked(self, code: StepCode, cell: Cell) -> Points | None:
        """The points of a step whose expressions have no functions."""
        frame = self.frame(code.step, cell)
        if frame is None:
            return None
        live = self.live(code, frame)
        if not live.any():
            return None
        values = {i.expr: self.spread(frame, i.expr)[0][live] for i in code.indices}
        return Points(values, int(live.sum()), by_name=False)

    def frame(self, step: Step, cell: Cell) -> Frame | None:
        """The points of a step at which its head is a cell: one position, all splits."""
        family = self.grammar.nonterminal[cell.family]
        own = dict(zip(family.indices, cell.indices, strict=True))
        level = 0
        if cell.family in self.shared.levels:
            level = int(self.shared.levels[cell.family].evaluate({**self.known, **own}) or 0)
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

    def live(self, code: StepCode, frame: Frame) -> NDArray[np.bool_]:
        """The points at which a step's masks hold and all its indices mean something."""
        found = np.ones(prod(count for _, count in frame.ranges.values()), dtype=bool)
        for mask in code.step.masks:
            value, valid = self.spread(frame, mask.expr)
            found &= (value >= 0) & valid
        for place in code.places:
            for index, low, extent in zip(place.indices, place.low, place.extents, strict=True):
                value, valid = self.spread(frame, index.expr)
                found &= valid & (value >= low) & (value < low + extent)
        return found

    # a choice

    def evaluate(self, choice: Choice, expr: Expr) -> int:
        """An index expression of a chosen rule."""
        values = {**self.known, **choice.variables}
        try:
            found: int = function_of(expr)(values)
            return found
        except Looked:
            value = expr.evaluate(values, self.look_up)
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
                tuple(choice.values[name] for name in nodes),
            )
            for edge, nodes in self.shared.code[choice.step.rule.name].children
        ]

    def count(self, choice: Choice) -> int:
        """How many cells a chosen rule goes on with."""
        return len(self.shared.code[choice.step.rule.name].children)

    def edge_weight(self, choice: Choice) -> float:
        """The log-weight of a chosen rule's factors."""
        total = 0.0
        for code in self.shared.code[choice.step.rule.name].edges:
            states = tuple(choice.values[name] for name in code.nodes)
            if code.place is None:
                total += float(self.array(code.array)[states])
            elif code.edge.label in self.grammar.input_factor:
                index = tuple(self.evaluate(choice, i) for i in code.edge.indices)
                total += float(self.array(code.array)[(*index, self.item, *states)])
        return total


def _agreement(one: NDArray[np.int64], two: NDArray[np.int64]) -> Floats:
    """Log-weights `[points]` of tokens that agree, or are missing."""
    return np.where((one == two) | (one == MISSING), 0.0, -np.inf)


def _indicator(size: int, found: NDArray[np.int64]) -> Floats:
    """Evidence as log-weights `[points, values of the node]`."""
    agrees = (found[:, None] == np.arange(size)) | (found[:, None] == MISSING)
    return np.where(agrees, 0.0, -np.inf)


def aligned(
    array: Floats, names: Sequence[str], fixed: Mapping[str, int], inner: Sequence[str]
) -> Any:
    """An array `[points, *nodes that are not fixed]` with an axis for each inner node."""
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


def _too_many(step: Step, count: int) -> Diagnostic:
    return Diagnostic(
        code="F420",
        message=f"rule `{step.rule.name}` has {count:,} assignments of its inner nodes and splits",
        help="factorise the grammar first, so that its fragments are small",
    )
