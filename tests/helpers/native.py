"""Programs of machine code, compared with the module's tensor operations."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import fgg
from fgg.api.compile import compile
from fgg.runtime.native import build as native_build
from fgg.runtime.native.engine import NativeEngine
from fgg.runtime.native.triton_engine import TritonEngine
from fgg.runtime.program.prepared_batch import Run, start
from fgg.runtime.program.program import Program
from tests.oracles.comparing import (
    Item,
    collated,
    lengths_of,
    random_item,
)

HAS_COMPILER = not native_build.no_compiler()
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="there is no C++ compiler")


def together(programs: Sequence[Program], dtype: str = "float64") -> Callable[[str, str], object]:
    """Programs as one library, for `fgg.runtime.native.engine.library`: one build for all."""
    natives = [program.compiled.cpp for program in programs]
    parts = [natives[0].prelude]
    for number, cpp in enumerate(natives):
        text = cpp.source.replace('#include "prelude.hpp"', "")
        for name in FUNCTIONS:
            text = text.replace(f'extern "C" I {name}(', f'extern "C" I {name}_{number}(')
        parts.append(f"namespace program_{number} {{\n{text}}}")
    library = native_build.library("\n".join([*parts, ALL]), dtype)
    known = {
        cpp.whole: SimpleNamespace(
            **{name: getattr(library, f"{name}_{number}") for name in FUNCTIONS}
        )
        for number, cpp in enumerate(natives)
    }

    def found(source: str, wanted: str) -> object:
        if wanted == dtype and source in known:
            return known[source]
        return native_build.library(source, wanted)

    return found


FUNCTIONS = ("prepare", "inside", "outside", "through")
ALL = f'extern "C" {{ {" ".join(f"void {name}() {{}}" for name in FUNCTIONS)} }}\n'
"""What every library has."""


def in_cpp(grammar: fgg.Grammar, **options: Any) -> Program:
    """A program whose passes are machine code."""
    return compile(grammar, fallback=False, backend="cpp", **options)


def random_run(program: Program, items: list[Item], dtype: torch.dtype, seed: int) -> Run:
    weights = program.weights(seed=seed, dtype=dtype)
    for weight in weights.values():
        weight.requires_grad_()
    inputs, lengths = collated(items, dtype)
    run = start(program.compiled, weights, inputs, lengths or None)
    run.batch.spare = True
    return run


def items_of(grammar: fgg.Grammar, sizes: list[int], rng: random.Random, **options: Any) -> Any:
    names = lengths_of(grammar)
    return [random_item(grammar, {n: max(0, s) for n in names}, rng, **options) for s in sizes]


def same_preparation(run: Run) -> None:
    """Assert that leaves and the way of gradients through them are the module's."""
    made, batch = run.made, run.batch
    if made is None:
        assert run.collated.missing
        return
    with torch.enable_grad():
        potentials = {n: x for n, x in run.tensors.items() if n not in run.weights}
        leaves, scales = run.program.module.prepare(
            {n: run.tensors[n] for n in run.weights},
            {**run.collated.inputs, **potentials},
            batch,
            False,
        )
    assert leaves.keys() == made.leaves.keys() and scales.keys() == made.scales.keys()
    for found, wanted in ((made.leaves, leaves), (made.scales, scales)):
        for name, tensor in wanted.items():
            torch.testing.assert_close(found[name], tensor.detach(), msg=name)
    for name, (low, high) in made.ends.items():
        if leaves[name].numel():
            assert (low, high) == pytest.approx([float(x) for x in torch.aminmax(leaves[name])])
    passing = {name for name, leaf in leaves.items() if leaf.requires_grad}
    assert (
        passing - run.passing <= run.program.plan.constants
        and passing >= run.passing - made.constants
    )
    chance = torch.Generator().manual_seed(1)
    slopes = {n: torch.rand(leaves[n].shape, generator=chance, dtype=batch.dtype) for n in passing}
    sources = {n: x for n, x in run.tensors.items() if x.requires_grad}
    if not slopes or not sources:
        return
    wanted = torch.autograd.grad(
        [leaves[n] for n in slopes],
        list(sources.values()),
        list(slopes.values()),
        allow_unused=True,
    )
    found = run.through_leaves(slopes)
    for name, slope in zip(sources, wanted, strict=True):
        own = found.get(name, torch.zeros_like(sources[name]))
        torch.testing.assert_close(own, torch.zeros_like(own) if slope is None else slope, msg=name)


@torch.no_grad()
def same(run: Run, tolerance: float = 1e-10) -> Tensor:
    """Assert that charts, their adjoints and the leaves' gradients are the module's."""
    engine, module = run.engine, run.program.module
    if isinstance(engine, NativeEngine):
        assert engine.fits(run.batch, run.leaves), engine.failed
        same_preparation(run)
    else:
        assert isinstance(engine, TritonEngine) and engine.fits(run.batch)
    own = engine.inside(run.leaves, run.scales, run.batch)
    wanted = module.inside(run.leaves, run.scales, run.batch)
    log_z = module.result(wanted[1], run.batch)
    torch.testing.assert_close(engine.result(own[1], run.batch), log_z, atol=tolerance, rtol=1e-9)
    gradient = torch.linspace(0.5, 1.5, len(log_z), dtype=log_z.dtype)
    adjoints = engine.outside(run.leaves, run.scales, *own, run.batch, gradient)
    others = module.outside(run.leaves, run.scales, *wanted, run.batch, gradient)
    assert list(adjoints[0]) == list(others[0]) and list(adjoints[1]) == list(others[1])
    for name, found in adjoints[0].items():
        size = float(others[0][name].abs().max()) if found.numel() else 0.0
        torch.testing.assert_close(
            found, others[0][name], atol=tolerance * (1 + size), rtol=1e-6, msg=name
        )
    for name in adjoints[1]:
        one, two = (
            slopes[name] * values[name] if name in values else slopes[name]
            for slopes, values in ((adjoints[1], own[0]), (others[1], wanted[0]))
        )
        torch.testing.assert_close(one, two, atol=tolerance, rtol=1e-6, msg=name)
    assert isinstance(log_z, Tensor)
    return log_z


def cpp_of(program: Program) -> str:
    """The C++ text of a program."""
    return program.compiled.cpp.source
