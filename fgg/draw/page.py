"""Pictures: one rule, or a grammar's rules on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fgg.draw import style
from fgg.draw.geometry import Box, Point, text_width
from fgg.draw.layout.fragment import Placed
from fgg.draw.layout.labels import Label, Role
from fgg.draw.panel import Panel, Text, wrapped
from fgg.draw.scene import Graph, Kind, Vertex

MARGIN = 16.0
GUTTER = 12.0
PAGE_WIDTH = 960.0
"""The width of a page, except for grammars with very many rules."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing with all positions: panels, a title with further texts, and a legend.

    The visible part begins at the origin and has size `width` by `height`.
    """

    width: float
    height: float
    title: str
    panels: tuple[Panel, ...]
    texts: tuple[Text, ...] = ()
    legend: Placed | None = None

    def _repr_svg_(self) -> str:
        from fgg.draw.writers.svg import to_svg

        return to_svg(self)


def rule_picture(panel: Panel) -> Picture:
    """The picture of one rule."""
    return Picture(
        width=panel.frame.width,
        height=panel.frame.height,
        title=panel.scene.caption,
        panels=(panel,),
    )


def grammar_picture(title: str, subtitle: str, panels: Sequence[Panel]) -> Picture:
    """The panels in rows of one height under a title, with a legend below."""
    legend = _legend(panels, PAGE_WIDTH)
    inner, rows = _best_rows(panels, legend.box().width if legend else 0.0)
    heading = Text(text=title, place=(MARGIN, MARGIN + 16), size=style.TITLE, bold=True)
    below = Text(
        text=subtitle, place=(MARGIN, MARGIN + 34), size=style.CONDITION, color=style.QUIET
    )
    top = below.box().bottom + 12
    placed: list[Panel] = []
    for row in rows:
        height = max(panel.frame.height for panel in row)
        used = sum(panel.frame.width for panel in row) + GUTTER * (len(row) - 1)
        spare = (inner - used) / len(row)
        x = MARGIN
        for panel in row:
            placed.append(_framed(panel, x, top, panel.frame.width + spare, height))
            x += panel.frame.width + spare + GUTTER
        top += height + GUTTER
    if legend is not None:
        legend = legend.moved(MARGIN, top + 4)
        top = legend.box().bottom + GUTTER
    right = max([MARGIN + inner, heading.box().right, below.box().right])
    if legend is not None:
        right = max(right, legend.box().right)
    return Picture(
        width=right + MARGIN,
        height=top - GUTTER + MARGIN,
        title=title,
        panels=tuple(placed),
        texts=(heading, below),
        legend=legend,
    )


def _best_rows(panels: Sequence[Panel], least: float) -> tuple[float, list[list[Panel]]]:
    """The width of a page, and the panels in rows so that little of the page is left empty."""
    widest = max((panel.frame.width for panel in panels), default=0.0)
    total = sum(panel.frame.width + GUTTER for panel in panels) - GUTTER
    area = sum(panel.frame.width * panel.frame.height for panel in panels)
    page = max(PAGE_WIDTH, (area / 2.5) ** 0.5)
    least = max(least, widest)
    best: tuple[float, float, list[list[Panel]]] | None = None
    for step in range(20):
        width = max(min(page * (1 - 0.02 * step), total), least)
        cost, rows = _rows(panels, width)
        cost *= 1 + 0.01 * step
        if best is None or cost < best[0]:
            best = (cost, width, rows)
    assert best is not None
    return best[1], best[2]


def _rows(panels: Sequence[Panel], width: float) -> tuple[float, list[list[Panel]]]:
    """The panels in rows of a width so that rows are low and evenly filled, and what it costs."""
    # costs[k] is that of the first k panels, starts[k] where their last row begins.
    costs, starts = [0.0], [0]
    for end in range(1, len(panels) + 1):
        found = []
        used = -GUTTER
        for start in range(end - 1, -1, -1):
            used += panels[start].frame.width + GUTTER
            if used > width + 0.5 and start < end - 1:
                break
            row = panels[start:end]
            height = max(panel.frame.height for panel in row) + GUTTER
            spare = (width - used) / len(row)
            found.append((costs[start] + height * width + 0.5 * spare * height, start))
        cost, start = min(found)
        costs.append(cost)
        starts.append(start)
    rows: list[list[Panel]] = []
    end = len(panels)
    while end:
        rows.insert(0, list(panels[starts[end] : end]))
        end = starts[end]
    return costs[-1], rows


def _framed(panel: Panel, x: float, y: float, width: float, height: float) -> Panel:
    """The panel in a larger frame: texts stay in the corner, the drawing goes to the middle."""
    count = 1 + len(wrapped(panel.scene.conditions))
    dx = (width - panel.frame.width) / 2
    dy = (height - panel.frame.height) / 2
    middle = panel.moved(x + dx, y + dy)
    corner = tuple(text.moved(x, y) for text in panel.texts[:count])
    return Panel(
        scene=panel.scene,
        left=middle.left,
        right=middle.right,
        arrow=middle.arrow,
        texts=(*corner, *middle.texts[count:]),
        frame=Box(x, y, x + width, y + height),
        framed=True,
    )


_LEGEND = (
    ("external node", Vertex(key="", kind=Kind.NODE, positions=(1,))),
    ("node", Vertex(key="", kind=Kind.NODE)),
    ("observed node", Vertex(key="", kind=Kind.NODE, observed=True)),
    ("rank node", Vertex(key="", kind=Kind.NODE, rank=True)),
    ("factor", Vertex(key="", kind=Kind.FACTOR)),
    ("input factor", Vertex(key="", kind=Kind.INPUT_FACTOR)),
    ("nonterminal", Vertex(key="", kind=Kind.NONTERMINAL)),
)


def _legend(panels: Sequence[Panel], width: float) -> Placed | None:
    """One of each kind of vertex that the panels show, named, in a line."""
    shown = {
        sort
        for panel in panels
        for graph in (panel.scene.left, panel.scene.right)
        for vertex in graph.vertices
        for sort in _sorts(vertex)
    }
    vertices: list[Vertex] = []
    centers: dict[str, Point] = {}
    labels: list[Label] = []
    x, y = 0.0, 0.0
    for text, vertex in _LEGEND:
        if _sorts(vertex)[0] not in shown:
            continue
        key = f"k{len(vertices)}"
        named = replace(vertex, key=key)
        size, text_size = style.size(named)[0], text_width(text, style.BESIDE)
        if x and x + size + text_size > width:
            x, y = 0.0, y + 40
        vertices.append(named)
        centers[key] = (x + size / 2, y + style.DIAMETER / 2)
        middle = (x + size + 6 + text_size / 2, y + style.DIAMETER / 2)
        labels.append(Label(text, Role.FACTOR, Box.around(middle, text_size, 14), "start"))
        x += size + text_size + 22
    if not vertices:
        return None
    return Placed(
        graph=Graph(vertices=tuple(vertices)), centers=centers, routes=(), labels=tuple(labels)
    )


def _sorts(vertex: Vertex) -> list[str]:
    """What the legend has to explain of a vertex."""
    if vertex.kind is not Kind.NODE:
        return [vertex.kind.value]
    marks = {"external": vertex.external, "observed": vertex.observed, "rank": vertex.rank}
    return [mark for mark, holds in marks.items() if holds] or ["node"]
