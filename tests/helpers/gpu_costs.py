"""Costs on GPUs for tests, and Triton modules that are run without numbers and without kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import torch

import fgg
from fgg.api.compile import selected
from fgg.api.gpu_cost import gpu_cost
from fgg.compiler.cost.cost import cost
from fgg.compiler.cost.gpu.report import GpuCost
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit.triton import module as triton_module
from fgg.plan import Plan
from fgg.plan.devices import device_named
from fgg.runtime.native import operations
from fgg.runtime.program.emitted import load_module


@cache
def plan(name: str, space: str, **sizes: int) -> Plan:
    """The plan of `grammar` or `grammar:query` in a space."""
    grammar, _, query = name.partition(":")
    model = fgg.load(grammar, sizes=sizes)
    return plan_of(selected(model, query or None), Expected(), space)


@cache
def cost_on(
    device: str, name: str, space: str, *, n: int, batch: int = 16, width: int = 4, **sizes: int
) -> GpuCost:
    """The cost of a plan on a device, for items of one length."""
    made = plan(name, space, **sizes)
    lengths = dict.fromkeys(made.lengths, n)
    return gpu_cost(cost(made, lengths, batch=batch, width=width), device_named(device))


def started(made: Plan, n: int, batch: int) -> tuple[int, int]:
    """How many kernels the Triton module of a plan starts when it is run, and how many operations.

    Kernels are started with everything that they take, but stand-ins take it.
    """
    module = load_module(triton_module.emit(made))
    counter = operations.Counter()
    lengths = dict.fromkeys(made.lengths, n)
    with without_kernels(module) as stand_ins:
        operations.run(module, made, lengths, batch, torch.float32, torch.device("meta"), counter)
    return sum(x.count for x in stand_ins.values()), sum(counter.names.values())


@contextmanager
def without_kernels(module: ModuleType) -> Iterator[dict[str, StandIn]]:
    """Within this context stand-ins take the place of a module's own kernels."""
    kernels = {k: v for k, v in vars(module).items() if type(v).__name__ == "JITFunction"}
    own = {k: v for k, v in kernels.items() if v.fn.__module__ == module.__name__}
    stand_ins = {name: StandIn() for name in own}
    module.__dict__.update(stand_ins)
    yield stand_ins
    module.__dict__.update(own)


class StandIn:
    """Takes the place of a kernel: counts how often it is started, and where its tensors are."""

    def __init__(self) -> None:
        self.count = 0
        self.devices: set[str] = set()

    def __getitem__(self, grid: Any) -> Any:
        assert all(number >= 0 for number in grid)

        def start(*arguments: Any, **options: Any) -> None:
            self.count += 1
            self.note(arguments)

        return start

    def note(self, arguments: tuple[Any, ...]) -> None:
        """Keep the devices of tensors, also of those in tuples."""
        for argument in arguments:
            if isinstance(argument, tuple):
                self.note(argument)
            elif isinstance(argument, torch.Tensor):
                self.devices.add(argument.device.type)
