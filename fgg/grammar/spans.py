"""Places in a source text: spans, and the text they point into."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of character offsets in a source text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The smallest span that covers this one and `other`."""
        return Span(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True)
class Source:
    """A named text: what the user wrote, for messages that point into it.

    Its first character has the offset `start`: the texts of the files that it uses, which are
    listed in `used`, follow one another. So a span belongs to one of them.
    """

    name: str
    text: str
    start: int = 0
    used: tuple[Source, ...] = ()

    def at(self, span: Span) -> Source:
        """The text that a span lies in: this one, or that of a file that it uses."""
        return max(
            (s for s in (self, *self.used) if s.start <= span.start),
            key=lambda source: source.start,
            default=self,
        )

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column, both counted from 1, of a character offset."""
        offset = min(max(offset - self.start, 0), len(self.text))
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line (counted from 1), without its line break."""
        start = self._line_starts[number - 1]
        following = number < len(self._line_starts)
        end = self._line_starts[number] if following else len(self.text)
        return self.text[start:end].rstrip("\r\n")
