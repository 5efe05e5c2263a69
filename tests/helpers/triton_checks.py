"""Triton programs, carried out by Triton's interpreter or built by its compiler.

Triton decides between the two when it is imported. So tests run this module in a process of its
own: `TRITON_INTERPRET=1 python -m tests.helpers.triton_checks numbers hmm:string:state …`, or
`python -m tests.helpers.triton_checks build 80 float32 i32 pcfg:string:rank:r=128 …`. It prints
JSON.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import fgg
from fgg.api.compile import compile
from fgg.compiler.emit.triton import emit
from fgg.diagnostics import GrammarError
from fgg.plan import Plan
from fgg.runtime.native.triton_engine import TritonEngine
from fgg.runtime.program.emitted import load_module
from fgg.runtime.program.prepared_batch import Run
from fgg.runtime.program.program import Program
from tests.generators.indexed import write_grammar
from tests.helpers.compiled import SMALL
from tests.helpers.kernels import spaces_of
from tests.helpers.native import items_of, random_run, same

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def program_of(name: str) -> Program:
    """The program of `grammar:query:space`, perhaps with sizes: `pcfg:string:rank:r=128,nt=3`."""
    grammar, query, space, *more = name.split(":")
    sizes = {k: v for k, v in SMALL.items() if k in fgg.load(grammar).size}
    if more:
        pairs = (pair.split("=") for pair in more[0].split(",") if pair)
        sizes = {size: int(value) for size, value in pairs}
    model = fgg.load(grammar, sizes=sizes)
    return compile(model, query or None, space=space, fallback=False, backend="triton")


def possible(name: str) -> Program | None:
    """The same, or None if the grammar cannot be compiled in this space."""
    try:
        return program_of(name)
    except GrammarError as error:
        assert [d.code for d in error.diagnostics] == ["F425"]
        return None


def numbers(program: Program, seed: int, tolerance: float = 1e-8) -> None:
    """Assert that charts, gradients and adjoints are those of tensor operations."""
    rng = random.Random(seed)
    for missing, dtype in ((0.0, torch.float64), (0.3, torch.float64), (0.0, torch.float32)):
        items = items_of(program.grammar, [4, 3, 0, 2], rng, missing=missing)
        run = random_run(program, items, dtype, seed)
        assert isinstance(run.engine, TritonEngine)
        same(run, tolerance if dtype == torch.float64 else 1e-4)


def random_numbers(seeds: range) -> Counter[str]:
    """The same for random grammars; what became of them."""
    done: Counter[str] = Counter()
    for seed in seeds:
        made = write_grammar(random.Random(seed).choice)
        assert made is not None
        for space in spaces_of(made[0]):
            try:
                program = compile(made[0], space=space, fallback=False, backend="triton")
            except GrammarError:
                done["refused"] += 1
                continue
            rng = random.Random(seed)
            same(random_run(program, items_of(program.grammar, [3, 2], rng), torch.float64, seed))
            done["same"] += 1
    return done


class Recorder:
    """Stands in for a kernel: keeps what it is started with."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.calls: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> None:
            self.calls.append((grid, arguments, options))

        return call


def runs(program: Program, dtype: torch.dtype) -> Iterator[Run]:
    """Batches of two items, one for each plan: the program's own, and that for missing tokens."""
    plans: list[Plan] = []
    for missing in (0.0, 0.5):
        items = items_of(program.grammar, [4, 4], random.Random(0), missing=missing)
        run = random_run(program, items, dtype, 0)
        if run.program.plan not in plans:
            plans.append(run.program.plan)
            yield run


def recorded(run: Run) -> dict[str, Recorder]:
    """What all kernels of a program are started with, for a batch."""
    module = load_module(emit(run.program.plan))
    kernels = {n: Recorder(x) for n, x in vars(module).items() if type(x).__name__ == "JITFunction"}
    local = {n: x for n, x in kernels.items() if x.kernel.fn.__module__ == module.__name__}
    module.__dict__.update(local)
    with torch.no_grad():
        values, scales = module.inside(run.leaves, run.scales, run.batch)
        slopes = torch.ones(run.batch.size, dtype=run.batch.dtype)
        module.outside(run.leaves, run.scales, values, scales, run.batch, slopes)
    return local


def type_of(argument: Any) -> Any:
    """The type of an argument, as Triton's compiler names it."""
    if isinstance(argument, tuple):
        return tuple(map(type_of, argument))
    if isinstance(argument, torch.Tensor):
        kinds = {torch.float32: "fp32", torch.float64: "fp64"}
        kinds |= {torch.int64: "i64", torch.int32: "i32"}
        return f"*{kinds[argument.dtype]}"
    return "i32"


def built(
    program: Program, target: int, dtype: torch.dtype, points: str
) -> Iterator[tuple[str, dict[str, int]]]:
    """What the kernels of a program use, by name, built for a compute capability.

    `points` is the type of the number of points, `i64` if there are more than 2^31.
    """
    for run in runs(program, dtype):
        yield from built_for(recorded(run), target, points)


def built_for(
    kernels: dict[str, Recorder], target: int, points: str
) -> Iterator[tuple[str, dict[str, int]]]:
    """What recorded kernels use, by name, built for a compute capability."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as build

    for title, recorder in kernels.items():
        if not recorder.calls:
            continue
        _, arguments, options = recorder.calls[0]
        options = dict(options)
        warps = options.pop("num_warps", 4)
        names = recorder.kernel.arg_names
        signature = dict(zip(names, map(type_of, arguments), strict=False))
        signature |= {"points": points}
        signature |= dict.fromkeys(options, "constexpr")
        source = ASTSource(recorder.kernel, signature=signature, constexprs=options)
        found = build(source, target=GPUTarget("cuda", target, 32), options={"num_warps": warps})
        assert len(found.asm["cubin"]) > 0
        usage = resources(found, target)
        yield title, usage


def resources(kernel: Any, target: int) -> dict[str, int]:
    """Registers, bytes spilled from them, and shared memory of a compiled kernel."""
    from triton.backends.nvidia.compiler import get_ptxas

    tool = get_ptxas(target).path  # Triton has several, for older and for newer GPUs
    # Triton compiles for the whole feature set of a generation, such as sm_90a.
    [name] = re.findall(r"\.target (\w+)", kernel.asm["ptx"])
    assert name.startswith(f"sm_{target}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(kernel.asm["ptx"])
        command = [tool, "-v", f"--gpu-name={name}", str(path), "-o", f"{path}.cubin"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    [registers] = re.findall(r"Used (\d+) registers", said)
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill", said)))
    shared = kernel.metadata.shared
    return {"registers": int(registers), "spilled": spilled, "shared": shared}


def main(task: str, *arguments: str) -> None:
    """Do what the arguments say."""
    if task == "numbers":
        done = Counter(same=0, refused=0)
        for name in arguments:
            program = possible(name)
            if program is not None:
                numbers(program, seed=1)
            done["refused" if program is None else "same"] += 1
        print(json.dumps(done))
    elif task == "random":
        first, last = map(int, arguments)
        print(json.dumps(random_numbers(range(first, last))))
    elif task == "far":
        from tests.helpers.far_cells import found

        print(json.dumps(found()))
    else:
        target, dtype, points, *names = arguments
        programs = {name: program for name in names if (program := possible(name)) is not None}
        usages = [
            {"program": name, "kernel": title, "target": target, **usage}
            for name, program in programs.items()
            for title, usage in built(program, int(target), DTYPES[dtype], points)
        ]
        print(json.dumps(usages))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
