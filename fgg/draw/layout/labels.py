"""Names, port numbers and paths, placed beside shapes and lines where they cover the least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from fgg.draw import style
from fgg.draw.geometry import Box, Point, Route, along, length, text_width
from fgg.draw.marks import Anchor
from fgg.draw.scene import Graph


class Role(Enum):
    """The kinds of labels."""

    NAME = "name"
    FACTOR = "factor"
    PATH = "path"
    PORT = "port"
    POSITION = "position"


@dataclass(frozen=True)
class PlacedLabel:
    """A short text in its box; `anchor` is the end of the text that stays in place."""

    text: str
    role: Role
    box: Box
    anchor: Anchor = "middle"

    @property
    def size(self) -> float:
        """The font size."""
        return style.SMALL if self.role in (Role.PORT, Role.POSITION) else style.BESIDE

    def moved(self, dx: float, dy: float) -> PlacedLabel:
        """The label at another place."""
        return replace(self, box=self.box.moved(dx, dy))


@dataclass(frozen=True)
class _Line:
    points: tuple[Point, ...]
    box: Box


def place_labels(
    graph: Graph, centers: Mapping[str, Point], routes: tuple[Route, ...]
) -> tuple[PlacedLabel, ...]:
    """The labels of a graph, each where it covers the least of shapes, lines and other labels."""
    shapes = [style.shape_box(v, centers[v.key]) for v in graph.vertices]
    lines = [_Line(route.flattened(), route.box()) for route in routes]
    placed: list[PlacedLabel] = []

    def put(text: str, role: Role, candidates: Iterator[tuple[float, Box]], x: float = 0.0) -> None:
        taken = [label.box for label in placed]
        _, box = min(candidates, key=lambda c: c[0] + _cover(c[1], shapes, lines, taken))
        side: Anchor = "middle"
        if role in (Role.NAME, Role.FACTOR) and not box.left < x < box.right:
            side = "start" if box.left >= x else "end"
        placed.append(PlacedLabel(text, role, box, side))

    vertices = list(zip(graph.vertices, shapes, strict=True))
    links = list(zip(graph.links, lines, strict=True))
    for vertex, shape in vertices:
        if text := vertex.number:
            put(text, Role.POSITION, _around(text, style.SMALL, shape, _CORNERS))
    for link, line in links:
        if link.numbered:
            text = str(link.port)
            put(text, Role.PORT, _beside(text, style.SMALL, line, 13.0))
    for vertex, shape in vertices:
        if text := vertex.name:
            role = Role.NAME if vertex.text else Role.FACTOR
            put(text, role, _around(text, style.BESIDE, shape, _SIDES), shape.center[0])
    for link, line in links:
        if text := link.path:
            put(text, Role.PATH, _beside(text, style.BESIDE, line, None))
    return tuple(placed)


def _cover(box: Box, shapes: list[Box], lines: list[_Line], taken: list[Box]) -> float:
    """The cost of a label in a box: how much of shapes, lines and other labels it covers."""
    wide = box.grown(1.5)
    cost = sum(60 + 4 * wide.overlap(b) for b in shapes if wide.overlap(b))
    cost += sum(60 + 4 * box.overlap(b) for b in taken if box.overlap(b))
    for line in lines:
        if line.box.grown(1).overlap(wide):
            inside = sum(wide.length_inside(a, b) for a, b in pairwise(line.points))
            cost += 12 + 2 * inside if inside else 0.0
    return cost


# Side of the shape (x, y in -1, 0, 1) and what it costs to choose it.
_SIDES = (
    (1.0, 0.0, 0.0),
    (-1.0, 0.0, 4.0),
    (1.0, 0.7, 5.0),
    (1.0, -0.7, 6.0),
    (-1.0, 0.7, 7.0),
    (-1.0, -0.7, 8.0),
    (0.0, 1.0, 9.0),
    (0.0, -1.0, 9.0),
)
_CORNERS = (
    (-1.0, -0.7, 0.0),
    (1.0, -0.7, 2.0),
    (-1.0, 0.7, 4.0),
    (1.0, 0.7, 5.0),
    (0.0, -1.0, 6.0),
)


def _around(
    text: str, size: float, shape: Box, sides: tuple[tuple[float, float, float], ...]
) -> Iterator[tuple[float, Box]]:
    width, height = text_width(text, size), size * 1.2
    x, y = shape.center
    for side, up, cost in sides:
        # At a corner of a round shape there is room nearer to its center.
        near = 4.0 if abs(up) in (0, 1) or shape.height < 20 else -2.0
        dx = side * (shape.width / 2 + width / 2 + near)
        dy = up * (shape.height / 2 + height / 2 + 2) if abs(up) == 1 else up * shape.height / 2
        if 0 < abs(up) < 1 and shape.height < 20:
            dy = up * height
        yield cost, Box.around((x + dx, y + dy), width, height)


def _beside(
    text: str, size: float, line: _Line, distance: float | None
) -> Iterator[tuple[float, Box]]:
    """Places on both sides of a line: near its start, or (without a distance) near its end."""
    width, height = text_width(text, size), size * 1.1
    whole = length(line.points)
    spots = tuple(distance + more for more in (0, 5, 10, 18, 28)) if distance else ()
    for i, spot in enumerate(spots or (0.58 * whole, 0.5 * whole, 0.7 * whole, 0.4 * whole)):
        (x, y), (dx, dy) = along(line.points, min(spot, whole))
        for side in (1.0, -1.0):
            nx, ny = -dy * side, dx * side
            # Push the box out until it is clear of the line.
            push = abs(nx) * width / 2 + abs(ny) * height / 2 + 2.5
            preference = 0.0 if nx * (dx or 1e-9) >= 0 else 2.0  # outside of a fan
            yield 3.0 * i + preference, Box.around((x + nx * push, y + ny * push), width, height)
