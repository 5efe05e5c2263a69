"""The choice of a space by the work of a batch.

What is done once for a set of weights costs the same for one token and for a thousand; what is done
for each item does not. In rank space the first is much and the second little, so rank space pays
from some number of tokens on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SpaceWork:
    """The multiply-adds of a space: `once` for a set of weights, and for `each` item of a batch."""

    once: int
    each: int

    def of(self, items: int) -> int:
        """The multiply-adds of a batch."""
        return self.once + items * self.each


def cheapest(works: Mapping[str, SpaceWork], items: int) -> str:
    """The space with the fewest multiply-adds for a batch; the first of equal ones."""
    return min(works, key=lambda space: works[space].of(items))


def turns(works: Mapping[str, SpaceWork]) -> tuple[tuple[int, str], ...]:
    """The cheapest spaces by the size of a batch: from how many items on, and which."""
    items, space = 1, cheapest(works, 1)
    found = [(items, space)]
    while True:
        here = works[space]
        later = [
            ((other.once - here.once) // (here.each - other.each) + 1, other.each, name)
            for name, other in works.items()
            if other.each < here.each
        ]
        if not later:
            return tuple(found)
        items, _, space = min(later)
        found.append((items, space))
