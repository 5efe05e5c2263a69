"""GPUs: what programs would do there, counted; and on a GPU, how long they take.

Counts need no GPU: they are those of `fggc compile --emit cost --device …`. Measurements are
wall-clock times of log Z and its gradients, with the device waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

import fgg
from benchmarks.tables import Table, milliseconds
from fgg.api.compile import selected
from fgg.api.gpu_cost import gpu_cost
from fgg.compiler.cost.cost import cost
from fgg.compiler.cost.gpu.report import WHOLE, GpuCost
from fgg.compiler.driver import Expected, plan_of
from fgg.plan.backend import TORCH, TRITON
from fgg.plan.devices import DEVICES
from fgg.plan.sizes import in_units, short
from fgg.plan.work import INSIDE, OUTSIDE
from fgg.runtime.native.operations import given
from fgg.runtime.native.triton_engine import no_place

Record = Mapping[str, Any]
NAME = "gpu"
TITLE = "On a GPU, counted: inside and outside, float32"
LEAST = "least possible"
BYTES_ON = "a100"
"""The device whose cache decides what counts twice, for the one column of bytes."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program, and a batch of items of one length."""

    grammar: str
    space: str
    n: int
    batch: int = 16
    sizes: Mapping[str, int]

    @property
    def text(self) -> str:
        """The case in words."""
        sizes = ", ".join(f"{name} {value}" for name, value in self.sizes.items())
        return f"`{self.grammar}`, {self.space} space: n {self.n}, batch {self.batch}, {sizes}"


CASES = (
    Case(grammar="pcfg", space="rank", n=40, sizes={"r": 1000}),
    Case(grammar="pcfg", space="rank", n=40, sizes={"r": 100}),
    Case(grammar="pcfg_dense", space="state", n=40, sizes={"nt": 30, "pt": 60}),
    Case(grammar="hmm", space="state", n=64, sizes={"k": 1024, "d": 10000}),
    Case(grammar="dmv", space="state", n=20, sizes={"tags": 45}),
)


def counts(cases: Sequence[Case] = CASES) -> Iterator[Record]:
    """What programs would do, a record for each program on each device."""
    for case in cases:
        plan = plan_of(selected(_model(case), None), Expected(), case.space)
        counted = cost(plan, dict.fromkeys(plan.lengths, case.n), batch=case.batch)
        for device in DEVICES.values():
            yield from _counted(case, gpu_cost(counted, device))


def _counted(case: Case, found: GpuCost) -> Iterator[Record]:
    about = {"role": "counted", "at": case.text, "device": found.device.name}
    head = {"suite": NAME, "point": {}, **about}
    rows = list(found.whole())
    for name in dict.fromkeys(row.program for row in rows):
        by_pass = {row.phase: row.total for row in rows if row.program == name}
        whole = by_pass[WHOLE]
        yield {
            **head,
            "name": name,
            "launches": whole.launches,
            "levels": [by_pass[phase].a_level for phase in (INSIDE, OUTSIDE)],
            "bytes": whole.bytes,
            "multiply_adds": whole.multiply_adds,
            "seconds": whole.seconds,
            "graph_seconds": whole.graph_seconds,
        }
    yield {
        **head,
        "name": LEAST,
        "bytes": sum(rule.bytes for rule in found.least),
        "multiply_adds": sum(rule.multiply_adds for rule in found.least),
        "seconds": found.roofline(WHOLE),
    }


def _model(case: Case) -> fgg.Grammar:
    return fgg.load(case.grammar, sizes=dict(case.sizes))


# on a device


def measurements(
    device: torch.device, repeats: int, cases: Sequence[Case] = CASES
) -> Iterator[Record]:
    """The times of our programs on a device, backend by backend."""
    for case in cases:
        for name, options in backends(device).items():
            head = {"suite": NAME, "point": {}, "role": "measured", "at": case.text, "name": name}
            try:
                seconds = list(_times(case, device, repeats, options))
            except fgg.GrammarError as error:
                yield {**head, "skipped": error.diagnostics[0].message}
                continue
            about = {"median": median(seconds), "low": min(seconds), "rounds": len(seconds)}
            yield {**head, **about, "device": str(device)}


