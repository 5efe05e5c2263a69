"""Flat lists, such as `[1, 1/3, 0.5]` and `{a, b, "c"}`, as single tokens.

They may be very long. A list with comments, numbers out of range or reserved words is not read
here but item by item, by the parser, which reports errors.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import islice

from fgg.grammar.index import RESERVED
from fgg.grammar.spans import Span
from fgg.grammar.values import Number

# Possessive throughout: nothing is tried twice, whatever the text.
_EXPONENT = r"[eE](?:-[0-3]?+[0-9]{1,2}+|\+?+[0-2]?+[0-9]{1,2}+)"
_WEIGHT = (
    r"[+-]?+(?:[0-9]{1,9}+(?:\.[0-9]{0,99}+)?+|\.[0-9]{1,99}+)"
    rf"(?:{_EXPONENT}|/0*+[1-9][0-9]{{0,99}}+)?+"
)
_CONSTANT = r'(?:[^\W\d]\w*+|[0-9]++|`[^`\n]++`|"(?:\\.|[^"\\\n])*+")'
_ROW = re.compile(rf"\[\s*+{_WEIGHT}\s*+(?:,\s*+{_WEIGHT}\s*+)*+(?:,\s*+)?+\]")
_VALUES = re.compile(rf"\{{\s*+{_CONSTANT}\s*+(?:,\s*+{_CONSTANT}\s*+)*+(?:,\s*+)?+\}}")
_ITEM = re.compile(r"[^\s,\[\]]+")
_VALUE = re.compile(_CONSTANT)
_WORD = re.compile(rf"(?<![\w`])(?:{'|'.join(sorted(RESERVED))})(?!\w)")


def row_end(text: str, start: int) -> int | None:
    """Return the end of the flat list of numbers that begins at `start`; None if it is not one."""
    match = _ROW.match(text, start)
    return match.end() if match else None


def values_end(text: str, start: int) -> int | None:
    """Return the end of the list of domain values that begins at `start`; None if it is not one."""
    match = _VALUES.match(text, start)
    if match is None or _WORD.search(text, start, match.end()):
        return None
    return match.end()


def row_numbers(text: str) -> tuple[Number, ...]:
    """Return the numbers of a flat list."""
    items = text[1:-1].split(",")
    if not items[-1] or items[-1].isspace():
        items.pop()
    if "/" in text:
        return tuple(map(_number, items))
    if "-" in text:
        return tuple([float(item) + 0.0 for item in items])  # no negative zeros
    return tuple(map(float, items))


def _number(item: str) -> Number:
    over, slash, under = item.partition("/")
    return Fraction(over.strip()) / int(under) if slash else float(item) + 0.0


def row_place(text: str, index: int) -> Span | None:
    """Return the span of an item in the text of a flat list of numbers."""
    match = next(islice(_ITEM.finditer(text), index, None), None)
    return None if match is None else Span(*match.span())


def value_places(text: str, start: int, end: int) -> list[Span]:
    """Return the spans of the values of a list."""
    return [Span(*match.span()) for match in _VALUE.finditer(text, start, end)]
