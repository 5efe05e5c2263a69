"""What Triton launches do, counted from the launches of a plan's blocks.

Bytes are those between a GPU's memory and its chip. A program reads a number once, however often
it uses it. What several programs of a launch read counts once if it is at most half of the L2
cache, and once for each program otherwise; from one launch to the next nothing is kept. Adding to
a number reads and writes it. Lengths of items, the few numbers of the range certificate, and
partly filled sectors are not counted. All items are of one length.

The tensor operations that prepare the range certificate and read it off are launches too. Others
before and after the steps are taken from the tensor program, which makes the same charts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from fgg.compiler.cost.point_counts import Boxes
from fgg.compiler.emit.simplify import passes
from fgg.compiler.emit.triton.launches import (
    Facts,
    Launch,
    Unfit,
    computed,
    launches,
    padded,
    programs_cells,
)
from fgg.compiler.emit.triton.matrices import COLUMNS, ROWS
from fgg.plan import Operand, Plan
from fgg.plan.kernel import (
    BATCH,
    Block,
    Effect,
    Erase,
    Give,
    Keep,
    Load,
    Multiply,
    Operation,
    Put,
    Relative,
    Scale,
    Stage,
    reads,
)
from fgg.plan.sizes import extents
from fgg.plan.work import FAR, INSIDE, ONCE, OUTSIDE, Work

SCALE = 8
"""The bytes of a scale."""
RANGE = 11
"""Launches of tensor operations for the range certificate."""
Counts = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What costs are counted for: a batch of items of given lengths, and an L2 cache."""

    plan: Plan
    values: Mapping[str, int]
    batch: int
    width: int
    cache: int


@dataclass(frozen=True, kw_only=True)
class Least:
    """The bytes that a rule has to move in a pass, and its multiply-adds.

    Every cell that a use needs is read once, every cell that is made is written once. A use is a
    rule on one level. An adjoint is read and written by every use; in `once` it is written once.
    """

    rule: str
    phase: str
    bytes: int
    once: int
    multiply_adds: int


@dataclass(frozen=True)
class Place:
    """Where a block is: its pass, its stage, and the number of the stage."""

    phase: str
    stage: Stage
    number: int


