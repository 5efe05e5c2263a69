"""Growth: how times and memory follow lengths, ranks and numbers of states."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.measure import Point


@dataclass(frozen=True)
class Growth:
    """The exponent of one name in a measured number, the others being the same.

    A least-squares line through the logarithms; `points` is how many there were, `rest` the sizes
    that stayed.
    """

    name: str
    varied: str
    exponent: float
    points: int
    rest: tuple[tuple[str, int], ...] = ()


def growths(measured: Iterable[tuple[str, Point, float]]) -> list[Growth]:
    """The growth of each computation in each name that varies while all others stay."""
    groups: dict[tuple[str, str, tuple[tuple[str, int], ...]], dict[int, float]] = {}
    for name, point, value in measured:
        for varied, at in point.items():
            rest = tuple((k, v) for k, v in point.items() if k != varied)
            groups.setdefault((name, varied, rest), {})[at] = value
    found = []
    for (name, varied, rest), values in groups.items():
        if len(values) > 1 and min(values.values()) > 0:
            found.append(Growth(name, varied, exponent(values), len(values), rest))
    return found


def exponent(values: Mapping[int, float]) -> float:
    """The slope of log value over log size."""
    xs = [math.log(x) for x in values]
    ys = [math.log(y) for y in values.values()]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return above / sum((a - x) ** 2 for a in xs)
