"""Plots: lines with markers over two axes, linear or logarithmic, as self-contained SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fgg.draw import style
from fgg.draw.geometry import Box, Point, text_width
from fgg.draw.marks import Mark, Text, dot, segment
from fgg.draw.picture import Picture, Sketch

COLORS = ("#0969da", "#cf222e", "#1a7f37", "#8250df", "#9a6700", "#57606a", "#1b7c83", "#bf3989")
MARKER = 3.5
LABEL = 11.0
_text = partial(Text, size=LABEL)


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points in order, joined by a line.

    It is broken where a point is not finite, or not above 0 on a logarithmic axis.
    """

    label: str
    points: tuple[Point, ...]
    markers: bool = True
    joined: bool = True


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Lines over two axes; if there are several, a legend names them."""

    title: str
    lines: tuple[Line, ...]
    x: str = ""
    y: str = ""
    log_x: bool = False
    log_y: bool = False
    width: float = 640.0
    height: float = 400.0


@dataclass(frozen=True)
class _Axis:
    """An axis from `start` to `end` in the picture, which shows the numbers `low` to `high`."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def shows(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self.log)


def plot_picture(plot: Plot) -> Picture:
    """The plot as a picture, to be saved in any format."""
    marks = tuple(_marks(plot))
    return Sketch(title=plot.title, width=plot.width, height=plot.height, painted=marks)


def to_svg(plot: Plot) -> str:
    """The plot as a self-contained SVG document."""
    return plot_picture(plot).svg()


def _marks(plot: Plot) -> Iterator[Mark]:
    legend = 24.0 if len(plot.lines) > 1 else 0.0
    frame = Box(72, 58 + legend, plot.width - 24, plot.height - 52)
    across = _axis((x for line in plot.lines for x, _ in line.points), plot.log_x)
    up = _axis((y for line in plot.lines for _, y in line.points), plot.log_y)
    x = _Axis(*across[:2], frame.left, frame.right, plot.log_x, across[2])
    y = _Axis(*up[:2], frame.bottom, frame.top, plot.log_y, up[2])
    yield _text(text=plot.title, place=(frame.left, 26), size=style.CAPTION + 1, bold=True)
    yield _text(text=plot.y, place=(frame.left, 46), color=style.QUIET)
    yield from _axes(plot, frame, x, y)
    place = frame.left
    for number, line in enumerate(plot.lines):
        color = COLORS[number % len(COLORS)]
        yield from _line(line, x, y, color)
        if legend:
            yield dot((place + 5, 64), MARKER, color)
            yield _text(text=line.label, place=(place + 14, 68))
            place += 32 + text_width(line.label, LABEL)


def _axes(plot: Plot, frame: Box, x: _Axis, y: _Axis) -> Iterator[Mark]:
    for value in x.ticks:
        place = x.place(value)
        yield segment((place, frame.top), (place, frame.bottom), style.HAIRLINE, 1)
        yield _text(text=_number(value), place=(place, frame.bottom + 18), anchor="middle")
    for value in y.ticks:
        place = y.place(value)
        yield segment((frame.left, place), (frame.right, place), style.HAIRLINE, 1)
        yield _text(text=_number(value), place=(frame.left - 8, place + 4), anchor="end")
    yield segment((frame.left, frame.bottom), (frame.right, frame.bottom), style.LINE, 1.2)
    yield segment((frame.left, frame.top), (frame.left, frame.bottom), style.LINE, 1.2)
    yield _text(text=plot.x, place=(frame.right, plot.height - 12), anchor="end", color=style.QUIET)


def _line(line: Line, x: _Axis, y: _Axis, color: str) -> Iterator[Mark]:
    before: Point | None = None
    places: list[Point] = []
    for a, b in line.points:
        if not (x.shows(a) and y.shows(b)):
            before = None
            continue
        here = (x.place(a), y.place(b))
        if before is not None and line.joined:
            yield segment(before, here, color, 1.8)
        before = here
        places.append(here)
    if line.markers or not line.joined:
        yield from (dot(place, MARKER, color) for place in places)


def _axis(values: Iterable[float], log: bool) -> tuple[float, float, tuple[float, ...]]:
    """The least and the greatest value that are shown, and the ticks."""
    shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    low, high = (min(shown), max(shown)) if shown else (1.0, 10.0) if log else (0.0, 1.0)
    if log:
        first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
        last = max(last, first + 1)
        step = max(1, round((last - first) / 8))
        return 10.0**first, 10.0**last, tuple(10.0**n for n in range(first, last + 1, step))
    if low == high:
        low, high = low - 0.5, high + 0.5
    step_size = _nice((high - low) / 5)
    first, last = math.floor(low / step_size + 1e-9), math.ceil(high / step_size - 1e-9)
    ticks = tuple(n * step_size for n in range(first, last + 1))
    return ticks[0], ticks[-1], ticks


def _nice(size: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(n * power for n in (1.0, 2.0, 5.0, 10.0) if n * power >= size * (1 - 1e-9))


def _number(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        mantissa, _, power = f"{value:e}".partition("e")
        whole = mantissa.rstrip("0").rstrip(".")
        return f"{'' if whole == '1' else whole + '·'}10{_raised(int(power))}"
    return f"{value:.6g}"


def _raised(power: int) -> str:
    return "".join("⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".index(c)] for c in str(power))


def lines(named: Sequence[tuple[str, Sequence[Point]]]) -> tuple[Line, ...]:
    """Lines with markers, from labels and points."""
    return tuple(Line(label=label, points=tuple(points)) for label, points in named)
