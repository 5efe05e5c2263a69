"""Positions from Graphviz, by way of pygraphviz, whose wheels bring the library along."""

from __future__ import annotations

from fgg.draw import style
from fgg.draw.errors import MissingExtra
from fgg.draw.geometry import Point
from fgg.draw.layout.levels import components, levels
from fgg.draw.scene import Graph, Kind

POINTS = 0.75  # a pixel in points; Graphviz counts in these


def graphviz_positions(graph: Graph, prog: str) -> dict[str, Point]:
    """The centers of a graph's vertices."""
    try:
        import pygraphviz
    except ImportError as error:
        raise MissingExtra("pygraphviz", "layout by Graphviz") from error
    if not graph.vertices:
        return {}
    level = {key: n for part in components(graph) for key, n in levels(part).items()}
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
