"""Scores of base pairs of RNA structures: a pair counts if both its positions are right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fgg.scores.counting import Score, compare, mean_f1, pooled

Pairs = Iterable[tuple[int, int]]


@dataclass(frozen=True)
class PairScore:
    """The scores of sequences, in order."""

    scores: tuple[Score, ...]

    @property
    def mean_f1(self) -> float:
        """The mean F1 of sequences; one without pairs, gold or predicted, has F1 1."""
        return mean_f1(self.scores)

    @property
    def corpus(self) -> Score:
        """Precision (PPV), recall (sensitivity) and F1 of all pairs together."""
        return pooled(self.scores)


def pair_score(gold: Iterable[Pairs], predicted: Iterable[Pairs]) -> PairScore:
    """The scores of pairs (i, j); which of the two comes first does not matter."""
    return PairScore(
        tuple(
            compare(_sorted(right), _sorted(guess))
            for right, guess in zip(gold, predicted, strict=True)
        )
    )


def _sorted(pairs: Pairs) -> set[tuple[int, int]]:
    return {(min(i, j), max(i, j)) for i, j in pairs}
