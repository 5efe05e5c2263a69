"""Memory of one call, from a fresh process: of its tensors, and by how much the process grew."""

from __future__ import annotations

import gc
import importlib
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.measure import Point, Skipped, Suite, quiet


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

    From the allocator's own events: exact, and the same on every run. What libraries take for
    themselves without the allocator does not count.
    """
    from torch.profiler import ProfilerActivity, profile

    with quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        kept = call()
    del kept
    assert found.profiler is not None and found.profiler.kineto_results is not None
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of one call: of its tensors, and by how much the process grew."""

    name: str
    allocated: int
    resident: int


def memory(suite: str, name: str, point: Point) -> Memory:
    """The memory of a call, each kind from a process of its own."""
    sizes = json.dumps(dict(point))
    found = {}
    for kind in ("allocated", "resident"):
        command = [sys.executable, "-m", "benchmarks.memory", suite, name, sizes, kind]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Skipped((done.stderr.strip().splitlines() or ["failed"])[-1])
        found[kind] = int(done.stdout)
    return Memory(name=name, allocated=found["allocated"], resident=found["resident"])


def measure_memory(suite: Suite, name: str, point: Point, kind: str) -> int:
    """The memory of a call in this process, after a small one that loads what is needed."""
    maker = suite.makers[name]
    maker({**point, "n": 4})()
    call = maker(point)
    if kind == "allocated":
        return peak_allocated(call)
    gc.collect()
    before = peak_resident()
    call()
    return peak_resident() - before


if __name__ == "__main__":
    torch.set_num_threads(1)
    _, which, case, at, what = sys.argv
    module = importlib.import_module(f"benchmarks.{which}")
    print(measure_memory(module.SUITE, case, json.loads(at), what))
