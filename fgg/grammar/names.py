"""New names as a pure function of the names taken, so that output is the same on every run."""

from __future__ import annotations

from collections.abc import Container


def fresh(wanted: str, taken: Container[str]) -> str:
    """A name that is not taken: `wanted`, or with the first number from 2 up that is free."""
    if wanted not in taken:
        return wanted
    number = 2
    while f"{wanted}_{number}" in taken:
        number += 1
    return f"{wanted}_{number}"
