"""The machine's limits: what nobody can do without, alone.

The matrix products of a model are in its own suite. The memory traffic follows from a program's
cost: parameters, charts and tables are read or written, and so are their derivatives.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.measure import Call, Point
from fgg.compiler.cost.cost import cost
from fgg.runtime.program.program import Program

PRODUCTS = "matrix products alone"
TRAFFIC = "memory traffic alone"


def traffic(program: Program, point: Point) -> Call:
    """Each number that has to be in memory once, read once and written once, in float32."""
    found = cost(
        program.compiled.plan,
        dict.fromkeys(program.compiled.plan.lengths, point["n"]),
        batch=point["batch"],
    )
    used = 2 * found.parameter_bytes + found.chart_bytes + found.adjoint_bytes
    source = torch.ones((used + 2 * found.table_bytes) // 4)
    target = torch.empty_like(source)

    def call() -> dict[str, Tensor]:
        target.copy_(source)
        return {}

    return call
