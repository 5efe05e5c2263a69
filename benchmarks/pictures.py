"""Results as plots: what each peer's time and memory are, point by point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fgg.draw.plot import Line, Plot, to_svg

POINTS = "point, as in the table"
WIDTH = 860.0
"""Room for the names of everyone in one line."""


def ratios_svg(title: str, records: Iterable[Mapping[str, Any]]) -> str | None:
    """The ratios of a suite; None if there is nothing to compare with."""
    lines: dict[str, list[tuple[float, float]]] = {}
    places: dict[str, int] = {}
    for record in (r for r in records if "median" in r):
        place = places.setdefault(record["at"], len(places) + 1)
        if record["role"] != "ours":
            lines.setdefault(record["name"], []).append((float(place), record["ratio"]))
    if not lines:
        return None
    one = Line(label="ours", points=((1.0, 1.0), (float(len(places)), 1.0)), markers=False)
    found = [one, *(Line(label=name, points=tuple(points)) for name, points in lines.items())]
    y = "time / our time"
    return to_svg(Plot(title=title, lines=tuple(found), x=POINTS, y=y, log_y=True, width=WIDTH))


def memory_svg(title: str, records: Iterable[Mapping[str, Any]]) -> str | None:
    """The bytes of tensors; None if there are none."""
    lines: dict[str, list[tuple[float, float]]] = {}
    places: dict[str, int] = {}
    for record in (r for r in records if "allocated" in r):
        place = places.setdefault(record["at"], len(places) + 1)
        lines.setdefault(record["name"], []).append((float(place), record["allocated"] / 1e6))
    if not lines:
        return None
    found = [Line(label=name, points=tuple(points)) for name, points in lines.items()]
    y = "MB of tensors"
    return to_svg(Plot(title=title, lines=tuple(found), x=POINTS, y=y, log_y=True, width=WIDTH))
