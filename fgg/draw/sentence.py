"""Pictures of annotated sentences: trees over words, arcs between them, tags, segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fgg.draw import TooLarge, style
from fgg.draw.geometry import Box, Point, Route, text_width
from fgg.draw.marks import Mark, Shape, Stroke, Text, arrow, segment
from fgg.draw.picture import Picture, Sketch
from fgg.draw.scene import clean, shorten
from fgg.draw.style import MARGIN, PALETTE

MAX_WORDS = 1000
GAP = 14.0  # between two words
LEVEL = 46.0  # between two levels of a tree
LINE = 960.0
"""Tags and segments of long sentences are broken into lines of this width."""
WORD = 14.0  # font size


@dataclass(frozen=True)
class Span:
    """A constituent: its label, the words from `start` up to `end`, and its children."""

    label: str
    start: int
    end: int
    children: tuple[Span, ...] = ()

    def nodes(self) -> Iterator[Span]:
        """This constituent and all below it, parents first."""
        agenda = [self]
        while agenda:
            node = agenda.pop()
            yield node
            agenda += reversed(node.children)


@dataclass(frozen=True)
class Arc:
    """A line from one word to another; an arc from nowhere marks the root."""

    start: int | None
    end: int
    label: str = ""

    def ends(self) -> tuple[int, int]:
        """The word on the left and the one on the right."""
        start = self.end if self.start is None else self.start
        return min(start, self.end), max(start, self.end)


def tree_picture(title: str, words: Sequence[str], roots: Sequence[Span]) -> Picture:
    """Constituency trees with the words in a line below them. Raises TooLarge."""
    _check(words)
    nodes = [node for root in roots for node in root.nodes()]
    texts = [shorten(clean(word)) for word in words]
    columns = _columns(texts, nodes)
    height: dict[int, int] = {}
    for node in reversed(nodes):
        height[id(node)] = 1 + max((height[id(child)] for child in node.children), default=0)
    top = MARGIN + 12
    base = top + max(height.values(), default=0) * LEVEL
    marks: list[Mark] = []

    middles = _middles(nodes, columns)

    def place(node: Span) -> Point:
        return middles[id(node)], base - height[id(node)] * LEVEL

    for node in nodes:
        x, y = place(node)
        covered: set[int] = set()
        for child in node.children:
            end = place(child)
            marks.append(segment((x, y + 6), (end[0], end[1] - 13), style.LINE, 1.2))
            covered.update(range(child.start, child.end))
        for word in range(node.start, node.end):
            if word not in covered:
                end = (columns[word].center[0], base - 14)
                marks.append(segment((x, y + 6), end, style.LINE, 1.2))
    for node in nodes:
        x, y = place(node)
        marks.append(_label(shorten(clean(node.label)), (x, y), style.NONTERMINAL.line))
    marks += _words(texts, columns, base)
    return Sketch(title=title, width=_right(columns), height=base + MARGIN, painted=tuple(marks))


def _columns(words: Sequence[str], nodes: Sequence[Span]) -> list[Box]:
    """The place of each word, wide enough for it and for the labels above it."""
    widths = [max(text_width(word, WORD) + GAP, 24.0) for word in words]
    for node in sorted(nodes, key=lambda node: node.end - node.start):
        wanted = text_width(shorten(clean(node.label)), style.CAPTION, bold=True) + GAP
        lacking = wanted - sum(widths[node.start : node.end])
        if lacking > 0 and node.end > node.start:
            for word in range(node.start, node.end):
                widths[word] += lacking / (node.end - node.start)
    return _side_by_side(widths)


def _side_by_side(widths: Sequence[float]) -> list[Box]:
    boxes, x = [], MARGIN
    for width in widths:
        boxes.append(Box(x, 0, x + width, 0))
        x += width
    return boxes


def _right(columns: Sequence[Box]) -> float:
    return (columns[-1].right if columns else MARGIN) + MARGIN


def _middles(nodes: Sequence[Span], columns: Sequence[Box]) -> dict[int, float]:
    """The x coordinate of each constituent: over the middle of its children."""
    middles: dict[int, float] = {}
    for node in reversed(nodes):
        covered = {word for child in node.children for word in range(child.start, child.end)}
        places = [middles[id(child)] for child in node.children]
        places += [columns[w].center[0] for w in range(node.start, node.end) if w not in covered]
        middles[id(node)] = (min(places) + max(places)) / 2
    return middles


def _label(text: str, place: Point, color: str) -> Text:
    return Text(text=text, place=place, size=style.CAPTION, color=color, bold=True, anchor="middle")


def _words(words: Sequence[str], columns: Sequence[Box], base: float) -> Iterator[Text]:
    for word, column in zip(words, columns, strict=True):
        yield Text(text=word, place=(column.center[0], base), size=WORD, anchor="middle")


def _check(words: Sequence[str]) -> None:
    if len(words) > MAX_WORDS:
        raise TooLarge(f"there are {len(words):,} positions, and a picture holds {MAX_WORDS:,}")


def arc_picture(
    title: str,
    words: Sequence[str],
    arcs: Sequence[Arc],
    *,
    rows: Sequence[Sequence[str]] = (),
    heads: bool = True,
) -> Picture:
    """Words with arcs above them, as arrows if they have `heads`, and rows of texts below.

    Raises TooLarge.
    """
    _check(words)
    texts = [shorten(clean(word)) for word in words]
    below = [[shorten(clean(text)) for text in row] for row in rows]
    least = 30.0 if heads else 14.0
    gap = GAP if heads else 5.0
    widths = [
        max(least, *(text_width(text, WORD) + gap for text in column))
        for column in zip(texts, *below, strict=True)
    ]
    columns = _side_by_side(widths)
    levels = _levels(arcs)
    base = MARGIN + 30 + (max(levels.values(), default=0)) * 17 + 12
    top = base - 16
    marks: list[Mark] = []
    for arc in sorted(arcs, key=lambda arc: -levels[arc]):
        marks += _arc(arc, arcs, columns, top, levels[arc], heads)
    marks += _words(texts, columns, base)
    for row in below:
        base += 20
        for text, column in zip(row, columns, strict=True):
            place = (column.center[0], base)
            marks.append(
                Text(
                    text=text,
                    place=place,
                    size=style.INSIDE,
                    color=style.NONTERMINAL.line,
                    anchor="middle",
                )
            )
    return Sketch(title=title, width=_right(columns), height=base + MARGIN, painted=tuple(marks))


def _levels(arcs: Sequence[Arc]) -> dict[Arc, int]:
    """How high each arc goes: above all arcs inside it."""
    levels: dict[Arc, int] = {}
    for arc in sorted(arcs, key=lambda arc: arc.ends()[1] - arc.ends()[0]):
        left, right = arc.ends()
        inside = [
            level
            for other, level in levels.items()
            if left <= other.ends()[0] and other.ends()[1] <= right and other.start is not None
        ]
        levels[arc] = 1 + max(inside, default=0) if arc.start is not None else 1
    highest = max(levels.values(), default=0)
    return {arc: level if arc.start is not None else highest for arc, level in levels.items()}


def _arc(
    arc: Arc,
    arcs: Sequence[Arc],
    columns: Sequence[Box],
    top: float,
    level: int,
    heads: bool,
) -> Iterator[Mark]:
    end = columns[arc.end].center[0]
    if arc.start is None:
        yield from arrow(Route(((end, top - 17.0 * level - 24), (end, top))), style.LINE, 1.3, 8.0)
        place = (end + 6, top - 17.0 * level - 14)
        yield Text(text=arc.label or "root", place=place, size=style.SMALL + 1, color=style.QUIET)
        return
    # The ends of arcs that leave a word to the same side stand apart.
    start = columns[arc.start].center[0]
    apart = 5.0 if heads else 0.0
    start += apart if end > start else -apart
    high = 22.7 * level + 8  # a curve reaches three quarters of the height of its handles
    points = ((start, top), (start, top - high), (end, top - high), (end, top))
    route = Route(points)
    color = style.LINE if heads else style.NONTERMINAL.line
    if heads:
        yield from arrow(route, color, 1.3, 8.0)
    else:
        yield Stroke(route=route, color=color, width=1.4)
    if arc.label:
        place = ((start + end) / 2, top - 0.75 * high - 3)
        text = shorten(clean(arc.label))
        yield Text(
            text=text,
            place=place,
            size=style.SMALL + 1,
            color=style.QUIET,
            anchor="middle",
            halo=True,
        )


def tag_picture(
    title: str,
    words: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Mapping[str, int] | None = None,
) -> Picture:
    """Words with rows of tags below them; long sentences take several lines.

    `numbers` of tags, where they are known, choose their colours: a tag has one in all pictures.

    Raises TooLarge.
    """
    _check(words)
    texts = [shorten(clean(word)) for word in words]
    tags = [[shorten(clean(tag)) for tag in row] for row in rows]
    colors = _colors((tag for row in tags for tag in row), numbers)
    widths = [
        max(
            text_width(word, WORD) + GAP,
            *(text_width(row[i], style.INSIDE) + 20 for row in tags),
            30.0,
        )
        for i, word in enumerate(texts)
    ]
    marks: list[Mark] = []
    high = 26.0 + 26.0 * len(rows)
    y, right = MARGIN, 0.0
    for start, end in _broken(widths):
        columns = _side_by_side(widths[start:end])
        marks += _words(texts[start:end], columns, y + 14)
        for number, row in enumerate(tags):
            level = y + 32 + 26 * number
            for tag, column in zip(row[start:end], columns, strict=True):
                if tag:
                    marks += _tag(tag, column, level, colors[tag])
        y += high + 10
        right = max(right, _right(columns))
    return Sketch(title=title, width=max(right, 60), height=y + 4, painted=tuple(marks))


def _colors(tags: Iterator[str], numbers: Mapping[str, int] | None) -> dict[str, style.Look]:
    """A colour for each tag, by its number or else in the order in which they occur."""
    known = numbers or {}
    places = {tag: known.get(tag, i) for i, tag in enumerate(dict.fromkeys(tags))}
    return {tag: PALETTE[place % len(PALETTE)] for tag, place in places.items()}


def _tag(tag: str, column: Box, y: float, look: style.Look) -> Iterator[Mark]:
    middle = column.center[0]
    box = Box.around((middle, y), column.width - 6, 21)
    yield Shape(box=box, radius=5, fill=look.fill, line=look.line, width=1)
    place = (middle, y + style.INSIDE * 0.36)
    yield Text(text=tag, place=place, size=style.INSIDE, color=look.text, anchor="middle")


def _broken(widths: Sequence[float]) -> list[tuple[int, int]]:
    """The words in lines that are not wider than `LINE`, one word at least."""
    cuts, used = [0], 0.0
    for number, width in enumerate(widths):
        if used + width > LINE and number > cuts[-1]:
            cuts.append(number)
            used = 0.0
        used += width
    return list(pairwise([*cuts, len(widths)]))


def segment_picture(
    title: str,
    segments: Sequence[tuple[Sequence[str], str]],
    numbers: Mapping[str, int] | None = None,
) -> Picture:
    """Segments side by side: the words of each in a box, and its label below. Raises TooLarge.

    For the `numbers` of labels see `tag_picture`.
    """
    _check([word for words, _ in segments for word in words])
    texts = [("  ".join(map(clean, words)), shorten(clean(label))) for words, label in segments]
    colors = _colors((label for _, label in texts), numbers)
    widths = [
        max(text_width(words, WORD), text_width(label, style.INSIDE), 12.0) + 22
        for words, label in texts
    ]
    marks: list[Mark] = []
    y, right = MARGIN, 0.0
    for start, end in _broken(widths):
        columns = _side_by_side(widths[start:end])
        for (words, label), column in zip(texts[start:end], columns, strict=True):
            look, middle = colors[label], column.center[0]
            box = Box.around((middle, y + 14), column.width - 6, 28)
            marks.append(Shape(box=box, radius=5, fill=look.fill, line=look.line, width=1))
            marks.append(Text(text=words, place=(middle, y + 19), size=WORD, anchor="middle"))
            if label:
                place = (middle, y + 42)
                marks.append(
                    Text(
                        text=label,
                        place=place,
                        size=style.INSIDE,
                        color=style.QUIET,
                        anchor="middle",
                    )
                )
        y += 60
        right = max(right, _right(columns))
    return Sketch(title=title, width=max(right, 60), height=y, painted=tuple(marks))
