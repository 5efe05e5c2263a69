"""A plan as a torch module whose operations have the same shapes on every level.

So one graph serves all lengths and batches: a stage with levels is a `while_loop` that carries the
level and the charts it writes. What only one level needs is read by index tensors made from the
level; points outside its box are masked. The numbers are those of `fgg.runtime.prelude.charts`.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op

from fgg.plan import Plan, PlanStage, Step
from fgg.runtime.export.extents import loop_extent
from fgg.runtime.export.frame import Frame, taken
from fgg.runtime.export.signature import Signature
from fgg.runtime.export.steps import SPARE, Noted, carry_out, written_by
from fgg.runtime.export.tables import Tables
from fgg.runtime.export.values import Named, packed
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
        numbers = iter(range(len(plan.steps)))
        self.steps = [[(next(numbers), step) for step in stage.steps] for stage in plan.stages]

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
        tensors = {
            "unit": torch.ones((batch,), dtype=self.signature.dtype),
            "range": torch.stack(
                [torch.zeros(batch), torch.ones(batch), torch.ones(batch)]
            ).double(),
            **{f"own:{name}": value for name, value in own.items()},
            **{f"high:{n}": torch.full((), h, dtype=torch.int64) for n, h in high.items()},
            **{f"look:{n}": packed(t.movedim(0, -1)) for n, t in kinds.get("table", {}).items()},
        }
        tensors.update(self.leaves(tables))
        tensors.update(self.charts(tensors, batch, high))
        for stage, steps in zip(self.plan.stages, self.steps, strict=True):
            tensors.update(self.points(stage, steps, high))
            if stage.has_levels:
                tensors.update(self.levels(stage, steps, tensors))
            else:
                tensors.update(carry_out(self.plan, steps, tensors))
        wrong = [tables.wrong(name) for name in kinds.get("tokens", {})]
        wrong += [(value < 0) | (value > high[name]) for name, value in own.items()]
        result = self.result(tensors, batch)
        wrong += [*tables.lost, ~self.lossless(tables, tensors, batch)]
        bad = reduce(torch.logical_or, wrong, torch.zeros((batch,), dtype=torch.bool))
        return torch.where(bad, float("nan"), result)

    def lossless(self, tables: Tables, tensors: dict[str, Tensor], batch: int) -> Tensor:
        """Whether no number became too small for its type, for each item."""
        noted = Noted(tensors["unit"])
        gap, least, most = tensors["range"].unbind()
        falls = {0: (least.log2(), most.log2())}
        powers = {}
        for name in {name for names, _ in self.plan.products for name in names}:
            if name in self.plan.chart:
                # The last cell is for what is written outside.
                power = least_power(tensors[f"v:{name}"][:-1], 1)
            elif f"t:{name}" in tensors:
                power = least_power(tensors[f"t:{name}"], 1)
            else:
                table = self.plan.table.get(name)
                axis = None if table is None else len(table.axes)
                power = least_power(tables.values[name], axis)
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

    def leaves(self, tables: Tables) -> dict[str, Tensor]:
        """Parameters, and tables as `[cells + 1, batch, *states]`, the last cell zero."""
        found: dict[str, Tensor] = {}
        for step in self.plan.steps:
            for operand in step.operands:
                name = operand.name
                if operand.kind == "parameter":
                    found[f"p:{name}"] = tables.values[name]
                elif operand.kind == "table" and f"zero:{name}" not in found:
                    table = tables.values[name]
                    rank = len(self.plan.table[name].axes)
                    cells = 1
                    for axis in range(rank):
                        found[f"low:{name}:{axis}"] = torch.zeros((), dtype=torch.int64)
                        room = torch.full((), table.shape[axis], dtype=torch.int64)
                        found[f"room:{name}:{axis}"] = room
                        cells = cells * table.shape[axis]
                    found[f"zero:{name}"] = torch.full((), cells, dtype=torch.int64)
                    found[f"t:{name}"] = extended(table, rank, 0.0)
                    if name in tables.scales:
                        found[f"s:{name}"] = extended(tables.scales[name], rank, NEGATIVE)
        return found

    def charts(
        self, tensors: dict[str, Tensor], batch: int, high: dict[str, int]
    ) -> dict[str, Tensor]:
        """Charts of zeros, `[cells + 2, batch, *states]`, and where their axes begin."""
        found: dict[str, Tensor] = {}
        frame = Frame(self.plan, tensors, [])
        for chart in self.plan.charts:
            name = chart.family
            cells = 1
            for number, axis in enumerate(chart.axes):
                room = loop_extent(axis, self.plan.lengths).value(high)
                found[f"low:{name}:{number}"] = frame.bound(axis.low, low=True)
                found[f"room:{name}:{number}"] = torch.full((), room, dtype=torch.int64)
                cells = cells * room
            found[f"zero:{name}"] = torch.full((), cells, dtype=torch.int64)
            shape = (cells + SPARE, batch)
            if not chart.is_scalar:
                found[f"v:{name}"] = torch.zeros(
                    (*shape, *chart.states), dtype=self.signature.dtype
                )
            if chart.scale_of == name:
                found[f"e:{name}"] = torch.full(shape, NEGATIVE, dtype=torch.float64)
        return found

    def points(
        self, stage: PlanStage, steps: list[tuple[int, Step]], high: dict[str, int]
    ) -> dict[str, Tensor]:
        """For each loop the numbers of its points: as many as it has on any level."""
        found: dict[str, Tensor] = {}
        for number, step in steps:
            for loop in (*step.positions, *step.splits):
                count = loop_extent(loop, self.plan.lengths, stage).value(high)
                found[f"points:{number}:{loop.name}"] = torch.arange(count)
        return found

    # stages

    def levels(
        self, stage: PlanStage, steps: list[tuple[int, Step]], tensors: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """The charts of a stage, filled level by level."""
        frame = Frame(self.plan, tensors, [])
        first = reduce(torch.minimum, [frame.bound(b, low=True) for b in stage.first])
        last = reduce(torch.maximum, [frame.bound(b, low=False) for b in stage.last])
        carried = written_by(self.plan, stage)
        others = [name for name in needed(self.plan, steps, tensors) if name not in carried]
        shapes = {name: tensors[name].shape for name in others if name.startswith("p:")}
        # No two arguments may be the same tensor, and none a view: compiled loops free what a
        # view stands for after the first turn. So parameters go in as buffers of their own.
        given = {id(last): last.clone()}
        for name in others:
            value = tensors[name]
            given.setdefault(id(value), buffer(value) if name in shapes else value)
        order = {key: place for place, key in enumerate(given)}
        places = {name: order[id(tensors[name])] for name in others}
        end = order[id(last)]

        def goes_on(level: Tensor, *values: Tensor) -> Tensor:
            return level <= values[len(carried) + end]

        def body(level: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
            now = {"level": level, **dict(zip(carried, values, strict=False))}
            for name, place in places.items():
                value = values[len(carried) + place]
                now[name] = value[:-1].reshape(shapes[name]) if name in shapes else value
            new = carry_out(self.plan, steps, now)
            return (level + 1, *(new[name] for name in carried))

        # The operator itself, not `torch.while_loop`: that would have the body, with all of the
        # plan in it, traced by another compiler.
        state: Any = (first.clone(), *(tensors[name] for name in carried))
        rest: Any = tuple(given.values())
        found = while_loop_op(goes_on, body, state, rest)
        return dict(zip(carried, found[1:], strict=True))

    def result(self, tensors: dict[str, Tensor], batch: int) -> Tensor:
        """log Z: the scale of the start symbol's cell."""
        start = self.plan.start
        if start.name not in self.plan.chart:
            return torch.full((batch,), NEGATIVE, dtype=self.signature.dtype)
        frame = Frame(self.plan, tensors, [])
        flat, inside = frame.cells(start.name, start.index, len(start.index))
        held = torch.where(inside.tensor, flat.tensor, tensors[f"zero:{start.name}"])
        scales = tensors[f"e:{self.plan.chart[start.name].scale_of}"]
        return taken(scales, Named(held, flat.dims)).tensor.to(self.signature.dtype)


