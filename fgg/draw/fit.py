"""The course of a fit: its objective and its perplexities, one point a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgg.draw.geometry import Point
from fgg.draw.picture import Picture, stacked
from fgg.draw.plot import Line, Plot, plot_picture

HEIGHT = 280.0


def fit_picture(
    title: str,
    objectives: Sequence[tuple[int, str, float | None]],
    perplexities: Mapping[str, Sequence[Point]] | None = None,
    *,
    unit: str = "sweep",
) -> Picture:
    """Curves of the objectives, a plot for each kind, and one of the perplexities if there are any.

    An objective comes with the number of its sweep and its kind, such as `log-likelihood`; one that
    is no number is left out.
    """
    plots = []
    for kind in dict.fromkeys(kind for _, kind, _ in objectives):
        points = [(float(n), float(v)) for n, k, v in objectives if k == kind and v is not None]
        lines = (Line(label=kind, points=tuple(points)),)
        plots.append(Plot(title=kind, x=unit, lines=lines, height=HEIGHT))
    named = {label: points for label, points in (perplexities or {}).items() if points}
    if named:
        shown = tuple(Line(label=label, points=tuple(points)) for label, points in named.items())
        label = "" if len(shown) > 1 else shown[0].label
        kind = "perplexity per token"
        plots.append(Plot(title=kind, x=unit, y=label, lines=shown, height=HEIGHT))
    return stacked(title, [plot_picture(plot) for plot in plots])
