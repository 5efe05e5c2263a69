"""Pictures of tables of texts, with a title and lines above and below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgg.draw import style
from fgg.draw.geometry import Box, text_width
from fgg.draw.marks import Mark, Shape, Text, segment
from fgg.draw.picture import Picture, Sketch
from fgg.draw.scene import clean, shorten
from fgg.draw.style import MARGIN

GOOD, BAD, OPEN = "#2f7d4f", "#b3261e", "#8a5a00"
"""The colours of what holds, of what does not, and of what is not known."""
MAX_ROWS = 400
WIDTH = 60
"""The most characters of a cell."""
HIGH = 22.0
BAR = 140.0


def table_picture(
    title: str,
    rows: Sequence[Sequence[str]],
    *,
    titles: Sequence[str],
    colors: Sequence[str] = (),
    bars: Sequence[float] = (),
    badge: tuple[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Picture:
    """A table under a title, with a `badge` (a word and its colour) beside it, and notes below.

    `colors` are those of the dots before the rows, and `bars` the shares of the whole that bars
    after the rows show, if rows have any.
    """
    rows = rows[:MAX_ROWS]
    cells = [[shorten(clean(text), WIDTH) for text in row] for row in (titles, *rows)]
    widths = [
        max(text_width(row[i], style.INSIDE) for row in cells) + 18 for i in range(len(titles))
    ]
    left = MARGIN + (18 if colors else 0)
    right = left + sum(widths) + (BAR + 52 if bars else 0)
    marks: list[Mark] = []
    name = Text(text=clean(title), place=(MARGIN, MARGIN + 13), size=style.TITLE - 2, bold=True)
    marks.append(name)
    right = max(right, name.box().right)
    if badge is not None:
        start = name.box().right + 14
        box = Box(start, MARGIN - 2, start + text_width(badge[0], style.INSIDE) + 20, MARGIN + 19)
        marks.append(Shape(box=box, radius=10, fill=badge[1], line=badge[1], width=1))
        place = (box.center[0], MARGIN + 13)
        marks.append(
            Text(text=badge[0], place=place, size=style.INSIDE, color=style.PAPER, anchor="middle")
        )
        right = max(right, box.right)
    y = MARGIN + 46
    for number, row in enumerate(cells):
        x = left
        for text, width in zip(row, widths, strict=True):
            color = style.INK if number else style.QUIET
            marks.append(Text(text=text, place=(x, y), size=style.INSIDE, color=color))
            x += width
        if number and colors:
            color = colors[number - 1]
            dot = Box.around((MARGIN + 6, y - 4), 10, 10)
            marks.append(Shape(box=dot, radius=5, fill=color, line=color, width=1))
        if number and bars:
            marks += _bar(bars[number - 1], x, y)
        marks.append(segment((MARGIN, y + 7), (right, y + 7), style.HAIRLINE, 1))
        y += HIGH
    for note in notes:
        line = Text(text=clean(note), place=(MARGIN, y + 8), size=style.INSIDE, color=style.QUIET)
        marks.append(line)
        right = max(right, line.box().right)
        y += 17
    return Sketch(title=title, width=right + MARGIN, height=y, painted=tuple(marks))


def _bar(share: float, x: float, y: float) -> Iterator[Mark]:
    """A bar for a share of the whole, and the share in percent."""
    box = Box(x, y - 10, x + max(BAR * share, 0.5), y + 2)
    look = style.NONTERMINAL
    yield Shape(box=box, radius=1, fill=look.fill, line=look.line, width=1)
    text = f"{100 * share:.1f}%"
    yield Text(text=text, place=(box.right + 6, y), size=style.SMALL + 1.5, color=style.QUIET)
