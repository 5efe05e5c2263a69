"""A plain kernel carried out on charts in any semiring.

A block gathers cells by index arrays into arrays with an axis for each loop, the batch and each
node, and multiplies and sums them as its operations say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Generic

from fgg.plan import Operand
from fgg.plan.kernel import (
    BATCH,
    Block,
    Effect,
    Give,
    Kernel,
    Load,
    Multiply,
    Presence,
    Put,
    Sum,
    live,
    reads,
)
from fgg.progress import steps
from fgg.runtime.interpret.algebra import Named
from fgg.runtime.interpret.charts import Charts
from fgg.runtime.interpret.frame import CellIndex, Frame, Scope
from fgg.runtime.interpret.semirings.base import Array

Sizes = Mapping[str, int]


Point = tuple[Block, Frame]
"""A block on one level."""


def points(kernel: Kernel, scope: Scope) -> Iterator[Point]:
    """Every block on every level where it has points, in order."""
    for stage in kernel.stages:
        for level in steps(scope.levels(stage.levels), "level"):
            for block in stage.blocks:
                frame = scope.frame(block, level)
                if frame is not None:
                    yield block, frame


class Tape(Generic[Array]):
    """The values of an inside pass that an outside kernel would compute again.

    Requires a scope that keeps its frames.
    """

    def __init__(self, outside: Kernel) -> None:
        self.values: dict[tuple[Frame, int], Named[Array]] = {}
        self._numbers: dict[object, int] = {}
        self._blocks: dict[int, dict[str, int]] = {}
        self.needed = {n for block in outside.blocks for n in self.numbers(block).values()}

    def numbers(self, block: Block) -> Mapping[str, int]:
        """A number for each value that no derivative enters; equal computations have equal ones."""
        if id(block) not in self._blocks:
            known = self._blocks[id(block)] = {}
            for op in block.body:
                if isinstance(op, Effect) or (isinstance(op, Load) and op.adjoint):
                    continue
                if all(name in known for name in reads(op)):
                    source = op.cells if isinstance(op, Load) else None
                    counted = (op.masks, op.count) if isinstance(op, Presence) else None
                    key = (op.dims, source, counted, *(known[name] for name in reads(op)))
                    known[op.name] = self._numbers.setdefault(key, len(self._numbers))
        return self._blocks[id(block)]


def filled(
    charts: Charts[Array],
    points: Iterable[Point],
    scores: Mapping[str, Array] | None = None,
    tape: Tape[Array] | None = None,
) -> Charts[Array]:
    """Empty charts after an inside pass; `scores` multiply every cell of some families."""
    walk = Walk(charts, scores or {}, tape)
    for block, frame in points:
        walk.block(block, frame)
    return replace(charts, arrays=walk.arrays)


def slopes_of(
    charts: Charts[Array],
    points: Iterable[Point],
    seeds: Array | None = None,
    tape: Tape[Array] | None = None,
) -> dict[str, Array]:
    """The derivatives of Z by charts, tables and parameters, by name, after an outside pass.

    What Z does not depend on has none. `seeds`, `[batch, *values]`, are the derivatives by the
    start symbol, instead of one.
    """
    walk = Walk(charts, {}, tape)
    walk.start(seeds)
    for block, frame in points:
        walk.block(block, frame)
    return walk.slopes


class Walk(Generic[Array]):
    """A pass over charts: an inside kernel fills `arrays`, an outside kernel fills `slopes`."""

    def __init__(
        self, charts: Charts[Array], scores: Mapping[str, Array], tape: Tape[Array] | None
    ) -> None:
        self.charts = charts
        self.algebra = charts.algebra
        self.scope = charts.scope
        self.leaves = charts.prepared.arrays
        self.arrays = dict(charts.arrays)
        self.slopes: dict[str, Array] = {}
        self.scores = scores
        self.tape = tape

    def start(self, seeds: Array | None = None) -> None:
        """Begin an outside pass: the derivative of Z by the start symbol is one, or `seeds`."""
        start = self.charts.plan.start
        if start.name not in self.arrays:
            return
        place = self.charts.cell(start.name, start.index)
        states = tuple(map(str, range(len(self.charts.plan.chart[start.name].states))))
        sizes = {BATCH: self.scope.batch.size, **self.algebra.sizes}
        sizes |= zip(states, self.charts.plan.chart[start.name].states, strict=True)
        value = self.one() if seeds is None else Named(seeds, (BATCH, *states))
        dims = (BATCH, *self.algebra.element, *states)
        self.collect(start, place, self.algebra.fit(value, dims, sizes))

    def block(self, block: Block, frame: Frame) -> None:
        """Carry out the operations of a block on one level."""
        values: dict[str, Named[Array]] = {}
        numbers = {} if self.tape is None else self.tape.numbers(block)
        sizes = {**frame.sizes, **block.sizes, **self.algebra.sizes}
        for op in block.body:
            match op:
                case Load(adjoint=True) if op.cells.name not in self.slopes:
                    return  # Z does not depend on the block's head
                case Put():
                    value = self.one() if op.value is None else values[op.value]
                    self.put(op, value, frame, block.cell_dims, sizes)
                case Give():
                    self.give(op.cells, values[op.value], frame, sizes)
                case Load() | Presence() | Multiply() | Sum():
                    key = (frame, numbers.get(op.name, -1))
                    if self.tape is None or key[1] not in self.tape.needed:
                        values[op.name] = self.value(op, values, frame)
                    elif key in self.tape.values:
                        values[op.name] = self.tape.values[key]
                    else:
                        values[op.name] = self.tape.values[key] = self.value(op, values, frame)
                case _:
                    raise TypeError(f"a plain kernel has no {type(op).__name__}")

    def one(self) -> Named[Array]:
        """The semiring's one."""
        return Named(self.algebra.semiring.full((), one=True), ())

    def value(
        self,
        op: Load | Presence | Multiply | Sum,
        values: Mapping[str, Named[Array]],
        frame: Frame,
    ) -> Named[Array]:
        """What an operation gives."""
        match op:
            case Load():
                return self.load(op, frame)
            case Presence():
                return self.presence(op, frame)
            case Multiply():
                return self.algebra.contract(values[op.left], values[op.right], op.dims)
            case Sum():
                return self.algebra.sum(values[op.source], op.dims)

    def place(self, cells: Operand, frame: Frame, dims: tuple[str, ...] | None = None) -> CellIndex:
        """Where cells are in their storage."""
        chart = cells.kind == "chart"
        storage = self.arrays[cells.name] if chart else self.leaves[cells.name]
        low = self.charts.low[cells.name] if chart else (0,) * len(cells.index)
        return frame.place(cells.index, low, storage.shape[: len(cells.index)], dims)

    def load(self, op: Load, frame: Frame) -> Named[Array]:
        """Cells over the loops that they depend on, the batch, and their nodes."""
        algebra, cells = self.algebra, op.cells
        if cells.kind == "parameter":
            return algebra.named(self.leaves[cells.name], cells.axes)
        place = self.place(cells, frame)
        if op.adjoint:
            array = algebra.settled(algebra.take(self.slopes[cells.name], place))
        else:
            storage = self.arrays if cells.kind == "chart" else self.leaves
            array = algebra.take(storage[cells.name], place)
        return algebra.named(array, (*place.dims, *algebra.element, *cells.axes))

    def presence(self, op: Presence, frame: Frame) -> Named[Array]:
        """One at the points where the masks hold, as often as it counts."""
        masks = [mask.expr for mask in op.masks if self.scope.mixed or not mask.mixed]
        mask = frame.holds(masks, op.dims)
        ones = Named(self.algebra.ones(mask), op.dims, is_one=bool(mask.all()))
        if op.count == 1:
            return ones
        return self.algebra.contract(ones, Named(self.algebra.times_one(op.count), ()), op.dims)

    def put(
        self, op: Put, value: Named[Array], frame: Frame, dims: tuple[str, ...], sizes: Sizes
    ) -> None:
        """Add to the head's cells."""
        algebra, name = self.algebra, op.cells.name
        place = self.place(op.cells, frame, dims)
        front = (*dims, *algebra.element)
        if name in self.scores:
            cells = algebra.take(self.scores[name], place)
            score = algebra.named(cells, (*front, *op.cells.axes))
            value = algebra.contract(value, score, {*value.dims, *score.dims})
        values = algebra.spread(value, front, op.cells.axes, sizes)
        empty = op.mode == "write" or (op.mode == "mixed" and not self.scope.mixed)
        self.arrays[name] = algebra.add_to(
            self.arrays[name], place, values, distinct=True, empty=empty
        )

    def give(self, cells: Operand, value: Named[Array], frame: Frame, sizes: Sizes) -> None:
        """Add to the derivative by cells or by a parameter."""
        algebra = self.algebra
        if cells.kind == "parameter":
            slope = algebra.spread(value, algebra.slope, cells.axes, sizes)
            before = self.slopes.get(cells.name)
            self.slopes[cells.name] = slope if before is None else algebra.add(before, slope)
            return
        place = self.place(cells, frame)
        front = (*place.dims, *algebra.element)
        self.collect(cells, place, algebra.spread(value, front, cells.axes, sizes))

    def collect(self, cells: Operand, place: CellIndex, values: Array) -> None:
        """Add values to the derivative by cells."""
        storage = self.arrays if cells.kind == "chart" else self.leaves
        slope = self.slopes.get(cells.name)
        if slope is None:
            slope = self.algebra.semiring.full(storage[cells.name].shape, one=False)
        self.slopes[cells.name] = self.algebra.collect(slope, place, values, cells.distinct)


def without_leaves(kernel: Kernel) -> Kernel:
    """An outside kernel that gives derivatives by charts alone."""

    def charts_only(block: Block) -> Block:
        gives = (op for op in block.body if not isinstance(op, Give) or op.cells.kind == "chart")
        return replace(block, body=live(tuple(gives)))

    stages = []
    for stage in kernel.stages:
        groups = tuple(tuple(map(charts_only, group)) for group in stage.groups)
        stages.append(replace(stage, groups=groups))
    return replace(kernel, stages=tuple(stages))
