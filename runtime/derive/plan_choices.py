"""The choices of a plan's charts: every rule, split and assignment, for the cells of one item."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.grammar.provenance import is_added
from fgg.inputs.tokens import MISSING
from fgg.plan import Step
from fgg.runtime.derive.cell_index import (
    ClampIndex,
    EdgeIndex,
    LookedUpPoints,
    LooksUp,
    Numbers,
    Points,
    StepIndex,
    function_of,
)
from fgg.runtime.derive.choices import (
    Cell,
    CellChoices,
    Choice,
    Floats,
    Ints,
    RuleChoices,
    aligned,
    check_count,
)
from fgg.runtime.interpret.charts import AnyCharts
from fgg.runtime.interpret.frame import Frame, Scope
from fgg.runtime.interpret.prepare import tokens
from fgg.runtime.interpret.semirings.base import to_numpy

CACHED_BYTES = 2**28
"""The size of the cache of choices of each item."""

MAX_TIES = 512
"""At most this many choices of equal weight are put in order."""

TieKey = Callable[[Choice], tuple[object, ...]]
"""The key that orders choices of equal weight."""


class BatchSteps:
    """The data that the items of a batch share: arrays as logarithms, index arithmetic of steps.

    `tie_key` orders choices of equal weight; without one the first is the best. Log-weights that
    differ by no more than `rounding`, relative to the greatest, count as equal.
    """

    def __init__(
        self, charts: AnyCharts, *, tie_key: TieKey | None = None, rounding: float = 0.0
    ) -> None:
        self.charts = charts
        self.tie_key = tie_key
        self.rounding = rounding
        self.arrays: dict[str, Floats] = {}
        self.levels: dict[str, Expr] = {}
        self.of_family: dict[str, list[StepIndex]] = {}
        self.of_rule: dict[str, StepIndex] = {}
        for stage in charts.plan.stages:
            self.levels.update(stage.level)
            for step in stage.steps:
                index = StepIndex(charts, step, stage.level.get(step.head))
                self.of_family.setdefault(step.head, []).append(index)
                self.of_rule[step.rule.name] = index

    def array(self, name: str) -> Floats:
        """A parameter, a table or a chart as logarithms."""
        if name not in self.arrays:
            array = self.charts.arrays.get(name)
            if array is None:
                array = self.charts.prepared.arrays[name]
            self.arrays[name] = to_numpy(array).astype(float)
        return self.arrays[name]


class PlanChoices:
    """The cells of one item, with values in `log` or `max`."""

    def __init__(self, steps: BatchSteps, item: int) -> None:
        self.steps = steps
        self.charts = steps.charts
        self.plan = steps.charts.plan
        self.grammar = self.plan.grammar
        self.item = item
        self.scope = Scope(self.plan, self.charts.batch.item(item))
        self.lengths = {n: int(v[0]) for n, v in self.scope.batch.lengths.items()}
        self.known = {**self.scope.known, **self.lengths}
        self._tokens: dict[tuple[str, tuple[str, ...]], Ints] = {}
        self._positions: dict[tuple[int, int], dict[tuple[int, ...], tuple[int, ...]]] = {}
        self._choices: OrderedDict[Cell, CellChoices] = OrderedDict()
        self._bytes = 0

    @property
    def given(self) -> Mapping[str, NDArray[np.int64]]:
        """The tokens and tables of the item."""
        batch = self.scope.batch
        return {name: array[0] for name, array in (*batch.tokens.items(), *batch.tables.items())}

    @cached_property
    def start(self) -> list[Cell]:
        """The cells of the user's start symbol.

        If the plan's has been added in order to sum over its nodes, they are the cells below it.
        """
        start = self.grammar.start
        indices = tuple(int(i.evaluate(self.known) or 0) for i in start.indices)
        domains = self.grammar.nonterminal[start.label].domains
        sizes = [domain_size(self.grammar, d) for d in domains]
        cells = [Cell(start.label, indices, values) for values in np.ndindex(*sizes)]
        if not is_added(self.grammar, start.label):
            return cells
        (added,) = cells
        ways = self.at(added)
        below = [self.children(ways.decode(int(number)))[0] for number in np.sort(ways.ranked())]
        return below or cells

    def place(self, cell: Cell) -> list[int]:
        """Where a cell stands in its chart."""
        stored = self.plan.chart[cell.family].stored
        low = self.charts.low[cell.family]
        return [cell.indices[i] - first for i, first in zip(stored, low, strict=True)]

    def inside(self, cell: Cell) -> float:
        """The log-value of a cell."""
        if cell.family not in self.plan.chart:
            return -np.inf
        array = self.steps.array(cell.family)
        index = self.place(cell)
        if any(not 0 <= i < n for i, n in zip(index, array.shape, strict=False)):
            return -np.inf
        return float(array[(*index, self.item, *cell.values)])

    def at(self, cell: Cell) -> CellChoices:
        """All ways to rewrite a cell; those of recent cells are cached."""
        if cell in self._choices:
            self._choices.move_to_end(cell)
            return self._choices[cell]
        parts = [self._of_step(step, cell) for step in self.steps.of_family.get(cell.family, ())]
        ways = CellChoices(cell, tuple(part for part in parts if part is not None))
        self._choices[cell] = ways
        self._bytes += ways.scores.nbytes
        while self._bytes > CACHED_BYTES and len(self._choices) > 1:
            _, old = self._choices.popitem(last=False)
            self._bytes -= old.scores.nbytes
        return ways

    def best(self, ways: CellChoices) -> int:
        """The number of a cell's best choice; the first by `tie_key` under ties."""
        scores, key = ways.scores, self.steps.tie_key
        best = int(scores.argmax())
        if key is None:
            return best
        ties = np.flatnonzero(
            scores >= scores[best] - self.steps.rounding * (1.0 + abs(scores[best]))
        )
        if 1 < len(ties) <= MAX_TIES:
            return min(ties.tolist(), key=lambda number: key(ways.decode(number)))
        return best

    def ranked(self, ways: CellChoices) -> NDArray[np.intp]:
        """The numbers of a cell's choices of weight other than 0, best first."""
        return ways.ranked()

    def children(self, choice: Choice) -> list[Cell]:
        """The cells that a choice goes on with."""
        return [
            Cell(
                edge.label,
                tuple([self.evaluate(choice, index) for index in edge.indices]),
                tuple([choice.values[name] for name in nodes]),
            )
            for edge, nodes in self.steps.of_rule[choice.rule.name].children
        ]

    def edge_weight(self, choice: Choice) -> float:
        """The log-weight of a choice's factors."""
        total = 0.0
        for edge in self.steps.of_rule[choice.rule.name].edges:
            states = tuple(choice.values[name] for name in edge.nodes)
            if edge.place is None:
                total += float(self.steps.array(edge.array)[states])
            elif edge.edge.label in self.grammar.input_factor:
                index = tuple(self.evaluate(choice, i) for i in edge.edge.indices)
                total += float(self.steps.array(edge.array)[(*index, self.item, *states)])
        return total

    def evaluate(self, choice: Choice, expr: Expr) -> int:
        """An index expression of a chosen rule."""
        values = {**self.known, **choice.variables}
        try:
            return function_of(expr)(values)
        except LooksUp:
            value = expr.evaluate(values, self._look_up)
            assert value is not None, "the indices of a choice have values"
            return value

    def _look_up(self, table: str, position: tuple[int, ...]) -> int | None:
        """An entry of a look-up table, or None outside it."""
        entries = self.scope.batch.tables[table][0]
        extents = [e.evaluate(self.known) or 0 for e in self.grammar.table[table].shape]
        if any(not 0 <= i < n for i, n in zip(position, extents, strict=True)):
            return None
        return int(entries[position])

    # the choices of one step

    def _of_step(self, step: StepIndex, cell: Cell) -> RuleChoices | None:
        """The ways in which a step rewrites a cell, if any."""
        fixed: dict[str, int] = {}
        for name, value in zip(step.step.head_axes, cell.values, strict=True):
            if fixed.setdefault(name, value) != value:
                return None  # a node that is external twice has one value
        points: Points | None = (
            step.points(self.known, cell.indices)
            if step.is_fast
            else self._looked_up_points(step, cell)
        )
        if points is None:
            return None
        operands: list[tuple[Floats, tuple[str, ...]]] = []
        seen: dict[str, Ints] = {}
        for clamp in step.clamps:
            evidence = self._evidence(clamp, points).reshape(-1)
            name = clamp.clamp.attachment.node
            first = int(evidence[0])
            if name in seen:
                operands.append((_agreement(evidence, seen[name]), ()))
            elif first != MISSING and (evidence.size == 1 or bool((evidence == first).all())):
                if first < 0 or fixed.setdefault(name, first) != first:
                    return None
            elif bool((evidence == MISSING).any()):
                operands.append((_indicator(step.sizes[name], evidence), (name,)))
            elif name in fixed:
                operands.append((_agreement(evidence, np.full_like(evidence, fixed[name])), ()))
            else:
                # Its value depends on the point alone: no axis for it.
                operands.append((np.where(evidence < 0, -np.inf, 0.0), ()))
                seen[name] = evidence.clip(min=0)
        for edge in step.edges:
            nodes = tuple(name for name in edge.nodes if name not in seen)
            operands.append((self._edge(edge, points, fixed, seen), nodes))
        inner = tuple(name for name in step.sizes if name not in fixed and name not in seen)
        shape = (points.count, *(step.sizes[name] for name in inner))
        rule = step.step.rule
        check_count(rule, prod(shape), "assignments of its inner nodes and splits")
        total = np.zeros(shape)
        for array, names in operands:
            total += aligned(array, names, fixed, inner)
        variables = {name: points.at(index) for name, index in step.variables.items()}
        return RuleChoices(rule, fixed, inner, total, variables, seen)

    def _edge(
        self,
        edge: EdgeIndex,
        points: Points,
        fixed: Mapping[str, int],
        seen: Mapping[str, Ints],
    ) -> Floats:
        """An edge's log-weights `[points, *nodes neither fixed nor seen]`; repeated nodes stay."""
        array = self.steps.array(edge.array)
        if any(name in seen for name in edge.nodes):
            return self._edge_seen(edge, points, {**fixed, **seen})
        states = tuple(fixed.get(name, slice(None)) for name in edge.nodes)
        if edge.place is None:
            return np.asarray(array[states])[None]
        index = edge.place.at(points)
        values = np.asarray(array[(*index, self.item, *states)])
        # Without an array among the indices there is no axis of points.
        return values if any(isinstance(i, np.ndarray) for i in index) else values[None]

    def _edge_seen(self, edge: EdgeIndex, points: Points, known: Mapping[str, Numbers]) -> Floats:
        """The same for an edge with nodes whose values depend on the point."""
        array = self.steps.array(edge.array)
        key = [] if edge.place is None else [*edge.place.at(points), self.item]
        front = len(key)
        first = [i for i, name in enumerate(edge.nodes, front) if name in known]
        rest = [i for i, name in enumerate(edge.nodes, front) if name not in known]
        key += [known[edge.nodes[i - front]] for i in first]
        return np.asarray(array.transpose([*range(front), *first, *rest])[tuple(key)])

    def _evidence(self, clamp: ClampIndex, points: Points) -> Ints:
        """The token of a clamp at each point, or a single one for all."""
        key = (clamp.clamp.input, clamp.clamp.path)
        if key not in self._tokens:
            self._tokens[key] = tokens(self.grammar, self.scope.batch, *key)[0]
        return np.asarray(self._tokens[key][clamp.place.at(points)])

    # steps that look up tables

    def _looked_up_points(self, step: StepIndex, cell: Cell) -> LookedUpPoints | None:
        """The points of a step whose expressions have no functions."""
        frame = self._frame(step.step, cell)
        if frame is None:
            return None
        live = _live(step, frame)
        if not live.any():
            return None
        values = {i.expr: _spread(frame, i.expr)[0][live] for i in step.indices}
        return LookedUpPoints(values, int(live.sum()))

    def _frame(self, step: Step, cell: Cell) -> Frame | None:
        """The points of a step at which its head is a cell: one position, all splits."""
        family = self.grammar.nonterminal[cell.family]
        indices = dict(zip(family.indices, cell.indices, strict=True))
        level = 0
        if cell.family in self.steps.levels:
            level = int(self.steps.levels[cell.family].evaluate({**self.known, **indices}) or 0)
        whole = self.scope.frame(step, level)
        if whole is None:
            return None
        key = (id(step), level)
        if key not in self._positions:
            self._positions[key] = self._positions_of_heads(step, whole)
        stored = self.plan.chart[cell.family].stored
        position = self._positions[key].get(tuple(cell.indices[i] for i in stored))
        if position is None:
            return None
        ranges = dict(whole.ranges)
        for loop, value in zip(step.positions, position, strict=True):
            ranges[loop.name] = (value, 1)
        return Frame(self.scope, ranges, level)

    def _positions_of_heads(
        self, step: Step, frame: Frame
    ) -> dict[tuple[int, ...], tuple[int, ...]]:
        """For each head that a step has on a level, the position at which it has it."""
        ranges = {loop.name: frame.ranges[loop.name] for loop in step.positions}
        inner = Frame(self.scope, ranges, frame.level)
        heads = [_spread(inner, expr)[0].tolist() for expr in step.head_index]
        loops = [_spread(inner, Expr.of(name))[0].tolist() for name in ranges]
        count = prod(length for _, length in ranges.values())
        return {
            tuple(head[i] for head in heads): tuple(loop[i] for loop in loops) for i in range(count)
        }


