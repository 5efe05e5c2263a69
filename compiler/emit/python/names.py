"""Identifiers of Python for the names of a grammar."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from fgg.compiler.emit.readable import LETTERS


class Names:
    """Python identifiers, each given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.known: dict[tuple[str, str], str] = {}

    def get(self, kind: str, name: str, wanted: str | None = None) -> str:
        """The identifier of a name of some kind, which is like `wanted` or like the name."""
        key = (kind, name)
        if key not in self.known:
            self.known[key] = self.fresh(identifier(wanted or name))
        return self.known[key]

    def fresh(self, wanted: str) -> str:
        """An identifier that is not taken."""
        name, number = wanted, 2
        while name in self.taken:
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        return name

    def letter(self, kind: str, name: str) -> str:
        """A letter for a name, or an identifier if all are taken."""
        key = (kind, name)
        if key not in self.known:
            free = next((letter for letter in LETTERS if letter not in self.taken), "M")
            self.known[key] = self.fresh(free)
        return self.known[key]


def identifier(name: str) -> str:
    """A name with an underscore in place of what no identifier has."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name.rstrip("'")) or "x"
    if plain in ("I", "O", "l") or keyword.iskeyword(plain) or keyword.issoftkeyword(plain):
        plain += "_"  # easily taken for digits, or for Python's own
    return plain if plain.isidentifier() else f"_{plain}"
