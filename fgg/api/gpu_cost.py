"""What a plan costs on a GPU: the compiler counts launches, the runtime runs without numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgg.plan.devices import Device

if TYPE_CHECKING:
    from fgg.compiler.cost.cost import Cost
    from fgg.compiler.cost.gpu.report import GpuCost


def gpu_cost(cost: Cost, device: Device) -> GpuCost:
    """The cost of a plan on a device, for the lengths and the batch of its `cost`.

    Raises GrammarError (F415) for lengths with too many levels to count.
    """
    import torch

    from fgg.compiler.cost.gpu.report import gpu_cost
    from fgg.compiler.emit.python.marked import emit_marked
    from fgg.runtime.native.operations import operations

    dtype = {4: torch.float32, 8: torch.float64}[cost.width]
    source = emit_marked(cost.plan)
    tensor = operations(source, cost.plan, cost.lengths, cost.batch, dtype)
    return gpu_cost(cost, device, tensor)
