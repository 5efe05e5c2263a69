"""Inside and outside as Triton kernels, in place of a module's functions of these names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.program.emitted import ScaledCharts, load_module

CAPABILITY = (7, 0)
"""The least compute capability of a GPU that Triton compiles for."""


def no_triton() -> str:
    """Why there is no Triton; empty if there is."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    try:
        import_module("triton")
    except Exception as error:  # it loads the driver's libraries, and any of them may be missing
        return f"Triton cannot be loaded: {error}"
    return ""


def interprets() -> bool:
    """Whether kernels are carried out by Triton's interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"


def no_place(device: torch.device, dtype: torch.dtype) -> str:
    """Why kernels cannot run on a device with numbers of a type; empty if they can."""
    if device.type not in ("cpu", "cuda"):
        return f"Triton programs run on CUDA devices, not on `{device.type}`"
    if device.type == "cpu" and not interprets():
        return "Triton programs run on a GPU, not on a CPU"
    if dtype not in (torch.float32, torch.float64):
        return f"Triton programs compute in float32 and float64, not in {dtype}"
    if no_triton():
        return no_triton()
    if torch.cuda.is_available() and torch.cuda.get_device_capability(device) < CAPABILITY:
        return "Triton needs a GPU of compute capability 7.0 or later"
    return ""


def require_triton() -> None:
    """Raise GrammarError (F436) if there is no Triton."""
    if no_triton():
        refuse("F436", no_triton(), "install it with `pip install 'fgg[gpu]'`")


class TritonEngine:
    """The inside and outside passes of a plan on a GPU.

    A lifted pass, which bounds what was lost to too small a range, is done by the module of tensor
    operations: it is rare, and the same in all other respects.
    """

    def __init__(self, source: str, module: ModuleType, *, asked: bool) -> None:
        self.source = source
        self.module = module
        self.asked = asked

    @cached_property
    def kernels(self) -> ModuleType:
        """The module with kernels, loaded."""
        return load_module(self.source)

    def fits(self, batch: Any) -> bool:
        """Whether kernels do a batch. Raises GrammarError (F436) if they were asked for in vain."""
        reason = no_place(batch.device, batch.dtype)
        if reason and self.asked:
            hint = "`auto` takes what there is; to test without a GPU, set TRITON_INTERPRET=1"
            refuse("F436", reason, hint)
        return not reason and batch.lift is None

    def result(self, charts: Mapping[str, Tensor], batch: Any) -> Tensor:
        """log Z of every item."""
        found: Tensor = self.module.result(charts, batch)
        return found

    def inside(
        self, leaves: Mapping[str, Tensor], scales: Mapping[str, Tensor], batch: Any
    ) -> ScaledCharts:
        """The charts: the values of every family, and their scales."""
        module = self.kernels if self.fits(batch) else self.module
        found: ScaledCharts = module.inside(leaves, scales, batch)
        return found

    def outside(
        self,
        leaves: Mapping[str, Tensor],
        scales: Mapping[str, Tensor],
        values: Mapping[str, Tensor],
        charts: Mapping[str, Tensor],
        batch: Any,
        gradient: Tensor,
    ) -> ScaledCharts:
        """Gradients of log Z: of the leaves, and of every cell relative to its scale."""
        module = self.kernels if self.fits(batch) else self.module
        found: ScaledCharts = module.outside(leaves, scales, values, charts, batch, gradient)
        return found
