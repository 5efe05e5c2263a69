"""Results as plots: what each peer's time is, relative to ours, point by point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.measure import OURS
from fgg.draw.plot import Line, Plot, to_svg


def ratios_svg(title: str, records: Iterable[Mapping[str, Any]]) -> str | None:
    """The ratios of a suite; None if there is nothing to compare with."""
    lines: dict[str, list[tuple[float, float]]] = {}
    places: dict[str, int] = {}
    for record in records:
        if "ratio" not in record or record["name"] == OURS:
            continue
        place = places.setdefault(record["at"], len(places) + 1)
        lines.setdefault(record["name"], []).append((float(place), record["ratio"]))
    if not lines:
        return None
    one = Line(label="ours", points=((1.0, 1.0), (float(len(places)), 1.0)), markers=False)
    found = [one, *(Line(label=name, points=tuple(points)) for name, points in lines.items())]
    points = "; ".join(f"{i}: {at}" for at, i in places.items())
    return to_svg(Plot(title=title, lines=tuple(found), x=points, y="time / our time", log_y=True))
