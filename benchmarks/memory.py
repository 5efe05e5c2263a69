"""Memory of one call, from a fresh process: of its tensors, and by how much the process grew."""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks.measure import Point, Skipped, Suite, quiet
from fgg.runtime.native.engine import NativeEngine

ROOT = Path(__file__).parent.parent


def peak_resident() -> int:
    """The greatest resident size of this process so far, in bytes."""
    try:
        # ru_maxrss of a child begins with what its parent had; this does not.
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_allocated(call: Callable[[], object]) -> int:
    """The most bytes that tensors had at one time in a call, beyond those before it.

    From the allocator's own events: exact, and the same on every run. What machine code of ours
    takes for intermediate results is added, as if it were at the same time. What libraries take for
    themselves without the allocator does not count.
    """
    from torch.profiler import ProfilerActivity, profile

    NativeEngine.most = 0
    with quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        kept = call()
    del kept
    assert found.profiler is not None and found.profiler.kineto_results is not None
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most + NativeEngine.most


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of one call: of its tensors, and by how much the process grew."""

    name: str
    allocated: int
    resident: int


def memories(suite: str, name: str, points: Sequence[Point], seconds: float) -> list[Memory]:
    """The memory of calls at some points, in processes of their own, in at most so many seconds.

    One process loads what is needed; each number comes from a copy of that process.
    """
    sizes = json.dumps([dict(point) for point in points])
    command = [sys.executable, "-m", "benchmarks.memory", suite, name, sizes]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        raise Skipped(f"takes more than {seconds:.0f} s") from None
    if done.returncode:
        raise Skipped((done.stderr.strip().splitlines() or ["failed"])[-1])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [Memory(name=name, allocated=one, resident=two) for one, two in found]


def measure_memory(suite: Suite, name: str, point: Point, kind: str) -> int:
    """The memory of a call in this process, after a small one that loads what is needed."""
    maker = suite.makers[name]
    maker(small(point))()
    call = maker(point)
    if kind == "allocated":
        return peak_allocated(call)
    gc.collect()
    before = peak_resident()
    call()
    return peak_resident() - before


def small(point: Point) -> Point:
    """A point that is like another, but of four words."""
    return {**point, "n": 4}


def in_a_copy(work: Callable[[], int]) -> int:
    """What some work returns in a copy of this process, which ends with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, str(work()).encode())
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(1)
    return int(text)


def main(which: str, case: str, at: str) -> None:
    """Print the numbers of each point, a line each."""
    torch.set_num_threads(1)
    suite: Suite = importlib.import_module(f"benchmarks.{which}").SUITE
    points: list[Point] = json.loads(at)
    try:
        suite.makers[case](small(points[0]))()  # loads what is needed, once for all copies
    except Skipped as reason:
        raise SystemExit(str(reason)) from None
    for point in points:
        work = partial(measure_memory, suite, case, point)
        found = [in_a_copy(partial(work, kind)) for kind in ("allocated", "resident")]
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
