"""A plan carried out on soft words: Z of every functional as a jet, and its derivatives.

The forward pass is the inside algorithm in a ring of jets. In a commutative ring the derivative of
Z by a constant is a jet too, and one reverse pass has it for all constants: its coefficient at a
target is the derivative of the moment that the target stands for.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fgg.plan import Operand
from fgg.runtime.identify.algebra import BATCH, JET, JetAlgebra, JetProduct, NamedJets
from fgg.runtime.identify.align import Adjoints, fit, picked, put_back
from fgg.runtime.identify.fields import Field
from fgg.runtime.identify.geometry import Geometry, LevelStep, Read
from fgg.runtime.identify.jets import Ring
from fgg.runtime.identify.prepare import PreparedJets


class JetPass:
    """The values of all charts for parameters and soft words; `words` are `[…, batch, jet, w]`."""

    def __init__(
        self,
        geometry: Geometry,
        field: Field,
        ring: Ring,
        parameters: Mapping[str, Tensor],
        words: Mapping[str, Tensor],
    ) -> None:
        self.geometry = geometry
        self.field = field
        self.ring = ring
        self.algebra = JetAlgebra(field, ring)
        self.batch = next((int(w.shape[-3]) for w in words.values()), 1)
        self.parameters = parameters
        self.prepared = PreparedJets(geometry, self.algebra, parameters, words)
        self.charts = {
            chart.family: torch.zeros(
                geometry.cells(chart.family),
                self.batch,
                ring.size,
                *chart.states,
                dtype=torch.float64,
            )
            for chart in geometry.plan.charts
        }
        self.done: list[tuple[LevelStep, JetProduct, NamedJets | None]] = []
        for point in geometry.points:
            self._inside(point)

    @property
    def z(self) -> Tensor:
        """Z of every functional, `[batch, jet]`."""
        if self.geometry.start is None:
            return torch.zeros(self.batch, self.ring.size, dtype=torch.float64)
        return self.charts[self.geometry.plan.start.name][self.geometry.start]

    def _read(self, operand: Operand, read: Read | None) -> NamedJets:
        if read is None:
            return picked(self.prepared.arrays[operand.name], (), operand.axes)
        chart = operand.kind == "chart"
        source = self.charts[operand.name] if chart else self.prepared.arrays[operand.name]
        cells = source.index_select(0, read.cells)
        if read.valid is not None:
            cells = cells * read.valid.reshape(-1, *(1,) * (cells.dim() - 1))
        cells = cells.reshape(*read.shape, *cells.shape[1:])
        return picked(cells, (*read.dims, BATCH, JET), operand.axes)

    def _inside(self, point: LevelStep) -> None:
        step = point.step
        operands = [
            self._read(operand, read)
            for operand, read in zip(step.operands, point.reads, strict=True)
        ]
        presence = None
        if point.presence is not None or not operands:
            array, dims = point.presence or (torch.ones((), dtype=torch.float64), ())
            presence = NamedJets(array, dims)
            if operands:
                everything = {*operands[0].dims, *dims}
                operands[0] = self.algebra.contract(operands[0], presence, everything)
            else:
                operands = [presence]
        once = tuple(dict.fromkeys(step.head_axes))
        product = JetProduct(self.algebra, operands, step.path, {*point.head.dims, *once})
        self.done.append((point, product, presence))
        result = product.result
        sizes = {**point.sizes, BATCH: self.batch, JET: self.ring.size}
        values = fit(result, (*point.head.dims, BATCH, JET, *once), sizes)
        rank = len(point.head.dims)
        if JET not in result.dims and self.ring.size > 1:
            # A constant has no other coefficient than that of 1.
            values = values.clone()
            values.narrow(rank + 1, 1, self.ring.size - 1).zero_()
        if step.free != 1:
            values = self.field.reduce(values * float(step.free))
        states = [sizes[a] for a in step.head_axes]
        values = put_back(values, rank + 2, step.head_axes, states)
        values = values.reshape(-1, *values.shape[rank:])
        if point.head.valid is not None:
            values = values * point.head.valid.reshape(-1, *(1,) * (values.dim() - 1))
        chart = self.charts[step.head]
        if not point.first:
            before = chart.index_select(0, point.head.cells)
            values = self.field.reduce(before.add_(values))
        chart.index_copy_(0, point.head.cells, values)

    def jacobian(self) -> dict[str, Tensor]:
        """The derivative of Z by each parameter at the targets, `[batch, target, *shape]`."""
        adjoints = Adjoints(self.batch, self.ring.size, len(self.ring.targets))
        start = self.geometry.plan.start
        if self.geometry.start is not None:
            states = self.geometry.plan.chart[start.name].states
            slope = adjoints.cells(start.name, self.geometry.cells(start.name), states)
            slope[self.geometry.start, :, 0] = 1.0
            for point, product, presence in reversed(self.done):
                self._outside(point, product, presence, adjoints)
        self.done.clear()
        for chart in self.geometry.plan.charts:
            adjoints.arrays.pop(chart.family, None)
        self.prepared.reverse(adjoints)
        slopes = {}
        for name, array in self.parameters.items():
            shape = (self.batch, len(self.ring.targets), *array.shape)
            slope = adjoints.arrays.get(name, torch.zeros(shape, dtype=torch.float64))
            slopes[name] = self.field.reduce(slope)
        return slopes

    def _outside(
        self, point: LevelStep, product: JetProduct, presence: NamedJets | None, adjoints: Adjoints
    ) -> None:
        step = point.step
        if step.head not in adjoints.arrays or not step.operands:
            return
        above = adjoints.arrays[step.head].index_select(0, point.head.cells)
        if point.head.valid is not None:
            above = above * point.head.valid.reshape(-1, *(1,) * (above.dim() - 1))
        above = above.reshape(*point.head.shape, *above.shape[1:])
        if step.free != 1:
            above = self.field.reduce(above) * float(step.free)
        gradient = picked(self.field.reduce(above), (*point.head.dims, BATCH, JET), step.head_axes)
        wanted = {i for i, operand in enumerate(step.operands) if not self._is_evidence(operand)}
        slopes = product.gradients(gradient, wanted)
        for number, slope in slopes.items():
            if number == 0 and presence is not None:
                everything = {*slope.dims, *presence.dims}
                slope = self.algebra.contract(slope, presence, everything)
                keep = {*product.values[0].dims, BATCH, JET, "@t"}
                slope = self.algebra.sum_to(slope, keep)
            self._add(point, step.operands[number], point.reads[number], slope, adjoints)

    def _is_evidence(self, operand: Operand) -> bool:
        """Whether an operand is a soft word itself, by which nothing is differentiated."""
        return operand.kind == "table" and operand.name not in self.prepared.products

    def _add(
        self,
        point: LevelStep,
        operand: Operand,
        read: Read | None,
        gradient: NamedJets,
        adjoints: Adjoints,
    ) -> None:
        if read is None:
            shape = self.prepared.arrays[operand.name].shape
            gradient = self.algebra.sum_to(gradient, {*operand.axes, BATCH, "@t"})
            adjoints.add_parameter(operand.name, gradient, operand.axes, shape)
            return
        once = tuple(dict.fromkeys(operand.axes))
        gradient = self.algebra.sum_to(gradient, {*read.dims, BATCH, JET, *once})
        sizes = {**point.sizes, BATCH: self.batch, JET: self.ring.size}
        values = fit(gradient, (*read.dims, BATCH, JET, *once), sizes)
        states = [sizes[a] for a in operand.axes]
        rank = len(read.dims)
        values = put_back(values, rank + 2, operand.axes, states)
        values = values.reshape(-1, *values.shape[rank:])
        if read.valid is not None:
            values = values * read.valid.reshape(-1, *(1,) * (values.dim() - 1))
        count = self.geometry.cells(operand.name)
        adjoints.cells(operand.name, count, states).index_add_(0, read.cells, values)
