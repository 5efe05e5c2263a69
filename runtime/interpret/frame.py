"""The index points of a block as arrays: a loop variable is an axis, and so is the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgg.grammar.domains import size_values
from fgg.grammar.index import Expr, Lookup
from fgg.plan import HIGH, LEVEL, LOW, Bound, Plan, PlanStage, Step
from fgg.plan.kernel import BATCH, Block, Levels
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.semirings.base import Bools, Ints

Points = int | Ints
"""A number at every point of a frame; an int if it is the same at all points."""

Holds = bool | Bools
"""Whether something holds at every point of a frame."""


class Scope:
    """The plan and a batch, with the values of sizes and of the least and greatest lengths.

    With `keep`, index arrays are remembered: the same batch is gone through several times.
    """

    def __init__(self, plan: Plan, batch: Batch, *, keep: bool = False) -> None:
        self.plan = plan
        self.batch = batch
        self.keep = keep
        self.frames: dict[tuple[object, ...], Frame] = {}
        self.known: dict[str, int] = dict(size_values(plan.grammar))
        for name, values in batch.lengths.items():
            self.known[name + LOW] = int(values.min())
            self.known[name + HIGH] = int(values.max())
        self.mixed = any(self.known[n + LOW] != self.known[n + HIGH] for n in batch.lengths)
        self._numbers = dict(self.known)

    def bound(self, bound: Bound, level: int = 0, *, low: bool) -> int:
        """The greatest of ceil(e / d) for a lower bound, the least of floor(e / d) for an upper."""
        if low:
            return max(-(-self.number(e, level) // d) for e, d in bound.terms)
        return min(self.number(e, level) // d for e, d in bound.terms)

    def number(self, expr: Expr, level: int = 0) -> int:
        """An expression in the level and the least and greatest lengths."""
        self._numbers[LEVEL] = level
        value = expr.evaluate(self._numbers)
        assert value is not None
        return value

    def levels(self, stage: PlanStage | Levels | None) -> range:
        """The levels of a stage, in order; a single one if it has none."""
        if stage is None or (isinstance(stage, PlanStage) and not stage.has_levels):
            return range(1)
        first = min(self.bound(b, low=True) for b in stage.first)
        last = max(self.bound(b, low=False) for b in stage.last)
        levels = range(first, last + 1)
        return levels[::-1] if isinstance(stage, Levels) and stage.reverse else levels

    def frame(self, step: Step | Block, level: int) -> Frame | None:
        """The points of a step on a level; None if there are none."""
        if any(self.number(guard, level) < 0 for guard in step.guards):
            return None
        ranges: dict[str, tuple[int, int]] = {}
        for loop in step.positions + step.splits:
            low = self.bound(loop.low, level, low=True)
            count = self.bound(loop.high, level, low=False) - low + 1
            if count <= 0:
                return None
            ranges[loop.name] = (low, count)
        if not self.keep:
            return Frame(self, ranges, level)
        key = (level, *ranges.items())
        if key not in self.frames:
            self.frames[key] = Frame(self, ranges, level)
        return self.frames[key]


@dataclass(frozen=True, eq=False)
class CellIndex:
    """Numbers `[*dims]` of cells in storage that begins with `rank` axes, the last the batch.

    `valid` says which there are; None means all.
    """

    rows: Ints
    valid: Bools | None
    dims: tuple[str, ...]
    rank: int


class Frame:
    """Loop variables with their ranges `name -> (first, count)`, on one level."""

    def __init__(self, scope: Scope, ranges: Mapping[str, tuple[int, int]], level: int) -> None:
        self.scope = scope
        self.ranges = ranges
        self.level = level
        self.loops = tuple(ranges)
        self.order = (*self.loops, BATCH)
        self.sizes = {name: count for name, (_, count) in ranges.items()}
        self.sizes[BATCH] = scope.batch.size
        self.values: dict[str, Points] = {**scope.known, LEVEL: level}
        for name, (first, count) in ranges.items():
            self.values[name] = self.along(name, np.arange(first, first + count, dtype=np.int64))
        for name, values in scope.batch.lengths.items():
            self.values[name] = self.along(BATCH, values)
        self.items = self.along(BATCH, np.arange(scope.batch.size))
        self.places: dict[tuple[object, ...], CellIndex] = {}

    def along(self, dim: str, values: Ints) -> Ints:
        """Values along one axis, beside the others."""
        return values.reshape([-1 if d == dim else 1 for d in self.order])

    def dims(self, exprs: Sequence[Expr]) -> tuple[str, ...]:
        """The loops that occur in expressions, and the batch."""
        used = {name for expr in exprs for name in expr.names()}
        return (*(d for d in self.loops if d in used), BATCH)

    def evaluate(self, expr: Expr) -> tuple[Points, Holds]:
        """An expression at every point, and where its look-ups have entries (or True)."""
        return evaluate(expr, self.values, self.look_up)

    def look_up(self, atom: Lookup) -> tuple[Points, Holds]:
        """The entries of a table at every point; never beyond an item's own lengths."""
        table = self.scope.batch.tables[atom.table]
        shape = self.scope.plan.grammar.table[atom.table].shape
        valid: Holds = True
        held = []
        for axis, (expr, extent) in enumerate(zip(atom.indices, shape, strict=True)):
            value, here = self.evaluate(expr)
            end, _ = self.evaluate(extent)
            valid = valid & here & (value >= 0) & (value < end)
            held.append(np.clip(value, 0, max(table.shape[axis + 1] - 1, 0)))
        if 0 in table.shape:
            return 0, False
        return table[(self.items, *held)], valid

    def place(
        self,
        index: tuple[Expr, ...],
        low: tuple[int, ...],
        shape: tuple[int, ...],
        dims: tuple[str, ...] | None = None,
    ) -> CellIndex:
        """The cells at an index of storage whose axes begin at `low`, over some loops.

        Without `dims`, these are the loops that occur in the index.
        """
        key = (index, low, shape, dims)
        if self.scope.keep and key in self.places:
            return self.places[key]
        dims = self.dims(index) if dims is None else dims
        rows: Points = 0
        valid: Holds = True
        for expr, first, extent in zip(index, low, shape, strict=True):
            value, here = self.evaluate(expr)
            value = value - first
            inside = (value >= 0) & (value < extent) & here
            if not np.all(inside):
                valid = valid & inside
                value = np.clip(value, 0, max(extent - 1, 0))
            rows = rows * extent + value
        rows = rows * self.scope.batch.size + self.items
        mask = None if valid is True else self.over(dims, valid)
        place = CellIndex(self.over(dims, rows), mask, dims, len(index) + 1)
        if self.scope.keep:
            self.places[key] = place
        return place

    def over(self, dims: Sequence[str], values: Points | Holds) -> Any:
        """Values at every point as an array with exactly these axes."""
        full = np.empty(
            [self.sizes[d] if d in dims else 1 for d in self.order], np.result_type(values)
        )
        full[...] = values
        return full.reshape([self.sizes[d] for d in dims])

    def holds(self, exprs: Sequence[Expr], dims: Sequence[str] | None = None) -> Bools:
        """Where all expressions are at least zero, over some loops that include theirs."""
        mask = np.ones((1,) * len(self.order), dtype=bool)
        for expr in exprs:
            value, valid = self.evaluate(expr)
            mask = mask & (np.asarray(value) >= 0) & valid
        over: Bools = self.over(self.dims(exprs) if dims is None else dims, mask)
        return over


def no_entry(atom: Lookup) -> tuple[Any, Any]:
    """Refuses look-ups."""
    raise KeyError(atom.table)


def evaluate(
    expr: Expr,
    values: Mapping[str, Any],
    look_up: Callable[[Lookup], tuple[Any, Any]] = no_entry,
) -> tuple[Any, Any]:
    """An expression of arrays or tensors, and where its look-ups have entries (or True)."""
    total: Any = 0
    valid: Any = True
    for monomial, coefficient in expr.terms:
        term: Any = coefficient
        for atom in monomial:
            if isinstance(atom, Lookup):
                value, here = look_up(atom)
                valid = valid & here
            else:
                value = values[atom]
            term = term * value
        total = total + term
    return total, valid
