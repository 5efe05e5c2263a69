"""Flat lists that are read at once, without a token for each item.

`[1, 1/3, 0.5]` and `{a, b, "c"}` may be very long. What is out of the ordinary (comments, numbers
out of range, reserved words) is left to the parser, which has words for it.
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
    """Where the flat list of numbers ends that begins with the bracket at `start`, if it is one."""
    found = _ROW.match(text, start)
    return found.end() if found else None


def values_end(text: str, start: int) -> int | None:
    """Where the list of domain values ends that begins with the brace at `start`, if it is one."""
    found = _VALUES.match(text, start)
    if found is None or _WORD.search(text, start, found.end()):
        return None
    return found.end()


def row_numbers(text: str) -> tuple[Number, ...]:
    """The numbers of a flat list."""
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
    """Where in a flat list of numbers an item stands."""
    found = next(islice(_ITEM.finditer(text), index, None), None)
    return None if found is None else Span(*found.span())


def value_places(text: str, start: int, end: int) -> list[Span]:
    """Where the values of a list stand."""
    return [Span(*found.span()) for found in _VALUE.finditer(text, start, end)]
