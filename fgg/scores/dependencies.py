"""Accuracy of heads. Heads are 0 for the root and i + 1 for the word at position i, as in CoNLL-U.

Every word counts, those of one-word sentences and the one that hangs from the root too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Heads = Sequence[int]


@dataclass(frozen=True)
class HeadScore:
    """How many words there are, and how many have the right head."""

    words: int
    directed_right: int
    undirected_right: int

    @property
    def directed(self) -> float:
        """The share of words with the right head."""
        return self.directed_right / self.words if self.words else 0.0

    @property
    def undirected(self) -> float:
        """The share of words whose edge to their head is there in either direction."""
        return self.undirected_right / self.words if self.words else 0.0


def head_score(gold: Iterable[Heads], predicted: Iterable[Heads]) -> HeadScore:
    """The score of the heads of sentences.

    Directed: the head is the gold head. Undirected: it is, or the word is the gold head of it.
    """
    words = directed = undirected = 0
    for right, guess in zip(gold, predicted, strict=True):
        words += len(right)
        for position, (true, found) in enumerate(zip(right, guess, strict=True)):
            same = true == found
            directed += same
            undirected += same or (found > 0 and right[found - 1] == position + 1)
    return HeadScore(words, directed, undirected)


def left_neighbours(length: int) -> list[int]:
    """The heads of a chain: of each word the one before it, and the root of the first."""
    return list(range(length))


def right_neighbours(length: int) -> list[int]:
    """The heads of a chain: of each word the one after it, and the root of the last."""
    return [*range(2, length + 1), 0][:length]
