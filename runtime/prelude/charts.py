"""Charts: the values and scales of a family's cells, and tables of evidence that look like them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.runtime.prelude.cells import NEGATIVE, Cells, Index, spread
from fgg.runtime.prelude.scaled import (
    Term,
    inverse,
    log_of,
    log_total,
    put,
    put_more,
    total,
)

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch


class Layout:
    """What a chart is like: the range of each index, and the sizes of its states.

    A `half` chart has two indices and no cells below its diagonal: its adjoint lies there. A chart
    may use the scales of another one.
    """

    def __init__(
        self,
        *ranges: range,
        states: tuple[int, ...] = (),
        half: bool = False,
        scale_of: str | None = None,
    ) -> None:
        self.low = tuple(values.start for values in ranges)
        self.extents = tuple(len(values) for values in ranges)
        self.states = states
        self.half = half
        self.scale_of = scale_of


Layouts = Mapping[str, Layout]
CellTerm = tuple[Tensor, "Tensor | None", int]
"""What a rule gives to cells: values, scales, and the number of charts in a product."""


class Chart(Cells):
    """The cells of a family: `chart[i, j]` are values, `chart.scale[i, j]` their scales.

    A chart without states is its scales alone.
    """

    def __init__(
        self, name: str, layout: Layout, batch: Batch, values: Tensor | None, scales: Tensor
    ) -> None:
        super().__init__(scales if values is None else values, layout.low, batch)
        self.name = name
        self.layout = layout
        self.scale = Cells(scales, layout.low, batch)

    # the inside pass

    def put(self, index: Index, new: Tensor, scale: Tensor | None = None, depth: int = 0) -> None:
        """Write cells; `depth` is the number of charts that the values are products of."""
        values = self[index]
        if new.shape != values.shape:
            new = new.expand_as(values)
        put(self.batch, depth, values, self.scale[index], new, scale)

    def put_more(
        self, index: Index, new: Tensor, scale: Tensor | None = None, depth: int = 0
    ) -> None:
        """Add to cells that other rules may have filled."""
        values = self[index]
        put_more(self.batch, depth, values, self.scale[index], new.expand_as(values), scale)

    def put_mixed(
        self, index: Index, new: Tensor, scale: Tensor | None = None, depth: int = 0
    ) -> None:
        """Add to cells that other rules may have filled if lengths differ."""
        put_cells = self.put_more if self.batch.mixed else self.put
        put_cells(index, new, scale, depth)

    def put_terms(self, index: Index, terms: list[CellTerm], mode: str = "put") -> None:
        """Write the sum of what several rules give to cells; `mode` is the method to write with."""
        like = self[index]
        depth = max(depth for *_, depth in terms)
        rank = like.dim() - len(self.layout.states)
        new, scale = self.total([(new.expand_as(like), e) for new, e, _ in terms], rank)
        getattr(self, mode)(index, new, scale, depth)

    def total(self, terms: list[Term], rank: int) -> Term:
        """The sum of scaled numbers."""
        return total(self.batch, terms, rank)

    def keep(self, index: Index, new: Tensor, scale: Tensor | None = None) -> None:
        """Write cells with the scales of what they were mapped from, or shared ones (None)."""
        self[index].copy_(new)
        if scale is not None:
            self.scale[index].copy_(scale)

    def log_of(
        self, index: Index, new: Tensor, scale: Tensor | None = None, depth: int = 0
    ) -> Tensor:
        """The logarithms of scaled numbers, for cells without states."""
        return log_of(self.batch, depth, new.expand_as(self.scale[index]), scale)

    def put_scale(self, index: Index, scale: Tensor | float) -> None:
        """Write cells without states, given as logarithms."""
        place = self.scale[index]
        if isinstance(scale, Tensor):
            place.copy_(scale)
        else:
            place.fill_(scale)

    def put_scale_more(self, index: Index, scale: Tensor) -> None:
        """Add to cells without states, given as logarithms."""
        place = self.scale[index]
        torch.logaddexp(place, scale.expand_as(place), out=place)

    def put_scale_mixed(self, index: Index, scale: Tensor) -> None:
        """Add to cells without states that other rules may have filled if lengths differ."""
        (self.put_scale_more if self.batch.mixed else self.put_scale)(index, scale)

    def put_scale_terms(self, index: Index, terms: list[Tensor], mode: str = "put_scale") -> None:
        """Write the sum of what several rules give to cells without states."""
        like = self.scale[index]
        getattr(self, mode)(index, self.log_total([e.expand_as(like) for e in terms]))

    def log_total(self, terms: list[Tensor]) -> Tensor:
        """The logarithm of a sum, of logarithms."""
        return log_total(terms)

    # the outside pass

    @cached_property
    def adjoint(self) -> Cells:
        """The adjoint of each cell and state, relative to the cell's scale; zero at first."""
        batch = self.batch
        if not self.layout.states:
            zeros = torch.zeros_like(self.scale.all, dtype=batch.dtype)
        elif self.layout.half:
            zeros = batch.adjoint(self.all, self.name)
        else:
            zeros = torch.zeros_like(self.all)
        return Cells(zeros, self.layout.low, batch)

    @cached_property
    def inverse(self) -> Cells:
        """The scales to divide by: a cell of zeros passes nothing on."""
        return Cells(inverse(self.scale.all), self.layout.low, self.batch)

    def erase(self, index: Index, absent: Tensor | bool | None) -> None:
        """Set adjoints to zero in cells that only other items have."""
        if isinstance(absent, Tensor):
            place = self.adjoint[index]
            place.masked_fill_(spread(absent, place), 0.0)


