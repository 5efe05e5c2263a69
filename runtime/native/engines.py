"""The engines of one plan (tensor operations, machine code, kernels), and which takes a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING

import torch

from fgg.plan import Plan
from fgg.plan.backend import (
    AUTO,
    CPP,
    INSIDE,
    LOOKING,
    TORCH,
    TRITON,
    WIDTHS,
    Backend,
    BackendChoice,
    Situation,
    building_seconds,
    choose,
    saved_by_passes,
)
from fgg.plan.cpp_source import Native
from fgg.plan.sizes import environment
from fgg.runtime.native.build import is_kept, no_compiler
from fgg.runtime.native.engine import KEPT, NativeEngine, dtype_name
from fgg.runtime.native.graphs import GraphEngine
from fgg.runtime.native.triton_engine import TritonEngine, no_place

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch
    from fgg.runtime.program.emitted import Engine


class Engines:
    """The emitted module of a plan, and its machine code once that is wanted.

    With the backend `auto` it counts what machine code would have saved on all batches so far, and
    takes it as soon as that is worth its building. `choice` is the last choice that was made.
    """

    def __init__(
        self,
        plan: Plan,
        module: ModuleType,
        backend: Backend,
        emit: Callable[[], Native],
        emit_triton: Callable[[], str],
    ) -> None:
        self.plan = plan
        self.module = module
        self.backend = backend
        self.emit = emit
        self.emit_triton = emit_triton
        self.choice = backend.choice or BackendChoice(TORCH, "nothing has been computed yet")
        # Seconds by type of numbers, whether machine code is there, and seconds by batch.
        self._saved: dict[str, float] = {}
        self._cached: dict[str, bool] = {}
        self._by_batch: dict[tuple[int, ...], float] = {}
        self._graphs: dict[tuple[str, bool], GraphEngine] = {}

    @cached_property
    def native(self) -> NativeEngine:
        """The passes as machine code, which is built when a batch first needs it."""
        quiet = self.backend.asked != CPP
        return NativeEngine(self.plan, self.emit(), self.module, quiet=quiet)

    @cached_property
    def triton(self) -> TritonEngine:
        """The passes as Triton kernels, which are compiled when a batch first needs them."""
        return TritonEngine(self.emit_triton(), self.module, asked=self.backend.asked == TRITON)

    def of(self, batch: Batch, *, derivatives: bool) -> Engine:
        """The engine for a batch; `derivatives`: there is to be an outside pass, too."""
        dtype = dtype_name(batch.dtype)
        if self.backend.asked == AUTO:
            # What is counted does not depend on who computes: equal calls lead to equal choices.
            passes = 1.0 if derivatives else INSIDE
            saved = passes * self.saved_on(batch.lengths, batch.size, dtype)
            self._saved[dtype] = self._saved.get(dtype, 0.0) + saved
        self.choice = self.backend.choice or self._chosen(batch.device, batch.dtype)
        if self.choice.backend == CPP:
            return self.native
        engine: Engine = self.triton if self.choice.backend == TRITON else self.module
        if not self.backend.cuda_graph:
            return engine
        at = (self.choice.backend, derivatives)
        if at not in self._graphs:
            self._graphs[at] = GraphEngine(engine, derivatives=derivatives)
        return self._graphs[at]

    def has_kernels(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Whether passes on a device are Triton kernels."""
        return (self.backend.choice or self._chosen(device, dtype)).backend == TRITON

    def _chosen(self, device: torch.device, number: torch.dtype) -> BackendChoice:
        """What `auto` stands for now."""
        dtype = dtype_name(number)
        if device.type != "cpu":
            return choose(
                Situation(device=device.type, dtype=dtype, no_triton=no_place(device, number))
            )
        if "native" in self.__dict__ and self.native.failed is not None:
            return BackendChoice(TORCH, self.native.failed)
        at = self.situation(device.type, dtype, self._saved[dtype])
        return choose(replace(at, open_ended=True))

    @property
    def saved_so_far(self) -> float:
        """The seconds that machine code saved, or would have saved, on all batches so far."""
        return sum(self._saved.values())

    def situation(self, device: str, dtype: str, saving: float, *, look: bool = True) -> Situation:
        """The situation if machine code would save some seconds.

        Compilers and machine code that is kept are looked for only if that can matter, and kept
        code with `look` only.
        """
        matters = saving >= LOOKING and device == "cpu" and dtype in WIDTHS
        reason = no_compiler() if matters else ""
        return Situation(
            device=device,
            dtype=dtype,
            no_compiler=reason,
            cached=look and matters and not reason and self.is_cached(dtype),
            saving=saving,
            building=building_seconds(self.plan),
        )

    def is_cached(self, dtype: str) -> bool:
        """Whether the machine code is there already; it is looked for once."""
        if dtype not in self._cached:
            self._cached[dtype] = is_kept(self.native.native.whole, dtype)
        return self._cached[dtype]

    def saved_on(self, lengths: Mapping[str, Sequence[int]], size: int, dtype: str) -> float:
        """The seconds that machine code saves in both passes over a batch."""
        values, width = environment(lengths), WIDTHS.get(dtype, 4)
        key = (size, width, *values.values())
        if key not in self._by_batch:
            if len(self._by_batch) >= KEPT:
                self._by_batch.clear()
            self._by_batch[key] = saved_by_passes(self.plan, values, size, width)
        return self._by_batch[key]
