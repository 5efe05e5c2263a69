"""Pieces of HTML for notebooks; all text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from fgg.draw import TooLarge
from fgg.draw.picture import Picture
from fgg.draw.scene import clean


def text(words: str) -> str:
    """Words as HTML."""
    return escape(clean(words))


def heading(words: str) -> str:
    """A title in bold."""
    return f"<p><strong>{text(words)}</strong></p>"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a row of titles."""
    head = "".join(f"<th>{text(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def preformatted(lines: str) -> str:
    """Lines in a font of one width."""
    return f"<pre>{escape(lines)}</pre>"


def scrolled(svg: str) -> str:
    """A picture that scrolls if it is wider than the page."""
    return f'<div style="overflow-x:auto">{svg}</div>'


def picture_or_reason(draw: Callable[[], Picture]) -> str:
    """A picture, or the reason why there is none."""
    try:
        return scrolled(draw().svg())
    except TooLarge as error:
        return f"<p>{text(str(error))}</p>"
