"""Programs on a device that is not here: fake CUDA tensors catch strays and synchronisation.

Under FakeTensorMode an operation that mixes devices raises, and so does one that asks for the
value of a tensor; so a program that runs here neither makes a stray tensor on the CPU nor waits
for the device in a loop.
"""

import re
from collections.abc import Iterable
from importlib.util import find_spec

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fgg.compiler.emit.python import emit as emit_python
from fgg.compiler.emit.simplify import passes as simplified
from fgg.compiler.emit.triton import emit as emit_triton
from fgg.grammar.index import Expr
from fgg.plan import HIGH, LEVEL, LOW, Plan
from fgg.runtime.program.emitted import load_module
from tests.helpers.compiled import compiled, programs
from tests.helpers.fake_cuda import CUDA, WithoutGuards, stays_on_the_device
from tests.helpers.gpu_costs import without_kernels

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
WAITS = re.compile(
    r"\.(item|cpu|numpy|tolist|nonzero|any|all|unique|to|synchronize)\(|\b(bool|float|print)\("
)
"""What asks the device for a value, or may."""
HARMLESS = (".adjoint.all", ".inverse.all", ".to(batch.dtype)", ".to(tl.int64)", ".to(tl.float64)")


@pytest.mark.parametrize("lengths", [[4, 4], [2, 4]], ids=["even", "mixed"])
@pytest.mark.parametrize("name", programs())
def test_program_stays_on_the_device(name: str, lengths: list[int]) -> None:
    program = compiled(name)
    stays_on_the_device(program, program.compiled.module, lengths)


@needs_triton
@pytest.mark.parametrize("name", programs())
def test_kernels_are_started_without_waiting(name: str) -> None:
    """Lengths are mixed; stand-ins take what kernels are given, all of it on the device."""
    program = compiled(name)
    module = load_module(emit_triton(program.compiled.plan))
    with without_kernels(module) as stand_ins:
        stays_on_the_device(program, module, [2, 4])
    for stand_in in stand_ins.values():
        assert stand_in.devices <= {"cuda"}
    if stand_ins:
        assert any(stand_in.count for stand_in in stand_ins.values())


def passes(text: str) -> str:
    """The functions of the passes in a module's text."""
    inside = text.index("def inside(")
    return text[inside : text.index("PASSES = ")]


@pytest.mark.parametrize("name", programs())
def test_passes_have_nothing_that_waits(name: str) -> None:
    """In the text of both modules; of kernels, the whole text."""
    plan: Plan = compiled(name).compiled.plan
    kernels = emit_triton(plan)
    whole = kernels[kernels.index("PARAMETERS") :]
    for text in (passes(emit_python(plan)), passes(kernels), whole):
        for harmless in HARMLESS:
            text = text.replace(harmless, "")
        assert not WAITS.findall(text)


@pytest.mark.parametrize("name", programs())
def test_the_host_decides_by_levels_and_lengths_alone(name: str) -> None:
    """No loop, no guard and no level of a kernel depends on a number that the device has."""
    plan: Plan = compiled(name).compiled.plan
    ends = {f"{length}{end}" for length in plan.lengths for end in (LOW, HIGH)}
    for kernel in simplified(plan):
        for stage in kernel.stages:
            levels = () if stage.levels is None else (*stage.levels.first, *stage.levels.last)
            assert names_of(expr for bound in levels for expr, _ in bound.terms) <= ends
            for block in stage.blocks:
                loops = [bound for loop in block.loops for bound in (loop.low, loop.high)]
                forms = [*block.guards, *(expr for bound in loops for expr, _ in bound.terms)]
                assert names_of(forms) <= {LEVEL, *ends}
                assert not any(True for expr in forms for _ in expr.lookups())


def names_of(forms: Iterable[Expr]) -> set[str]:
    return {name for form in forms for name in form.names()}


def test_a_stray_is_found() -> None:
    with FakeTensorMode(), WithoutGuards():
        here, there = torch.ones(2), torch.ones(2, device=CUDA)
        with pytest.raises(RuntimeError, match="device"):
            here + there
        with pytest.raises(RuntimeError):  # what asks for a value: there is none
            there.sum().item()
