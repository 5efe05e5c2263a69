"""Emitted programs as Python modules, and the engines that run their passes."""

from __future__ import annotations

import linecache
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from hashlib import sha256
from types import ModuleType
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from torch import Tensor

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch
    from fgg.runtime.program.inputs import Collated

ScaledCharts = tuple[dict[str, Tensor], dict[str, Tensor]]
"""The values of each family's chart, `[*indices, batch, *states]`, and the scales of its cells."""


class Engine(Protocol):
    """The passes of one plan: those of the emitted module, or machine code with the same names."""

    def inside(
        self, leaves: Mapping[str, Tensor], scales: Mapping[str, Tensor], batch: Batch
    ) -> ScaledCharts:
        """Fill the charts from prepared parameters and evidence."""
        ...

    def result(self, scales: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """Return log Z of every item, `[batch]`."""
        ...

    def outside(
        self,
        leaves: Mapping[str, Tensor],
        scales: Mapping[str, Tensor],
        values: Mapping[str, Tensor],
        chart_scales: Mapping[str, Tensor],
        batch: Batch,
        gradient: Tensor,
    ) -> ScaledCharts:
        """Return the gradients of the leaves and of the charts' cells."""
        ...


class Made(Protocol):
    """What an engine prepared by itself, without a graph of derivatives."""

    @property
    def leaves(self) -> Mapping[str, Tensor]:
        """What the passes read."""
        ...

    @property
    def scales(self) -> Mapping[str, Tensor]:
        """The powers of two taken out of leaves."""
        ...

    @property
    def ends(self) -> Mapping[str, tuple[float, float]]:
        """The least and the greatest entry of leaves, as far as they are known."""
        ...

    @property
    def constants(self) -> frozenset[str]:
        """The leaves that depend on no weight and no log-potential."""
        ...

    def through(
        self, slopes: Mapping[str, Tensor], sources: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Return the gradients of sources, from those of leaves."""
        ...


class Prepares(ABC):
    """An engine that may prepare a batch itself."""

    @abstractmethod
    def make_leaves(
        self, batch: Batch, tensors: Mapping[str, Tensor], collated: Collated
    ) -> Made | None:
        """Prepare a batch from weights, log-potentials and inputs; None if it cannot."""


# A module lives as long as a program that holds it.
_loaded: WeakValueDictionary[str, ModuleType] = WeakValueDictionary()


def load_module(source: str) -> ModuleType:
    """Return the module of an emitted program; equal texts share one module."""
    name = "fgg_program_" + sha256(source.encode()).hexdigest()[:16]
    module = _loaded.get(name)
    if module is None:
        module = ModuleType(name)
        # Dataclasses look their module up by name while they are made.
        sys.modules[name] = module
        file = f"<{name}>"
        # Triton reads the text of its kernels.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        try:
            # fgg's own emitter wrote the text: users' names in it are identifiers or quoted.
            exec(compile(source, file, "exec"), module.__dict__)
        finally:
            del sys.modules[name]
        _loaded[name] = module
    return module
