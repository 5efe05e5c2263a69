"""Operations of tensor programs, counted without numbers."""

from __future__ import annotations

import pytest
import torch

from fgg.compiler.emit.python.marked import emit_marked
from fgg.diagnostics import GrammarError
from fgg.plan.devices import DEVICES
from fgg.plan.work import INSIDE, ONCE, OUTSIDE, total
from fgg.runtime.native.operations import Counter, operations
from tests.helpers.gpu_costs import cost_on, plan

META = torch.device("meta")


def counted(n: int = 10, batch: int = 2) -> list[tuple[str, str, int]]:
    made = plan("pcfg", "rank")
    works = operations(emit_marked(made), made, {"n": n}, batch, torch.float32)
    return [(w.phase, w.rule, total([w], DEVICES["a100"], 4).a_level) for w in works]


def test_each_rule_has_its_operations() -> None:
    found = {(phase, rule): a_level for phase, rule, a_level in counted()}
    assert found[INSIDE, "binary"] == 15 and found[OUTSIDE, "binary"] == 11
    assert found[INSIDE, "X_N_binary_1"] == found[INSIDE, "X_N_binary_2"] == 4
    assert found[INSIDE, "root"] == found[INSIDE, ""] == 0, "they are done once"
    rules = {rule for _, rule in found}
    assert rules == {"", *(step.rule.name for step in plan("pcfg", "rank").steps)}


def test_a_tensor_program_starts_many_kernels_a_level() -> None:
    rows = cost_on("a100", "pcfg", "rank", n=40).whole()
    a_level = {row.phase: row.total.a_level for row in rows if row.program == "torch"}
    assert (a_level[INSIDE], a_level[OUTSIDE]) == (23, 19)


def noted(counter: Counter) -> list[tuple[int, int, int]]:
    return [entry for entries in counter.noted.values() for entry in entries]


def test_views_start_nothing() -> None:
    with Counter() as counter:
        x = torch.empty(4, 6, device=META)
        x.T.unsqueeze(0).expand(3, 6, 4)[:, 1:].view(3, 5, 4)
    assert noted(counter) == []


def test_operations_read_and_write_once() -> None:
    x, y = torch.empty(4, 6, device=META), torch.empty(6, 5, device=META)
    with Counter() as counter:
        x @ y
        x.expand(3, 4, 6) + 1
        x.copy_(x + x)
        x.mul_(2)
        torch.zeros_like(x)
        y[torch.tensor([1, 2], device=META)]
    assert noted(counter) == [
        (ONCE, 4 * (24 + 30 + 20), 120),
        (ONCE, 4 * (24 + 72), 0),
        (ONCE, 4 * 3 * 24, 0),
        (ONCE, 4 * 2 * 24, 0),
        (ONCE, 4 * 2 * 24, 24),
        (ONCE, 4 * 24, 0),
        *noted(counter)[6:-1],
        (ONCE, 4 * 2 * 10 + 8 * 2, 0),
    ]


def test_matrix_products_are_those_of_the_plan() -> None:
    found = cost_on("a100", "pcfg", "rank", n=12, batch=2, r=64)
    for phase in (INSIDE, OUTSIDE):
        rows = {r.program: r.total for r in found.whole() if r.phase == phase}
        assert rows["torch"].multiply_adds == pytest.approx(rows["triton"].multiply_adds, rel=0.05)


def test_too_many_levels_are_refused() -> None:
    made = plan("hmm", "state")
    with pytest.raises(GrammarError) as error:
        operations(emit_marked(made), made, {"n": 5000}, 1, torch.float32)
    (found,) = error.value.diagnostics
    assert (
        found.code == "F415" and "4,096 levels" in found.message and "--length" in str(found.help)
    )
