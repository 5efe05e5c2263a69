"""Measuring: several computations of one thing, interleaved, in CPU seconds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

Point = Mapping[str, int]
"""What a measurement is of: lengths, numbers of states, batch."""

Values = Mapping[str, Tensor]
"""What a computation found: `log_z`, and gradients by name."""

Call = Callable[[], Values]

OURS = "fgg"
SETTLE = 0.03


class Skipped(Exception):
    """Says why a peer cannot be measured here."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Ways to compute one thing, each made for a point, and the points to compare them at.

    `limits` compute a part of it only, for the time that nobody can do without.
    """

    name: str
    title: str
    makers: Mapping[str, Callable[[Point], Call]]
    points: Sequence[Point]
    memory: Sequence[Point] = ()
    goals: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Callable[[Point], Call]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """CPU seconds of repeated calls: median and quartiles; the same of the ratio to ours.

    `wall` is the median of the seconds on the clock, which what else the machine does makes longer.
    """

    name: str
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


def interleaved(calls: Mapping[str, Callable[[], object]], repeats: int) -> list[Timing]:
    """The times of calls made in turn, `repeats` rounds after one to warm up.

    Each round begins with another one: nobody always comes first. A ratio is that of a call's
    time to ours *in the same round*: what slows the machine for a while slows both.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    walls: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    with quiet():
        order = list(calls.items())
        for _ in range(repeats):
            order.append(order.pop(0))
            for name, call in order:
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
        less, ratio, more = quartiles([a / b for a, b in zip(own, ours, strict=True)])
        found.append(
            Timing(
                name=name,
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


def check_equal(found: Mapping[str, Values], tolerance: float = 2e-3) -> float:
    """The greatest difference to ours, relative to the greatest value. Raises if it is large.

    A peer may return fewer values than we do, but the sum of log Z it must.
    """
    ours = found[OURS]
    worst = 0.0
    for name, values in found.items():
        if "log_z" not in values:
            raise AssertionError(f"{name} gives no log_z")
        for key, value in values.items():
            want = ours[key].double()
            have = value.detach().double()
            if key == "log_z" and have.dim() == 0:
                want = want.sum()
            error = float((have - want).abs().max() / want.abs().max())
            if not error <= tolerance:
                raise AssertionError(f"{name}: {key} differs from ours by {error:.1e}")
            worst = max(worst, error)
    return worst


def made(suite: Suite, point: Point) -> tuple[dict[str, Call], list[str]]:
    """The calls that can be made at a point, and why others cannot."""
    calls, notes = {}, []
    for name, maker in suite.makers.items():
        try:
            calls[name] = maker(point)
        except Skipped as reason:
            notes.append(f"{name}: {reason}")
    return calls, notes


def gradients_of(log_z: Tensor, leaves: Values) -> Values:
    """log Z and its gradients, of the sum over the batch, in leaves."""
    found = torch.autograd.grad(log_z.sum(), list(leaves.values()))
    return {"log_z": log_z.detach(), **dict(zip(leaves, found, strict=True))}
