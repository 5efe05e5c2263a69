"""Lists of derivations that notebooks draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from fgg.draw.html import heading, picture_or_reason
from fgg.inputs.written import WrittenWords, of_item
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


def with_words(
    items: Iterable[Iterable[Derivation]], written: WrittenWords
) -> list[list[Derivation]]:
    """The derivations of each item, which know how the words of the item were written."""
    lists: Derivations[list[Derivation]] = Derivations()
    for number, derivations in enumerate(items):
        words = of_item(written, number)
        lists.append(Derivations(each.with_words(words) for each in derivations))
    return lists
