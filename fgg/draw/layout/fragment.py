"""Where everything in a fragment's picture lies: shapes, lines and labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

from fgg.draw import MissingExtra, style
from fgg.draw.geometry import Box, Point, Route, unit
from fgg.draw.layout.labels import PlacedLabel, place_labels
from fgg.draw.layout.rows import Rows, components, make_rows, spread, vertex_levels
from fgg.draw.scene import Graph, Kind

Engine = Literal["auto", "graphviz", "builtin"]

GAP = 18.0  # between neighbours in a row
ROW_GAP = 26.0
COMPONENT_GAP = 30.0
MAX_WIDTH = 640.0
"""A component that would exceed this width begins a new row of components."""
LARGE = 60
"""From this number of vertices on, `auto` asks Graphviz if it is installed."""
POINTS = 0.75  # a pixel in points; Graphviz counts in these


@dataclass(frozen=True, kw_only=True)
class PlacedGraph:
    """A graph with the centers of its vertices, the routes of its links, and its labels."""

    graph: Graph
    centers: Mapping[str, Point]
    routes: tuple[Route, ...]
    labels: tuple[PlacedLabel, ...]

    def boxes(self) -> list[Box]:
        """The boxes around the shapes of the vertices, in their order."""
        return [style.shape_box(v, self.centers[v.key]) for v in self.graph.vertices]

    def box(self) -> Box:
        """The smallest box that covers everything."""
        return Box.cover(
            [*self.boxes(), *(r.box() for r in self.routes), *(k.box for k in self.labels)]
        )

    def moved(self, dx: float, dy: float) -> PlacedGraph:
        """The same at another place."""
        return PlacedGraph(
            graph=self.graph,
            centers={key: (x + dx, y + dy) for key, (x, y) in self.centers.items()},
            routes=tuple(route.moved(dx, dy) for route in self.routes),
            labels=tuple(label.moved(dx, dy) for label in self.labels),
        )


def layout(graph: Graph, engine: Engine = "auto") -> PlacedGraph:
    """The graph, placed by an engine. `auto` is Graphviz for large graphs, if it is installed."""
    if engine == "graphviz":
        return layout_graphviz(graph)
    if engine == "auto" and len(graph.vertices) >= LARGE:
        try:
            return layout_graphviz(graph)
        except MissingExtra:
            pass
    return layout_builtin(graph)


def layout_builtin(graph: Graph) -> PlacedGraph:
    """The graph in rows: external nodes on top, then edges and nodes in turn."""
    centers: dict[str, Point] = {}
    bends: dict[int, list[Point]] = {}
    shelf_left = shelf_top = shelf_bottom = 0.0
    number = {(link.edge, link.port): i for i, link in enumerate(graph.links)}
    for part in _by_position(components(graph)):
        rows = make_rows(part)
        points = _place(part, rows)  # the first row's centers at height 0
        shapes = [style.shape_box(v, points[v.key]) for v in part.vertices]
        extent = Box.cover(
            Box(box.left, box.top, box.right + style.label_width(v), box.bottom)
            for v, box in zip(part.vertices, shapes, strict=True)
        )
        if shelf_left and shelf_left + extent.width > MAX_WIDTH:
            shelf_left, shelf_top = 0.0, shelf_bottom + ROW_GAP + style.DIAMETER / 2 + style.RING
        dx, dy = shelf_left - extent.left, shelf_top
        for vertex in part.vertices:
            x, y = points[vertex.key]
            centers[vertex.key] = (x + dx, y + dy)
        for i, link in enumerate(part.links):
            inner = [points[key] for key in rows.bends[i]]
            bends[number[link.edge, link.port]] = [(x + dx, y + dy) for x, y in inner]
        shelf_left += extent.width + COMPONENT_GAP
        shelf_bottom = max(shelf_bottom, shelf_top + extent.bottom)
    return _finish(graph, centers, _routes(graph, centers, bends))


def _by_position(parts: list[Graph]) -> list[Graph]:
    """The parts with external nodes, by the first position of these, then the others."""

    def first(part: Graph) -> tuple[int, ...]:
        return min((v.positions for v in part.vertices if v.external), default=(len(parts) + 99,))

    return sorted(parts, key=first)


def _place(graph: Graph, rows: Rows) -> dict[str, Point]:
    """The places of vertices and bends of a connected graph."""
    vertices = {vertex.key: vertex for vertex in graph.vertices}
    left: dict[str, float] = {}
    right: dict[str, float] = {}
    half: dict[str, float] = {}
    for key in (key for row in rows.rows for key in row):
        vertex = vertices.get(key)
        width, height = style.size(vertex) if vertex else (4.0, 0.0)
        left[key] = width / 2
        right[key] = width / 2 + (style.label_width(vertex) if vertex else 0.0)
        half[key] = height / 2
    x = spread(rows, left, right, GAP)
    reach: dict[str, float] = {}
    for segment in rows.segments:
        reach[segment.upper] = max(
            reach.get(segment.upper, 0.0), abs(x[segment.upper] - x[segment.lower])
        )
    labelled = {link.edge for link in graph.links if link.path}
    points: dict[str, Point] = {}
    y = 0.0
    for i, row in enumerate(rows.rows):
        deep = max(half[key] for key in row)
        if i:
            above = rows.rows[i - 1]
            widest = max((reach.get(key, 0.0) for key in above), default=0.0)
            y += max(ROW_GAP, min(8 + widest * 0.3, 90.0))
            y += 8.0 * any(key in labelled for key in (*above, *row))
            y += deep
        points.update((key, (x[key], y)) for key in row)
        y += deep
    return points


def _routes(
    graph: Graph, centers: Mapping[str, Point], bends: Mapping[int, list[Point]]
) -> tuple[Route, ...]:
    """The lines from edges to nodes, one for each link."""
    vertices = {vertex.key: vertex for vertex in graph.vertices}
    boxes = {key: style.shape_box(v, centers[key]).grown(2) for key, v in vertices.items()}
    twins: dict[tuple[str, str], list[int]] = {}
    for i, link in enumerate(graph.links):
        twins.setdefault((link.edge, link.node), []).append(i)
    routes = []
    for i, link in enumerate(graph.links):
        edge, node = vertices[link.edge], vertices[link.node]
        start, end = centers[link.edge], centers[link.node]
        inner = list(bends.get(i, ()))
        if inner and abs(inner[0][1] - start[1]) > abs(inner[-1][1] - start[1]):
            inner.reverse()  # bends go from top to bottom, routes from the edge to the node
        alike = twins[link.edge, link.node]
        bulge = 26.0 * (alike.index(i) - (len(alike) - 1) / 2)
        others = [box for key, box in boxes.items() if key not in (link.edge, link.node)]
        ends = _Ends(partial(style.border, edge, start), partial(style.border, node, end))
        routes.append(_route(ends, start, end, inner, bulge, others))
    return tuple(routes)


@dataclass(frozen=True)
class _Ends:
    """Where a line leaves its edge and enters its node, given the point that it goes to there."""

    leave: Callable[[Point], Point]
    enter: Callable[[Point], Point]


def _route(
    ends: _Ends, start: Point, end: Point, inner: list[Point], bulge: float, others: list[Box]
) -> Route:
    if bulge:
        return _bow(ends, start, end, bulge)
    straight = Route((ends.leave(end), ends.enter(start)))
    if _hits(straight, others) == 0:
        return straight
    if inner:
        curves = [_along(ends, inner), _through(ends, inner)]
    else:
        down = math.copysign(1e3, end[1] - start[1])
        a, b = ends.leave((start[0], start[1] + down)), ends.enter((end[0], end[1] - down))
        middle = (a[1] + b[1]) / 2
        curves = [Route((a, (a[0], middle), (b[0], middle), b))]
    return min([straight, *curves], key=lambda route: round(_hits(route, others)))


def _hits(route: Route, boxes: list[Box]) -> float:
    """The length of the parts of a route that lie in boxes."""
    points = route.flattened()
    return sum(box.length_inside(a, b) for a, b in pairwise(points) for box in boxes)


def _towards(start: Point, end: Point, fraction: float) -> Point:
    """The point that lies a fraction of the way from one point to another."""
    return start[0] + (end[0] - start[0]) * fraction, start[1] + (end[1] - start[1]) * fraction


def _bow(ends: _Ends, start: Point, end: Point, bulge: float) -> Route:
    """A line that swings out to one side, so that a node touched twice has two lines."""
    dx, dy = unit(start, end)
    if (dy, dx) > (0, 0):  # from left to right, whether the line goes up or down
        bulge = -bulge
    (ax, ay), (bx, by) = _towards(start, end, 0.3), _towards(start, end, 0.7)
    a, b = (ax - dy * bulge, ay + dx * bulge), (bx - dy * bulge, by + dx * bulge)
    return Route((ends.leave(a), a, b, ends.enter(b)))


def _along(ends: _Ends, inner: list[Point]) -> Route:
    """A curve near bends, straighter than one through them (a quadratic spline)."""
    points = [ends.leave(inner[0])]
    middles = [_towards(a, b, 0.5) for a, b in pairwise(inner)]
    for bend, goal in zip(inner, [*middles, ends.enter(inner[-1])], strict=True):
        points += [_towards(points[-1], bend, 2 / 3), _towards(goal, bend, 2 / 3), goal]
    return Route(tuple(points))


def _through(ends: _Ends, inner: list[Point]) -> Route:
    """A smooth curve through bends (Catmull & Rom)."""
    chain = [ends.leave(inner[0]), *inner, ends.enter(inner[-1])]
    padded = [chain[0], *chain, chain[-1]]
    points = [chain[0]]
    for p, q, r, s in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
        points.append((q[0] + (r[0] - p[0]) / 6, q[1] + (r[1] - p[1]) / 6))
        points.append((r[0] - (s[0] - q[0]) / 6, r[1] - (s[1] - q[1]) / 6))
        points.append(r)
    return Route(tuple(points))


def _finish(graph: Graph, centers: Mapping[str, Point], routes: tuple[Route, ...]) -> PlacedGraph:
    labels = place_labels(graph, centers, routes)
    placed = PlacedGraph(graph=graph, centers=dict(centers), routes=routes, labels=labels)
    box = placed.box()
    return placed.moved(-box.left, -box.top)


def layout_graphviz(graph: Graph, prog: str = "dot") -> PlacedGraph:
    """The graph as Graphviz places it (`dot` in rows, `neato` by springs)."""
    centers = _graphviz_centers(graph, prog)
    return _finish(graph, centers, _routes(graph, centers, {}))


def _graphviz_centers(graph: Graph, prog: str) -> dict[str, Point]:
    """The centers of a graph's vertices."""
    try:
        import pygraphviz
    except ImportError as error:
        raise MissingExtra("pygraphviz", "layout by Graphviz") from error
    if not graph.vertices:
        return {}
    level = vertex_levels(graph)
    drawing = pygraphviz.AGraph(directed=True, strict=False)
    drawing.graph_attr.update(nodesep="0.3", ranksep="0.36", overlap="false")
    drawing.graph_attr.update(sep="+8")
    for vertex in graph.vertices:
        width, height = style.size(vertex)
        # Room for the name on the right; as much on the left keeps the center.
        room = 0.0 if prog != "dot" else style.label_width(vertex)
        drawing.add_node(
            vertex.key,
            label="",
            shape="ellipse" if vertex.kind is Kind.NODE and not room else "box",
            width=f"{(width + 2 * room * 0.6) * POINTS / 72:.4f}",
            height=f"{height * POINTS / 72:.4f}",
            fixedsize="true",
        )
    outside = [vertex.key for vertex in graph.vertices if vertex.external]
    if outside:
        drawing.add_subgraph(outside, name="top", rank="source")
    for i, link in enumerate(graph.links):
        upper, lower = sorted((link.edge, link.node), key=level.__getitem__)
        drawing.add_edge(upper, lower, key=f"k{i}", dir="none")
    drawing.layout(prog=prog)
    centers = {}
    for vertex in graph.vertices:
        x, y = drawing.get_node(vertex.key).attr["pos"].split(",")
        centers[vertex.key] = (float(x) / POINTS, -float(y) / POINTS)
    return centers
