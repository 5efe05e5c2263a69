"""New names as a pure function of the names taken, so that output is the same on every run."""

from __future__ import annotations

from collections.abc import Collection, Container


def fresh(wanted: str, taken: Container[str]) -> str:
    """A name that is not taken: `wanted`, or with the first number from 2 up that is free."""
    if wanted not in taken:
        return wanted
    number = 2
    while f"{wanted}_{number}" in taken:
        number += 1
    return f"{wanted}_{number}"


def is_safe(name: str) -> bool:
    """Whether the language can write a name, at least between backquotes."""
    return "`" not in name and name.splitlines() == [name] and not any(map(_is_surrogate, name))


def safe_names(names: Collection[str]) -> dict[str, str]:
    """The names of a namespace, each with one that the language can write: itself if possible."""
    safe = {name: name for name in names if is_safe(name)}
    for name in names:
        if name not in safe:
            kept = "".join("_" if c == "`" or _is_surrogate(c) else c for c in name)
            safe[name] = fresh("_".join(kept.splitlines()) or "_", set(safe.values()))
    return safe


def _is_surrogate(char: str) -> bool:
    return "\ud800" <= char <= "\udfff"
