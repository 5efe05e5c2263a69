"""The cells that the steps of a plan read and fill, for given lengths, as index arrays.

All items of a batch have the same lengths here, so that an index array has no axis for the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.index import Expr
from fgg.plan import Contract, Gather, OneHot, Plan, Step
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.charts import ends, points
from fgg.runtime.interpret.frame import BATCH, Frame, Scope
from fgg.runtime.interpret.semirings.base import Ints
from fgg.runtime.memory import require


@dataclass(frozen=True, eq=False)
class Read:
    """Cells of a chart or a table: their numbers, over some loops; `valid` is 0 where none is."""

    cells: Tensor
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    valid: Tensor | None


@dataclass(frozen=True, eq=False)
class LevelStep:
    """A step on a level.

    `presence` is one where the rule applies, zero elsewhere: an array and its axes, which are the
    loops and nodes that no operand has. The `first` step that fills cells sets them; others add.
    """

    step: Step
    reads: tuple[Read | None, ...]
    head: Read
    sizes: Mapping[str, int]
    presence: tuple[Tensor, tuple[str, ...]] | None
    first: bool


class Geometry:
    """A plan for given lengths."""

    def __init__(self, plan: Plan, lengths: Mapping[str, int]) -> None:
        self.plan = plan
        arrays = {n: np.array([v], dtype=np.int64) for n, v in lengths.items()}
        self.scope = Scope(plan, Batch(1, arrays, {}, {}, {}))
        grammar = plan.grammar
        values = {**size_values(grammar), **lengths}
        self.extents: dict[str, tuple[int, ...]] = {}
        self.low: dict[str, tuple[int, ...]] = {}
        for chart in plan.charts:
            first, last = ends(chart, self.scope)
            self.low[chart.family] = first
            spans = zip(first, last, strict=True)
            self.extents[chart.family] = tuple(max(b - a + 1, 0) for a, b in spans)
        self.inputs = {
            item.name: tuple(_known(e.evaluate(values)) for e in item.shape)
            for item in grammar.inputs
        }
        self.tables = self._tables()
        self._filled = {n: np.zeros(prod(e), dtype=bool) for n, e in self.extents.items()}
        self._check_memory()
        self.points = [self._point(step, frame) for step, frame in points(plan, self.scope)]
        self.start = self._start()

    def _check_memory(self) -> None:
        """Raise GrammarError (F420) if index arrays would not fit. Nothing is allocated."""
        total = 0
        for step, frame in points(self.plan, self.scope):
            for operand in step.operands:
                if operand.kind != "parameter":
                    total += prod(frame.size(d) for d in frame.dims(operand.index))
            total += prod(frame.size(item.name) for item in step.positions)
        # A cell's number, where it holds, and at least a weight for one functional.
        require(24 * total, torch.device("cpu"), "the program for strings of this length")

    def _tables(self) -> dict[str, tuple[int, ...]]:
        """The indices of each prepared table: how many there are."""
        extents: dict[str, tuple[int, ...]] = {}
        for step in self.plan.preparations:
            if isinstance(step, OneHot):
                extents[step.name] = self.inputs[step.input]
            elif isinstance(step, Gather):
                firsts = {token.group: token.input for token in reversed(step.tokens)}
                extents[step.name] = tuple(
                    n for g in sorted(firsts) for n in self.inputs[firsts[g]]
                )
            elif isinstance(step, Contract) and step.tables:
                sizes = {
                    axis: size
                    for name, axes in step.operands
                    if name in step.tables
                    for axis, size in zip(axes, extents[name], strict=False)
                }
                extents[step.name] = tuple(sizes[a] for a in step.axes if a.startswith("#"))
        return extents

    def _start(self) -> int | None:
        """The cell whose value is Z; None if there is none."""
        start = self.plan.start
        if start.name not in self.extents:
            return None
        read = self._read(Frame(self.scope, {}, 0), start.name, start.index)
        return int(read.cells[0]) if read.valid is None and read.cells.numel() else None

    def _read(self, frame: Frame, name: str, index: Sequence[Expr], table: bool = False) -> Read:
        shape = self.tables[name] if table else self.extents[name]
        low = (0,) * len(index) if table else self.low[name]
        place = frame.place(index, low, shape)
        cells: Ints = np.zeros(place.valid.shape, dtype=np.int64)
        for place_index, extent in zip(place.index, shape, strict=False):
            cells = cells * extent + place_index
        valid = None
        if not bool(place.valid.all()):
            valid = torch.from_numpy(place.valid[..., 0].astype(np.float64))
        dims = tuple(loop(d) for d in place.dims if d != BATCH)
        flat = torch.from_numpy(np.ascontiguousarray(cells).reshape(-1))
        return Read(flat, dims, place.valid.shape[:-1], valid)

    def _point(self, step: Step, frame: Frame) -> LevelStep:
        reads = tuple(
            None
            if operand.kind == "parameter"
            else self._read(frame, operand.name, operand.index, operand.kind == "table")
            for operand in step.operands
        )
        sizes = {loop(d): frame.size(d) for d in frame.loops}
        for node in step.rule.rhs.nodes:
            sizes[node.name] = domain_size(self.plan.grammar, node.domain)
        positions = tuple(loop(item.name) for item in step.positions)
        head = self._read(frame, step.head, step.head_index)
        shape = [sizes[d] for d in positions]
        extents = [sizes[d] if d in head.dims else 1 for d in positions]
        cells = head.cells.reshape(extents).expand(shape).reshape(-1)
        valid = None if head.valid is None else head.valid.reshape(extents).expand(shape).clone()
        full = Read(cells, positions, tuple(shape), valid)
        filled, numbers = self._filled[step.head], cells.numpy()
        first = not bool(filled[numbers].any())
        filled[numbers] = True
        presence = self._presence(step, frame, reads, sizes)
        return LevelStep(step, reads, full, sizes, presence, first)

    def _presence(
        self,
        step: Step,
        frame: Frame,
        reads: Sequence[Read | None],
        sizes: Mapping[str, int],
    ) -> tuple[Tensor, tuple[str, ...]] | None:
        seen = {d for read in reads if read is not None for d in read.dims}
        seen |= {loop(item.name) for item in step.positions}
        loose = [loop(d) for d in frame.loops if loop(d) not in seen]
        masks = [mask.expr for mask in step.masks if not mask.mixed]
        holds, names = frame.holds(masks)
        if bool(holds.all()) and not loose:
            return None
        dims = tuple(loop(d) for d in names if d != BATCH)
        mask = torch.from_numpy(holds[..., 0].astype(np.float64))
        extra = [d for d in loose if d not in dims]
        mask = mask.reshape(tuple(mask.shape) + (1,) * len(extra))
        dims = (*dims, *extra)
        return mask.expand([sizes[d] for d in dims]).clone(), dims

    def cells(self, name: str) -> int:
        """How many cells a chart or a table has."""
        return prod(self.tables[name] if name in self.tables else self.extents[name])


def loop(name: str) -> str:
    """A loop variable as an axis, apart from nodes of the same name."""
    return "~" + name


def _known(value: int | None) -> int:
    assert value is not None
    return value
