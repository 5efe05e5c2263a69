"""Precision, recall and F1 of things that are found or not."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """How many things are right, of those predicted and of those in the gold standard.

    All values lie between 0 and 1. Where nothing is predicted precision is 1, where there is
    nothing to find recall is 1: nothing is wrong and nothing is missing.
    """

    right: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """The share of what is predicted that is right."""
        return self.right / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """The share of what there is that is found."""
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
    """The score of one item: two sets of things."""
    known, found = set(gold), set(predicted)
    return Score(len(known & found), len(found), len(known))


def pooled(scores: Iterable[Score]) -> Score:
    """The score of all items together: what is counted is added up."""
    return sum(scores, NOTHING)


def mean_f1(scores: Iterable[Score]) -> float:
    """The mean of the F1 of the items; 0 if there are none."""
    values = [score.f1 for score in scores]
    return sum(values) / len(values) if values else 0.0
