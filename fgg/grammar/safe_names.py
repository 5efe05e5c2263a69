"""Names that the language can write, and replacements for those that it cannot."""

from __future__ import annotations

from collections.abc import Collection

from fgg.grammar.names import fresh


def is_safe(name: str) -> bool:
    """Whether the language can write a name, at least between backquotes."""
    return "`" not in name and name.splitlines() == [name] and not any(map(_is_surrogate, name))


def safe_names(names: Collection[str]) -> dict[str, str]:
    """The names of a namespace, each with one that the language can write: itself if possible."""
    found = {name: name for name in names if is_safe(name)}
    for name in names:
        if name not in found:
            kept = "".join("_" if c == "`" or _is_surrogate(c) else c for c in name)
            found[name] = fresh("_".join(kept.splitlines()) or "_", set(found.values()))
    return found


def _is_surrogate(char: str) -> bool:
    return "\ud800" <= char <= "\udfff"
