"""Index arithmetic of an exported program: everything is a tensor, the level too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from fgg.grammar.index import Expr, Lookup
from fgg.plan import HIGH, LEVEL, LOW, Bound, Loop, Operand, Plan
from fgg.plan.kernel import BATCH
from fgg.runtime.export.algebra import Value, aligned
from fgg.runtime.export.extents import bound_terms
from fgg.runtime.interpret.algebra import Named
from fgg.runtime.interpret.frame import evaluate

Tensors = Mapping[tuple[str, ...], Tensor]
"""All tensors of a run by what they are and whose: ("values", X) and ("scales", X) of charts and
tables; ("low", X, 0) and ("room", X, 0), where an axis of them begins and how long it is; ("zero",
X), their cell that is always zero; ("parameter", f); ("own", n), the items' lengths, and ("high",
n), the greatest; ("look", left), tables of indices; ("points", block, k), numbers of the points of
a loop; ("level",)."""


class Frame:
    """The points of a block at the level of a run. A loop is an axis, the batch is the last."""

    def __init__(
        self, plan: Plan, tensors: Tensors, loops: Sequence[tuple[Loop, Tensor]] = ()
    ) -> None:
        self.plan = plan
        self.tensors = tensors
        self.order = (*(loop.name for loop, _ in loops), BATCH)
        self.values: dict[str, Any] = {}
        if ("level",) in tensors:
            self.values[LEVEL] = tensors["level",]
        for name in plan.lengths:
            self.values[name + LOW] = 0
            self.values[name + HIGH] = tensors["high", name]
            self.values[name] = self.along(BATCH, tensors["own", name])
        self.inside: dict[str, Value] = {}
        for loop, points in loops:
            values = points + self.bound(loop.low, low=True)
            last = self.bound(loop.high, low=False)
            self.inside[loop.name] = Named(values <= last, (loop.name,))
            self.values[loop.name] = self.along(loop.name, values)

    def along(self, dim: str, tensor: Tensor) -> Tensor:
        """A tensor with one axis, beside the others."""
        return aligned(Named(tensor, (dim,)), self.order)

    def bound(self, bound: Bound, *, low: bool) -> Tensor:
        """An end of a loop: a number that may depend on the level."""
        return bound_terms(bound, lambda expr: self.over((), self.evaluate(expr)[0]), low=low)

    def evaluate(self, expr: Expr) -> tuple[Any, Any]:
        """An expression at every point, and where its look-ups have entries (or True)."""
        return evaluate(expr, self.values, self.look_up)

    def dims(self, exprs: Sequence[Expr]) -> tuple[str, ...]:
        """The axes of expressions."""
        used = {name for expr in exprs for name in expr.names()}
        if used & {*self.plan.lengths} or any(True for expr in exprs for _ in expr.lookups()):
            used.add(BATCH)
        return tuple(d for d in self.order if d in used)

    def over(self, dims: Sequence[str], value: Any) -> Tensor:
        """A value at every point as a tensor with exactly these axes."""
        tensor = value if isinstance(value, Tensor) else torch.full((), value)
        for axis in reversed(range(tensor.dim())):
            tensor = tensor if self.order[axis] in dims else tensor.squeeze(axis)
        return tensor

    def holds(self, expr: Expr) -> Value:
        """Where `expr >= 0`; never where a table has no entry."""
        value, valid = self.evaluate(expr)
        dims = self.dims([expr])
        return Named(self.over(dims, (value >= 0) & valid), dims)

    def join(self, function: Callable[..., Tensor], *values: Value) -> Value:
        """A function of several values, axis by axis."""
        dims = tuple(d for d in self.order if any(d in v.dims for v in values))
        return Named(function(*(aligned(v, dims) for v in values)), dims)

    def both(self, *masks: Value) -> Value:
        """Where all masks hold."""
        return reduce(lambda a, b: self.join(torch.logical_and, a, b), masks)

    # cells

    def flat(
        self, index: Sequence[Expr], low: Sequence[Any], room: Sequence[Any]
    ) -> tuple[Any, Any]:
        """The numbers of cells in storage, and where there are such cells, at every point."""
        total: Any = 0
        inside: Any = True
        for expr, first, extent in zip(index, low, room, strict=True):
            value, valid = self.evaluate(expr)
            value = value - first
            inside = inside & valid & (value >= 0) & (value < extent)
            total = total * extent + value
        return total, inside

    def look_up(self, atom: Lookup) -> tuple[Any, Any]:
        """The entries of a table of indices at every point, and where there are any."""
        table = self.tensors["look", atom.table]
        room = [torch.full((), extent, dtype=torch.int64) for extent in table.shape]
        number, inside = self.flat(atom.indices, (0,) * len(atom.indices), room[:-1])
        held = torch.where(inside, number, 0) if atom.indices else 0
        rows = held * room[-1] + self.along(BATCH, torch.arange(table.shape[-1]))
        return table.flatten().index_select(0, rows.flatten()).reshape(rows.shape), inside

    def cells(self, cells: Operand) -> tuple[Value, Value]:
        """The numbers of cells of a chart or table, and where there are such cells."""
        axes = [(cells.name, str(axis)) for axis in range(len(cells.index))]
        low = [self.tensors["low", *axis] for axis in axes]
        room = [self.tensors["room", *axis] for axis in axes]
        number, inside = self.flat(cells.index, low, room)
        dims = self.dims(cells.index)
        return Named(self.over(dims, number), dims), Named(self.over(dims, inside), dims)


def taken(storage: Tensor, cells: Value) -> Value:
    """The entries of `[cell, batch, *states]` at cells that may differ from item to item."""
    if BATCH not in cells.dims:
        entries = storage.index_select(0, cells.array.reshape(-1))
        shape = (*cells.array.shape, *storage.shape[1:])
        return Named(entries.reshape(shape), (*cells.dims, BATCH))
    count = storage.shape[1]
    numbers = cells.array * count + torch.arange(count)
    entries = storage.flatten(0, 1).index_select(0, numbers.reshape(-1))
    return Named(entries.reshape((*numbers.shape, *storage.shape[2:])), cells.dims)
