"""Reports for whatever grammar: what programs do is near what the plan asks for."""

from __future__ import annotations

import pytest

from fgg.api.gpu_cost import gpu_cost
from fgg.compiler.cost.cost import cost
from fgg.compiler.cost.gpu.report import WHOLE, GpuCost, gpu_lines
from fgg.plan.devices import DEVICES
from tests.helpers.compiled import compiled, programs

QUICK = ("hmm:string", "pcfg:string", "eisner", "ctc", "crf:tags", "rna:string")


def report(name: str, n: int) -> GpuCost:
    plan = compiled(name).compiled.plan
    return gpu_cost(cost(plan, dict.fromkeys(plan.lengths, n), batch=2), DEVICES["a100"])


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in programs()]
)
def test_programs_do_what_the_plan_asks_for(name: str) -> None:
    """Two ways of counting, by running and from launches, find nearly the same multiply-adds."""
    found = report(name, 6)
    totals = {row.program: row.total for row in found.whole() if row.phase == WHOLE}
    tensor, kernels = totals["torch"], totals["triton"]
    least = sum(rule.multiply_adds for rule in found.least)
    assert tensor.launches > kernels.launches > 0
    assert (
        tensor.bytes
        > kernels.bytes
        >= 0.99
        * sum(
            rule.bytes for rule in found.least if f"{rule.phase} {rule.rule}" not in found.refused
        )
    )
    assert 0.5 * least < tensor.multiply_adds < 3 * least + 1000
    assert 0.5 * least < kernels.multiply_adds < 3 * least + 1000


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("name", QUICK)
def test_short_items_have_a_report(name: str, n: int) -> None:
    found = report(name, n)
    assert found.fits and found.as_json()["device"] == "a100"
    assert gpu_lines(found)[-1].startswith("memory")
