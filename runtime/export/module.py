"""A plan as a torch module whose operations have the same shapes on every level.

So one graph serves all lengths and batches: a stage with levels is a `while_loop` that carries the
level and the charts it writes. What only one level needs is read by index tensors made from the
level; points outside its box are masked. The numbers are those of `fgg.runtime.prelude.charts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op

from fgg.plan import Plan, PlanStage
from fgg.plan.kernel import Levels, Stage
from fgg.runtime.export.algebra import packed
from fgg.runtime.export.extents import loop_extent
from fgg.runtime.export.frame import Frame, Tensors, taken
from fgg.runtime.export.signature import Signature
from fgg.runtime.export.tables import Tables
from fgg.runtime.export.walk import SPARE, Noted, carry_out, uniform_kernel, written_by
from fgg.runtime.interpret.algebra import Named
from fgg.runtime.prelude.cells import NEGATIVE
from fgg.runtime.prelude.certificate import Bounds, holds, least_power

LOG2_E = 1.4426950408889634


class PlanModule(torch.nn.Module):
    """log Z of every item, `[batch]`, of arguments in the order of a signature.

    An item with lengths or tokens that there are not has NaN; so has one whose numbers may have
    become too small for their type.
    """

    def __init__(self, plan: Plan, signature: Signature) -> None:
        super().__init__()
        self.plan = plan
        self.signature = signature
        self.stages = uniform_kernel(plan).stages

    def forward(self, *arguments: Tensor) -> Tensor:
        """log Z of every item."""
        kinds: dict[str, dict[str, Tensor]] = {}
        for argument, value in zip(self.signature.arguments, arguments, strict=True):
            kinds.setdefault(argument.kind, {})[argument.name] = value
        own = kinds.get("lengths", {})
        high = self.signature.high(arguments)
        batch = self.batch(arguments)
        inputs = {**kinds.get("tokens", {}), **kinds.get("potentials", {})}
        tables = Tables(self.plan, kinds.get("weights", {}), inputs, own, self.signature.dtype)
        ends = [torch.zeros(batch), torch.ones(batch), torch.ones(batch)]
        tensors: dict[tuple[str, ...], Tensor] = {
            ("unit",): torch.ones((batch,), dtype=self.signature.dtype),
            ("range",): torch.stack(ends).double(),
            **{("own", name): value for name, value in own.items()},
            **{("high", n): torch.full((), h, dtype=torch.int64) for n, h in high.items()},
            **{("look", n): packed(t.movedim(0, -1)) for n, t in kinds.get("table", {}).items()},
        }
        tensors |= self.leaves(tables)
        tensors |= self.charts(tensors, batch, high)
        for planned, stage in zip(self.plan.stages, self.stages, strict=True):
            tensors = {key: value for key, value in tensors.items() if key[0] != "points"}
            tensors |= self.points(planned, stage, high)
            if stage.levels is None:
                tensors |= carry_out(self.plan, stage, tensors)
            else:
                tensors |= self.levels(stage, stage.levels, tensors)
        wrong = [tables.wrong(name) for name in kinds.get("tokens", {})]
        wrong += [(value < 0) | (value > high[name]) for name, value in own.items()]
        result = self.result(tensors, batch)
        wrong += [*tables.lost, ~self.lossless(tables, tensors, batch)]
        bad = reduce(torch.logical_or, wrong, torch.zeros((batch,), dtype=torch.bool))
        return torch.where(bad, float("nan"), result)

    def lossless(self, tables: Tables, tensors: Tensors, batch: int) -> Tensor:
        """Whether no number became too small for its type, for each item."""
        noted = Noted(tensors["unit",])
        gap, least, most = tensors["range",].unbind()
        falls = {0: (least.log2(), most.log2())}
        powers = {}
        for name in {name for names, _ in self.plan.products for name in names}:
            if ("values", name) in tensors:
                # The last cell of a chart is for what is written outside.
                cells = tensors["values", name]
                power = least_power(cells[:-1] if name in self.plan.chart else cells, 1)
            else:
                table = self.plan.table.get(name)
                axis = None if table is None else len(table.axes)
                power = least_power(tables.arrays[name], axis)
            powers[name] = power.expand(batch)
        bounds = Bounds(torch.minimum, torch.maximum)
        safe: Tensor = holds(self.plan.products, powers, gap * LOG2_E, falls, noted, bounds)
        return safe

    def batch(self, arguments: tuple[Tensor, ...]) -> int:
        """The number of items."""
        for argument, value in zip(self.signature.arguments, arguments, strict=True):
            if argument.kind not in ("weights", "room"):
                return value.shape[0]
        return 1

    # storage

    def leaves(self, tables: Tables) -> dict[tuple[str, ...], Tensor]:
        """Parameters, and tables as `[cells + 1, batch, *states]`, the last cell zero."""
        leaves: dict[tuple[str, ...], Tensor] = {}
        for name, kind in self.plan.leaves.items():
            table = tables.arrays[name]
            if kind == "parameter":
                leaves["parameter", name] = table
                continue
            rank = len(self.plan.table[name].axes)
            leaves |= storage(
                name, [(torch.zeros((), dtype=torch.int64), n) for n in table.shape[:rank]]
            )
            leaves["values", name] = extended(table, rank, 0.0)
            if name in tables.scales:
                leaves["scales", name] = extended(tables.scales[name], rank, NEGATIVE)
        return leaves

    def charts(
        self, tensors: Tensors, batch: int, high: Mapping[str, int]
    ) -> dict[tuple[str, ...], Tensor]:
        """Charts of zeros, `[cells + 2, batch, *states]`, and where their axes begin."""
        charts: dict[tuple[str, ...], Tensor] = {}
        frame = Frame(self.plan, tensors)
        for chart in self.plan.charts:
            name = chart.family
            rooms = [loop_extent(axis, self.plan.lengths).value(high) for axis in chart.axes]
            lows = [frame.bound(axis.low, low=True) for axis in chart.axes]
            charts |= storage(name, list(zip(lows, rooms, strict=True)))
            shape = (prod(rooms) + SPARE, batch)
            if not chart.is_scalar:
                whole = (*shape, *chart.states)
                charts["values", name] = torch.zeros(whole, dtype=self.signature.dtype)
            if chart.scale_of == name:
                charts["scales", name] = torch.full(shape, NEGATIVE, dtype=torch.float64)
        return charts

    def points(
        self, planned: PlanStage, stage: Stage, high: Mapping[str, int]
    ) -> dict[tuple[str, ...], Tensor]:
        """For each loop the numbers of its points: as many as it has on any level."""
        lengths = self.plan.lengths
        return {
            ("points", str(number), loop.name): torch.arange(
                loop_extent(loop, lengths, planned).value(high)
            )
            for number, block in enumerate(stage.blocks)
            for loop in block.loops
        }

    # stages

    def levels(
        self, stage: Stage, levels: Levels, tensors: Tensors
    ) -> dict[tuple[str, ...], Tensor]:
        """The charts of a stage, filled level by level."""
        frame = Frame(self.plan, tensors)
        first = reduce(torch.minimum, [frame.bound(b, low=True) for b in levels.first])
        last = reduce(torch.maximum, [frame.bound(b, low=False) for b in levels.last])
        carried = written_by(self.plan, stage)
        others = [key for key in needed(self.plan, stage, tensors) if key not in carried]
        shapes = {key: tensors[key].shape for key in others if key[0] == "parameter"}
        # No two arguments may be the same tensor, and none a view: compiled loops free what a
        # view stands for after the first turn. So parameters go in as buffers of their own.
        given = {id(last): last.clone()}
        for key in others:
            value = tensors[key]
            given.setdefault(id(value), buffer(value) if key in shapes else value)
        order = {number: place for place, number in enumerate(given)}
        places = {key: order[id(tensors[key])] for key in others}
        end = order[id(last)]

        def goes_on(level: Tensor, *values: Tensor) -> Tensor:
            return level <= values[len(carried) + end]

        def body(level: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
            now = {("level",): level, **dict(zip(carried, values, strict=False))}
            for key, place in places.items():
                value = values[len(carried) + place]
                now[key] = value[:-1].reshape(shapes[key]) if key in shapes else value
            new = carry_out(self.plan, stage, now)
            return (level + 1, *(new[key] for key in carried))

        # The operator itself, not `torch.while_loop`: that would have the body, with all of the
        # plan in it, traced by another compiler.
        state: Any = (first.clone(), *(tensors[key] for key in carried))
        rest: Any = tuple(given.values())
        results = while_loop_op(goes_on, body, state, rest)
        return dict(zip(carried, results[1:], strict=True))

    def result(self, tensors: Tensors, batch: int) -> Tensor:
        """log Z: the scale of the start symbol's cell."""
        start = self.plan.start
        if start.name not in self.plan.chart:
            return torch.full((batch,), NEGATIVE, dtype=self.signature.dtype)
        number, inside = Frame(self.plan, tensors).cells(start)
        held = torch.where(inside.array, number.array, tensors["zero", start.name])
        scales = tensors["scales", self.plan.chart[start.name].scale_of]
        return taken(scales, Named(held, number.dims)).array.to(self.signature.dtype)


