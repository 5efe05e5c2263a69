"""The steps of a plan as tensor operations that have one shape for all levels.

A chart is stored as `[cells + 2, batch, *states]`: after its own cells one that is always zero,
for what is read outside, and one for what is written outside the box of a level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import groupby
from math import inf

import torch
from torch import Tensor

from fgg.plan import Operand, Pair, Plan, PlanStage, Step
from fgg.runtime.export.frame import Frame, Tensors, taken
from fgg.runtime.export.values import BATCH, Named, aligned, once, product, summed
from fgg.runtime.prelude.batch import Batch
from fgg.runtime.prelude.cells import NEGATIVE, spread, undiagonal
from fgg.runtime.prelude.scaled import TINY, log_of, log_total, total, weigh

SPARE = 2


def carry_out(plan: Plan, steps: Sequence[tuple[int, Step]], tensors: Tensors) -> dict[str, Tensor]:
    """The charts that numbered steps write, after them."""
    found = dict(tensors)
    written: dict[str, Tensor] = {}
    for _, members in groupby(steps, key=lambda item: (item[1].head, item[1].group)):
        noted = Noted(found["unit"])
        group = [StepRun(plan, step, number, found, noted) for number, step in members]
        new = put(plan, group, found)
        new["range"] = noted.joined(found["range"])
        found.update(new)
        written.update(new)
    return written


def written_by(plan: Plan, stage: PlanStage) -> tuple[str, ...]:
    """The tensors that the steps of a stage write."""
    names: dict[str, None] = {"range": None}
    for step in stage.steps:
        chart = plan.chart[step.head]
        if not chart.is_scalar:
            names[f"v:{step.head}"] = None
        if not plan.shares_scale(step):
            names[f"e:{step.head}"] = None
    return tuple(names)


class Noted(Batch):
    """What the steps of a group tell about the range of numbers."""

    def __init__(self, unit: Tensor) -> None:
        super().__init__(unit.shape[0], {}, {}, unit.dtype, unit.device)
        self.watched = True

    def joined(self, before: Tensor) -> Tensor:
        """`[3, batch]`: how far terms are apart, the least and the greatest value of any cell."""
        gap, least, most = before.unbind()
        for below in self.gaps:
            gap = torch.minimum(gap, below)
        for _, top, _ in self.tops:
            rows = top.double().reshape(-1, self.size)
            least = torch.minimum(least, rows.masked_fill(rows == 0, inf).amin(0))
            most = torch.maximum(most, rows.amax(0))
        return torch.stack([gap, least, most])


class StepRun:
    """One step at the level of a run."""

    def __init__(self, plan: Plan, step: Step, number: int, tensors: Tensors, noted: Noted) -> None:
        self.noted = noted
        self.plan = plan
        self.step = step
        self.tensors = tensors
        loops = (*step.positions, *step.splits)
        points = [tensors[f"points:{number}:{loop.name}"] for loop in loops]
        self.frame = Frame(plan, tensors, list(zip(loops, points, strict=True)))
        self.positions = tuple(loop.name for loop in step.positions)
        self.splits = tuple(loop.name for loop in step.splits)
        self.point_dims = self.frame.order
        self.cell_dims = (*self.positions, BATCH)

    # where the step applies

    def active(self) -> Tensor:
        """Whether the step has any points at this level."""
        frame = self.frame
        tests = [frame.holds(guard).tensor for guard in self.step.guards]
        # Points are counted from the low end: there are some if the first one is inside.
        tests += [frame.inside[name].tensor[0] for name in (*self.positions, *self.splits)]
        return reduce(torch.logical_and, tests, torch.ones((), dtype=torch.bool))

    def masks(self, alone: bool) -> list[Named]:
        """Where a point counts: in the box, where the masks hold, if the guards do."""
        found = [self.frame.inside[name] for name in self.splits]
        found += [self.frame.holds(mask.expr) for mask in self.step.masks]
        if not alone:
            found.append(Named(self.active(), ()))
        return found

    def cells(self) -> tuple[Named, Named]:
        """The head's cells over the positions, and which of them are in the box."""
        step = self.step
        flat, inside = self.frame.cells(step.head, step.head_index, len(step.head_index))
        for name in self.positions:
            inside = self.frame.join(torch.logical_and, inside, self.frame.inside[name])
        return flat, inside

    # what it reads

    def read(self) -> tuple[list[Named | None], list[Named]]:
        """Every operand's values (None where it is scale alone), and the scales."""
        values: list[Named | None] = []
        scales: list[Named] = []
        for operand in self.step.operands:
            value, scale = self.operand(operand)
            values.append(value)
            if scale is not None and not self.plan.shares_scale(self.step):
                scales.append(scale)
        return values, scales

    def operand(self, operand: Operand) -> tuple[Named | None, Named | None]:
        """The values and the scale of an operand."""
        if operand.kind == "parameter":
            return once(Named(self.tensors[f"p:{operand.name}"], operand.axes)), None
        if operand.kind == "chart":
            chart = self.plan.chart[operand.name]
            values = None if chart.is_scalar else f"v:{operand.name}"
            scales: str | None = f"e:{chart.scale_of}"
        else:
            table = self.plan.table[operand.name]
            values = None if table.scaled and not table.states else f"t:{operand.name}"
            scales = f"s:{operand.name}" if table.scaled else None
        flat, inside = self.frame.cells(operand.name, operand.index, len(operand.index))
        zero = self.tensors[f"zero:{operand.name}"]
        cells = self.frame.join(lambda here, cell: torch.where(here, cell, zero), inside, flat)
        value = scale = None
        if values is not None:
            found = taken(self.tensors[values], cells)
            value = once(Named(found.tensor, (*found.dims, *operand.axes)))
        if scales is not None and not self.plan.shares_scale(self.step):
            scale = taken(self.tensors[scales], cells)
        return value, scale

    def scale(self, scales: Sequence[Named], masks: Sequence[Named]) -> Named | None:
        """The sum of the operands' scales at each point, -inf where a mask says so."""
        if not scales and not masks:
            return None
        found = reduce(lambda a, b: self.frame.join(torch.add, a, b), scales) if scales else None
        if not masks:
            return found
        mask = reduce(lambda a, b: self.frame.join(torch.logical_and, a, b), masks)
        if found is None:
            found = Named(torch.zeros((), dtype=torch.float64), ())
        return self.frame.join(lambda here, value: torch.where(here, value, NEGATIVE), mask, found)

    # what it computes

    def result(self, alone: bool) -> tuple[Named | None, Named | None]:
        """The values of the head's cells and their scale; a value of None is one.

        `alone`: no other step of its group may apply where this one does not.
        """
        values, scales = self.read()
        if self.plan.shares_scale(self.step):
            return self.masked(self.contract(values)), None
        scale = self.scale(scales, self.masks(alone))
        splits = [d for d in self.splits if scale is not None and d in scale.dims]
        if scale is not None and splits:
            axes = [scale.dims.index(d) for d in splits]
            dims = tuple(d for d in scale.dims if d not in splits)
            scalar = self.plan.chart[self.step.head].is_scalar
            if scalar and all(value is None for value in values):
                return None, Named(torch.logsumexp(scale.tensor, axes), dims)
            top = scale.tensor.amax(axes, keepdim=True)
            weight = Named(weigh(self.noted, scale.tensor, top), scale.dims)
            scale = Named(scale.tensor.amax(axes), dims)
            self.carry(values, weight)
        return self.contract(values), scale

    @property
    def dtype(self) -> torch.dtype:
        """The type of values."""
        return self.tensors["unit"].dtype

    def masked(self, value: Named | None) -> Named:
        """A value that is zero at the cells which an item does not have."""
        assert value is not None
        for mask in self.step.masks:
            keep = self.frame.holds(mask.expr)
            dims = tuple(dict.fromkeys((*keep.dims, *value.dims)))
            found = torch.where(aligned(keep, dims), aligned(value, dims), 0.0)
            value = Named(found, dims)
        return value

    def carry(self, values: list[Named | None], weight: Named) -> None:
        """Multiplies the weights of the splits into the smallest operand."""
        sizes = [
            (len(set(value.dims) - {*self.point_dims}), number)
            for number, value in enumerate(values)
            if value is not None and self.step.operands[number].kind != "parameter"
        ]
        if not sizes:
            values.append(weight)
            return
        _, number = min(sizes)
        before = values[number]
        assert before is not None
        values[number] = product(before, weight, {*before.dims, *weight.dims})

    def contract(self, values: Sequence[Named | None]) -> Named | None:
        """The product of values along the plan's path, summed to the head's cells and nodes."""
        step = self.step
        everything: list[Named | None] = list(values)
        live = {number: value for number, value in enumerate(values) if value is not None}
        alias: dict[int, int] = {}
        # A path speaks of the operands; the weights of splits may stand after them.
        extra = len(values) - len(step.operands)

        def real(number: int) -> int:
            number += extra if number >= len(step.operands) else 0
            while number in alias:
                number = alias[number]
            return number

        for pair in step.path:
            left, right = real(pair.left), real(pair.right)
            one, two = everything[left], everything[right]
            if one is None or two is None:
                alias[len(everything)] = right if one is None else left
                everything.append(None)
                continue
            del live[left], live[right]
            found = product(one, two, self.kept(pair, live.values()))
            live[len(everything)] = found
            everything.append(found)
        rest = list(live.values())
        if not rest:
            return None
        value = rest.pop(0)
        while rest:
            other = rest.pop(0)
            keep = {d for v in rest for d in v.dims} | {*step.head_axes, *self.cell_dims}
            value = product(value, other, keep)
        return summed(value, {*step.head_axes, *self.cell_dims})

    def kept(self, pair: Pair, others: Iterable[Named]) -> set[str]:
        """The axes that a product of the path keeps: splits only where something else has them."""
        needed = {d for value in others for d in value.dims}
        return {
            *pair.keep,
            *(d for d in self.point_dims if d not in self.splits or d in needed),
        }

    # its cells

    def sizes(self) -> list[int]:
        """The extents of the head's cells."""
        found = [self.frame.loops[name].tensor.shape[0] for name in self.positions]
        return [*found, self.tensors["unit"].shape[0]]

    def over_cells(self, value: Named | None) -> Tensor:
        """Values over all cells and states of the head, in their order."""
        step, sizes = self.step, self.sizes()
        if value is None:
            value = Named(torch.ones((), dtype=self.dtype), ())
        axes = tuple(dict.fromkeys(step.head_axes))
        states = self.plan.chart[step.head].states
        wanted = [*sizes, *(states[step.head_axes.index(a)] for a in axes)]
        found = aligned(value, (*self.cell_dims, *axes)).expand(wanted)
        if len(axes) < len(step.head_axes):
            order = tuple(axes.index(a) for a in step.head_axes)
            found = undiagonal(found, len(self.cell_dims), order, tuple(wanted[len(sizes) :]))
        return found

    def scale_over_cells(self, scale: Named | None) -> Tensor:
        """Scales over all cells of the head."""
        if scale is None:
            return torch.zeros(self.sizes(), dtype=torch.float64)
        return aligned(scale, self.cell_dims).expand(self.sizes())


