"""Posterior probabilities of cells and their values: as tables of text and as pictures.

Families with one index become a table of positions by values, families with two a chart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fgg.draw import TooLarge, style
from fgg.draw.geometry import Box, text_width
from fgg.draw.marks import Mark, Shape, Text
from fgg.draw.picture import Picture, Sketch
from fgg.draw.scene import clean, shorten
from fgg.draw.style import MARGIN

LEAST = 5e-5
"""Probabilities below this are shown as nothing in tables of cells."""
MAX_COLUMNS = 12
"""Tables with more values than this show the best ones of each row."""
BEST = 3
MAX_ROWS = 200
MAX_VALUES = 24
MAX_POSITIONS = 80
WORD = 13.0


@dataclass(frozen=True)
class Beliefs:
    """How often each cell of a family is expected to be used with each of its values.

    The values of a cell are in one row; `value` names the one at a place. A family without values
    has one number for each cell.
    """

    family: str
    axes: int
    width: int
    value: Callable[[int], str]
    cells: Mapping[tuple[int, ...], Sequence[float]]
    words: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Beliefs({self.family!r}, {len(self.cells)} cells, {self.width} values)"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def has_values(self) -> bool:
        """Whether its cells have values."""
        return bool(self.value(0))

    def best(self, cell: tuple[int, ...], count: int = 1) -> list[tuple[int, float]]:
        """The most probable values of a cell, best first."""
        row = self.cells[cell]
        places = sorted(range(len(row)), key=lambda place: (-row[place], place))
        return [(place, row[place]) for place in places[:count]]

    def word(self, cell: tuple[int, ...]) -> str:
        """The words that a cell spans, if they are known."""
        if len(cell) == 1:
            return self.words[cell[0]] if cell[0] < len(self.words) else ""
        return " ".join(self.words[cell[0] : cell[-1]])

    # text

    def lines(self) -> Iterator[str]:
        """The table as text; the best value of each row is marked by a star."""
        if not self.axes and not self.has_values:
            return
        if self.axes <= 1 and self.has_values and self.width <= MAX_COLUMNS:
            title, rows = "posterior of {}, by {}value", self._by_value()
            place = "position and " if self.axes else ""
            yield title.format(self.family, place)
        else:
            yield f"posterior of {self.family}, by cell" + (" and value" * self.has_values)
            rows = self._by_cell()
        table = list(rows)
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        for row in table[: MAX_ROWS + 1]:
            first, *others = row
            texts = [first.ljust(widths[0])]
            texts += [text.rjust(w) for text, w in zip(others, widths[1:], strict=True)]
            yield ("  " + "  ".join(texts)).rstrip()
        if len(table) > MAX_ROWS + 1:
            yield f"  and {len(table) - MAX_ROWS - 1:,} more"

    def _by_value(self) -> Iterator[list[str]]:
        word = [""] if self.words and self.axes else []
        yield ["", *word, *(self.value(place) + " " for place in range(self.width))]
        for cell, row in self.cells.items():
            ((best, _),) = self.best(cell)
            name = ", ".join(map(str, cell)) or self.family
            words = [self.word(cell)] if word else []
            marks = ["*" if place == best else " " for place in range(self.width)]
            yield [name, *words, *(f"{p:.4f}{m}" for p, m in zip(row, marks, strict=True))]

    def _by_cell(self) -> Iterator[list[str]]:
        count = min(BEST, self.width) if self.has_values else 0
        word = [""] if self.words else []
        yield ["", *word, "total", *(("best", "second", "third")[:count])]
        for cell in self.cells:
            total = sum(self.cells[cell])
            if total < LEAST:
                continue
            name = f"{self.family}[{', '.join(map(str, cell))}]" if cell else self.family
            best = [
                f"{self.value(v)} {p:.4f}" if p >= LEAST else "" for v, p in self.best(cell, count)
            ]
            words = [shorten(self.word(cell))] if word else []
            yield [name, *words, f"{total:.4f}", *best]


def beliefs_picture(title: str, beliefs: Sequence[Beliefs]) -> Picture:
    """The pictures of families one below the other: tables of tags, charts of spans, grids.

    Families without indices are left out, and those with more than two. Raises `TooLarge`.
    """
    marks: list[Mark] = []
    y, right = MARGIN, 120.0
    for family in beliefs:
        if family.axes not in (1, 2) or not any(sum(row) >= LEAST for row in family.cells.values()):
            continue
        name = Text(
            text=clean(family.family), place=(MARGIN, y + 11), size=style.CAPTION, bold=True
        )
        made, box = _layout(family)(family, y + 22)
        marks += [name, *made]
        y, right = box.bottom + 20, max(right, box.right)
    if not marks:
        note = "no cells with one or two indices"
        marks = [Text(text=note, place=(MARGIN, y + 11), size=style.INSIDE, color=style.QUIET)]
        right, y = text_width(note, style.INSIDE) + MARGIN, y + 20
    return Sketch(title=title, width=right + MARGIN, height=y, painted=tuple(marks))


def _layout(family: Beliefs) -> Callable[[Beliefs, float], tuple[list[Mark], Box]]:
    """How a family is drawn: cells [i, j] are a chart of spans if every i is less than its j."""
    if family.axes == 1:
        return _tags
    used = (cell for cell, row in family.cells.items() if sum(row) >= LEAST)
    return _chart if all(i < j for i, j in used) else _grid


def shade(probability: float) -> str:
    """The colour of a probability, from white to blue."""
    share = min(max(probability, 0.0), 1.0)
    low, high = (255, 255, 255), (53, 97, 156)
    mixed = (round(a + (b - a) * share) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _ink(probability: float) -> str:
    return style.PAPER if probability > 0.55 else style.INK


def _percent(probability: float) -> str:
    return f"{100 * probability:.0f}" if probability >= 0.005 else ""


def _checked(family: Beliefs) -> int:
    """The number of positions. Raises `TooLarge`."""
    count = max(max(cell) for cell in family.cells) + (1 if family.axes == 1 else 0)
    if count > MAX_POSITIONS:
        raise TooLarge(f"there are {count:,} positions, and a picture holds {MAX_POSITIONS}")
    return count


def _tags(family: Beliefs, top: float) -> tuple[list[Mark], Box]:
    """Positions from left to right, values from top to bottom; the best of each is framed."""
    count = _checked(family)
    mass = [0.0] * family.width
    for row in family.cells.values():
        for place, share in enumerate(row):
            mass[place] += share
    shown = sorted(sorted(range(family.width), key=lambda v: -mass[v])[:MAX_VALUES])
    names = [shorten(clean(family.value(place)), 20) for place in shown]
    words = [shorten(clean(family.word((i,)) or str(i)), 16) for i in range(count)]
    left = MARGIN + max(text_width(name, style.INSIDE) for name in names) + 10
    marks: list[Mark] = []
    x = left
    for position, word in enumerate(words):
        width = max(text_width(word, WORD) + 10, 36.0)
        row = family.cells.get((position,), ())
        marks.append(Text(text=word, place=(x + width / 2, top + 12), size=WORD, anchor="middle"))
        best = max(range(len(row)), key=lambda v: row[v]) if sum(row) >= LEAST else None
        for number, place in enumerate(shown):
            if not row:
                continue
            box = Box(x + 1, top + 20 + 24 * number, x + width - 1, top + 42 + 24 * number)
            marks += _cell(box, row[place], place == best, names[number])
        x += width
    for number, name in enumerate(names):
        y = top + 35 + 24 * number
        marks.append(Text(text=name, place=(left - 8, y), size=style.INSIDE, anchor="end"))
    bottom = top + 24 + 24 * len(shown)
    if family.width > len(shown):
        note = f"and {family.width - len(shown):,} more values"
        marks.append(Text(text=note, place=(MARGIN, bottom + 12), size=10.0, color=style.QUIET))
        bottom += 18
    return marks, Box(MARGIN, top, x, bottom)


def _cell(box: Box, share: float, best: bool, title: str) -> Iterator[Mark]:
    line = style.INK if best else style.HAIRLINE
    yield Shape(
        box=box,
        radius=2,
        fill=shade(share),
        line=line,
        width=1.6 if best else 0.6,
        title=f"{title} {share:.4f}",
    )
    place = (box.center[0], box.center[1] + 4)
    if text := _percent(share):
        yield Text(text=text, place=place, size=10.5, color=_ink(share), anchor="middle")


def _grid(family: Beliefs, top: float) -> tuple[list[Mark], Box]:
    """Pairs of positions: the first index from left to right, the second from top to bottom."""
    _checked(family)
    columns, rows = (max(places) + 1 for places in zip(*family.cells, strict=True))
    left, wide, high = MARGIN + 26.0, 34.0, 24.0
    number = partial(Text, size=style.INSIDE, color=style.QUIET)
    marks: list[Mark] = []
    for i in range(columns):
        place = (left + (i + 0.5) * wide, top + 12)
        marks.append(number(text=str(i), place=place, anchor="middle"))
    for j in range(rows):
        y = top + 20 + j * high
        marks.append(number(text=str(j), place=(left - 8, y + 16), anchor="end"))
        for i in range(columns):
            if (i, j) in family.cells:
                x = left + i * wide
                box = Box(x + 1, y + 1, x + wide - 1, y + high - 1)
                title = f"{clean(family.family)}[{i}, {j}]"
                marks += _cell(box, sum(family.cells[i, j]), best=False, title=title)
    return marks, Box(MARGIN, top, left + columns * wide, top + 20 + rows * high)


def _chart(family: Beliefs, top: float) -> tuple[list[Mark], Box]:
    """A triangle with the words below it; the cell of a span stands above the span."""
    count = _checked(family)
    words = [shorten(clean(family.word((i, i + 1)) or str(i)), 16) for i in range(count)]
    wide = max([34.0, *(text_width(word, WORD) + 8 for word in words)])
    high = 26.0
    present = [c for c, row in family.cells.items() if c[0] < c[1] and sum(row) >= 0.005]
    tallest = max((j - i for i, j in present), default=1)
    base = top + tallest * high
    marks: list[Mark] = []
    for i in range(count):
        for j in range(i + 1, min(i + tallest, count) + 1):
            row = family.cells.get((i, j), ())
            total = sum(row)
            middle = MARGIN + (i + j) / 2 * wide
            y = base - (j - i - 0.5) * high
            box = Box.around((middle, y), wide - 2, high - 2)
            title = f"{family.family}[{i}, {j}] {total:.4f}"
            label = _percent(total)
            if family.has_values and total >= 0.005:
                ((best, share),) = family.best((i, j))
                title += f", {family.value(best)} {share:.4f}"
                label = shorten(clean(family.value(best)), 10)
            fill, line = shade(total), style.HAIRLINE
            marks.append(
                Shape(box=box, radius=2, fill=fill, line=line, width=0.6, title=clean(title))
            )
            if label:
                size = min(10.5, 10.5 * (wide - 4) / text_width(label, 10.5))
                marks.append(
                    Text(
                        text=label,
                        place=(middle, y + 4),
                        size=size,
                        color=_ink(total),
                        anchor="middle",
                    )
                )
    for i, word in enumerate(words):
        place = (MARGIN + (i + 0.5) * wide, base + 16)
        marks.append(Text(text=word, place=place, size=WORD, anchor="middle"))
    return marks, Box(MARGIN, top, MARGIN + count * wide, base + 22)
