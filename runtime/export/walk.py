"""A scaled kernel as tensor operations that have one shape for all levels.

A chart is stored as `[cells + 2, batch, *states]`: after its own cells one that is always zero,
for what is read outside, and one for what is written outside the box of a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import count, groupby
from math import inf, log

import torch
from torch import Tensor

from fgg.grammar.index import Expr
from fgg.plan import Mask, Operand, Plan, PlanStage, Step
from fgg.plan.kernel import (
    BATCH,
    Block,
    Greatest,
    Hide,
    Keep,
    Kernel,
    Load,
    LogSum,
    Multiply,
    Operation,
    Put,
    Scale,
    Stage,
    Sum,
    Weigh,
)
from fgg.plan.kernelise import kernelise
from fgg.runtime.export.algebra import TracedAlgebra, Value, aligned
from fgg.runtime.export.frame import Frame, Tensors, taken
from fgg.runtime.interpret.algebra import Named
from fgg.runtime.prelude.batch import Batch
from fgg.runtime.prelude.cells import NEGATIVE, spread
from fgg.runtime.prelude.scaled import TINY, log_of, log_total, total, weigh

SPARE = 2


def uniform_kernel(plan: Plan) -> Kernel:
    """The inside kernel whose masks say what loops and guards do, which are the same on all levels.

    A loop begins where it does on each level, and has the most points that it has on any.
    """
    stages = tuple(_uniform(stage) for stage in plan.stages)
    return kernelise(replace(plan, stages=stages), scaled=True)


def _uniform(stage: PlanStage) -> PlanStage:
    steps: list[Step] = []
    for _, members in groupby(stage.steps, key=lambda step: (step.head, step.group)):
        group = list(members)
        for step in group:
            tests = [
                high - Expr.of(loop.name) * divisor
                for loop in step.splits
                for high, divisor in loop.high.terms
            ]
            # A step on its own puts nothing where its guards do not hold.
            tests += step.guards if len(group) > 1 else ()
            masks = (Mask(test, mixed=False) for test in tests)
            steps.append(replace(step, masks=(*step.masks, *masks)))
    return replace(stage, steps=tuple(steps))


class Noted(Batch):
    """What the blocks of a group tell about the range of numbers."""

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


def carry_out(plan: Plan, stage: Stage, tensors: Tensors) -> dict[tuple[str, ...], Tensor]:
    """The tensors that a stage writes, after one level of it."""
    now = dict(tensors)
    written: dict[tuple[str, ...], Tensor] = {}
    numbers = count()
    for group in stage.groups:
        noted = Noted(now["unit",])
        runs = [BlockRun(plan, block, str(next(numbers)), now, noted) for block in group]
        new = put(plan, runs, now)
        new["range",] = noted.joined(now["range",])
        now |= new
        written |= new
    return written


def written_by(plan: Plan, stage: Stage) -> tuple[tuple[str, ...], ...]:
    """The tensors that a stage writes."""
    names: dict[tuple[str, ...], None] = {("range",): None}
    for block in stage.blocks:
        put = block.body[-1]
        assert isinstance(put, Put | Keep)
        if not plan.chart[put.cells.name].is_scalar:
            names["values", put.cells.name] = None
        if isinstance(put, Put) or put.source is not None:
            names["scales", put.cells.name] = None
    return tuple(names)


class BlockRun:
    """One block at the level of a run.

    `value` is that of the head's cells, one if it is None. `scale` is theirs, zero if it is None.
    """

    def __init__(
        self, plan: Plan, block: Block, number: str, tensors: Tensors, noted: Noted
    ) -> None:
        self.plan = plan
        self.block = block
        self.tensors = tensors
        self.noted = noted
        self.algebra = TracedAlgebra(noted.dtype)
        points = [(loop, tensors["points", number, loop.name]) for loop in block.loops]
        self.frame = Frame(plan, tensors, points)
        self.positions = tuple(loop.name for loop in block.positions)
        self.values: dict[str, Value] = {}
        for name, op in block.value.items():
            self.values[name] = self.operation(op)
        head = block.body[-1]
        assert isinstance(head, Put | Keep)
        self.head = head
        self.value = None if head.value is None else self.values[head.value]
        self.scale: Value | None = None
        if isinstance(head, Keep):
            self.scale = None if head.source is None else self.scale_of(head.source)
        elif head.scale is not None:
            self.scale = self.values[head.scale]

    def operation(self, op: Operation) -> Value:
        """What an operation gives."""
        values = self.values
        match op:
            case Load():
                return self.load(op.cells)
            case Scale():
                return self.point_scale(op)
            case Greatest() | LogSum():
                scale = values[op.scale]
                axes = [i for i, d in enumerate(scale.dims) if d not in op.dims]
                over = torch.amax if isinstance(op, Greatest) else torch.logsumexp
                return Named(over(scale.array, axes), tuple(d for d in scale.dims if d in op.dims))
            case Weigh():
                scale, top = values[op.scale], aligned(values[op.top], values[op.scale].dims)
                return Named(weigh(self.noted, scale.array, top), scale.dims)
            case Multiply():
                return self.algebra.contract(values[op.left], values[op.right], op.dims)
            case Sum():
                return self.algebra.sum(values[op.source], op.dims)
            case Hide():
                value, mask = values[op.source], self.holds(op.masks)
                dims = (*mask.dims, *(d for d in value.dims if d not in mask.dims))
                kept = torch.where(aligned(mask, dims), aligned(value, dims), 0.0)
                return Named(kept, dims)
            case _:
                raise TypeError(f"an inside kernel has no {type(op).__name__}")

    # what it reads

    def holds(self, masks: Sequence[Mask]) -> Value:
        """Where masks hold."""
        return self.frame.both(*(self.frame.holds(mask.expr) for mask in masks))

    def place(self, cells: Operand) -> Value:
        """The numbers of cells; that of a cell of zeros where there are none."""
        number, inside = self.frame.cells(cells)
        zero = self.tensors["zero", cells.name]
        return self.frame.join(lambda here, cell: torch.where(here, cell, zero), inside, number)

    def load(self, cells: Operand) -> Value:
        """The values of cells, or of a parameter."""
        if cells.kind == "parameter":
            return self.algebra.named(self.tensors["parameter", cells.name], cells.axes)
        entries = taken(self.tensors["values", cells.name], self.place(cells))
        return self.algebra.named(entries.array, (*entries.dims, *cells.axes))

    def scale_of(self, cells: Operand) -> Value:
        """The scales of cells."""
        name = cells.name
        if cells.kind == "chart":
            name = self.plan.chart[name].scale_of
        return taken(self.tensors["scales", name], self.place(cells))

    def point_scale(self, op: Scale) -> Value:
        """The scale of each point; minus infinity where a mask does not hold."""
        zero = Named(torch.zeros((self.noted.size,), dtype=torch.float64), (BATCH,))
        scale = reduce(
            lambda a, b: self.frame.join(torch.add, a, b),
            map(self.scale_of, op.cells),
            Named(zero.array + log(op.count), (BATCH,)),
        )
        if not op.masks:
            return scale
        return self.frame.join(
            lambda here, value: torch.where(here, value, NEGATIVE), self.holds(op.masks), scale
        )

    # where it puts that

    def active(self) -> Tensor:
        """Whether the block has any points at this level."""
        tests = [self.frame.holds(guard).array for guard in self.block.guards]
        # Points are counted from the low end: there are some if the first one is inside.
        tests += [inside.array[0] for inside in self.frame.inside.values()]
        return reduce(torch.logical_and, tests, torch.ones((), dtype=torch.bool))

    def cells(self) -> tuple[Tensor, Tensor]:
        """The numbers of the head's cells over the positions, and which of them are in the box."""
        number, inside = self.frame.cells(self.head.cells)
        inside = self.frame.both(inside, *(self.frame.inside[name] for name in self.positions))
        assert inside.dims == self.positions
        return aligned(number, self.positions), inside.array

    @property
    def sizes(self) -> dict[str, int]:
        """The extents of the head's cells and nodes."""
        loops = {d: self.frame.inside[d].array.shape[0] for d in self.positions}
        return {**loops, BATCH: self.noted.size, **self.block.sizes}

    def new_values(self) -> Tensor:
        """Values over all cells and states of the head, in their order."""
        one = Named(torch.ones((), dtype=self.noted.dtype), ())
        value = one if self.value is None else self.value
        front = (*self.positions, BATCH)
        return self.algebra.spread(value, front, self.head.cells.axes, self.sizes)

    def new_scales(self) -> Tensor:
        """Scales over all cells of the head."""
        zero = Named(torch.zeros((), dtype=torch.float64), ())
        scale = zero if self.scale is None else self.scale
        return self.algebra.fit(scale, (*self.positions, BATCH), self.sizes)