def buffer(values: Tensor) -> Tensor:
    """The entries of a tensor and one more: no compiler takes it for a view of anything."""
    return torch.cat([packed(values).reshape(-1), torch.zeros((1,), dtype=values.dtype)])


def extended(table: Tensor, rank: int, zero: float) -> Tensor:
    """A table as a list of cells, with one more that is zero."""
    table = packed(table)
    flat = table.flatten(0, rank - 1) if rank else table.unsqueeze(0)
    return torch.cat([flat, torch.full_like(flat[:1], zero)])


def needed(
    plan: Plan, steps: list[tuple[int, Step]], tensors: dict[str, Tensor]
) -> tuple[str, ...]:
    """The tensors that steps read."""
    names: set[str] = set()
    for _, step in steps:
        names.add(step.head)
        names.update(operand.name for operand in step.operands)
    scales = {plan.chart[name].scale_of for name in names if name in plan.chart}
    numbers = {str(number) for number, _ in steps}
    found = []
    for key in tensors:
        kind, _, rest = key.partition(":")
        general = kind in ("unit", "own", "high", "look")
        points = kind == "points" and rest.partition(":")[0] in numbers
        place = kind in ("low", "room") and rest.rpartition(":")[0] in names
        scale = kind in ("e", "s") and rest in names | scales
        value = kind in ("v", "t", "p", "zero") and rest in names
        if general or points or place or scale or value:
            found.append(key)
    return tuple(found)
