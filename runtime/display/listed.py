"""Lists of derivations that notebooks draw."""

from __future__ import annotations

from typing import TypeVar

from fgg.draw.html import heading, picture_or_reason
from fgg.runtime.derive.derivation import Derivation

T = TypeVar("T")
MAX_DRAWN = 20


class Derivations(list[T]):
    """A list of derivations, or of such lists, one for each item; notebooks draw each of them."""

    def _repr_html_(self) -> str:
        parts: list[str] = []
        for number, element in enumerate(self[:MAX_DRAWN]):
            if isinstance(element, Derivation):
                parts.append(heading(f"{number}: log-weight {element.log_weight:.6g}"))
                parts.append(picture_or_reason(element.draw))
            elif isinstance(element, list):
                parts.append(heading(f"item {number}"))
                parts.append(Derivations(element)._repr_html_())
        if len(self) > MAX_DRAWN:
            parts.append(heading(f"and {len(self) - MAX_DRAWN:,} more"))
        return "".join(parts)
