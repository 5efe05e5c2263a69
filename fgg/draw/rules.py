"""Pictures of rules: the panel of one rule, a page of panels, and the marks of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fgg.draw import style
from fgg.draw.geometry import Box, Point, Route, text_width
from fgg.draw.layout.fragment import PlacedGraph
from fgg.draw.layout.labels import PlacedLabel, Role
from fgg.draw.marks import Mark, Shape, Stroke, Text, arrow
from fgg.draw.picture import Picture
from fgg.draw.scene import Flow, Graph, Kind, RuleScene, Vertex
from fgg.draw.style import MARGIN

PADDING = 14.0
ARROW_LENGTH = 34.0
ARROW_SPACE = 18.0
CONDITION_WIDTH = 300.0
MIDDLE = 140.0
"""A left-hand side without nodes is centred beside this much of the right-hand side."""
GUTTER = 12.0
PAGE_WIDTH = 960.0
"""The width of a page, except for grammars with very many rules."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The picture of a rule: two placed graphs, the arrow between them, texts, and a frame."""

    scene: RuleScene
    left: PlacedGraph
    right: PlacedGraph
    arrow: Route
    texts: tuple[Text, ...]
    frame: Box
    framed: bool = False

    def moved(self, dx: float, dy: float) -> Panel:
        """The panel at another place."""
        return replace(
            self,
            left=self.left.moved(dx, dy),
            right=self.right.moved(dx, dy),
            arrow=self.arrow.moved(dx, dy),
            texts=tuple(text.moved(dx, dy) for text in self.texts),
            frame=self.frame.moved(dx, dy),
        )


def rule_panel(scene: RuleScene, left: PlacedGraph, right: PlacedGraph) -> Panel:
    """The panel of a rule, with its frame's corner at the origin."""
    texts = [Text(text=scene.caption, place=(PADDING, PADDING + 11), size=style.CAPTION, bold=True)]
    for i, line in enumerate(wrapped(scene.conditions)):
        place = (PADDING, PADDING + 28 + i * 15)
        texts.append(Text(text=line, place=place, size=style.CONDITION, color=style.QUIET))
    top = max(text.box().bottom for text in texts) + 14
    a, b = left.box(), right.box()
    drop_a, drop_b = _drops(left, right)
    arrow_y = top + drop_a + a.height / 2
    arrow_x = PADDING + a.width + ARROW_SPACE
    right_x = arrow_x + ARROW_LENGTH + ARROW_SPACE
    if not right.graph.vertices:
        empty = Text(text="(empty)", place=(0, 0), size=style.INSIDE, color=style.QUIET)
        texts.append(empty.moved(right_x, arrow_y + 4))
    bottom = top + max(drop_a + a.height, drop_b + b.height)
    far = max(right_x + b.width, *(text.box().right for text in texts))
    return Panel(
        scene=scene,
        left=left.moved(PADDING, top + drop_a),
        right=right.moved(right_x, top + drop_b),
        arrow=Route(((arrow_x, arrow_y), (arrow_x + ARROW_LENGTH, arrow_y))),
        texts=tuple(texts),
        frame=Box(0, 0, far + PADDING, bottom + PADDING),
    )


def _drops(left: PlacedGraph, right: PlacedGraph) -> tuple[float, float]:
    """How far below the top each side begins.

    External nodes of both sides are at one height; without any, the sides are centred.
    """
    first, second = _outside_height(left), _outside_height(right)
    if first is not None and second is not None:
        return max(second - first, 0.0), max(first - second, 0.0)
    a, b = left.box().height, right.box().height
    return max((min(b, MIDDLE) - a) / 2, 0.0), max((a - b) / 2, 0.0)


def _outside_height(placed: PlacedGraph) -> float | None:
    """The height of a graph's external nodes, or None if it has none."""
    return next((placed.centers[v.key][1] for v in placed.graph.vertices if v.external), None)


def wrapped(text: str, width: float = CONDITION_WIDTH) -> list[str]:
    """The text in lines that are not wider than `width`, broken at spaces."""
    lines: list[str] = []
    for word in text.split(" ") if text else ():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, style.CONDITION) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