def storage(name: str, axes: Sequence[tuple[Tensor, int]]) -> dict[tuple[str, ...], Tensor]:
    """Where the axes of a chart or a table begin and how long they are; its cell of zeros."""
    tensors: dict[tuple[str, ...], Tensor] = {}
    for axis, (low, room) in enumerate(axes):
        tensors["low", name, str(axis)] = low
        tensors["room", name, str(axis)] = torch.full((), room, dtype=torch.int64)
    tensors["zero", name] = torch.full((), prod(room for _, room in axes), dtype=torch.int64)
    return tensors


def buffer(values: Tensor) -> Tensor:
    """The entries of a tensor and one more: no compiler takes it for a view of anything."""
    return torch.cat([packed(values).reshape(-1), torch.zeros((1,), dtype=values.dtype)])


def extended(table: Tensor, rank: int, zero: float) -> Tensor:
    """A table as a list of cells, with one more that is zero."""
    table = packed(table)
    flat = table.flatten(0, rank - 1) if rank else table.unsqueeze(0)
    return torch.cat([flat, torch.full_like(flat[:1], zero)])


def needed(plan: Plan, stage: Stage, tensors: Tensors) -> tuple[tuple[str, ...], ...]:
    """The tensors that the blocks of a stage read."""
    names = {operand.name for block in stage.blocks for operand in block.operands}
    names |= {key[1] for key in written_by(plan, stage) if len(key) > 1}
    names |= {plan.chart[name].scale_of for name in names if name in plan.chart}
    general = ("unit", "range", "own", "high", "look", "points")
    return tuple(key for key in tensors if key[0] in general or key[1] in names)
