"""Scores of segmentations: of the boundaries, and of the parts.

A segmentation is a sequence of (start, end) that covers an item from its first character to its
last. The ends of the item are no boundaries. Both scores count over the whole corpus; `weights`
say how often each item occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from fgg.scores.counting import NOTHING, Score, compare

Segments = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class SegmentScore:
    """Scores of the boundaries inside items, of the parts with both ends right, and of items."""

    boundaries: Score
    parts: Score
    exact: int
    items: int

    @property
    def accuracy(self) -> float:
        """The share of items with all boundaries right."""
        return self.exact / self.items if self.items else 0.0


def segment_score(
    gold: Iterable[Segments], predicted: Iterable[Segments], weights: Iterable[int] | None = None
) -> SegmentScore:
    """The scores of segmentations of items."""
    boundaries = parts = NOTHING
    exact = items = 0
    many = repeat(1) if weights is None else weights
    for (right, guess), weight in zip(zip(gold, predicted, strict=True), many, strict=False):
        known, found = list(map(tuple, right)), list(map(tuple, guess))
        inner = compare([end for _, end in known[:-1]], [end for _, end in found[:-1]])
        boundaries += _times(inner, weight)
        parts += _times(compare(known, found), weight)
        exact += weight * (known == found)
        items += weight
    return SegmentScore(boundaries, parts, exact, items)


def _times(score: Score, weight: int) -> Score:
    return Score(score.right * weight, score.predicted * weight, score.gold * weight)