class BlockCounter:
    """Counts cells and points of one block, for all of its levels."""

    def __init__(self, setting: Setting, at: Place, block: Block) -> None:
        self.setting = setting
        self.block = block
        self.facts = Facts(block)
        self.boxes = Boxes.of_block(at.stage, block, setting.values)
        self.levels = ONCE + self.zeros
        if at.stage.levels is not None:
            self.levels = self.boxes.levels + float(at.number * FAR)
        self.loops = {loop.name for loop in block.loops}

    @property
    def zeros(self) -> Counts:
        """Zero for each level."""
        return np.zeros(self.boxes.count)

    def points(self, loops: Iterable[str]) -> Counts:
        """The number of points of some loops and the items, on each level."""
        wanted = set(loops)
        items = self.setting.batch if BATCH in wanted else 1
        return self.boxes.points(wanted & self.loops) * float(items)

    def numbers(self, nodes: Iterable[str]) -> int:
        """How many values nodes have together."""
        return prod(self.block.sizes[node] for node in dict.fromkeys(nodes))

    def cells(self, cells: Operand) -> Counts:
        """How many different cells are read or written on each level."""
        if cells.kind == "parameter":
            return self.zeros + 1
        plan, values = self.setting.plan, self.setting.values
        names = {name for expr in cells.index for name in expr.names()}
        count = self.points(names | {BATCH})
        stored = plan.chart[cells.name] if cells.kind == "chart" else plan.table[cells.name]
        return np.minimum(count, float(prod(extents(stored, values)) * self.setting.batch))

    def bytes_of(self, cells: Operand) -> Counts:
        """The bytes of the values of these cells."""
        return self.cells(cells) * self.numbers(cells.axes) * self.setting.width

    def effect(self, effect: Effect) -> Counts:
        """The bytes that an effect moves if it happens at every cell once."""
        cells = effect.cells
        match effect:
            case Put():
                scalar = self.setting.plan.chart[cells.name].is_scalar
                once = self.cells(cells) * SCALE + (0 if scalar else self.bytes_of(cells))
                return once * (2 if effect.mode == "add" else 1)
            case Keep():
                scales = 0 if effect.source is None else 2 * SCALE
                return self.bytes_of(cells) + self.cells(cells) * scales
            case Give():
                return 2 * self.bytes_of(cells)
            case Erase():
                return self.zeros  # nothing is erased where all items are of one length
        raise AssertionError(effect)

    # the least that a block has to do

    def least(self, phase: str) -> Least:
        """What no program that carries the block out can do without."""
        seen: set[object] = set()
        moved, once, multiplied = self.zeros, 0.0, self.zeros
        for op in self.block.body:
            for key, count in self.read_once(op):
                if key not in seen:
                    seen.add(key)
                    moved = moved + count
            if isinstance(op, Multiply):
                dims = {d for name in reads(op) for d in self.block.value[name].dims}
                nodes = [d for d in dims if d in self.block.sizes]
                multiplied = multiplied + self.points(dims) * self.numbers(nodes)
            elif isinstance(op, Give):
                # The gradient of a parameter is written when all levels are done.
                once += self.adjoint_once(op)
                moved = moved + (0 if op.cells.kind == "parameter" else self.effect(op))
                once -= 0 if op.cells.kind == "parameter" else float(self.effect(op).sum())
            elif isinstance(op, Effect):
                moved = moved + self.effect(op)
        gradients = sum(
            self.adjoint_once(op)
            for op in self.block.body
            if isinstance(op, Give) and op.cells.kind == "parameter"
        )
        whole = float(moved.sum())
        return Least(
            rule=self.block.rule.name,
            phase=phase,
            bytes=int(whole + gradients),
            once=int(whole + once),
            multiply_adds=int(multiplied.sum()),
        )

    def adjoint_once(self, op: Give) -> float:
        """The bytes of an adjoint that is written once in a whole pass."""
        setting, cells = self.setting, op.cells
        numbers = self.numbers(cells.axes) * setting.width
        if cells.kind == "parameter":
            return float(numbers)
        plan = setting.plan
        stored = plan.chart[cells.name] if cells.kind == "chart" else plan.table[cells.name]
        whole = float(prod(extents(stored, setting.values)) * setting.batch)
        return min(whole, float(self.cells(cells).sum())) * numbers

    def read_once(self, op: Operation) -> Iterator[tuple[object, Counts]]:
        """The stored cells that an operation reads, by a key that is the same for the same."""
        if isinstance(op, Load):
            cells = op.cells
            yield (cells.kind, cells.name, cells.index, op.adjoint), self.bytes_of(cells)
        elif isinstance(op, Scale | Relative):
            for cells in op.cells if isinstance(op, Scale) else (op.head,):
                yield ("scale", cells.name, cells.index), self.cells(cells) * SCALE


