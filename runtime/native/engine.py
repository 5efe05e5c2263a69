"""Inside and outside as machine code, in place of an emitted module's functions of these names."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import warn
from fgg.plan import Contract, Cut, Gather, Plan, Potential
from fgg.plan.cpp_source import Native, told_charts
from fgg.plan.sizes import environment, extents
from fgg.runtime.native.build import TYPES, CannotBuild, host, library
from fgg.runtime.native.preparation import SETTINGS, Preparation
from fgg.runtime.program.emitted import Prepares

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch
    from fgg.runtime.program.inputs import Collated

Doubles = NDArray[np.float64]
KEPT = 1024
WORTH = 100_000
"""How many multiply-adds are worth a thread."""


@cache
def dtype_name(dtype: torch.dtype) -> str:
    """The name of a type of numbers: `float32`."""
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Given:
    """The tensors of a call: leaves and charts with scales; in the outside pass, gradients."""

    leaves: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]
    values: Mapping[str, Tensor]
    charts: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor] = field(default_factory=dict)
    adjoints: Mapping[str, Tensor] = field(default_factory=dict)
    seed: Tensor | None = None


class NativeEngine(Prepares):
    """The inside and outside passes of a plan, on the processor.

    What it cannot do (another device, tensors that are no numbers, no compiler) the emitted
    module does: `module` has the same functions. `most` is the greatest number of bytes that any
    call took for intermediate results. With `quiet` there is no warning if it cannot be built.
    """

    most = 0

    def __init__(
        self, plan: Plan, native: Native, module: ModuleType, *, quiet: bool = False
    ) -> None:
        self.plan = plan
        self.native = native
        self.module = module
        self.quiet = quiet
        self.depths = max(map(plan.depth, plan.steps), default=0) + 1
        self.told = told_charts(plan)
        self.made = {item.name: item for item in native.made}
        self.constants = frozenset(item.name for item in native.made if item.constant)
        self.prepared_from = sources_of(plan)
        products = {name for names, _ in plan.products for name in names}
        self.multiplied_before = products - plan.chart.keys() - plan.leaves.keys()
        self.failed: str | None = None
        self._sizes: dict[tuple[tuple[int, int], ...], dict[str, tuple[int, ...]]] = {}

    def result(self, charts: Mapping[str, Tensor], batch: Any) -> Tensor:
        """log Z of every item."""
        start = self.plan.start
        if not start.index and start.name in charts:
            return charts[start.name].to(batch.dtype)
        found: Tensor = self.module.result(charts, batch)
        return found

    def fits(self, batch: Any, leaves: Mapping[str, Tensor]) -> bool:
        """Whether machine code can do a batch."""
        dtype = dtype_name(batch.dtype)
        if self.failed is not None or batch.device.type != "cpu" or dtype not in TYPES:
            return False
        if any(type(leaf) not in (Tensor, torch.nn.Parameter) for leaf in leaves.values()):
            return False
        try:
            library(self.native.whole, dtype)
        except CannotBuild as error:
            self.failed = str(error)
            if not self.quiet:
                warn(error.note(), stacklevel=5)
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

    def make_leaves(
        self, batch: Batch, tensors: Mapping[str, Tensor], collated: Collated
    ) -> Preparation | None:
        """Prepare a batch; tensor operations do it where tokens are missing."""
        if collated.missing or not self.fits(batch, tensors):
            return None
        return Preparation.of(self, batch, tensors, collated.inputs)

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
        chart_scales = {c.family: charts[c.scale_of] for c in self.plan.charts}
        room = self.room(batch)
        given = Given(leaves, scales, values, chart_scales)
        self.call("inside", given, batch, room.ctypes.data)
        self.note(batch, room)
        return values, chart_scales

    def room(self, batch: Any) -> Doubles:
        """What the inside pass is told about the range of numbers, and room for what it tells."""
        rows, rest = 2 * self.depths + 3, len(self.told) + 2 * self.depths + 2
        room = np.zeros(SETTINGS + rows * batch.size + rest)
        room[:2], room[5:7] = (self.depths, batch.up), (batch.watched, len(self.told))
        if batch.lift is not None:
            room[2:5] = batch.lift.floor, batch.lift.least, batch.lift.gap
        return room

    def note(self, batch: Any, room: Doubles) -> None:
        """Keep what the inside pass tells about the range of its numbers."""
        end = SETTINGS + (2 * self.depths + 3) * batch.size
        told = room[end:].tolist()
        batch.told = dict(zip(self.told, told, strict=False))
        ends = told[len(self.told) : -2]
        batch.told_falls = dict(enumerate(zip(ends[::2], ends[1::2], strict=True)))
        batch.told_gap = told[-1]
        rows = room[SETTINGS:end].reshape(-1, batch.size)
        batch.tops_of_items = lambda: self.tops(rows, dead=told[-2] > 0)
        if batch.watched:
            batch.note_gap(torch.from_numpy(rows[2 * self.depths + 1]))

    def tops(self, rows: Doubles, *, dead: bool) -> list[tuple[int, Tensor, None]]:
        """The ends of the greatest values of every item's cells, `[2, batch]`, by depth."""
        least, most = rows[: self.depths], rows[self.depths : 2 * self.depths]
        tops: list[tuple[int, Tensor, None]] = []
        for depth, ends in enumerate(zip(least, most, strict=True)):
            tops.append((depth, torch.from_numpy(np.stack(ends)), None))
        if dead:
            zero = np.where(rows[2 * self.depths] > 0, 0.0, 1.0)
            tops.append((0, torch.from_numpy(zero[None]), None))
        return tops

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
        seed = (gradient * batch.slope).to(batch.dtype).contiguous()
        given = Given(leaves, scales, values, charts, gradients, adjoints, seed)
        self.call("outside", given, batch)
        return batch.settled(gradients), adjoints

    def call(self, name: str, given: Given, batch: Any, room: int = 0) -> None:
        """Hand tensors over, as the types of the prelude take them."""
        numbers = [batch.size, int(batch.mixed), torch.get_num_threads(), WORTH]
        pointers = [room]
        held: list[Tensor] = []  # copies live until the call is over

        def whole(tensor: Tensor | None) -> int:
            if tensor is None:
                return 0
            held.append(tensor.contiguous())
            return held[-1].data_ptr()

        for argument in self.native.arguments:
            name_, rank = argument.name, argument.rank
            match argument.kind:
                case "length":
                    pointers.append(whole(batch.item[name_]))
                    numbers += (batch.low[name_], batch.high[name_])
                case "lookup":
                    pointers.append(whole(batch.tables[name_]))
                    numbers += batch.tables[name_].shape[:rank]
                case "chart":
                    own = given.values.get(name_), given.adjoints.get(name_)
                    pointers += (data_of(own[0]), data_of(given.charts[name_]), data_of(own[1]))
                    numbers += given.charts[name_].shape[:rank]
                    for tensor in own:
                        numbers += (0,) * rank if tensor is None else tensor.stride()[:rank]
                case "table":
                    leaf = given.leaves[name_]
                    pointers += (whole(leaf), whole(given.scales.get(name_)))
                    pointers.append(data_of(given.gradients.get(name_)))
                    numbers += leaf.shape[:rank]
                case _:
                    leaf = given.leaves[name_]
                    pointers += (whole(leaf), data_of(given.gradients.get(name_)))
        pointers.append(data_of(given.seed))
        self.run(name, batch.dtype, numbers, pointers)

    def run(
        self, name: str, dtype: torch.dtype, numbers: Sequence[int], pointers: Sequence[int]
    ) -> None:
        """Call a function of the machine code."""
        kind = dtype_name(dtype)
        function = getattr(library(self.native.whole, kind), name)
        function.restype = ctypes.c_int64
        taken = function(
            (ctypes.c_int64 * len(numbers))(*numbers),
            (ctypes.c_void_p * len(pointers))(*pointers),
            ctypes.byref(host(kind)),
        )
        if taken == -1:
            raise MemoryError(f"no memory for the {name} pass")
        assert taken >= 0, "what stopped it has been raised"
        NativeEngine.most = max(NativeEngine.most, taken)


def sources_of(plan: Plan) -> frozenset[str]:
    """The parameters and log-potentials that anything is prepared from."""
    names: set[str] = set()
    for step in plan.preparations:
        match step:
            case Contract():
                names.update(name for name, _ in step.operands)
            case Cut() | Gather() | Potential():
                names.add(step.source)
    return frozenset(names)


def data_of(tensor: Tensor | None) -> int:
    """The address of a tensor's numbers."""
    return 0 if tensor is None else tensor.data_ptr()
