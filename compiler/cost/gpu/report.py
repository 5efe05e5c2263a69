"""The cost of a plan on a GPU: each step and the whole call, program by program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fgg.compiler.cost.cost import Cost
from fgg.compiler.cost.gpu.published import LEAST_LENGTH, published, rank_chart
from fgg.compiler.cost.gpu.triton_work import Least, Setting, least_work, triton_work
from fgg.plan.devices import IN_GRAPH, LAUNCH, Device
from fgg.plan.sizes import environment, in_units, short
from fgg.plan.work import INSIDE, OUTSIDE, PHASES, PREPARE, Total, Work, roofline, together, total

TORCH, TRITON = "torch", "triton"
WHOLE = "whole"
"""All passes together."""
REST = "(the rest)"
"""Launches that belong to no rule: charts are made, gradients begin with zeros."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one program does for one step, or for all steps of a pass (`rule` is empty then)."""

    phase: str
    rule: str
    program: str
    total: Total
    roofline: float

    def as_json(self) -> dict[str, object]:
        """The row as plain data."""
        at = {"pass": self.phase, "rule": self.rule, "program": self.program}
        return {**at, **self.total.as_json(), "roofline_seconds": self.roofline}


@dataclass(frozen=True, kw_only=True)
class GpuCost:
    """The cost of a plan on a device. `tensor` is what its tensor program does, counted by running.

    `refused` are the rules that Triton leaves to tensor operations, by pass, with the reason.
    """

    cost: Cost
    device: Device
    tensor: Sequence[Work]
    kernels: Sequence[Work] = ()
    least: Sequence[Least] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """The bytes that inside and outside need."""
        return self.cost.peak_bytes + self.cost.parameter_bytes

    @property
    def fits(self) -> bool:
        """Whether the device has so much memory."""
        return self.memory <= self.device.memory

    @cached_property
    def programs(self) -> Mapping[str, Sequence[Work]]:
        """The launches of our programs; steps without Triton launches have tensor operations."""
        others = [w for w in self.tensor if not w.rule or f"{w.phase} {w.rule}" in self.refused]
        return {TORCH: self.tensor, TRITON: [*others, *self.kernels]}

    def rows(self) -> Iterator[Row]:
        """What each program does for each step."""
        for phase in PHASES:
            rules = dict.fromkeys(w.rule for w in self.tensor if w.phase == phase)
            for rule in sorted(rules, key=lambda rule: rule == ""):
                for program, works in self.programs.items():
                    some = [w for w in works if (w.phase, w.rule) == (phase, rule)]
                    yield Row(
                        phase=phase,
                        rule=rule or REST,
                        program=program,
                        total=self._total(some),
                        roofline=self.roofline(phase, rule),
                    )

    def _total(self, works: Iterable[Work]) -> Total:
        return total(works, self.device, self.cost.width)

    def roofline(self, phase: str, rule: str | None = None) -> float:
        """The least seconds of a step, or of a pass (or all) if its steps overlap."""
        some = [x for x in self.least if phase in (WHOLE, x.phase) and rule in (None, x.rule)]
        work = sum(x.multiply_adds for x in some)
        return roofline(work, sum(x.bytes for x in some), self.device, self.cost.width)

    def whole(self) -> Iterator[Row]:
        """What each program does in each pass, and in all of them."""
        for program, works in self.programs.items():
            for phase in (*PHASES, WHOLE):
                some = [w for w in works if phase in (WHOLE, w.phase)]
                yield self._row(phase, program, self._total(some))
        for program, passes in self.others().items():
            for phase, counted in passes.items():
                yield self._row(phase, program, counted)
            yield self._row(WHOLE, program, together(passes.values()))

    def _row(self, phase: str, program: str, counted: Total) -> Row:
        least = self.roofline(phase)
        return Row(phase=phase, rule="", program=program, total=counted, roofline=least)

    def others(self) -> dict[str, dict[str, Total]]:
        """The published programs that compute the same, if there are any."""
        same = rank_chart(self.cost.plan)
        if same is None or self.cost.width != 4:
            return {}
        n = self.cost.lengths[same.length]
        if n < LEAST_LENGTH:
            return {}
        return published(n, self.cost.batch, same.rank, self.device)

    def as_json(self) -> dict[str, object]:
        """The report as plain data."""
        return {
            "device": self.device.name,
            "title": self.device.title,
            "flops": self.device.peak(self.cost.width),
            "bandwidth": self.device.bandwidth,
            "memory": {"needed": self.memory, "device": self.device.memory, "fits": self.fits},
            "least": [vars(x) for x in self.least],
            "steps": [row.as_json() for row in self.rows()],
            "passes": [row.as_json() for row in self.whole()],
            "tensor_operations": dict(self.refused),
        }


def gpu_cost(cost: Cost, device: Device, tensor: Sequence[Work]) -> GpuCost:
    """The cost of a plan on a device, with what its tensor program does."""
    setting = Setting(
        plan=cost.plan,
        values=environment({name: [length] for name, length in cost.lengths.items()}),
        batch=cost.batch,
        width=cost.width,
        cache=device.cache,
    )
    kernels, refused = triton_work(setting)
    return GpuCost(
        cost=cost,
        device=device,
        tensor=tensor,
        kernels=kernels,
        least=least_work(setting),
        refused=refused,
    )


TITLES = {PREPARE: "before the charts", INSIDE: "inside", OUTSIDE: "outside", WHOLE: "together"}
HEAD = ("launches", "a level", "bytes", "multiply-adds", "flop/byte", "time", "in a graph")


def gpu_lines(found: GpuCost) -> list[str]:
    """The report as lines."""
    device = found.device
    peak = found.device.peak(found.cost.width)
    lines = [
        f"on {device.title} (counted, not measured)",
        f"  {peak / 1e12:.3g} Tflop/s without TF32, {device.bandwidth / 1e12:.3g} TB/s; "
        f"a launch takes {LAUNCH * 1e6:g} µs, in a CUDA graph {IN_GRAPH * 1e6:g} µs",
        "",
    ]
    rows = [(f"{TITLES[r.phase]}: {r.rule}", r.program, r) for r in found.rows()]
    whole = [(r.program, TITLES[r.phase], r) for r in found.whole()]
    lines += [*_table(rows), "", *_table(whole), ""]
    for place, reason in found.refused.items():
        lines.append(f"  {place} stays tensor operations: {reason}")
    needed, there = in_units(found.memory), in_units(device.memory)
    if found.fits:
        lines.append(f"memory         {needed} of {there}")
    else:
        lines.append(f"memory         {needed}: more than the {there} of the device")
    return lines


def _table(rows: Sequence[tuple[str, str, Row]]) -> list[str]:
    """Rows with aligned columns; a title stands at the first of its rows."""
    cells: list[tuple[str, ...]] = [("", "", *HEAD, "roofline")]
    before = ""
    for title, second, row in rows:
        cells.append((title if title != before else "", second, *_cells(row)))
        before = title
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        "  "
        + "  ".join(
            f"{cell:{width}}" if column < 2 else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _cells(row: Row) -> tuple[str, ...]:
    found = row.total
    return (
        f"{found.launches:,}",
        f"{found.a_level}" if found.a_level else "",
        in_units(found.bytes),
        short(found.multiply_adds),
        f"{found.intensity:.2g}" if found.intensity < 99.5 else f"{found.intensity:.0f}",
        duration_text(found.seconds),
        duration_text(found.graph_seconds),
        duration_text(row.roofline) if row.roofline else "",
    )


def duration_text(seconds: float) -> str:
    """A time with three digits, in µs or ms."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