def backends(device: torch.device) -> dict[str, dict[str, Any]]:
    """The ways to compute on a device: options of `fgg.compile` by name."""
    found: dict[str, dict[str, Any]] = {TORCH: {"backend": TORCH}}
    if not no_place(device, torch.float32):
        found[TRITON] = {"backend": TRITON}
    if device.type == "cuda":
        found |= {f"{n}, in a graph": {**o, "cuda_graph": True} for n, o in found.items()}
    return found


def _times(
    case: Case, device: torch.device, repeats: int, options: Mapping[str, Any]
) -> Iterator[float]:
    """Seconds by the clock for log Z and its gradients, after three calls that do not count."""
    program = fgg.compile(_model(case), space=case.space, fallback=False, **options)
    weights = program.weights(seed=0, dtype=torch.float32, device=device)
    weights = {name: weight.requires_grad_() for name, weight in weights.items()}
    plan = program.compiled.plan
    lengths = dict.fromkeys(plan.lengths, case.n)
    inputs = given(plan, lengths, case.batch, torch.float32, torch.device("cpu"))
    inputs = {name: _filled(x).to(device) for name, x in inputs.items()}
    for number in range(3 + repeats):
        _wait(device)
        start = time.perf_counter()
        log_z = program.log_z(weights, inputs)
        if weights:
            torch.autograd.grad(log_z.sum(), list(weights.values()), allow_unused=True)
        _wait(device)
        if number >= 3:
            yield time.perf_counter() - start


def _filled(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# tables


def tables(records: Sequence[Record]) -> list[Table]:
    """The table of counts, and that of times if there are any."""
    found = []
    if any(r["role"] == "counted" for r in records):
        found.append(counted_table([r for r in records if r["role"] == "counted"]))
    if any(r["role"] == "measured" for r in records):
        found.append(measured_table([r for r in records if r["role"] == "measured"]))
    return found


def counted_table(records: Sequence[Record]) -> Table:
    """A row for each program of each case; times are lower limits."""
    devices = list(dict.fromkeys(r["device"] for r in records))
    columns = ["", "launches", "a level", "bytes", "multiply-adds"]
    table = Table(title=TITLE, columns=[*columns, *(f"{name}, ms" for name in devices)])
    for case in dict.fromkeys(r["at"] for r in records):
        here = [r for r in records if r["at"] == case]
        table.rows.append([case, *[""] * (len(table.columns) - 1)])
        for name in dict.fromkeys(r["name"] for r in here):
            on = {r["device"]: r for r in here if r["name"] == name}
            one = on.get(BYTES_ON, next(iter(on.values())))
            table.rows.append(
                [
                    name,
                    f"{one['launches']:,}" if "launches" in one else "",
                    " + ".join(map(str, one.get("levels", ()))),
                    in_units(one["bytes"]),
                    short(one["multiply_adds"]),
                    *(milliseconds(on[device]["seconds"]) for device in devices),
                ]
            )
    table.notes += [
        "nothing here was measured: `docs/howto/gpu.md` says how it is counted",
        "launches a level: in the inside pass and in the outside pass",
        f"bytes are those on {BYTES_ON}; times are lower limits, with 5 µs for a launch",
        "times of published programs assume that all of their launches overlap",
    ]
    return table


def measured_table(records: Sequence[Record]) -> Table:
    """Times by the clock, in milliseconds."""
    table = Table(
        title="On this device, measured", columns=["", "median, ms", "least, ms", "calls"]
    )
    for r in records:
        title = f"{r['at']}: {r['name']}"
        if "skipped" in r:
            table.notes.append(f"not measured: {title}: {r['skipped']}")
        else:
            numbers = [milliseconds(r["median"]), milliseconds(r["low"]), str(r["rounds"])]
            table.rows.append([title, *numbers])
    return table
