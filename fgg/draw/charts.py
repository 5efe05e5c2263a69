"""Charts of identifiability: verdicts of a sweep as small grids, and singular values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from fgg.api.sweep_table import Entry, sweep_table, written
from fgg.draw import TooLarge, style
from fgg.draw.geometry import Box, Point, text_width
from fgg.draw.marks import Mark, Shape, Text, dot, segment
from fgg.draw.scene import clean
from fgg.draw.style import MARGIN
from fgg.draw.writers.svg import document

GREEN = "#3f8f5f"
COLORS = {"yes": GREEN, "no": "#e9c9c4", "undefined": "#eceff2"}
MAX_CELLS = 100_000
UNIT = 7.0


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
    columns = {name: left + i * (wide + 18) for i, name in enumerate(table.observed)}
    marks: list[Mark] = [
        Text(text=name, place=(x, MARGIN + 12), size=style.INSIDE, bold=True)
        for name, x in columns.items()
    ]
    top = MARGIN + 24
    for grammar in table.grammars:
        of_grammar = [entry for entry in entries if entry.grammar == grammar]
        sizes = dict.fromkeys(tuple(entry.sizes.items()) for entry in of_grammar)
        rows = {values: number for number, values in enumerate(sizes)}
        marks.append(Text(text=clean(grammar), place=(MARGIN, top + 10), size=style.INSIDE))
        for (name, x), text in zip(columns.items(), table.row(grammar), strict=True):
            for entry in of_grammar:
                if entry.observed == name:
                    cell_x = x + lengths.index(entry.length) * UNIT
                    cell_y = top + rows[tuple(entry.sizes.items())] * UNIT
                    marks.append(_square(cell_x, cell_y, entry))
            below = (x, top + len(rows) * UNIT + 12)
            marks.append(Text(text=text, place=below, size=style.SMALL + 1.5, color=style.QUIET))
        top += max(len(rows) * UNIT, 12) + 26
    ends = f"L = {lengths[0]} … {lengths[-1]} from left to right, sizes from top to bottom"
    key = f"green: identifiable; {ends}"
    marks.append(Text(text=key, place=(MARGIN, top + 4), size=10.0, color=style.QUIET))
    right = max(left + len(table.observed) * (wide + 18), MARGIN + text_width(ends, 10.0) + 130)
    return document("Identifiability", right + MARGIN, top + 18, marks)


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
    title = clean(title)
    marks: list[Mark] = [Text(text=title, place=(MARGIN, MARGIN + 8), size=style.INSIDE, bold=True)]

    def x(place: float) -> float:
        return box.left + place / max(len(values), 1) * width

    def y(log: float) -> float:
        return box.bottom - (log - low) / (high - low) * height

    def line(start: Point, end: Point, color: str, text: str, place: Point) -> None:
        text_color = style.QUIET if color == style.HAIRLINE else color
        marks.append(segment(start, end, color, 1))
        marks.append(Text(text=text, place=place, size=10.0, color=text_color))

    for exponent in range(low, high + 1, max((high - low) // 8, 1)):
        level = y(exponent)
        place = (MARGIN, level + 4)
        line((box.left, level), (box.right, level), style.HAIRLINE, f"1e{exponent}", place)
    if low <= log10(max(tolerance, 1e-300)) <= high:
        level = y(log10(tolerance))
        place = (box.right - 52, level - 4)
        line((box.left, level), (box.right, level), "#9a6200", "tolerance", place)
    if rank is not None:
        place = (x(rank) - 76, box.top + 10)
        line((x(rank), box.top), (x(rank), box.bottom), GREEN, f"exact rank {rank}", place)
    marks += [dot((x(i + 0.5), y(log)), 2.5, style.INK) for i, log in enumerate(logs)]
    return document(title, box.right + MARGIN, box.bottom + MARGIN, marks)


_Tables = tuple[Mapping[str, Any], Mapping[str, Any]]
SHOWN = 14
"""The most entries of a move that are drawn."""
SCALE = 220.0


def moves_svg(title: str, notes: Sequence[str], moves: Sequence[_Tables]) -> str:
    """Pairs of points, before and after a move, as an SVG document: a column for each pair.

    Each line is an entry of a factor, on a scale from 0 to 1; those that move most are drawn.
    """
    marks: list[Mark] = [
        Text(text=clean(title), place=(MARGIN, MARGIN + 8), size=style.INSIDE, bold=True)
    ]
    left, bottom, right = MARGIN, MARGIN, MARGIN + text_width(title, style.INSIDE)
    for note, (before, after) in zip(notes, moves, strict=True):
        changes = sorted(
            (
                (name, index, old, float(after[name][index]))
                for name, table in before.items()
                for index, old in _entries(table)
            ),
            key=lambda change: -abs(change[3] - change[2]),
        )
        shown = changes[:SHOWN]
        labels = [f"{name}[{', '.join(map(str, index))}]" for name, index, _, _ in shown]
        start = left + max((text_width(clean(x), 10.0) for x in labels), default=0) + 10
        top = MARGIN + 32
        marks.append(Text(text=note, place=(left, top), size=10.0, color=style.QUIET))
        for i, (label, (_, _, old, new)) in enumerate(zip(labels, shown, strict=True)):
            y = top + 20 + 16 * i
            marks.append(Text(text=clean(label), place=(left, y + 3.5), size=10.0))
            marks.append(segment((start, y), (start + SCALE, y), style.HAIRLINE, 0.8))
            marks.append(segment((start + SCALE * old, y), (start + SCALE * new, y), GREEN, 2))
            marks.append(dot((start + SCALE * old, y), 3, style.QUIET))
            marks.append(dot((start + SCALE * new, y), 3.5, GREEN))
        end = top + 20 + 16 * len(shown)
        rest = f", {len(changes) - len(shown)} more entries" if len(changes) > len(shown) else ""
        key = f"0 to 1; gray: before, green: after{rest}"
        marks.append(Text(text=key, place=(start, end + 4), size=10.0, color=style.QUIET))
        bottom = max(bottom, end + 4)
        wide = max(start + SCALE, left + text_width(note, 10.0), start + text_width(key, 10.0))
        right, left = max(right, wide), wide + 36
    return document(clean(title), right + MARGIN, bottom + MARGIN, marks)


def _entries(table: Any) -> list[tuple[tuple[int, ...], float]]:
    """All entries of an array with their indices."""
    import numpy as np

    return [(index, float(value)) for index, value in np.ndenumerate(table)]