def _spread(frame: Frame, expr: Expr) -> tuple[Ints, NDArray[np.bool_]]:
    """An expression at all points of a frame in order, and where it means anything."""
    shape = [count for _, count in frame.ranges.values()] + [1]
    value, valid = frame.evaluate(expr)
    return (
        np.broadcast_to(np.asarray(value, dtype=np.int64), shape).reshape(-1),
        np.broadcast_to(np.asarray(valid, dtype=bool), shape).reshape(-1),
    )


def _live(step: StepIndex, frame: Frame) -> NDArray[np.bool_]:
    """The points at which a step's masks hold and all its indices lie in their storage."""
    live = np.ones(prod(count for _, count in frame.ranges.values()), dtype=bool)
    for mask in step.step.masks:
        value, valid = _spread(frame, mask.expr)
        live &= (value >= 0) & valid
    for place in step.places:
        for index, low, extent in zip(place.indices, place.low, place.extents, strict=True):
            value, valid = _spread(frame, index.expr)
            live &= valid & (value >= low) & (value < low + extent)
    return live


def _agreement(one: Ints, two: Ints) -> Floats:
    """Log-weights `[points]`: 0 where the token `one` is `two` or missing, else -inf."""
    return np.where((one == two) | (one == MISSING), 0.0, -np.inf)


def _indicator(size: int, evidence: Ints) -> Floats:
    """Evidence as log-weights `[points, values of the node]`."""
    agrees = (evidence[:, None] == np.arange(size)) | (evidence[:, None] == MISSING)
    return np.where(agrees, 0.0, -np.inf)
