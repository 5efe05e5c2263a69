"""The ranges of a sweep, `d=2..8 k=2..d L=2..9`, and the points they have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fgg.diagnostics import Diagnostic, GrammarError, refuse

MAX_POINTS = 1_000_000
MAX_DIGITS = 6
_END = re.compile(r"([A-Za-z_]\w*)?\s*([+-]?\s*\d+)?")


@dataclass(frozen=True)
class End:
    """An end of a range: a number, or an earlier name and what is added to it."""

    name: str | None
    number: int

    def at(self, known: Mapping[str, int]) -> int:
        """Its value, where earlier names have these."""
        return self.number + (0 if self.name is None else known[self.name])


@dataclass(frozen=True)
class Range:
    """A name with spans of values, both ends included."""

    name: str
    spans: tuple[tuple[End, End], ...]

    def values(self, known: Mapping[str, int]) -> list[int]:
        """Its values in order, where earlier names have these."""
        found: dict[int, None] = {}
        for low, high in self.spans:
            found |= dict.fromkeys(range(low.at(known), high.at(known) + 1))
        return list(found)


def read_ranges(words: Sequence[str]) -> tuple[Range, ...]:
    """The ranges that words like `k=2..d` or `n=3,5` describe. Raises GrammarError (F457)."""
    found: list[Range] = []
    for word in words:
        name, equals, text = word.partition("=")
        names = [item.name for item in found]
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            refuse("F457", f"`{word[:60]}` is no range", "ranges are like `d=2..8`, `k=2..d`")
        if name in names:
            refuse("F457", f"`{name}` has two ranges")
        spans = []
        for part in text.split(","):
            low, dots, high = part.partition("..")
            start = _end(word, low, names)
            spans.append((start, _end(word, high, names) if dots else start))
        found.append(Range(name, tuple(spans)))
    return tuple(found)


def _end(word: str, text: str, names: Sequence[str]) -> End:
    match = _END.fullmatch(text.strip())
    if match is None or not text.strip() or len(text) > 60:
        refuse("F457", f"`{word[:60]}` is no range", "ends are numbers or earlier names, `2..d-1`")
    name, digits = match.groups()
    number = (digits or "0").replace(" ", "")
    if name is None and not number.isdigit():
        refuse("F457", f"`{word[:60]}`: numbers are from 0 up")
    if len(number.lstrip("+-")) > MAX_DIGITS:
        refuse("F457", f"`{word[:60]}`: a number is too large")
    if name is not None and digits is not None and number.isdigit():
        refuse("F457", f"`{word[:60]}` is no range", "ends are numbers or earlier names, `2..d-1`")
    if name is not None and name not in names:
        refuse("F457", f"`{word[:60]}`: `{name}` has no earlier range")
    return End(name, int(number))


def points(ranges: Sequence[Range]) -> Iterator[dict[str, int]]:
    """Every combination of values, the first range varying slowest. Raises GrammarError."""
    count = 0
    for point in _points(ranges, {}):
        count += 1
        if count > MAX_POINTS:
            refuse("F457", f"the ranges have more than {MAX_POINTS:,} points")
        yield point


def _points(ranges: Sequence[Range], known: dict[str, int]) -> Iterator[dict[str, int]]:
    if not ranges:
        yield known
        return
    first, *rest = ranges
    for value in first.values(known):
        yield from _points(rest, {**known, first.name: value})


def refused(message: str, help: str = "") -> GrammarError:
    """The error of a sweep that cannot be made."""
    return GrammarError([Diagnostic(code="F457", message=message, help=help)])
