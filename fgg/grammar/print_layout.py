"""How source text is broken into lines: bracketed groups, and rows of pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

WIDTH = 100
STEP = 2


@dataclass(frozen=True)
class Group:
    """Items between an opening and a closing text, separated by commas."""

    opening: str
    items: tuple[Piece, ...]
    closing: str


Piece = str | Group


def flat(piece: Piece, limit: int) -> str | None:
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


def lay_out(piece: Piece, indent: int, column: int, tail: int = 0) -> str:
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