class LaunchCounter(BlockCounter):
    """Counts what one launch of a block does."""

    def __init__(
        self,
        setting: Setting,
        at: Place,
        launch: Launch,
        kept: Mapping[str, Launch],
    ) -> None:
        super().__init__(setting, at, launch.block)
        self.launch = launch
        self.known = {name for name in kept if name not in launch.kept}

    def work(self, phase: str) -> Work:
        """The launch, once for each level."""
        counted = {"cells": self.of_cells, "product": self.of_product, "weights": self.of_weights}
        moved, multiplied, programs = counted[self.launch.kind]()
        name = self.block.rule.name
        return Work.of(name, phase, self.levels, moved, multiplied, programs)

    def moved(self, distinct: Counts, asked: Counts) -> Counts:
        """The bytes that come from memory, of so many that programs ask for."""
        fits = distinct <= self.setting.cache / 2
        return np.where(fits, np.minimum(distinct, asked), asked)

    # cells

    def at(self, loops: Iterable[str]) -> frozenset[str]:
        """The loops at whose points a program of cells computes what depends on some loops."""
        return frozenset({*self.launch.grid} | (set(loops) & set(self.launch.inner)))

    def of_cells(self) -> tuple[Counts, Counts, Counts]:
        """Bytes, multiply-adds and programs of a launch of cells."""
        launch, block = self.launch, self.block
        names = computed(block, launch, self.known)
        moved, multiplied = self.zeros, self.zeros
        for name in names:
            op = block.value[name]
            multiplied = multiplied + self.products(op)
            moved = moved + self.read(op, self.points(self.at(self.facts.loops(name))))
        users = [reads(block.value[name]) for name in names] + [tuple(launch.targets)]
        for name in self.known:
            if any(name in user for user in users):
                moved = moved + self.buffer(name)
        programs = np.ceil(self.points(launch.grid) / programs_cells(launch, self.volume(names)))
        moved = moved + self.written(programs)
        return moved, multiplied, programs

    def products(self, op: Operation) -> Counts:
        """The multiply-adds of an operation of a program of cells."""
        if not isinstance(op, Multiply):
            return self.zeros
        loops = self.facts.loops(op.left) | self.facts.loops(op.right)
        nodes = (*self.facts.nodes(op.left), *self.facts.nodes(op.right))
        return self.points(self.at(loops)) * self.numbers(nodes)

    def read(self, op: Operation, points: Counts, times: float = 1.0) -> Counts:
        """The bytes of stored cells that an operation reads at so many points, `times` each."""
        moved = self.zeros
        if isinstance(op, Load):
            asked = points * self.numbers(op.cells.axes) * self.setting.width * times
            moved = self.moved(self.bytes_of(op.cells), asked)
        elif isinstance(op, Scale | Relative):
            for cells in op.cells if isinstance(op, Scale) else (op.head,):
                moved = moved + self.moved(self.cells(cells) * SCALE, points * SCALE * times)
        return moved

    def buffer(self, name: str, times: float = 1.0) -> Counts:
        """The bytes of what another launch has computed."""
        numbers = self.numbers(self.facts.nodes(name)) * self.setting.width
        whole = self.points(self.facts.loops(name)) * numbers
        return self.moved(whole, whole * times)

    def volume(self, names: Iterable[str]) -> int:
        """How many numbers a point has of what an operation multiplies, as tiles are padded."""
        block = self.block
        shapes = [set[str]()]
        for name in names:
            values = (name, *reads(block.value[name]))
            shapes.append({n for value in values for n in self.facts.nodes(value)})
        shapes += [set(effect.cells.axes) for effect in self.launch.effects]
        return max(prod(padded(block.sizes[node]) for node in shape) for shape in shapes)

    def written(self, programs: Counts) -> Counts:
        """The bytes of buffers and effects."""
        moved = self.zeros
        for name in self.launch.kept:
            moved = moved + self.buffer(name)
        for effect in self.launch.effects:
            if isinstance(effect, Give) and effect.cells.kind == "parameter":
                # Every program adds its own sum.
                numbers = self.numbers(effect.cells.axes) * self.setting.width
                distinct = self.zeros + numbers
                moved = moved + 2 * self.moved(distinct, numbers * programs)
            else:
                moved = moved + self.effect(effect)
        return moved

    # products of matrices

    def of_product(self) -> tuple[Counts, Counts, Counts]:
        """Bytes, multiply-adds and programs of cells times a parameter."""
        launch, op = self.launch, self.launch.matrix
        assert op is not None
        found = self.facts.matrix(op)
        assert found is not None
        rows, matrix = found
        source = self.block.value[matrix]
        assert isinstance(source, Load)
        height = self.numbers(self.facts.nodes(rows))
        width = self.numbers(n for n in source.cells.axes if n not in self.facts.nodes(rows))
        points = self.points(launch.grid)
        down, across = np.ceil(points / ROWS), -(-width // min(COLUMNS, padded(width)))
        size = height * width * self.setting.width
        moved = self.moved(self.zeros + size, size * down)
        moved = moved + self.side(rows, points, across) + self.written(down * across)
        multiplied = points * height * width + self.entries(rows, points * across)
        return moved, multiplied, down * across

    def side(self, name: str, points: Counts, times: float) -> Counts:
        """The bytes that one side of a product is computed from, `times` over."""
        if name in self.known:
            return self.buffer(name, times)
        moved = self.zeros
        for other in self.entrywise(name):
            moved = moved + self.read(self.block.value[other], points, times)
        return moved

    def entries(self, name: str, points: Counts) -> Counts:
        """The multiply-adds of what a side is computed from, entry by entry."""
        if name in self.known:
            return self.zeros
        values = [self.block.value[other] for other in self.entrywise(name)]
        nodes = [n for op in values if isinstance(op, Multiply) for n in self.facts.nodes(op.name)]
        return points * self.numbers(nodes) if nodes else self.zeros

    def entrywise(self, name: str) -> Iterator[str]:
        """A value and all that it is computed from."""
        yield name
        for other in reads(self.block.value[name]):
            yield from self.entrywise(other)

    def of_weights(self) -> tuple[Counts, Counts, Counts]:
        """Bytes, multiply-adds and programs of a parameter's gradient."""
        op = self.launch.matrix
        assert op is not None
        sizes = [self.numbers(self.facts.nodes(name)) for name in (op.left, op.right)]
        tiles = [-(-size // min(COLUMNS, padded(size))) for size in sizes]
        points = self.points(self.launch.grid)
        moved = self.zeros + 2 * prod(sizes) * self.setting.width
        moved = moved + self.side(op.left, points, tiles[1])
        moved = moved + self.side(op.right, points, tiles[0])
        return moved, points * prod(sizes), self.zeros + prod(tiles)


def triton_work(setting: Setting) -> tuple[list[Work], dict[str, str]]:
    """The launches of both passes; and the rules that have none, with the reason."""
    done: list[Work] = []
    refused: dict[str, str] = {}
    certified = False
    for at, group in groups(setting.plan):
        try:
            divided = [launches(setting.plan, block) for block in group]
        except Unfit as reason:
            refused |= {f"{at.phase} {block.rule.name}": str(reason) for block in group}
            continue
        for some in divided:
            kept = {name: launch for launch in some for name in launch.kept}
            done += [
                LaunchCounter(setting, at, launch, kept).work(at.phase)
                for launch in some
                if not launch.only_erases  # all items are of one length
            ]
            effects = [effect for launch in some for effect in launch.effects]
            certified |= any(isinstance(e, Put) and e.value is not None for e in effects)
    if certified:
        done.append(certificate(setting))
    return done, refused


def certificate(setting: Setting) -> Work:
    """The tensor operations of `Range` in `fgg.runtime.prelude.gpu`."""
    rows = setting.plan.greatest_depth + 1
    return Work.of("", INSIDE, [ONCE] * RANGE, rows * setting.batch * setting.width, 0)


def least_work(setting: Setting) -> list[Least]:
    """The least that the rules of a plan have to do, in both passes."""
    return [
        BlockCounter(setting, at, block).least(at.phase)
        for at, group in groups(setting.plan)
        for block in group
    ]


def groups(plan: Plan) -> Iterator[tuple[Place, tuple[Block, ...]]]:
    """The groups of both passes, with their places."""
    for phase, kernel in zip((INSIDE, OUTSIDE), passes(plan), strict=True):
        for number, stage in enumerate(kernel.stages):
            for group in stage.groups:
                yield Place(phase, stage, number), group
