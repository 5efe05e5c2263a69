"""Pictures of identifiability: verdicts of a sweep as small grids, and singular values."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

from fgg.api.sweep_table import Entry, sweep_table, written
from fgg.draw import style
from fgg.draw.errors import TooLarge
from fgg.draw.geometry import Box, Route, text_width
from fgg.draw.marks import Mark, Shape, Stroke
from fgg.draw.panel import Text
from fgg.draw.scene import clean
from fgg.draw.writers.svg import document

COLORS = {"yes": "#3f8f5f", "no": "#e9c9c4", "undefined": "#eceff2"}
MAX_CELLS = 100_000
UNIT = 7.0
MARGIN = 16.0


def sweep_svg(entries: Sequence[Entry]) -> str:
    """Verdicts as an SVG document: a grid for each grammar and observation function.

    In a grid the columns are lengths and the rows sizes, the first one varying slowest.
    Raises TooLarge.
    """
    if len(entries) > MAX_CELLS:
        raise TooLarge(f"the sweep has {len(entries):,} entries; a picture holds {MAX_CELLS:,}")
    table = sweep_table(entries)
    lengths = sorted({entry.length for entry in entries})
    wide = max(len(lengths) * UNIT, *(text_width(n, style.INSIDE) for n in table.observed), 56.0)
    left = MARGIN + max(text_width(clean(g), style.INSIDE) for g in table.grammars) + 14
    painted: list[Mark] = []
    for column, name in enumerate(table.observed):
        x = left + column * (wide + 18)
        painted.append(_text(name, x, MARGIN + 12, style.INSIDE, bold=True))
    top = MARGIN + 24
    for grammar in table.grammars:
        own = [entry for entry in entries if entry.grammar == grammar]
        sizes = list(dict.fromkeys(tuple(entry.sizes.items()) for entry in own))
        painted.append(_text(clean(grammar), MARGIN, top + 10, style.INSIDE))
        row = {size: number for number, size in enumerate(sizes)}
        texts = table.row(grammar)
        for column, name in enumerate(table.observed):
            x = left + column * (wide + 18)
            for entry in own:
                if entry.observed == name:
                    cell_x = x + lengths.index(entry.length) * UNIT
                    cell_y = top + row[tuple(entry.sizes.items())] * UNIT
                    painted.append(_square(cell_x, cell_y, entry))
            place = top + len(sizes) * UNIT + 12
            painted.append(_text(texts[column], x, place, style.SMALL + 1.5, style.QUIET))
        top += max(len(sizes) * UNIT, 12) + 26
    ends = f"L = {lengths[0]} … {lengths[-1]} from left to right, sizes from top to bottom"
    painted.append(_text(f"green: identifiable; {ends}", MARGIN, top + 4, 10.0, style.QUIET))
    right = max(left + len(table.observed) * (wide + 18), MARGIN + text_width(ends, 10.0) + 130)
    return document("Identifiability", right + MARGIN, top + 18, painted)


def _square(x: float, y: float, entry: Entry) -> Shape:
    rank = "" if entry.rank is None else f", rank {entry.rank} of {entry.parameters}"
    sizes = written(entry.sizes.items())
    title = f"{entry.grammar} {entry.observed}: {sizes}, L = {entry.length}: {entry.verdict}{rank}"
    box = Box(x, y, x + UNIT - 1, y + UNIT - 1)
    color = COLORS.get(entry.verdict, style.HAIRLINE)
    return Shape(box=box, radius=1, fill=color, line=color, width=0.5, title=clean(title))


def singular_svg(title: str, values: Sequence[float], rank: int | None, tolerance: float) -> str:
    """Singular values on a logarithmic scale, with the exact rank and the tolerance."""
    width, height = 520.0, 260.0
    least = max(max(values, default=1.0), 1e-300) * 1e-18
    logs = [log10(max(value, least)) for value in values]
    low, high = floor(min(logs, default=0)), ceil(max(logs, default=1))
    high = max(high, low + 1)
    box = Box(MARGIN + 44, MARGIN + 22, MARGIN + 44 + width, MARGIN + 22 + height)

    def y(log: float) -> float:
        return box.bottom - (log - low) / (high - low) * height

    def x(place: float) -> float:
        return box.left + place / max(len(values), 1) * width

    painted: list[Mark] = [_text(clean(title), MARGIN, MARGIN + 8, style.INSIDE, bold=True)]
    for exponent in range(low, high + 1, max((high - low) // 8, 1)):
        line = Route(((box.left, y(exponent)), (box.right, y(exponent))))
        painted.append(Stroke(route=line, color=style.HAIRLINE, width=1))
        painted.append(_text(f"1e{exponent}", MARGIN, y(exponent) + 4, 10.0, style.QUIET))
    if low <= log10(max(tolerance, 1e-300)) <= high:
        level = y(log10(tolerance))
        line = Route(((box.left, level), (box.right, level)))
        painted.append(Stroke(route=line, color="#9a6200", width=1))
        painted.append(_text("tolerance", box.right - 52, level - 4, 10.0, "#9a6200"))
    if rank is not None:
        line = Route(((x(rank), box.top), (x(rank), box.bottom)))
        painted.append(Stroke(route=line, color="#3f8f5f", width=1.2))
        painted.append(_text(f"exact rank {rank}", x(rank) - 76, box.top + 10, 10.0, "#3f8f5f"))
    for place, log in enumerate(logs):
        dot = Box.around((x(place + 0.5), y(log)), 5, 5)
        painted.append(Shape(box=dot, radius=2.5, fill=style.INK, line=style.INK, width=0))
    return document(clean(title), box.right + MARGIN, box.bottom + MARGIN, painted)


def _text(
    text: str, x: float, y: float, size: float, color: str = style.INK, *, bold: bool = False
) -> Text:
    return Text(text=text, place=(x, y), size=size, color=color, bold=bold)
