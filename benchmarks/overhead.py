"""What a program costs apart from its arithmetic: compiling, and a call on a tiny input."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import fgg
from benchmarks.measure import OURS, Call, Goal, Values, quartiles, quiet
from fgg.grammar.domains import domain_size, size_values, with_sizes
from fgg.grammar.domains import lengths as length_names
from fgg.plan.backend import CPP, TORCH
from fgg.runtime.native.build import CannotBuild, build
from fgg.runtime.program.program import Program

LENGTH, SIZE = 5, 10
"""Of the item, and at most of states and words: tables should cost nothing."""
TITLE = f"Overhead: at most {SIZE} states, n = {LENGTH}, batch 1"
DRAWS = 1000
GOALS = (
    Goal(of="compiling", most=1.0),
    Goal(of="call", most=0.005),
    Goal(of="call with cpp", most=0.001),
)


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """CPU seconds: to load and compile; for log Z; for log Z and its gradients."""

    name: str
    compiling: float
    forward: float
    both: float


@dataclass(frozen=True, kw_only=True)
class MachineCode:
    """CPU seconds to build machine code, and for the same calls with it."""

    name: str
    building: float
    fast: float
    both: float


def programs() -> list[tuple[str, str | None]]:
    """Every library grammar with a query of its own that compiles."""
    found: list[tuple[str, str | None]] = []
    for name in fgg.library.library_names():
        queries = list(fgg.load(name).query)
        found += [(name, query) for query in queries] or [(name, None)]
    return found


def small(name: str, query: str | None, *, backend: str = TORCH) -> Program | None:
    """The program of a grammar of few states; None if it has no schedule."""
    sizes = {k: min(v, SIZE) for k, v in size_values(fgg.load(name)).items()}
    try:
        return fgg.compile(
            with_sizes(fgg.load(name), sizes), query, fallback=False, backend=backend
        )
    except fgg.GrammarError:
        return None


def overhead(name: str, query: str | None, repeats: int, compiles: int = 3) -> Overhead | None:
    """The overhead of a grammar; None if it has no schedule and so does not compile."""
    compiling = []
    program = None
    with quiet():
        for _ in range(compiles):
            start = time.process_time()
            program = small(name, query)
            compiling.append(time.process_time() - start)
    if program is None:
        return None
    forward, both = calls(program, repeats)
    return Overhead(name=OURS, compiling=quartiles(compiling)[1], forward=forward, both=both)


def machine_code(name: str, query: str | None, repeats: int) -> MachineCode | None:
    """The overhead of a grammar as machine code; None if it cannot be."""
    program = small(name, query, backend=CPP)
    if program is None:
        return None
    try:
        building = build_seconds(program)
    except CannotBuild:
        return None
    forward, both = calls(program, repeats)
    return MachineCode(name=CPP, building=building, fast=forward, both=both)


def build_seconds(program: Program) -> float:
    """The CPU seconds that the compiler takes. Raises CannotBuild."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with TemporaryDirectory() as folder:
        build(program.compiled.cpp.whole, "float32", Path(folder) / "program.so")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def calls(program: Program, repeats: int) -> tuple[float, float]:
    """CPU seconds of log Z, and of log Z and its gradients, of a tiny item."""
    weights = program.weights(seed=0)
    inputs, lengths = example(program)
    leaves = {n: w.requires_grad_() for n, w in weights.items()}
    forward, both = [], []
    for _ in range(3):
        program.log_z(weights, inputs, lengths).sum()
    with quiet():
        for _ in range(repeats):
            start = time.process_time()
            with torch.no_grad():
                log_z = program.log_z(weights, inputs, lengths)
            forward.append(time.process_time() - start)
            start = time.process_time()
            log_z = program.log_z(leaves, inputs, lengths)
            if log_z.requires_grad:
                log_z.sum().backward()  # type: ignore[no-untyped-call]
            both.append(time.process_time() - start)
    return quartiles(forward)[1], quartiles(both)[1]


def both_passes(program: Program, length: int, batch: int) -> Call:
    """A call for log Z and its gradients, of copies of one item."""
    inputs, lengths = example(program, length)
    inputs = {
        name: x.expand(batch, *x.shape[1:]).clone().requires_grad_(x.is_floating_point())
        for name, x in inputs.items()
    }
    weights = {name: w.requires_grad_() for name, w in program.weights(seed=0).items()}
    wanted = [x for x in (*weights.values(), *inputs.values()) if x.requires_grad]
    sizes = {name: numbers * batch for name, numbers in lengths.items()}

    def call() -> Values:
        log_z = program.log_z(weights, inputs, sizes)
        torch.autograd.grad(log_z.sum(), wanted, allow_unused=True)
        return {}

    return call


def example(
    program: Program, length: int = LENGTH
) -> tuple[dict[str, torch.Tensor], dict[str, list[int]]]:
    """An item of one length for all lengths, which has derivations, if one is soon found.

    Log-potentials are 0, tokens go up from 0, entries of tables are drawn.
    """
    grammar = program.grammar
    lengths = {name: length for name in length_names(grammar)}
    known = {**size_values(grammar), **lengths}
    inputs = {}
    for item in grammar.inputs:
        shape = [e.evaluate(known) or 0 for e in item.shape]
        tokens = torch.arange(prod(shape)) % domain_size(grammar, item.domain)
        inputs[item.name] = tokens.reshape(1, *shape)
    for factor in grammar.input_factors:
        # No index is above the greatest length or size: more positions than needed do no harm.
        extent = 1 + max(known.values())
        states = [domain_size(grammar, d) for d in factor.domains]
        inputs[factor.name] = torch.zeros((1, *(extent for _ in factor.indices), *states))
    chance = torch.Generator().manual_seed(0)
    sizes = {name: [n] for name, n in lengths.items()}
    weights = program.weights(seed=0)
    for _ in range(DRAWS):
        for table in grammar.tables:
            shape = [e.evaluate(known) or 0 for e in table.shape]
            inputs[table.name] = torch.randint(-1, length, (1, *shape), generator=chance)
        if not grammar.tables or bool(torch.isfinite(program.log_z(weights, inputs, sizes))):
            break
    return inputs, sizes
