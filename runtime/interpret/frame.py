"""The index points of a step as arrays: a loop variable is an axis, and so is the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fgg.grammar.domains import size_values
from fgg.grammar.index import Expr, Lookup
from fgg.plan import HIGH, LEVEL, LOW, Bound, Plan
from fgg.plan import Step as PlanStep
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.semirings.base import Bools, Ints

BATCH = "@b"
"""The axis of the batch, beside the loop variables."""

Points = int | Ints
"""A number at every point of a frame; an int if it is the same at all points."""

Holds = bool | Bools
"""Whether something holds at every point of a frame."""


class Scope:
    """The plan and a batch, with the values of sizes and of the least and greatest lengths."""

    def __init__(self, plan: Plan, batch: Batch) -> None:
        self.plan = plan
        self.batch = batch
        self.known: dict[str, int] = dict(size_values(plan.grammar))
        for name, values in batch.lengths.items():
            self.known[name + LOW] = int(values.min())
            self.known[name + HIGH] = int(values.max())

    def number(self, expr: Expr, level: int = 0) -> int:
        """An expression in the level and the least and greatest lengths."""
        value = expr.evaluate({**self.known, LEVEL: level})
        assert value is not None
        return value

    def bound(self, bound: Bound, level: int = 0, *, low: bool) -> int:
        """The greatest of ceil(e / d) for a lower bound, the least of floor(e / d) for an upper."""
        if low:
            return max(-(-self.number(e, level) // d) for e, d in bound.terms)
        return min(self.number(e, level) // d for e, d in bound.terms)

    def frame(self, step: PlanStep, level: int) -> Frame | None:
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
        return Frame(self, ranges, level)


@dataclass(frozen=True)
class CellIndex:
    """Index arrays `[*dims]` of cells, one for each axis of storage, and where they are valid."""

    index: tuple[Ints, ...]
    valid: Bools
    dims: tuple[str, ...]


class Frame:
    """Loop variables with their ranges `name -> (first, count)`, on one level."""

    def __init__(self, scope: Scope, ranges: Mapping[str, tuple[int, int]], level: int) -> None:
        self.scope = scope
        self.ranges = ranges
        self.level = level
        self.loops = tuple(ranges)
        rank = len(self.loops) + 1
        self.values: dict[str, Points] = {**scope.known, LEVEL: level}
        for axis, (name, (first, count)) in enumerate(ranges.items()):
            shape = [1] * rank
            shape[axis] = count
            self.values[name] = np.arange(first, first + count, dtype=np.int64).reshape(shape)
        for name, values in scope.batch.lengths.items():
            self.values[name] = values.reshape([1] * (rank - 1) + [-1])

    def size(self, dim: str) -> int:
        """The extent of a loop or of the batch."""
        return self.scope.batch.size if dim == BATCH else self.ranges[dim][1]

    def dims(self, exprs: Sequence[Expr]) -> tuple[str, ...]:
        """The loops that occur in expressions, and the batch."""
        used = {name for expr in exprs for name in expr.names()}
        return (*(d for d in self.loops if d in used), BATCH)

    def evaluate(self, expr: Expr) -> tuple[Points, Holds]:
        """An expression at every point, and where its look-ups have entries (or True)."""
        total: Points = 0
        valid: Holds = True
        for monomial, coefficient in expr.terms:
            term: Points = coefficient
            for atom in monomial:
                if isinstance(atom, Lookup):
                    value, here = self.look_up(atom)
                    valid = valid & here
                else:
                    value = self.values[atom]
                term = term * value
            total = total + term
        return total, valid

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
        batch = np.arange(len(table)).reshape([1] * len(self.loops) + [-1])
        if 0 in table.shape:
            return 0, False
        return table[(batch, *held)], valid

    def place(self, index: Sequence[Expr], low: Sequence[int], shape: Sequence[int]) -> CellIndex:
        """The indices of cells in storage of a shape that begins at `low`."""
        dims = self.dims(index)
        full = tuple(self.size(d) if d in dims else 1 for d in (*self.loops, BATCH))
        kept = tuple(self.size(d) for d in dims)
        valid = np.ones(full, dtype=bool)
        places = []
        for expr, first, extent in zip(index, low, shape, strict=True):
            value, here = self.evaluate(expr)
            value = np.asarray(value, dtype=np.int64) - first
            valid = valid & here & (value >= 0) & (value < extent)
            held = np.clip(value, 0, max(extent - 1, 0))
            places.append(np.broadcast_to(held, full).reshape(kept))
        number = np.arange(self.scope.batch.size)
        places.append(np.broadcast_to(number, kept))
        return CellIndex(tuple(places), valid.reshape(kept), dims)

    def holds(self, exprs: Sequence[Expr]) -> tuple[Bools, tuple[str, ...]]:
        """Where all expressions are at least zero, over the loops that occur in them."""
        dims = self.dims(exprs)
        full = tuple(self.size(d) if d in dims else 1 for d in (*self.loops, BATCH))
        mask = np.ones(full, dtype=bool)
        for expr in exprs:
            value, valid = self.evaluate(expr)
            mask = mask & (np.asarray(value) >= 0) & valid
        return mask.reshape([self.size(d) for d in dims]), dims
