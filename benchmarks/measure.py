"""Measuring: several computations of one thing, interleaved, in CPU seconds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fgg.plan.backend import CPP
from fgg.runtime.native.build import no_compiler

Point = Mapping[str, int]
"""What a measurement is of: lengths, numbers of states, batch."""

Values = Mapping[str, Tensor]
"""What a computation found: `log_z`, and gradients by name."""

Call = Callable[[], Values]

OURS = "fgg"
"""Our programs as tensor operations; as machine code their name is that of the backend, `cpp`."""
SETTLE = 0.03
LONG = 1.0


class Skipped(Exception):
    """Says why a peer cannot be measured here."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A number to reach, at the points whose sizes are in `at` (all, if it is empty).

    With `least`, the number of `peer` is so many times ours; with `most`, ours is no greater, in
    seconds or bytes; with `grows`, what is no greater is the exponent of that size in our number.
    """

    of: str = "time"
    peer: str = ""
    least: float | None = None
    most: float | None = None
    grows: str = ""
    at: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Ways to compute one thing, each made for a point, and the points to compare them at.

    `limits` compute a part of it only, for the time that nobody can do without. `own` are further
    programs of ours among the makers: no peers. `value` is what everyone must return, equal to
    ours; if it is empty, nothing is compared. `slow` are points that are measured only when all
    are asked for.
    """

    name: str
    title: str
    makers: Mapping[str, Callable[[Point], Call]]
    points: Sequence[Point]
    slow: Sequence[Point] = ()
    memory: Sequence[Point] = ()
    goals: Sequence[Goal] = ()
    limits: Mapping[str, Callable[[Point], Call]] = field(default_factory=dict)
    own: Sequence[str] = ()
    value: str = "log_z"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """CPU seconds of repeated calls: median and quartiles; the same of the ratio to ours.

    `wall` is the median of the seconds on the clock, which what else the machine does makes longer.
    """

    name: str
    rounds: int
    wall: float
    median: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower quartile, the median and the upper quartile."""
    if len(values) < 2:
        return (values[0],) * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection while something is measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def warmed(calls: Mapping[str, Callable[[], object]]) -> tuple[dict[str, Any], dict[str, float]]:
    """What each call returns the first time, and how long it takes the second time, by the clock.

    A call of more than `LONG` seconds is not made twice: the first one tells enough.
    """
    found, seconds = {}, {}
    for name, call in calls.items():
        start = time.perf_counter()
        found[name] = call()
        seconds[name] = time.perf_counter() - start
        if seconds[name] < LONG:
            start = time.perf_counter()
            call()
            seconds[name] = time.perf_counter() - start
    return found, seconds


def rounds_of(seconds: Mapping[str, float], repeats: int, budget: float) -> dict[str, int]:
    """In how many rounds each takes part, if a call takes so long, within a budget of seconds.

    All have the same share; what the quick ones leave over goes to the slow ones. Everyone takes
    part in the first round, and nobody in more than we do: a ratio is of calls in the same round.
    """
    found = dict.fromkeys(seconds, 1)
    quick_first = sorted(seconds, key=lambda name: seconds[name])
    for place, name in enumerate(quick_first):
        share = budget / (len(seconds) - place)
        each = seconds[name] + SETTLE
        found[name] = max(1, min(repeats, int(share / each)))
        budget -= found[name] * each
    most = found.get(OURS, repeats)
    return {name: min(own, most) for name, own in found.items()}


def interleaved(
    calls: Mapping[str, Callable[[], object]], rounds: Mapping[str, int]
) -> list[Timing]:
    """The times of calls made in turn, in rounds; each is called in the first so many of them.

    Each round begins with another one: nobody always comes first. A ratio is that of a call's
    time to ours *in the same round*: what slows the machine for a while slows both.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    walls: dict[str, list[float]] = {name: [] for name in calls}
    with quiet():
        order = list(calls.items())
        for number in range(max(rounds.values())):
            order.append(order.pop(0))
            for name, call in order:
                if number >= rounds[name]:
                    continue
                # CPU time is that of all threads: let those of the call before come to rest.
                time.sleep(SETTLE)
                wall, start = time.perf_counter(), time.process_time()
                call()
                seconds[name].append(time.process_time() - start)
                walls[name].append(time.perf_counter() - wall)
    ours = seconds.get(OURS, next(iter(seconds.values())))
    found = []
    for name, own in seconds.items():
        low, median, high = quartiles(own)
        less, ratio, more = quartiles([a / b for a, b in zip(own, ours, strict=False)])
        found.append(
            Timing(
                name=name,
                rounds=len(own),
                wall=statistics.median(walls[name]),
                median=median,
                low=low,
                high=high,
                ratio=ratio,
                ratio_low=less,
                ratio_high=more,
            )
        )
    return found


def check_equal(
    found: Mapping[str, Values], value: str = "log_z", tolerance: float = 2e-3
) -> float:
    """The greatest difference to ours, relative to the greatest value. Raises if it is large.

    A peer may return fewer values than we do, but `value` it must, or its sum over the batch.
    """
    ours = found[OURS]
    worst = 0.0
    for name, values in found.items():
        if value not in values:
            raise AssertionError(f"{name} gives no {value}")
        for key, own in values.items():
            want = ours[key].double()
            have = own.detach().double()
            if key == value and have.dim() == 0:
                want = want.sum()
            error = float((have - want).abs().max() / want.abs().max())
            if not error <= tolerance:
                raise AssertionError(f"{name}: {key} differs from ours by {error:.1e}")
            worst = max(worst, error)
    return worst


def made(suite: Suite, point: Point) -> tuple[dict[str, Call], dict[str, str]]:
    """The calls that can be made at a point, and why others cannot, by name."""
    calls, notes = {}, {}
    for name, maker in suite.makers.items():
        try:
            calls[name] = maker(point)
        except Skipped as reason:
            notes[name] = str(reason)
    return calls, notes


def as_machine_code(maker: Callable[..., Call]) -> Callable[[Point], Call]:
    """A maker of calls whose passes are machine code, by a maker that has the option `backend`."""

    def make(point: Point) -> Call:
        if reason := no_compiler():
            raise Skipped(reason)
        call = maker(point, backend=CPP)
        call()  # builds it: that is told of elsewhere
        return call

    return make


def gradients_of(log_z: Tensor, leaves: Values) -> Values:
    """log Z and its gradients, of the sum over the batch, in leaves."""
    found = torch.autograd.grad(log_z.sum(), list(leaves.values()))
    return {"log_z": log_z.detach(), **dict(zip(leaves, found, strict=True))}
