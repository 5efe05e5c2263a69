"""Weights, domain values and attributes as text, and how text is broken into lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fgg.grammar.index import is_plain_name, quote_name
from fgg.grammar.values import (
    ZERO,
    AttributeValue,
    Call,
    Constant,
    Exp,
    Eye,
    Load,
    Map,
    Nested,
    Number,
    Sparse,
    Table,
    Uniform,
    Value,
    Word,
)

_WHOLE = re.compile("[0-9]+")


def print_number(number: Number) -> str:
    """A weight in the shortest form that reads back the same: `1`, `0.25`, `1/3`, `1e-9`.

    -inf, the logarithm of 0, is `zero`.
    """
    if isinstance(number, Fraction):
        return f"{number.numerator}/{number.denominator}"
    if number == float("-inf"):
        return ZERO
    text = repr(float(number))
    mantissa, _, exponent = text.partition("e")
    return mantissa.removesuffix(".0") + (f"e{int(exponent)}" if exponent else "")


def print_string(text: str) -> str:
    """A text between double quotes; invisible characters are escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in quoted)


def print_constant(text: str) -> str:
    """A domain value: a bare name or number where possible, else a string."""
    if is_plain_name(text) or _WHOLE.fullmatch(text):
        return text
    return print_string(text)


def value_piece(value: Value, axes: Sequence[Sequence[str]]) -> Layout:
    """A factor's value; `axes` gives the names of the values of each of its domains."""
    match value:
        case Constant(number):
            return print_number(number)
        case Table(entries):
            return _nested(entries)
        case Exp(entries):
            return Bracketed("exp(", (_nested(entries),), ")")
        case Sparse(entries):
            # The values of a union or product can share a name; then only a full table is clear.
            if any(len(set(names)) < len(names) for names in axes):
                return _dense(dict(entries), [len(names) for names in axes], ())
            return _sparse("", entries, axes)
        case Load(path):
            return f"load({print_string(path)})"
        case Uniform():
            return "uniform"
        case Eye():
            return "eye"
        case Map():
            return map_piece(value)


def map_piece(value: Map) -> Layout:
    """A function as it is written: `map("clusters.txt")`, `map(cycle)`, `map(0, 1, 1)`."""
    if value.path:
        return f"map({print_string(value.path)})"
    if value.pattern:
        return f"map({value.pattern})"
    names = (str(x) if isinstance(x, int) else _block_name(x) for x in value.values)
    return Bracketed("map(", tuple(names), ")")


def _block_name(name: str) -> str:
    return quote_name(name) if is_plain_name(name) else print_string(name)


def _nested(entries: Nested) -> Layout:
    if isinstance(entries, tuple):
        return Bracketed("[", tuple(map(_nested, entries)), "]")
    return print_number(entries)


def _sparse(
    key: str, entries: Iterable[tuple[tuple[int, ...], Number]], axes: Sequence[Sequence[str]]
) -> Layout:
    groups: dict[int, list[tuple[tuple[int, ...], Number]]] = {}
    for position, number in entries:
        groups.setdefault(position[0], []).append((position[1:], number))
    items: list[Layout] = []
    for first, inner in groups.items():
        name = f"{print_constant(axes[0][first])}: "
        if len(axes) == 1:
            items.extend(name + print_number(number) for _, number in inner)
        else:
            items.append(_sparse(name, inner, axes[1:]))
    return Bracketed(key + "{", tuple(items), "}")


def _dense(
    entries: Mapping[tuple[int, ...], Number], shape: Sequence[int], position: tuple[int, ...]
) -> Layout:
    if len(position) == len(shape):
        return print_number(entries.get(position, 0.0))
    inner = (_dense(entries, shape, (*position, i)) for i in range(shape[len(position)]))
    return Bracketed("[", tuple(inner), "]")


def print_attribute(value: AttributeValue) -> str:
    """The value of an attribute."""
    if isinstance(value, str):
        return print_string(value)
    if isinstance(value, Word):
        return quote_name(value.name)
    if isinstance(value, Call):
        arguments = [print_attribute(item) for item in value.arguments]
        arguments += [f"{quote_name(k)}={print_attribute(item)}" for k, item in value.keywords]
        return f"{quote_name(value.name)}({', '.join(arguments)})"
    return print_number(value)


WIDTH = 100
STEP = 2


@dataclass(frozen=True)
class Bracketed:
    """Items between an opening and a closing text, separated by commas."""

    opening: str
    items: tuple[Layout, ...]
    closing: str


Layout = str | Bracketed


def flat(piece: Layout, limit: int) -> str | None:
    """The piece on one line, or None if it is longer than `limit`."""
    if isinstance(piece, str):
        return piece if len(piece) <= limit else None
    text = piece.opening
    for position, item in enumerate(piece.items):
        shown = flat(item, limit - len(text))
        if shown is None:
            return None
        text += shown if position == 0 else f", {shown}"
    text += piece.closing
    return text if len(text) <= limit else None


def lay_out(piece: Layout, indent: int, column: int, tail: int = 0) -> str:
    """The text of a piece that begins at `column`, broken where a line would be too long.

    `indent` is the indentation of the line it stands on, `tail` the room needed after it.
    """
    if isinstance(piece, str):
        return piece
    shown = flat(piece, WIDTH - column - tail)
    if shown is not None:
        return shown
    inner = indent + STEP
    pad = "\n" + " " * inner
    words = [item for item in piece.items if isinstance(item, str)]
    if len(words) == len(piece.items):
        body = fill([f"{word}," for word in words[:-1]] + words[-1:], inner, inner)
    else:
        body = f",{pad}".join(lay_out(item, inner, inner, 1) for item in piece.items)
    return f"{piece.opening}{pad}{body}\n{' ' * indent}{piece.closing}"


def fill(pieces: Iterable[str], indent: int, column: int) -> str:
    """The pieces separated by spaces, beginning at `column`, with line breaks before `WIDTH`."""
    text = ""
    for piece in pieces:
        first_line = piece.split("\n", 1)[0]
        if not text:
            text = piece
        elif column + 1 + len(first_line) > WIDTH:
            text += "\n" + " " * indent + piece
            column = indent
        else:
            text += " " + piece
            column += 1
        breaks = piece.rfind("\n")
        column = len(piece) - breaks - 1 if breaks >= 0 else column + len(piece)
    return text
