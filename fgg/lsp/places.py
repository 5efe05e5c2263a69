"""Offsets of characters in a text, and the lines and columns by which editors call them."""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol import types

from fgg.grammar.spans import Span

_LINE_END = re.compile(r"\r\n|\n|\r")


class Places:
    """Converts between offsets and positions, whose columns count UTF-16 units."""

    def __init__(self, text: str, start: int = 0) -> None:
        """Take a text whose first character has the offset `start`."""
        self.text = text
        self.start = start
        self.lines = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> types.Position:
        """The position of an offset."""
        offset = min(max(offset - self.start, 0), len(self.text))
        line = bisect_right(self.lines, offset) - 1
        return types.Position(line, _units(self.text[self.lines[line] : offset]))

    def offset(self, position: types.Position) -> int:
        """The offset of a position; of the end of its line if the line is shorter."""
        if position.line >= len(self.lines):
            return self.start + len(self.text)
        begin = self.lines[position.line]
        last = position.line + 1 == len(self.lines)
        end = len(self.text) if last else self.lines[position.line + 1]
        line = self.text[begin:end].rstrip("\r\n")
        if line.isascii():
            return self.start + begin + min(position.character, len(line))
        units = 0
        for place, char in enumerate(line):
            if units >= position.character:
                return self.start + begin + place
            units += _units(char)
        return self.start + begin + len(line)

    def range(self, span: Span) -> types.Range:
        """The range of a span."""
        return types.Range(self.position(span.start), self.position(span.end))

    def whole(self) -> types.Range:
        """The range of all of the text."""
        return self.range(Span(self.start, self.start + len(self.text)))


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
