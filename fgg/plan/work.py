"""What GPU kernels do: launches with the bytes that they move and what they multiply.

A *launch* starts one kernel. Its time on a device is a lower bound, never a measurement:

    max(overhead of a launch, 2 · multiply-adds / (peak · busy), bytes / bandwidth)

where `busy` is the part of the multiprocessors that have something to do while its programs run,
one on each. The *roofline* is what is left if nothing is done twice and nothing waits:
max(2 · multiply-adds / peak, least bytes / bandwidth).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgg.plan.devices import IN_GRAPH, LAUNCH, Device

PREPARE, INSIDE, OUTSIDE = "prepare", "inside", "outside"
PHASES = (PREPARE, INSIDE, OUTSIDE)
Numbers = NDArray[np.float64]
ONCE = -1
"""The level of what is done once."""
FAR = 2**24
"""Levels of different loops of a pass are so far apart."""


@dataclass(frozen=True, eq=False)
class Work:
    """Launches of one rule in one pass; every array has an entry for each of them.

    `rule` is empty for what belongs to none. `programs` are the programs of a launch that run side
    by side; 0 if nobody knows: then there are enough.
    """

    rule: str
    phase: str
    levels: Numbers
    bytes: Numbers
    multiply_adds: Numbers
    programs: Numbers

    @staticmethod
    def of(
        rule: str,
        phase: str,
        levels: ArrayLike,
        bytes: ArrayLike,
        multiply_adds: ArrayLike,
        programs: ArrayLike = 0,
    ) -> Work:
        """Work from numbers, which are the same for all levels where there is one number only."""
        at = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        some = (np.asarray(x, dtype=np.float64) for x in (bytes, multiply_adds, programs))
        return Work(rule, phase, at, *(np.broadcast_to(x, at.shape) for x in some))

    def seconds(self, device: Device, width: int, *, graph: bool = False) -> Numbers:
        """The least time of each launch on a device; `graph`: they are captured in one."""
        rounds = np.ceil(self.programs / device.cores) * device.cores
        busy = np.divide(self.programs, rounds, out=np.ones_like(rounds), where=rounds > 0)
        compute = 2 * self.multiply_adds / (device.peak(width) * busy)
        longest = np.maximum(compute, self.bytes / device.bandwidth)
        times: Numbers = np.maximum(longest, IN_GRAPH if graph else LAUNCH)
        return times


@dataclass(frozen=True, kw_only=True)
class Total:
    """What some launches do together, and their time on a device."""

    launches: int
    a_level: int
    bytes: int
    multiply_adds: int
    seconds: float
    graph_seconds: float

    @property
    def intensity(self) -> float:
        """Operations for each byte moved."""
        return 2 * self.multiply_adds / self.bytes if self.bytes else 0.0

    def as_json(self) -> dict[str, object]:
        """The numbers as plain data."""
        return {
            "launches": self.launches,
            "launches_a_level": self.a_level,
            "bytes": self.bytes,
            "multiply_adds": self.multiply_adds,
            "intensity": self.intensity,
            "seconds": self.seconds,
            "seconds_in_graph": self.graph_seconds,
        }


def total(works: Iterable[Work], device: Device, width: int) -> Total:
    """The sum of launches. `a_level` is the most that there are on one level of a pass."""
    found = list(works)
    levels: dict[tuple[str, float], int] = {}
    for work in found:
        for level, count in zip(*np.unique(work.levels, return_counts=True), strict=True):
            if level != ONCE:
                key = (work.phase, float(level))
                levels[key] = levels.get(key, 0) + int(count)
    return Total(
        launches=sum(len(work.levels) for work in found),
        a_level=max(levels.values(), default=0),
        bytes=int(sum(work.bytes.sum() for work in found)),
        multiply_adds=int(sum(work.multiply_adds.sum() for work in found)),
        seconds=float(sum(work.seconds(device, width).sum() for work in found)),
        graph_seconds=float(sum(work.seconds(device, width, graph=True).sum() for work in found)),
    )


def together(parts: Iterable[Total]) -> Total:
    """The sum of totals, one after the other."""
    some = list(parts)
    return Total(
        launches=sum(part.launches for part in some),
        a_level=max(part.a_level for part in some),
        bytes=sum(part.bytes for part in some),
        multiply_adds=sum(part.multiply_adds for part in some),
        seconds=sum(part.seconds for part in some),
        graph_seconds=sum(part.graph_seconds for part in some),
    )


def roofline(multiply_adds: float, least_bytes: float, device: Device, width: int) -> float:
    """The least seconds that a device needs for so much work."""
    return max(2 * multiply_adds / device.peak(width), least_bytes / device.bandwidth)
