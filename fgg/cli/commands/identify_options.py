"""What `fggc identify` reads from its options: lengths, positions, directions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from fgg.cli import Usage
from fgg.cli.target import assignments

if TYPE_CHECKING:
    from fgg.api.identify import Number, Position


_WEIGHT = re.compile(r"[+-]?[0-9./]{1,40}([eE][+-]?[0-9]{1,3})?")


def read_length(groups: Sequence[Sequence[str]]) -> int | dict[str, int] | None:
    """The length that `--length 4` or `--length n=4` gives."""
    words = [word for group in groups for word in group]
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        try:
            return int(words[0])
        except ValueError:
            raise Usage(f"`--length {words[0][:60]}`: a whole number is expected") from None
    return assignments(groups, "--length")


def read_positions(text: str | None) -> list[Position] | None:
    """The positions that `--positions 1,3` or `x:1,y:2` gives."""
    if text is None:
        return None
    found: list[Position] = []
    for part in text.split(","):
        name, colon, number = part.strip().rpartition(":")
        if not re.fullmatch("[0-9]{1,9}", number) or (colon and not name):
            raise Usage(f"`--positions {text[:60]}`: positions are like `1,3` or `x:1,y:2`")
        found.append((name, int(number)) if colon else int(number))
    return found


def read_direction(text: str | None) -> list[Number] | int | None:
    """The direction that `--direction e2` or `--direction 0.5,1/2` gives."""
    if text is None:
        return None
    if re.fullmatch("e[0-9]{1,9}", text):
        return int(text[1:])
    parts = [part.strip() for part in text.split(",")]
    try:
        # A long exponent would be written out, digit by digit.
        if not all(_WEIGHT.fullmatch(part) for part in parts):
            raise ValueError
        return [Fraction(part) for part in parts]
    except (ValueError, ZeroDivisionError):
        raise Usage(f"`--direction {text[:60]}`: like `e2`, or `0.5,0.25,1/4`") from None
