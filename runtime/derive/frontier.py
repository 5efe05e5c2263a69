"""The best derivations of all items of a batch at once, from charts without states.

`fgg.runtime.derive.search` follows one item from cell to cell. Here the cells of all items that
have the same depth are rewritten together: one array operation looks at all splits of all of them.
It is the same search, with the same order among ties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.grammar.domains import size_values
from fgg.inputs.tokens import MISSING
from fgg.plan import HIGH, LEVEL, LOW
from fgg.runtime.derive.assemble import Source
from fgg.runtime.derive.cell_index import Ends, StepIndex, StorageIndex, function_of
from fgg.runtime.derive.choices import Cell, Choice, Floats, Ints
from fgg.runtime.derive.plan_choices import BatchSteps
from fgg.runtime.derive.search import Applied, Path
from fgg.runtime.interpret.charts import AnyCharts
from fgg.runtime.interpret.prepare import tokens

Truths = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Frontier:
    """Cells of one family to be rewritten, of any items: `items` [cells], `indices` [cells, d]."""

    family: str
    items: Ints
    indices: Ints
    # The numbers of the applied rules that go on with them, and which of their children they are.
    parents: Ints
    places: Ints

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, eq=False)
class Ways:
    """How one step rewrites the cells of a frontier.

    `scores` are `[cells, points]`, -inf where the step does not apply; `variables` are the values
    of the rule's index variables and `seen` those of its observed nodes, of the same shape.
    """

    step: StepIndex
    scores: Floats
    variables: Mapping[str, Ints]
    seen: Mapping[str, Ints]


@dataclass(frozen=True, eq=False)
class Chosen:
    """Cells of a frontier that one step rewrites, and the point of each."""

    step: StepIndex
    cells: Frontier
    variables: Mapping[str, Ints]
    seen: Mapping[str, Ints]
    # The number of the first one among all applied rules.
    first: int


class BatchSearch:
    """The search for the best derivation of every item of a batch at once."""

    def __init__(self, steps: BatchSteps, source: Source) -> None:
        self.steps = steps
        self.charts: AnyCharts = steps.charts
        self.plan = steps.charts.plan
        self.batch = steps.charts.batch
        self.order = {
            name: source.order.get(source.origin(step.step.rule).rule, 0)
            for name, step in steps.of_rule.items()
        }
        sizes = size_values(self.plan.grammar)
        self.known: dict[str, Any] = {**sizes, **self.batch.lengths}
        for name, values in self.batch.lengths.items():
            # Each item has bounds of its own, as in a batch of one.
            self.known |= {name + LOW: values, name + HIGH: values}
        self.tokens = {
            (clamp.clamp.input, clamp.clamp.path): tokens(
                self.plan.grammar, self.batch, clamp.clamp.input, clamp.clamp.path
            )
            for step in steps.of_rule.values()
            for clamp in step.clamps
        }

    def is_possible(self) -> bool:
        """Whether the choices of a cell are its splits alone: no states, no token missing."""
        if any(chart.states for chart in self.plan.charts):
            return False
        if any(bool((array == MISSING).any()) for array in self.tokens.values()):
            return False
        return all(
            step.is_fast
            and {name for edge in step.edges for name in edge.nodes}
            <= {clamp.clamp.attachment.node for clamp in step.clamps}
            and all(edge.place is not None for edge in step.edges)
            and not any(clamp.clamp.attachment.path for clamp in step.clamps)
            for step in self.steps.of_rule.values()
        )

    def paths(self) -> list[Path]:
        """The best derivation of each item. Requires that each item has one."""
        chosen: list[Chosen] = []
        total = 0
        waiting = [self.start()]
        while waiting:
            below: list[Frontier] = []
            for frontier in _joined(waiting):
                for part in self.rewritten(frontier, total):
                    chosen.append(part)
                    total += len(part.cells)
                    below += self.children(part)
            waiting = below
        return self.assembled(chosen, total)

    def start(self) -> Frontier:
        """The cell of the start symbol of each item."""
        start, size = self.plan.grammar.start, self.batch.size
        columns = [_spread(function_of(i)(self.known), size) for i in start.indices]
        indices = np.stack(columns, 1) if columns else np.zeros((size, 0), dtype=np.int64)
        none = np.full(size, -1)
        return Frontier(start.label, np.arange(size), indices, none, none)

    def rewritten(self, frontier: Frontier, first: int) -> list[Chosen]:
        """The cells of a frontier by the step that is best for them."""
        steps = self.steps.of_family.get(frontier.family, ())
        ways = [way for step in steps if (way := self.ways(step, frontier)) is not None]
        assert ways, "cells of weight other than 0 can be rewritten"
        ends = np.cumsum([0, *(way.scores.shape[1] for way in ways)])
        best = self.best(ways)
        which = np.searchsorted(ends, best, side="right") - 1
        parts = []
        for number, way in enumerate(ways):
            rows = np.flatnonzero(which == number)
            if not len(rows):
                continue
            points = best[rows] - ends[number]
            cells = Frontier(
                frontier.family,
                frontier.items[rows],
                frontier.indices[rows],
                frontier.parents[rows],
                frontier.places[rows],
            )
            at = {name: array[rows, points] for name, array in way.variables.items()}
            seen = {name: array[rows, points] for name, array in way.seen.items()}
            parts.append(Chosen(way.step, cells, at, seen, first))
            first += len(rows)
        return parts

    def best(self, ways: Sequence[Ways]) -> Ints:
        """The number of the best choice of each cell, over all points of all steps, `[cells]`.

        Among ties it is the first by rule, then by the values of the rule's index variables.
        """
        scores = np.concatenate([way.scores for way in ways], 1)
        top = scores.max(1, keepdims=True)
        ties = scores >= top - self.steps.rounding * (1.0 + np.abs(top))
        rows, columns = ties.nonzero()
        if len(rows) == len(scores):
            return np.asarray(columns)
        ends = np.cumsum([0, *(way.scores.shape[1] for way in ways)])
        most = max(len(way.variables) for way in ways)
        keys = np.zeros((2 + most, len(rows)), dtype=np.int64)
        keys[0] = rows
        which = np.searchsorted(ends, columns, side="right") - 1
        for number, way in enumerate(ways):
            tied = np.flatnonzero(which == number)
            keys[1, tied] = self.order[way.step.step.rule.name]
            for place, array in enumerate(way.variables.values(), 2):
                keys[place, tied] = array[rows[tied], columns[tied] - ends[number]]
        order = np.lexsort(keys[::-1])
        firsts = np.unique(rows[order], return_index=True)[1]
        return np.asarray(columns[order[firsts]])

    def ways(self, step: StepIndex, frontier: Frontier) -> Ways | None:
        """How a step rewrites the cells of a frontier; None if it applies to none of them."""
        assert step.solved is not None
        items = frontier.items[:, None]
        values: dict[str, Any] = {
            name: value[items] if isinstance(value, np.ndarray) else value
            for name, value in self.known.items()
        }
        values.update(zip(step.family, frontier.indices.T[:, :, None], strict=True))
        values[LEVEL] = 0 if step.level is None else step.level(values)
        alive: Truths = np.ones((len(frontier), 1), dtype=bool)
        for guard in step.guards:
            alive &= guard(values) >= 0
        for name, axis, coefficient, rest in step.solved:
            known = frontier.indices[:, step.stored[axis], None]
            values[name] = (known - rest(values)) // coefficient
        for name, low, high in step.loops:
            alive &= (values[name] >= _low(low, values)) & (values[name] <= _high(high, values))
        for axis, head in zip(step.stored, step.heads, strict=True):
            alive &= frontier.indices[:, axis, None] == head(values)
        if not alive.any():
            return None
        alive = self.split(step, values, alive)
        for mask in step.masks:
            alive = alive & (mask(values) >= 0)
        for storage in step.places:
            alive = alive & storage.inside(values)
        if not alive.any():
            return None
        shape = alive.shape
        scores = np.zeros(shape)
        seen: dict[str, Ints] = {}
        for clamp in step.clamps:
            array = self.tokens[clamp.clamp.input, clamp.clamp.path]
            if 0 in array.shape:
                return None
            place = _place(clamp.place, array.shape[1:], values)
            token = np.broadcast_to(array[(items, *place)], shape)
            node = clamp.clamp.attachment.node
            alive = alive & (token >= 0) & (token == seen.get(node, token))
            seen[node] = token.clip(min=0)
        for edge in step.edges:
            assert edge.place is not None
            weights = self.steps.array(edge.array)
            extents = weights.shape[: len(edge.place.indices)]
            if 0 in extents:
                return None
            place = _place(edge.place, extents, values)
            states = (seen[name] for name in edge.nodes)
            scores = scores + weights[(*place, items, *states)]
        variables = {
            name: _spread(index.function(values), shape) for name, index in step.variables.items()
        }
        return Ways(step, np.where(alive, scores, -np.inf), variables, seen)

    def split(self, step: StepIndex, values: dict[str, Any], alive: Truths) -> Truths:
        """Put all splits of a step into `values`; returns which points are alive."""
        counts, lows = [], []
        for _, low, high in step.splits:
            first, last = _low(low, values), _high(high, values)
            lows.append(_spread(first, alive.shape))
            counts.append(np.where(alive, last - first + 1, 0))
        extents = [max(int(count.max()), 1) for count in counts]
        grids = np.meshgrid(*map(np.arange, extents), indexing="ij") if extents else []
        for name, grid, first, count in zip(step.split_names, grids, lows, counts, strict=True):
            values[name] = first + grid.reshape(1, -1)
            alive = alive & (grid.reshape(1, -1) < count)
        return alive

    def children(self, chosen: Chosen) -> list[Frontier]:
        """The cells that chosen steps go on with."""
        items = chosen.cells.items
        values: dict[str, Any] = {
            name: value[items] if isinstance(value, np.ndarray) else value
            for name, value in self.known.items()
        }
        values.update(chosen.variables)
        parents = chosen.first + np.arange(len(items))
        below = []
        for place, (edge, _) in enumerate(chosen.step.children):
            columns = [_spread(function_of(i)(values), len(items)) for i in edge.indices]
            indices = np.stack(columns, 1) if columns else np.zeros((len(items), 0), np.int64)
            places = np.full(len(items), place)
            below.append(Frontier(edge.label, items, indices, parents, places))
        return below

    def assembled(self, chosen: Sequence[Chosen], total: int) -> list[Path]:
        """The choices of each item in preorder."""
        applied: list[Applied] = []
        below: list[list[int]] = [[] for _ in range(total)]
        roots = [0] * self.batch.size
        for part in chosen:
            rule, count = part.step.step.rule, len(part.step.children)
            names, nodes = list(part.variables), list(part.seen)
            variables = _rows([part.variables[name] for name in names], len(part.cells))
            tokens = _rows([part.seen[name] for name in nodes], len(part.cells))
            for number, (item, index, parent) in enumerate(
                zip(
                    part.cells.items.tolist(),
                    part.cells.indices.tolist(),
                    part.cells.parents.tolist(),
                    strict=True,
                )
            ):
                at = dict(zip(names, variables[number], strict=True))
                seen = dict(zip(nodes, tokens[number], strict=True))
                cell = Cell(part.cells.family, tuple(index), ())
                applied.append(Applied(cell, Choice(rule, at, seen), count))
                if parent < 0:
                    roots[item] = len(applied) - 1
                else:
                    if not below[parent]:
                        below[parent] = [0] * applied[parent].children
                    below[parent][int(part.cells.places[number])] = len(applied) - 1
        return [_preorder(root, applied, below) for root in roots]


def _joined(frontiers: Sequence[Frontier]) -> list[Frontier]:
    """One frontier for each family."""
    by_family: dict[str, list[Frontier]] = {}
    for frontier in frontiers:
        by_family.setdefault(frontier.family, []).append(frontier)
    return [
        Frontier(
            family,
            np.concatenate([part.items for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.parents for part in parts]),
            np.concatenate([part.places for part in parts]),
        )
        for family, parts in by_family.items()
    ]


def _preorder(root: int, applied: Sequence[Applied], below: Sequence[Sequence[int]]) -> Path:
    agenda, path = [root], []
    while agenda:
        number = agenda.pop()
        path.append(applied[number])
        agenda += reversed(below[number])
    return path


def _place(storage: StorageIndex, extents: Sequence[int], values: Mapping[str, Any]) -> list[Any]:
    """Where storage is read; points that are not alive read anywhere inside."""
    return [
        np.clip(index.function(values) - low, 0, extent - 1)
        for index, low, extent in zip(storage.indices, storage.low, extents, strict=True)
    ]


def _rows(columns: Sequence[Ints], count: int) -> list[list[int]]:
    """Arrays `[count]` as one list of numbers for each place."""
    rows: list[list[int]] = np.stack(columns, 1).tolist() if columns else [[]] * count
    return rows


def _spread(value: Any, shape: int | tuple[int, ...]) -> Ints:
    """One number, or numbers for each cell, at all points."""
    return np.broadcast_to(np.asarray(value, dtype=np.int64), shape)


def _low(ends: Ends, values: Mapping[str, Any]) -> Any:
    first, *others = [-(-f(values) // d) for f, d in ends]
    for other in others:
        first = np.maximum(first, other)
    return first


def _high(ends: Ends, values: Mapping[str, Any]) -> Any:
    first, *others = [f(values) // d for f, d in ends]
    for other in others:
        first = np.minimum(first, other)
    return first
