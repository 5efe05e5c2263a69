"""Kernels as listings: golden files, and a line for every operation."""

from __future__ import annotations

import pytest

from fgg.api.compile import selected
from fgg.compiler import load
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit.simplify import passes
from fgg.compiler.plan.kernel_text import kernel_json, kernel_lines, operation_text
from tests.conftest import Golden
from tests.helpers.compiled import programs
from tests.helpers.kernels import kernels_of, library_plans
from tests.helpers.places import ROOT


@pytest.mark.parametrize(
    ("name", "space"), [("pcfg", "rank"), ("hmm", "dense"), ("eisner", "dense")]
)
def test_kernels(name: str, space: str, golden: Golden) -> None:
    """`pytest --update-golden tests/compiler/plan/test_kernel_text.py` writes the files anew."""
    plan = plan_of(selected(load(name), None), Expected(), space)
    golden("\n".join(kernel_lines(*passes(plan))) + "\n")


def test_the_kernel_in_the_documentation_is_what_is_printed() -> None:
    page = (ROOT / "docs" / "howto" / "compiling.md").read_text(encoding="utf-8")
    (shown,) = (block for block in page.split("```") if block.startswith("\nrule binary:"))
    plan = plan_of(selected(load("pcfg"), None), Expected(), "rank")
    lines = [line.strip() for line in kernel_lines(passes(plan)[0])]
    wanted = [line.strip() for line in shown.strip().splitlines()]
    first = lines.index(wanted[0])
    assert lines[first : first + len(wanted)] == wanted


@pytest.mark.parametrize("name", programs())
def test_every_operation_has_a_line(name: str) -> None:
    for kernel in kernels_of(library_plans(name)[0]):
        lines = [line.strip() for line in kernel_lines(kernel)]
        for block in kernel.blocks:
            for op in block.body:
                text = operation_text(block, op)
                assert any(line.startswith(text) for line in lines) and "\n" not in text


def test_the_listing_as_data_has_the_same_operations() -> None:
    plan = library_plans("pcfg_dense:string")[0]
    kernels = passes(plan)
    data = kernel_json(*kernels)
    assert list(data) == ["inside", "outside"]
    lines = {line.strip() for line in kernel_lines(*kernels)}
    for stages in data.values():
        assert isinstance(stages, list)
        for block in (b for stage in stages for group in stage["groups"] for b in group):
            for text in (block["text"], *block["operations"]):
                assert any(line.startswith(text) for line in lines)
