"""What a grammar's programs would do on a GPU, beside what the GPU can do at most."""

from __future__ import annotations

from fgg.api.gpu_cost import gpu_cost
from fgg.explore.asked import Answer, Asked, Send
from fgg.explore.views.cost import Costs, Setting
from fgg.plan.devices import DEVICES, device_named


def view(asked: Asked, send: Send) -> Answer:
    """The passes of each program with their launches, bytes, operations and least times."""
    device = device_named(asked.word("device", tuple(DEVICES), next(iter(DEVICES))))
    costs = Costs.of(asked.source, Setting.of(asked))
    counted = dict(costs.spaces())
    space = asked.space if asked.space in counted else costs.chosen
    report = gpu_cost(counted[space], device)
    return {
        "space": space,
        "device": device.name,
        "title": device.title,
        "flops": device.peak(costs.setting.width),
        "bandwidth": device.bandwidth,
        "needed": report.memory,
        "memory": device.memory,
        "fits": report.fits,
        "passes": [row.as_json() for row in report.whole()],
        "tensor_operations": dict(report.refused),
    }
