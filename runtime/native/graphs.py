"""Passes of batches of one shape, captured in CUDA graphs: all of their launches are one.

A graph repeats the launches that it was made from, with the same addresses and the same numbers
from the host. So it serves a batch under these conditions; otherwise the passes run as ever:

- the tensors are on a CUDA device, plain ones, and no pass is lifted;
- everything that the host decides by is the same: shapes and types of all tensors, the least and
  the greatest length, the scale of charts and of gradients, whether there is an outside pass
  (`key`). Tokens, weights and the lengths between may differ: they are copied to fixed addresses;
- the shape comes for the second time: nothing is captured that is needed once;
- the charts of the last batch that had the graph are not needed any more.

Passes never wait for the device, so that they can be captured at all. At most `KEPT` shapes are
kept, as each keeps the memory of its charts.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from fgg.runtime.prelude.batch import Batch
from fgg.runtime.program.emitted import Engine, ScaledCharts

DEVICE = "cuda"
KEPT, SEEN = 8, 1024
"""How many shapes have graphs at most, and of how many it is known that they have come before."""
Made = TypeVar("Made")


def key(leaves: Mapping[str, Tensor], scales: Mapping[str, Tensor], batch: Batch) -> Hashable:
    """All that the host decides by while it starts the launches of a batch."""
    tensors = [*leaves.items(), *scales.items(), *batch.tables.items()]
    shapes = tuple((name, x.shape, x.stride(), x.dtype) for name, x in tensors)
    ends = tuple((name, batch.low[name], batch.high[name]) for name in batch.lengths)
    numbers = (batch.up, batch.slope, batch.watched, batch.spare)
    return (batch.size, batch.dtype, str(batch.device), shapes, ends, numbers)


def captured(work: Callable[[], Made]) -> tuple[torch.cuda.CUDAGraph, Made]:
    """A graph of what some work launches, and what the work returns; it is done once before."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = work()
    return graph, made


class Captured:
    """The passes of one shape in graphs, with the tensors that they read and write.

    `batch` stands for all batches of the shape: its lengths and tables are overwritten.
    """

    def __init__(
        self,
        engine: Engine,
        leaves: Mapping[str, Tensor],
        scales: Mapping[str, Tensor],
        batch: Batch,
        *,
        derivatives: bool,
    ) -> None:
        self.engine = engine
        self.holder: weakref.ref[Batch] | None = None
        self.leaves = {name: leaf.clone() for name, leaf in leaves.items()}
        self.scales = {name: scale.clone() for name, scale in scales.items()}
        self.batch = like(batch)
        self.graph, self.charts = captured(self._inside)
        self.gradient = torch.zeros(batch.size, dtype=batch.dtype, device=batch.device)
        if derivatives:
            self.masks, self.spares = self.batch.made, self.batch.spares
            self.outside_graph, self.found = captured(self._outside)

    def _inside(self) -> ScaledCharts:
        batch = self.batch
        # Index tensors and masks depend on lengths: they are made anew with every batch.
        batch.made, batch.tables_kept, batch.spares = {}, {}, {}
        batch.begin()
        return self.engine.inside(self.leaves, self.scales, batch)

    def _outside(self) -> ScaledCharts:
        batch = self.batch
        # Masks and rooms for adjoints are those of the inside pass; adjoints themselves are new.
        batch.made, batch.spares = dict(self.masks), dict(self.spares)
        batch.charts_kept, batch.tables_kept = {}, {}
        return self.engine.outside(self.leaves, self.scales, *self.charts, batch, self.gradient)

    @property
    def is_free(self) -> bool:
        """Whether nobody needs the charts of the last batch."""
        return self.holder is None or self.holder() is None

    def inside(
        self, leaves: Mapping[str, Tensor], scales: Mapping[str, Tensor], batch: Batch
    ) -> ScaledCharts:
        """The inside pass of a batch, which has the charts from now on."""
        self.holder = weakref.ref(batch)
        for mine, theirs in (
            (self.leaves, leaves),
            (self.scales, scales),
            (self.batch.item, batch.item),
            (self.batch.tables, batch.tables),
        ):
            for name, tensor in theirs.items():
                mine[name].copy_(tensor)
        self.graph.replay()
        batch.tops.extend(self.batch.tops)
        batch.gaps.extend(self.batch.gaps)
        values, charts = self.charts
        return dict(values), dict(charts)

    def is_of(self, batch: Batch, charts: Mapping[str, Tensor]) -> bool:
        """Whether a batch has the graph, and these are its charts."""
        mine = self.charts[1]
        return (
            self.holder is not None
            and self.holder() is batch
            and all(charts.get(name) is scale for name, scale in mine.items())
        )

    def outside(self, gradient: Tensor) -> ScaledCharts:
        """The outside pass of the batch that has the charts."""
        self.gradient.copy_(gradient)
        self.outside_graph.replay()
        slopes, adjoints = self.found
        # Gradients leave the passes: the next batch must not change them.
        return {name: slope.clone() for name, slope in slopes.items()}, dict(adjoints)


