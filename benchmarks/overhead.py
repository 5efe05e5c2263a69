"""What a program costs apart from its arithmetic: compiling, and a call on a tiny input."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import fgg
from benchmarks.measure import OURS, Goal, quartiles, quiet
from fgg.grammar.domains import domain_size, size_values, with_sizes
from fgg.grammar.domains import lengths as length_names
from fgg.plan.backend import CPP, TORCH
from fgg.runtime.native.build import CannotBuild, build
from fgg.runtime.program.program import Program

LENGTH, SIZE = 5, 10
"""Of the item, and at most of states and words: tables should cost nothing."""
TITLE = f"Overhead: at most {SIZE} states, n = {LENGTH}, batch 1"
DRAWS = 1000
CALL = 0.005
GOALS = (Goal(of="compiling", most=1.0), Goal(of="call", most=CALL))


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """CPU seconds: to load and compile; for log Z; for log Z and its gradients."""

    name: str
    compiling: float
    forward: float
    both: float


@dataclass(frozen=True, kw_only=True)
class MachineCode:
    """Seconds by the clock to build machine code; CPU seconds for the same calls with it."""

    name: str
    building: float
    forward: float
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
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        try:
            build(program.compiled.cpp.whole, "float32", Path(folder) / "program.so")
        except CannotBuild:
            return None
        building = time.perf_counter() - start
    forward, both = calls(program, repeats)
    return MachineCode(name=CPP, building=building, forward=forward, both=both)


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


def example(program: Program) -> tuple[dict[str, torch.Tensor], dict[str, list[int]]]:
    """An item whose lengths are all `LENGTH` and which has derivations, if one is soon found.

    Log-potentials are 0, tokens go up from 0, entries of tables are drawn.
    """
    grammar = program.grammar
    lengths = {name: LENGTH for name in length_names(grammar)}
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
            inputs[table.name] = torch.randint(-1, LENGTH, (1, *shape), generator=chance)
        if not grammar.tables or bool(torch.isfinite(program.log_z(weights, inputs, sizes))):
            break
    return inputs, sizes
