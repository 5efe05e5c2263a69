"""Inside and outside as machine code, in place of an emitted module's functions of these names."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any
from warnings import warn

import torch
from torch import Tensor

from fgg.diagnostics import render_all
from fgg.native import Argument, Native
from fgg.plan import Plan
from fgg.plan_sizes import environment, extents
from fgg.runtime.native_build import (
    TYPES,
    CannotBuild,
    library,
    matrix_product,
    python_functions,
)

KEPT = 1024
SETTINGS = 8
"""How many numbers come first in the room for the range: as in the prelude of programs in C++."""


class NativeEngine:
    """The inside and outside passes of a plan, on the processor.

    What it cannot do (another device, tensors that are no numbers, no compiler) the emitted
    module does: `module` has the same functions. `most` is the greatest number of bytes that any
    call took for intermediate results.
    """

    most = 0

    def __init__(self, plan: Plan, native: Native, module: ModuleType) -> None:
        self.plan = plan
        self.native = native
        self.module = module
        self.depths = max(map(plan.depth, plan.steps), default=0) + 1
        self.failed: str | None = None
        self._sizes: dict[tuple[tuple[int, int], ...], dict[str, tuple[int, ...]]] = {}

    def result(self, charts: Mapping[str, Tensor], batch: Any) -> Tensor:
        """log Z of every item."""
        found: Tensor = self.module.result(charts, batch)
        return found

    def fits(self, batch: Any, leaves: Mapping[str, Tensor]) -> bool:
        """Whether machine code can do a batch."""
        if self.failed is not None or batch.device.type != "cpu" or batch.dtype not in TYPES:
            return False
        if any(type(leaf) not in (Tensor, torch.nn.Parameter) for leaf in leaves.values()):
            return False
        try:
            library(self.native.source, batch.dtype)
        except CannotBuild as error:
            self.failed = str(error)
            warn(render_all([error.note()], None), stacklevel=4)
            return False
        return True

    def extents(self, batch: Any) -> dict[str, tuple[int, ...]]:
        """The number of cells along the axes of every chart."""
        key = tuple((batch.low[name], batch.high[name]) for name in self.plan.lengths)
        if key not in self._sizes:
            if len(self._sizes) >= KEPT:
                self._sizes.clear()
            values = environment(batch.lengths)
            self._sizes[key] = {c.family: extents(c, values) for c in self.plan.charts}
        return self._sizes[key]

    def inside(
        self, leaves: Mapping[str, Tensor], scales: Mapping[str, Tensor], batch: Any
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The charts: the values of every family, and their scales."""
        if not self.fits(batch, leaves):
            found: tuple[dict[str, Tensor], dict[str, Tensor]]
            found = self.module.inside(leaves, scales, batch)
            return found
        sizes = self.extents(batch)
        values, charts = {}, {}
        for chart in self.plan.charts:
            if not chart.is_scalar:
                half = chart.family if chart.half else None
                values[chart.family] = batch.values(sizes[chart.family], chart.states, half)
            if chart.scale_of == chart.family:
                charts[chart.family] = batch.scales(sizes[chart.family])
        given = {"values": values, "scales": charts, "leaf": leaves, "leaf scales": scales}
        room = self.room(batch)
        self.call("inside", self.native.inside, {**given, "range": {"": room}}, batch)
        self.note(batch, room)
        return values, {c.family: charts[c.scale_of] for c in self.plan.charts}

    def room(self, batch: Any) -> Tensor:
        """What the inside pass is told about the range of numbers, and room for what it tells."""
        lift = batch.lift
        settings = [self.depths, batch.up, 0.0, 0.0, 0.0, float(batch.watched), 0.0, 0.0]
        if lift is not None:
            settings[2:5] = lift.floor, lift.least, lift.gap
        rows = torch.zeros((2 * self.depths + 3, batch.size), dtype=torch.float64)
        rows[: self.depths] = float("inf")
        return torch.cat([torch.tensor(settings, dtype=torch.float64), rows.flatten()])

    def note(self, batch: Any, room: Tensor) -> None:
        """Keep what the inside pass tells about the range of its numbers."""
        rows = room[SETTINGS:].view(-1, batch.size)
        least, most = rows[: self.depths], rows[self.depths : 2 * self.depths]
        for depth in range(self.depths):
            # Where nothing was computed, the least is infinite and the greatest 0.
            low = torch.where(most[depth] == 0, 1.0, least[depth])
            batch.tops.append((depth, torch.stack([low, torch.maximum(low, most[depth])])))
        dead, gaps = rows[2 * self.depths], rows[2 * self.depths + 1]
        batch.tops.append((0, torch.where(dead > 0, 0.0, 1.0)[None]))
        if batch.watched:
            batch.note_gap(gaps)

    def outside(
        self,
        leaves: Mapping[str, Tensor],
        scales: Mapping[str, Tensor],
        values: Mapping[str, Tensor],
        charts: Mapping[str, Tensor],
        batch: Any,
        gradient: Tensor,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Gradients of log Z: of the leaves, and of every cell relative to its scale."""
        if not self.fits(batch, leaves):
            found: tuple[dict[str, Tensor], dict[str, Tensor]]
            found = self.module.outside(leaves, scales, values, charts, batch, gradient)
            return found
        gradients = {
            name: torch.zeros(leaves[name].shape, dtype=batch.dtype)
            for name in self.plan.leaves
            if name not in self.plan.constants
        }
        adjoints = {}
        for chart in self.plan.charts:
            if chart.is_scalar:
                shape = charts[chart.family].shape
                adjoints[chart.family] = torch.zeros(shape, dtype=batch.dtype)
            elif chart.half:
                adjoints[chart.family] = batch.adjoint(values[chart.family], chart.family)
            else:
                adjoints[chart.family] = torch.zeros_like(values[chart.family])
        given = {
            "values": values,
            "scales": charts,
            "adjoint": adjoints,
            "leaf": leaves,
            "leaf scales": scales,
            "leaf gradient": gradients,
            "gradient": {"": (gradient * batch.slope).to(batch.dtype)},
        }
        self.call("outside", self.native.outside, given, batch)
        return batch.settled(gradients), adjoints

    def call(
        self,
        name: str,
        wanted: Sequence[Argument],
        given: Mapping[str, Mapping[str, Tensor]],
        batch: Any,
    ) -> None:
        """Hand tensors over: pointers, and the strides and extents of their indices."""
        numbers = [batch.size, int(batch.mixed)]
        for length in self.plan.lengths:
            numbers += [batch.low[length], batch.high[length]]
        given = {**given, "lengths": batch.item, "table": batch.tables}
        pointers = []
        held = []  # copies live until the call is over
        for tensor in wanted:
            found = given[tensor.role][tensor.name]
            if tensor.role in ("leaf", "leaf scales", "lengths", "table", "gradient"):
                found = found.contiguous()
                held.append(found)
            pointers.append(found.data_ptr())
            numbers += found.stride()[: tensor.rank]
            numbers += found.shape[: tensor.rank]
        function = getattr(library(self.native.source, batch.dtype), name)
        function.restype = ctypes.c_int64
        taken = function(
            (ctypes.c_int64 * len(numbers))(*numbers),
            (ctypes.c_void_p * len(pointers))(*pointers),
            matrix_product(batch.dtype),
            python_functions(),
        )
        if taken == -1:
            raise MemoryError(f"no memory for the {name} pass")
        assert taken >= 0, "what stopped it has been raised"
        NativeEngine.most = max(NativeEngine.most, taken)