@dataclass(frozen=True, kw_only=True, repr=False)
class RulesPicture(Picture):
    """A picture of rules with all positions: panels, a title with further texts, and a legend."""

    width: float
    height: float
    title: str
    panels: tuple[Panel, ...]
    texts: tuple[Text, ...] = ()
    legend: PlacedGraph | None = None

    def __repr__(self) -> str:
        return f"RulesPicture({self.title!r}, {len(self.panels)} rules)"

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What is painted, back to front."""
        return tuple(_picture_marks(self))


def rule_picture(panel: Panel) -> RulesPicture:
    """The picture of one rule."""
    return RulesPicture(
        width=panel.frame.width,
        height=panel.frame.height,
        title=panel.scene.caption,
        panels=(panel,),
    )


def grammar_picture(title: str, subtitle: str, panels: Sequence[Panel]) -> RulesPicture:
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
    return RulesPicture(
        width=right + MARGIN,
        height=top - GUTTER + MARGIN,
        title=title,
        panels=tuple(placed),
        texts=(heading, below),
        legend=legend,
    )


def _best_rows(panels: Sequence[Panel], least: float) -> tuple[float, list[list[Panel]]]:
    """The width of the page and its rows of panels, so that little of the page is empty."""
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
    """The panels in low and evenly filled rows of a given width, and the cost of these rows."""
    # costs[k] is that of the first k panels, starts[k] where their last row begins.
    costs, starts = [0.0], [0]
    for end in range(1, len(panels) + 1):
        choices = []
        used = -GUTTER
        for start in range(end - 1, -1, -1):
            used += panels[start].frame.width + GUTTER
            if used > width + 0.5 and start < end - 1:
                break
            row = panels[start:end]
            height = max(panel.frame.height for panel in row) + GUTTER
            spare = (width - used) / len(row)
            choices.append((costs[start] + height * width + 0.5 * spare * height, start))
        cost, start = min(choices)
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
    texts = (*corner, *middle.texts[count:])
    return replace(middle, texts=texts, frame=Box(x, y, x + width, y + height), framed=True)


_LEGEND = (
    ("external node", Vertex(key="", kind=Kind.NODE, positions=(1,))),
    ("node", Vertex(key="", kind=Kind.NODE)),
    ("observed node", Vertex(key="", kind=Kind.NODE, observed=True)),
    ("rank node", Vertex(key="", kind=Kind.NODE, rank=True)),
    ("factor", Vertex(key="", kind=Kind.FACTOR)),
    ("input factor", Vertex(key="", kind=Kind.INPUT_FACTOR)),
    ("nonterminal", Vertex(key="", kind=Kind.NONTERMINAL)),
)


def _legend(panels: Sequence[Panel], width: float) -> PlacedGraph | None:
    """The legend: one vertex of each kind that the panels show, with its name beside it."""
    shown = {
        sort
        for panel in panels
        for graph in (panel.scene.left, panel.scene.right)
        for vertex in graph.vertices
        for sort in _sorts(vertex)
    }
    vertices: list[Vertex] = []
    centers: dict[str, Point] = {}
    labels: list[PlacedLabel] = []
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
        labels.append(PlacedLabel(text, Role.FACTOR, Box.around(middle, text_size, 14), "start"))
        x += size + text_size + 22
    if not vertices:
        return None
    return PlacedGraph(
        graph=Graph(vertices=tuple(vertices)), centers=centers, routes=(), labels=tuple(labels)
    )


def _sorts(vertex: Vertex) -> list[str]:
    """The kinds of vertex in the legend that explain a vertex."""
    if vertex.kind is not Kind.NODE:
        return [vertex.kind.value]
    marks = {"external": vertex.external, "observed": vertex.observed, "rank": vertex.rank}
    return [mark for mark, holds in marks.items() if holds] or ["node"]


def _picture_marks(picture: RulesPicture) -> Iterator[Mark]:
    yield from picture.texts
    for panel in picture.panels:
        yield from _panel_marks(panel)
    if picture.legend is not None:
        yield from _graph_marks(picture.legend)


def _panel_marks(panel: Panel) -> Iterator[Mark]:
    if panel.framed:
        yield Shape(box=panel.frame, radius=8, fill=style.PAPER, line=style.HAIRLINE, width=1)
    yield from panel.texts
    yield from _graph_marks(panel.left)
    yield from arrow(panel.arrow, style.INK, 1.6, 9.0)
    yield from _graph_marks(panel.right)


def _graph_marks(placed: PlacedGraph) -> Iterator[Mark]:
    for link, route in zip(placed.graph.links, placed.routes, strict=True):
        if link.flow is Flow.NONE:
            yield Stroke(route=route, color=style.LINE, width=1.2)
        else:
            towards_node = link.flow is Flow.INTO_NODE
            points = route.points if towards_node else route.points[::-1]
            yield from arrow(Route(points), style.LINE, 1.2, style.ARROW)
    for vertex in placed.graph.vertices:
        yield from _vertex_marks(vertex, placed.centers[vertex.key])
    for label in placed.labels:
        yield label_text(label)


def _vertex_marks(vertex: Vertex, center: Point) -> Iterator[Mark]:
    look, box, radius = style.look(vertex), style.shape_box(vertex, center), style.corner(vertex)
    shape = partial(Shape, line=look.line, title=vertex.title)
    if vertex.rank:
        yield shape(box=box, radius=radius, fill=style.PAPER, width=1.2)
        box, radius = box.grown(-style.RING), radius - style.RING
    yield shape(box=box, radius=radius, fill=look.fill, width=1.3)
    if vertex.text:
        place, color = (center[0], center[1] + style.INSIDE * 0.36), look.text
        yield Text(text=vertex.text, place=place, size=style.INSIDE, color=color, anchor="middle")


_COLORS = {Role.PATH: style.NONTERMINAL.line, Role.PORT: style.QUIET}


def label_text(label: PlacedLabel) -> Text:
    """The text of a label, at its place."""
    x, y = label.box.center
    x = {"start": label.box.left, "middle": x, "end": label.box.right}[label.anchor]
    return Text(
        text=label.text,
        place=(x, y + label.size * 0.36),
        size=label.size,
        color=_COLORS.get(label.role, style.INK),
        italic=label.role in (Role.NAME, Role.PATH),
        bold=label.role is Role.POSITION,
        anchor=label.anchor,
        halo=True,
    )
