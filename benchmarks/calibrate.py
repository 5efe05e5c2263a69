"""What `fgg.plan.backend` takes machine code to save and to cost: `python -m benchmarks.calibrate`.

Prints a line for each measurement, then the numbers that fit them best: seconds saved by a call,
for a product and for a byte of charts; seconds to build any plan, and for each product in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.optimize import nnls

from benchmarks import hmm, overhead, pcfg
from benchmarks.measure import Call, Point, interleaved
from fgg.plan.backend import CPP, TORCH, products_in, products_of_steps
from fgg.plan.sizes import chart_bytes, environment
from fgg.runtime.program.program import CompiledProgram

SUITES = {"hmm": hmm, "pcfg": pcfg}
POINTS: dict[str, list[Point]] = {
    "hmm": [{"states": k, "n": n, "batch": b} for k in (16, 64) for n in (16, 64) for b in (1, 16)],
    "pcfg": [
        {"phrases": k, "tags": 2 * k, "n": n, "batch": b}
        for k in (15, 30)
        for n in (10, 20)
        for b in (1, 8)
    ],
}
GRAMMARS: list[tuple[str, str | None]] = [
    ("eisner", None),
    ("dmv", "string"),
    ("rna", "string"),
    ("hsmm", "string"),
    ("crf", "tags"),
    ("pair_hmm", "pair"),
]
LENGTHS, BATCHES = (5, 15, 30), (1, 8)
ROUNDS = 15


def timed(calls: dict[str, Call]) -> float:
    """The seconds that machine code saves on a call: the difference of the medians."""
    for call in (*calls.values(), *calls.values()):
        call()
    seconds = {t.name: t.median for t in interleaved(calls, dict.fromkeys(calls, ROUNDS))}
    return seconds[TORCH] - seconds[CPP]


def small_calls(name: str, query: str | None, length: int, batch: int) -> dict[str, Call]:
    """Calls of a library grammar of few states."""
    calls: dict[str, Call] = {}
    for backend in (TORCH, CPP):
        program = overhead.small(name, query, backend=backend)
        assert program is not None
        calls[backend] = overhead.both_passes(program, length, batch)
    return calls


def savings() -> Iterator[tuple[str, int, int, float]]:
    """A label, the products, the bytes of charts and what is saved, for each measurement."""
    for suite, points in POINTS.items():
        for point in points:
            maker = SUITES[suite]
            calls = {backend: maker.ours(point, backend=backend) for backend in (TORCH, CPP)}
            plan = maker.program(point).compiled
            yield f"{suite} {dict(point)}", *sizes(plan, point["n"], point["batch"]), timed(calls)
    for name, query in GRAMMARS:
        program = overhead.small(name, query)
        assert program is not None
        for length in LENGTHS:
            for batch in BATCHES:
                label = f"{name} n {length}, batch {batch}"
                calls = small_calls(name, query, length, batch)
                yield label, *sizes(program.compiled, length, batch), timed(calls)


def sizes(program: CompiledProgram, length: int, batch: int) -> tuple[int, int]:
    """The products of an inside pass and the bytes of its charts."""
    values = environment({name: [length] for name in program.plan.lengths})
    return products_in(program.plan, values), chart_bytes(program.plan, values, batch)


def builds() -> Iterator[tuple[str, int, float]]:
    """A label, the products of a plan and the CPU seconds that its build takes."""
    for name, query in overhead.programs():
        program = overhead.small(name, query, backend=CPP)
        if program is not None:
            yield (
                f"{name} {query or ''}",
                products_of_steps(program.compiled.plan),
                overhead.build_seconds(program),
            )


def fitted(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Coefficients that are not negative, by least squares relative to the seconds."""
    weights = 1 / np.maximum(np.array(seconds), 1e-4)
    found, _ = nnls(np.array(rows, float) * weights[:, None], np.array(seconds) * weights)
    return [float(x) for x in found]


def main() -> None:
    """Measure and fit."""
    torch.set_num_threads(1)
    saved, cost = [], []
    for label, products, charts, seconds in savings():
        print(f"{label}: {products} products, {charts} bytes, {1e3 * seconds:.2f} ms saved")
        saved.append(((1, products, charts), seconds))
    for label, products, seconds in builds():
        print(f"{label}: {products} products, built in {seconds:.2f} s")
        cost.append(((1, products), seconds))
    call, product, byte = fitted(*zip(*saved, strict=True))
    print(f"saved: {call:.2g} s a call, {product:.2g} s a product, {byte:.2g} s a byte")
    once, each = fitted(*zip(*cost, strict=True))
    print(f"building: {once:.2g} s, {each:.2g} s a product")


if __name__ == "__main__":
    main()
