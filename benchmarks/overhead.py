"""What a program costs apart from its arithmetic: compiling, and a call on a tiny input."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

import fgg
from benchmarks.measure import OURS, Goal, quartiles, quiet
from fgg.conjoining import lengths as length_names
from fgg.domains import domain_size, size_values, with_sizes
from fgg.runtime.program import Program

LENGTH, SIZE = 5, 10
"""Of the item, and at most of states and words: tables should cost nothing."""
TITLE = f"Overhead: at most {SIZE} states, n = {LENGTH}, batch 1"
GOALS = (Goal(of="compiling", most=1.0), Goal(of="call", most=0.005))


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """CPU seconds: to load and compile; for log Z; for log Z and its gradients."""

    name: str
    compiling: float
    forward: float
    both: float


def programs() -> list[tuple[str, str | None]]:
    """Every library grammar with a query of its own that compiles."""
    found: list[tuple[str, str | None]] = []
    for name in fgg.library_names():
        queries = list(fgg.load(name).query)
        found += [(name, query) for query in queries] or [(name, None)]
    return found


def overhead(name: str, query: str | None, repeats: int, compiles: int = 3) -> Overhead | None:
    """The overhead of a grammar; None if it has no schedule and so does not compile."""
    small = {k: min(v, SIZE) for k, v in size_values(fgg.load(name)).items()}
    compiling = []
    with quiet():
        for _ in range(compiles):
            start = time.process_time()
            try:
                grammar = with_sizes(fgg.load(name), small)
                program = fgg.compile(grammar, query, fallback=False)
            except fgg.GrammarError:
                return None
            compiling.append(time.process_time() - start)
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
    return Overhead(
        name=OURS,
        compiling=quartiles(compiling)[1],
        forward=quartiles(forward)[1],
        both=quartiles(both)[1],
    )


def example(program: Program) -> tuple[dict[str, torch.Tensor], dict[str, list[int]]]:
    """An item whose lengths are all `LENGTH`: token 0, entry 0 and log-potential 0 everywhere."""
    grammar = program.grammar
    lengths = {name: LENGTH for name in length_names(grammar)}
    known = {**size_values(grammar), **lengths}
    inputs = {}
    for item in grammar.observed:
        shape = [e.evaluate(known) or 0 for e in item.shape]
        inputs[item.name] = torch.zeros((1, *shape), dtype=torch.long)
    for factor in grammar.input_factors:
        # No index is above the greatest length or size: more positions than needed do no harm.
        extent = 1 + max(known.values())
        states = [domain_size(grammar, d) for d in factor.domains]
        inputs[factor.name] = torch.zeros((1, *(extent for _ in factor.indices), *states))
    return inputs, {name: [n] for name, n in lengths.items()}