class Table(Cells):
    """Prepared evidence: `table[i]` is the values at a position, `table.scale[i]` their scales."""

    scale: Cells

    @cached_property
    def adjoint(self) -> Cells:
        """The derivative of each entry; zero at first."""
        zeros = torch.zeros_like(self.all, memory_format=torch.contiguous_format)
        return Cells(zeros, self.low, self.batch)


def table(
    batch: Batch, leaves: Mapping[str, Tensor], scales: Mapping[str, Tensor], name: str, rank: int
) -> Table:
    """A prepared table with so many indices: that of the inside pass again in the outside pass."""
    kept = batch.tables_kept.pop(name, None)
    if kept is not None and kept.all is leaves[name]:
        return kept
    low = (0,) * rank
    made = batch.tables_kept[name] = Table(leaves[name], low, batch)
    if name in scales:
        made.scale = Cells(scales[name], low, batch)
    return made


def new_charts(batch: Batch, layouts: Layouts) -> tuple[Chart, ...]:
    """Charts of zeros."""
    scales = {
        name: batch.scales(layout.extents)
        for name, layout in layouts.items()
        if layout.scale_of is None
    }
    charts = []
    for name, layout in layouts.items():
        values = None
        if layout.states:
            half = name if layout.half else None
            values = batch.values(layout.extents, layout.states, half)
        charts.append(Chart(name, layout, batch, values, scales[layout.scale_of or name]))
    batch.charts_kept = {chart.name: chart for chart in charts}
    return tuple(charts)


def old_charts(
    batch: Batch, layouts: Layouts, values: Mapping[str, Tensor], scales: Mapping[str, Tensor]
) -> tuple[Chart, ...]:
    """The charts that an inside pass filled; it may have been that of another engine."""
    kept, batch.charts_kept = batch.charts_kept, {}
    charts = []
    for name, layout in layouts.items():
        chart = kept.get(name)
        given = values.get(name, scales[name])
        if chart is None or chart.all is not given or chart.scale.all is not scales[name]:
            chart = Chart(name, layout, batch, values.get(name), scales[name])
        charts.append(chart)
    return tuple(charts)


def filled(*charts: Chart) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The values and the scales of charts by name."""
    values = {chart.name: chart.all for chart in charts if chart.layout.states}
    return values, {chart.name: chart.scale.all for chart in charts}


def adjoints(*charts: Chart) -> dict[str, Tensor]:
    """The adjoints of charts by name."""
    return {chart.name: chart.adjoint.all for chart in charts}


def read_log_z(batch: Batch, layout: Layout, scales: Tensor, *index: object) -> Tensor:
    """log Z of every item: the scale of the start symbol's cell."""
    cells = Cells(scales, layout.low, batch)
    return cells.gather(*index, zero=NEGATIVE).to(batch.dtype)  # type: ignore[arg-type]


def seed(batch: Batch, chart: Chart, gradient: Tensor, *index: object) -> None:
    """Begin the outside pass: the start symbol's cell has d log Z, where it is not zero."""
    live = chart.scale.gather(*index, zero=NEGATIVE) > NEGATIVE  # type: ignore[arg-type]
    slope = torch.where(live, gradient * batch.slope, 0.0).to(batch.dtype)
    chart.adjoint.scatter(tuple(index), slope)  # type: ignore[arg-type]
