"""Measuring a suite: records of times and memory, within a budget of seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks import overhead
from benchmarks.measure import (
    OURS,
    Point,
    Skipped,
    Suite,
    check_equal,
    interleaved,
    made,
    rounds_of,
    warmed,
)
from benchmarks.memory import memories
from fgg.plan.backend import CPP

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much to measure: rounds of calls, seconds a suite, which points, which peers."""

    repeats: int = 11
    budget: float = 40.0
    every: bool = False
    memory: bool = True
    against: Sequence[str] = ()


class Progress:
    """Says on the error stream what is measured, and how long the rest takes at most."""

    def __init__(self, suites: int, budget: float) -> None:
        self.suites = suites
        self.budget = budget
        self.done = 0
        self.start = time.perf_counter()

    def say(self, suite: str, what: str, left: float) -> None:
        """Say that a suite is at something, with so many seconds left of its budget."""
        rest = (self.suites - self.done - 1) * self.budget + max(left, 0.0)
        past = time.perf_counter() - self.start
        times = f"{past / 60:.1f} minutes so far, about {rest / 60:.1f} left"
        print(
            f"{self.done + 1}/{self.suites} {suite}: {what} ({times})", file=sys.stderr, flush=True
        )


def text_of(point: Point) -> str:
    """A point as text."""
    return ", ".join(f"{name} {value}" for name, value in point.items())


def role_of(suite: Suite, name: str) -> str:
    """What a computation of a suite is: `ours`, `own` (also ours), `limit` or `peer`."""
    if name == OURS:
        return "ours"
    return "limit" if name in suite.limits else "own" if name in suite.own else "peer"


def measured(suite: Suite, effort: Effort, progress: Progress) -> Iterator[Record]:
    """The records of a suite: times at each point, then memory.

    Results are compared before anything is timed. A point has its share of the budget and what
    those before it have left over; who is slow is called in fewer rounds, but at least in one.
    """
    if effort.against:
        makers = {n: m for n, m in suite.makers.items() if n == OURS or n in effort.against}
        suite = replace(suite, makers=makers)
    points = [*suite.points, *(suite.slow if effort.every else ())]
    start = time.perf_counter()
    for number, point in enumerate(points, 1):
        spent = time.perf_counter() - start
        progress.say(suite.name, text_of(point), effort.budget - spent)
        deadline = start + effort.budget * number / len(points)
        yield from _times(suite, point, effort.repeats, deadline)
    if effort.memory and suite.memory:
        yield from _memory(suite, effort, progress)


def _times(suite: Suite, point: Point, repeats: int, deadline: float) -> Iterator[Record]:
    head = {"suite": suite.name, "at": text_of(point), "point": dict(point)}
    calls, notes = made(suite, point)
    for name, reason in notes.items():
        yield {**head, "name": name, "role": role_of(suite, name), "skipped": reason}
    found, seconds = warmed(calls)
    if suite.value:
        worst = check_equal(found, suite.value)
        yield {**head, "name": OURS, "role": "note", "difference": worst}
    del found
    bounds = {name: maker(point) for name, maker in suite.limits.items()}
    seconds |= warmed(bounds)[1]
    rounds = rounds_of(seconds, repeats, deadline - time.perf_counter())
    for timing in interleaved(calls | bounds, rounds):
        yield {**head, "role": role_of(suite, timing.name), **asdict(timing)}


def _memory(suite: Suite, effort: Effort, progress: Progress) -> Iterator[Record]:
    """Memory of ours, of what is written by hand, and of peers that a goal for memory names."""
    named = {goal.peer for goal in suite.goals if goal.of == "memory"}
    start = time.perf_counter()
    for name in suite.makers:
        if name not in (OURS, CPP) and name not in named and not name.startswith("by hand"):
            continue
        left = effort.budget - (time.perf_counter() - start)
        progress.say(suite.name, f"memory of {name}", left)
        role = role_of(suite, name)
        try:
            found = memories(suite.name, name, suite.memory, max(left, effort.budget / 2))
        except Skipped as reason:
            yield {
                "suite": suite.name, "at": "memory", "point": {},
                "name": name, "role": role, "skipped": str(reason),
            }  # fmt: skip
            continue
        for point, one in zip(suite.memory, found, strict=True):
            head = {"suite": suite.name, "at": text_of(point), "point": dict(point)}
            yield {**head, "role": role, **asdict(one)}


def overheads(effort: Effort, progress: Progress) -> Iterator[Record]:
    """Compile times, and calls on one item of a few tokens; calls with machine code, too."""
    start = time.perf_counter()
    wanted = overhead.programs()
    for number, (name, query) in enumerate(wanted):
        left = effort.budget - (time.perf_counter() - start)
        if number % 5 == 0:
            progress.say("overhead", name, left)
        found = overhead.overhead(name, query, 3 * effort.repeats, compiles=3 if left > 0 else 1)
        head = {"suite": "overhead", "point": {}, "role": "ours"}
        at = name if query is None else f"{name}:{query}"
        if found is None:
            yield {**head, "at": at, "name": OURS, "skipped": "has no schedule"}
            continue
        yield {**head, "at": at, **asdict(found)}
        fast = overhead.machine_code(name, query, 3 * effort.repeats)
        if fast is not None:
            yield {**head, "role": "own", "at": at, **asdict(fast)}
