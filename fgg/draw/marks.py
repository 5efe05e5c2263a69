"""A picture as a flat list of marks, back to front, for writers that know nothing of grammars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fgg.draw import style
from fgg.draw.geometry import Box, Point, Route, unit
from fgg.draw.layout.fragment import Placed
from fgg.draw.layout.labels import Label, Role
from fgg.draw.page import Picture
from fgg.draw.panel import Panel, Text
from fgg.draw.scene import Flow, Vertex


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


Mark = Shape | Stroke | Head | Text


def marks(picture: Picture) -> Iterator[Mark]:
    """The marks of a picture in the order in which they are to be painted."""
    yield from picture.texts
    for panel in picture.panels:
        yield from _panel(panel)
    if picture.legend is not None:
        yield from _placed(picture.legend)


def _panel(panel: Panel) -> Iterator[Mark]:
    if panel.framed:
        yield Shape(box=panel.frame, radius=8, fill=style.PAPER, line=style.HAIRLINE, width=1)
    yield from panel.texts
    yield from _placed(panel.left)
    yield from _arrow(panel.arrow, style.INK, 1.6, 9.0)
    yield from _placed(panel.right)


def _placed(placed: Placed) -> Iterator[Mark]:
    for link, route in zip(placed.graph.links, placed.routes, strict=True):
        if link.flow is Flow.NONE:
            yield Stroke(route=route, color=style.LINE, width=1.2)
        else:
            towards_node = link.flow is Flow.INTO_NODE
            points = route.points if towards_node else route.points[::-1]
            yield from _arrow(Route(points), style.LINE, 1.2, style.ARROW)
    for vertex in placed.graph.vertices:
        yield from _vertex(vertex, placed.centers[vertex.key])
    for label in placed.labels:
        yield label_text(label)


def _arrow(route: Route, color: str, width: float, size: float) -> Iterator[Mark]:
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


def _vertex(vertex: Vertex, center: Point) -> Iterator[Mark]:
    look, box, radius = style.look(vertex), style.shape_box(vertex, center), style.corner(vertex)
    if vertex.rank:
        yield Shape(
            box=box, radius=radius, fill=style.PAPER, line=look.line, width=1.2, title=vertex.title
        )
        box, radius = box.grown(-style.RING), radius - style.RING
    yield Shape(
        box=box, radius=radius, fill=look.fill, line=look.line, width=1.3, title=vertex.title
    )
    if vertex.text:
        place = (center[0], center[1] + style.INSIDE * 0.36)
        yield Text(
            text=vertex.text, place=place, size=style.INSIDE, color=look.text, anchor="middle"
        )


_COLORS = {
    Role.NAME: style.INK,
    Role.FACTOR: style.INK,
    Role.PATH: style.NONTERMINAL.line,
    Role.PORT: style.QUIET,
    Role.POSITION: style.INK,
}


def label_text(label: Label) -> Text:
    """The text of a label, at its place."""
    x, y = label.box.center
    x = {"start": label.box.left, "middle": x, "end": label.box.right}[label.anchor]
    return Text(
        text=label.text,
        place=(x, y + label.size * 0.36),
        size=label.size,
        color=_COLORS[label.role],
        italic=label.role in (Role.NAME, Role.PATH),
        bold=label.role is Role.POSITION,
        anchor=label.anchor,
        halo=True,
    )


__all__ = ["Head", "Mark", "Shape", "Stroke", "Text", "label_text", "marks"]