def put(plan: Plan, runs: Sequence[BlockRun], tensors: Tensors) -> dict[tuple[str, ...], Tensor]:
    """The head's chart with the sum of what the blocks of a group give."""
    first = runs[0]
    head, name = first.head, first.head.cells.name
    noted, rank = first.noted, len(first.positions) + 1
    number, inside = first.cells()
    active = reduce(torch.logical_or, [run.active() for run in runs])
    cells = torch.where(inside & active, number, tensors["zero", name] + 1)
    values, scales = ("values", name), ("scales", name)
    if isinstance(head, Keep):
        new: dict[tuple[str, ...], Tensor] = {}
        new[values] = replaced(tensors[values], cells, first.new_values())
        if head.source is not None:
            new[scales] = replaced(tensors[scales], cells, first.new_scales())
        return new
    more = head.mode != "write"
    old = Named(cells, first.positions)
    if plan.chart[name].is_scalar:
        logs = [
            scale if run.value is None else log_of(noted, 0, run.new_values(), scale)
            for run in runs
            for scale in (run.new_scales(),)
        ]
        logs += [taken(tensors[scales], old).array] if more else []
        return {scales: replaced(tensors[scales], cells, log_total(logs))}
    terms: list[tuple[Tensor, Tensor | None]] = [
        (run.new_values(), run.new_scales()) for run in runs
    ]
    if more:
        terms.append((taken(tensors[values], old).array, taken(tensors[scales], old).array))
    sums, top = total(noted, terms, rank)
    assert top is not None
    greatest = sums.amax(tuple(range(rank, sums.dim())))
    noted.tops.append((0, greatest, None))
    safe = greatest.clamp_min(TINY[sums.dtype])
    return {
        values: replaced(tensors[values], cells, sums / spread(safe, sums)),
        scales: replaced(tensors[scales], cells, greatest.double().log() + top),
    }


def replaced(storage: Tensor, cells: Tensor, new: Tensor) -> Tensor:
    """A chart with new entries at cells."""
    rank = cells.dim()
    flat = new.flatten(0, rank - 1) if rank else new.unsqueeze(0)
    return storage.index_copy(0, cells.reshape(-1), flat)