def like(batch: Batch) -> Batch:
    """A batch of the same shape with tensors of its own."""
    tables = {name: table.movedim(-1, 0).clone() for name, table in batch.tables.items()}
    made = Batch(batch.size, batch.lengths, tables, batch.dtype, batch.device)
    made.up, made.slope = batch.up, batch.slope
    made.watched, made.spare = batch.watched, batch.spare
    return made


class GraphEngine:
    """The passes of another engine, captured where that can be.

    `derivatives`: there are outside passes. A captured pass serves a batch once: what is asked for
    again is computed without it, so that no result is overwritten.
    """

    def __init__(self, engine: Engine, *, derivatives: bool) -> None:
        self.engine = engine
        self.derivatives = derivatives
        self.seen: set[Hashable] = set()
        self.kept: OrderedDict[Hashable, Captured] = OrderedDict()

    def result(self, scales: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """log Z of every item."""
        return self.engine.result(scales, batch)

    def inside(
        self, leaves: Mapping[str, Tensor], scales: Mapping[str, Tensor], batch: Batch
    ) -> ScaledCharts:
        """The charts: the values of every family, and their scales."""
        found = self.of(leaves, scales, batch)
        if found is None:
            return self.engine.inside(leaves, scales, batch)
        return found.inside(leaves, scales, batch)

    def of(
        self, leaves: Mapping[str, Tensor], scales: Mapping[str, Tensor], batch: Batch
    ) -> Captured | None:
        """The graphs for a batch, or None if it has to do without."""
        plain = all(type(x) in (Tensor, torch.nn.Parameter) for x in leaves.values())
        if batch.device.type != DEVICE or batch.lift is not None or not plain:
            return None
        at = key(leaves, scales, batch)
        if at not in self.seen:
            if len(self.seen) >= SEEN:
                self.seen.clear()
            self.seen.add(at)
            return None
        if at in self.kept:
            self.kept.move_to_end(at)
        else:
            if len(self.kept) >= KEPT:
                self.kept.popitem(last=False)
            made = Captured(self.engine, leaves, scales, batch, derivatives=self.derivatives)
            self.kept[at] = made
        found = self.kept[at]
        return found if found.is_free else None

    def outside(
        self,
        leaves: Mapping[str, Tensor],
        scales: Mapping[str, Tensor],
        values: Mapping[str, Tensor],
        chart_scales: Mapping[str, Tensor],
        batch: Batch,
        gradient: Tensor,
    ) -> ScaledCharts:
        """Gradients of log Z: of the leaves, and of every cell relative to its scale."""
        if self.derivatives:
            for found in self.kept.values():
                if found.is_of(batch, chart_scales):
                    return found.outside(gradient)
        return self.engine.outside(leaves, scales, values, chart_scales, batch, gradient)
