"""Statements of C++ and how they are laid out: loops, braces where need be, at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

INDENT = "  "
WIDTH = 100


@dataclass(frozen=True)
class For:
    """A loop, or a condition: its head, and what stands in it."""

    head: str
    body: tuple[Statement, ...]


Statement = str | For


def nested(heads: Sequence[str], body: Sequence[Statement]) -> tuple[Statement, ...]:
    """Statements in loops, the first of which is the outermost."""
    for head in reversed(heads):
        body = (For(head, tuple(body)),)
    return tuple(body)


def laid_out(statements: Sequence[Statement], depth: int = 0) -> Iterator[str]:
    """The lines of statements."""
    for statement in statements:
        if isinstance(statement, str):
            yield from wrapped(statement, depth)
        else:
            yield from _loop(statement, depth)


def _loop(loop: For, depth: int) -> Iterator[str]:
    """The lines of a loop: heads with nothing between them share a line."""
    heads, body = loop.head, loop.body
    while len(body) == 1 and isinstance(body[0], For):
        if len(heads) + len(body[0].head) + len(INDENT) * depth >= WIDTH - 20:
            break
        heads, body = f"{heads} {body[0].head}", body[0].body
    indent = INDENT * depth
    if len(body) > 1 or not heads:
        yield f"{indent}{heads} {{" if heads else f"{indent}{{"
        yield from laid_out(body, depth + 1)
        yield f"{indent}}}"
        return
    (only,) = body
    if isinstance(only, str) and len(indent) + len(heads) + 1 + len(only) <= WIDTH:
        yield f"{indent}{heads} {only}"
    else:
        yield indent + heads
        yield from laid_out(body, depth + 1)


def wrapped(line: str, depth: int) -> Iterator[str]:
    """A statement in lines of at most `WIDTH` columns, broken where it is the least nested."""
    indent, more = INDENT * depth, INDENT * (depth + 2)
    while len(indent) + len(line) > WIDTH:
        place = _break(line, WIDTH - len(indent))
        if not place:
            break
        yield indent + line[:place]
        line, indent = line[place + 1 :], more
    yield indent + line


def _break(line: str, width: int) -> int:
    """The space to break a line at: in as few brackets as can be, and as late.

    If what is assigned fits into the next line as a whole, it goes there.
    """
    places, depth = [(0, 0)], 0
    for place, letter in enumerate(line[: width + 1]):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == " " and place > width // 3:
            if not depth and line[place - 1] == "=" and len(line) - place < width:
                return place
            places.append((-depth, place))
    return max(places[1:], default=(0, 0))[1]


def comment(text: str, depth: int, inset: str = "") -> Iterator[str]:
    """A comment in lines of at most `WIDTH` columns; its text may be set in."""
    start = indent = f"{INDENT * depth}// {inset}"
    while len(start) + len(text) > WIDTH:
        place = _break(text, WIDTH - len(start))
        if not place:
            break
        yield start + text[:place]
        text, start = text[place + 1 :], indent + INDENT
    yield start + text
