"""Precision, recall and F1 of sets of things; base pairs of RNA structures; segmentations."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

Pairs = Iterable[tuple[int, int]]
Segments = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Score:
    """The number of things predicted, of gold things, and of those that are both (`right`).

    Precision is 1 if nothing is predicted, and recall is 1 if there is no gold thing.
    """

    right: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """The share of the predicted things that are right."""
        return self.right / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """The share of the gold things that are predicted."""
        return self.right / self.gold if self.gold else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.right + other.right, self.predicted + other.predicted, self.gold + other.gold
        )


NOTHING = Score(0, 0, 0)


def compare(gold: Collection[Hashable], predicted: Collection[Hashable]) -> Score:
    """The score of one item, from its sets of gold and predicted things."""
    right = set(gold) & set(predicted)
    return Score(len(right), len(set(predicted)), len(set(gold)))


@dataclass(frozen=True)
class ItemScores:
    """The scores of several items (sentences, sequences), in order."""

    scores: tuple[Score, ...]

    @property
    def mean_f1(self) -> float:
        """The mean F1 of the items; 0 if there are none."""
        values = [score.f1 for score in self.scores]
        return sum(values) / len(values) if values else 0.0

    @property
    def corpus(self) -> Score:
        """Precision, recall and F1 of the things of all items together."""
        return sum(self.scores, NOTHING)


def pair_score(gold: Iterable[Pairs], predicted: Iterable[Pairs]) -> ItemScores:
    """The scores of pairs (i, j), one set a sequence. The order of i and j does not matter."""
    return ItemScores(
        tuple(
            compare(_sorted(right), _sorted(guess))
            for right, guess in zip(gold, predicted, strict=True)
        )
    )


def _sorted(pairs: Pairs) -> set[tuple[int, int]]:
    return {(min(i, j), max(i, j)) for i, j in pairs}


@dataclass(frozen=True)
class SegmentScore:
    """The scores of boundaries and parts over a corpus, and how many items are all right.

    A part is right if both its ends are. The ends of an item do not count as boundaries.
    """

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
    """The scores of segmentations: (start, end) of each part, from the first character to the last.

    `weights` are the frequencies of the items.
    """
    boundaries = parts = NOTHING
    exact = items = 0
    many = repeat(1) if weights is None else weights
    for (right, guess), weight in zip(zip(gold, predicted, strict=True), many, strict=False):
        truth, parse = list(map(tuple, right)), list(map(tuple, guess))
        inner = compare([end for _, end in truth[:-1]], [end for _, end in parse[:-1]])
        boundaries += _times(inner, weight)
        parts += _times(compare(truth, parse), weight)
        exact += weight * (truth == parse)
        items += weight
    return SegmentScore(boundaries, parts, exact, items)


def _times(score: Score, weight: int) -> Score:
    return Score(score.right * weight, score.predicted * weight, score.gold * weight)
