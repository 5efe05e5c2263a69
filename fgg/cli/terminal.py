"""Colours on terminals: on by themselves there, off with `NO_COLOR` (https://no-color.org)."""

from __future__ import annotations

import os
import re
from typing import TextIO

BOLD, DIM = "1", "2"
RED, GREEN, YELLOW, BLUE = "1;31", "32", "1;33", "1;34"


def is_colored(stream: TextIO | None) -> bool:
    """Whether colours are written to a stream."""
    if stream is None or stream.closed or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, color: str, stream: TextIO | None) -> str:
    """The text in a colour, if the stream has colours."""
    return f"\x1b[{color}m{text}\x1b[0m" if text and is_colored(stream) else text


_PARTS = (
    (re.compile(r"^error\[\w+\]"), RED),
    (re.compile(r"^warning\[\w+\]"), YELLOW),
    (re.compile(r"^ *-->"), BLUE),
    (re.compile(r"^ *\d* \|"), BLUE),
    (re.compile(r"^ +="), BLUE),
)


def painted_diagnostic(text: str, stream: TextIO | None) -> str:
    """A diagnostic as text, with colours if the stream has them."""
    if not is_colored(stream):
        return text
    return "\n".join(_painted_line(line, stream) for line in text.split("\n"))


def _painted_line(line: str, stream: TextIO | None) -> str:
    carets = re.match(r"^( *\d* \| *)(\^+.*)$", line)
    if carets:
        return painted(carets[1], BLUE, stream) + painted(carets[2], RED, stream)
    for pattern, color in _PARTS:
        match = pattern.match(line)
        if match:
            rest = line[match.end() :]
            bold = painted(rest, BOLD, stream) if color in (RED, YELLOW) else rest
            return painted(match[0], color, stream) + bold
    return line