def put(plan: Plan, group: Sequence[StepRun], tensors: Tensors) -> dict[str, Tensor]:
    """The head's chart with the sum of what the steps of a group give."""
    first = group[0]
    step = first.step
    chart = plan.chart[step.head]
    alone = len(group) == 1
    results = [run.result(alone) for run in group]
    flat, inside = first.cells()
    active = reduce(torch.logical_or, [run.active() for run in group])
    trash = tensors[f"zero:{step.head}"] + 1
    cells = torch.where(inside.tensor & active, flat.tensor, trash)
    values, scales = f"v:{step.head}", f"e:{step.head}"
    if plan.shares_scale(step):
        ((value, _),) = results
        return {values: replaced(tensors[values], cells, first.over_cells(value))}
    rank = len(first.cell_dims)
    if chart.is_scalar:
        logs = []
        for run, (value, scale) in zip(group, results, strict=True):
            log = run.scale_over_cells(scale)
            logs.append(log if value is None else log_of(run.noted, 0, run.over_cells(value), log))
        new = log_total(logs)
        if step.mode != "write":
            old = taken(tensors[scales], Named(cells, first.positions)).tensor
            new = torch.logaddexp(old, new)
        return {scales: replaced(tensors[scales], cells, new)}
    terms: list[tuple[Tensor, Tensor | None]] = [
        (run.over_cells(value), run.scale_over_cells(scale))
        for run, (value, scale) in zip(group, results, strict=True)
    ]
    if step.mode != "write":
        old_value = taken(tensors[values], Named(cells, first.positions)).tensor
        old_scale = taken(tensors[scales], Named(cells, first.positions)).tensor
        terms.append((old_value, old_scale))
    new, top = total(first.noted, terms, rank)
    assert top is not None
    greatest = new.amax(tuple(range(rank, new.dim())))
    first.noted.tops.append((0, greatest, None))
    safe = greatest.clamp_min(TINY[new.dtype])
    return {
        values: replaced(tensors[values], cells, new / spread(safe, new)),
        scales: replaced(tensors[scales], cells, greatest.double().log() + top),
    }


def replaced(storage: Tensor, cells: Tensor, new: Tensor) -> Tensor:
    """A chart with new entries at cells."""
    rank = cells.dim()
    flat = new.flatten(0, rank - 1) if rank else new.unsqueeze(0)
    return storage.index_copy(0, cells.reshape(-1), flat)
