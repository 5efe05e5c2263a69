"""Marks, of which every picture is made: shapes, lines, arrow heads and texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fgg.draw import style
from fgg.draw.geometry import Box, Point, Route, text_width, unit

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A rectangle with round corners; a circle if these meet."""

    box: Box
    radius: float
    fill: str
    line: str
    width: float
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Stroke:
    """A line."""

    route: Route
    color: str
    width: float


@dataclass(frozen=True, kw_only=True)
class Head:
    """The head of an arrow: a filled polygon."""

    points: tuple[Point, ...]
    color: str


@dataclass(frozen=True, kw_only=True)
class Text:
    """A line of text; `place` is the left end, middle or right end of its base line."""

    text: str
    place: Point
    size: float
    color: str = style.INK
    bold: bool = False
    italic: bool = False
    anchor: Anchor = "start"
    halo: bool = False

    def moved(self, dx: float, dy: float) -> Text:
        """The text at another place."""
        return replace(self, place=(self.place[0] + dx, self.place[1] + dy))

    def box(self) -> Box:
        """The box that the text is estimated to fill."""
        width = text_width(self.text, self.size, bold=self.bold)
        x, y = self.place
        left = {"start": x, "middle": x - width / 2, "end": x - width}[self.anchor]
        return Box(left, y - self.size * 0.9, left + width, y + self.size * 0.3)


Mark = Shape | Stroke | Head | Text


def moved(mark: Mark, dx: float, dy: float) -> Mark:
    """A mark at another place."""
    match mark:
        case Shape():
            return replace(mark, box=mark.box.moved(dx, dy))
        case Stroke():
            return replace(mark, route=mark.route.moved(dx, dy))
        case Head():
            return replace(mark, points=tuple((x + dx, y + dy) for x, y in mark.points))
        case Text():
            return mark.moved(dx, dy)


def segment(start: Point, end: Point, color: str, width: float) -> Stroke:
    """A straight line."""
    return Stroke(route=Route((start, end)), color=color, width=width)


def dot(center: Point, radius: float, color: str) -> Shape:
    """A filled disc."""
    box = Box.around(center, 2 * radius, 2 * radius)
    return Shape(box=box, radius=radius, fill=color, line=color, width=1)


def arrow(route: Route, color: str, width: float, size: float) -> Iterator[Mark]:
    """A line with a head of a size at its end."""
    tip = route.points[-1]
    dx, dy = unit(route.points[-2], tip)
    foot = (tip[0] - dx * size, tip[1] - dy * size)
    waist = (tip[0] - dx * size * 0.75, tip[1] - dy * size * 0.75)
    half = size * 0.4
    if route.is_straight:
        route = Route((route.points[0], waist))
    yield Stroke(route=route, color=color, width=width)
    sides = ((foot[0] - dy * half, foot[1] + dx * half), (foot[0] + dy * half, foot[1] - dx * half))
    yield Head(points=(tip, sides[0], waist, sides[1]), color=color)
