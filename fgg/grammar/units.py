"""Large numbers for people."""

from __future__ import annotations


def in_units(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "KB", "MB", "GB", "TB", "PB"):
        if count < 1000 or unit == "PB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def short(count: int) -> str:
    """A count in full up to seven digits, then with three."""
    return f"{count:,}" if count < 10**7 else f"{count:.2e}".replace("e+0", "e").replace("e+", "e")
