"""Scores of parses, phrases by unlabelled F1 and heads by accuracy, and baselines for both.

Phrases follow the convention of unsupervised parsing. Labels are ignored, and a span counts once.
Spans of one word and the span of the whole sentence, which every tree has, do not count. Sentences
of one word are left out. A sentence of two words has no span that counts, and F1 1. *S-F1* is the
mean over sentences, *corpus F1* that of all spans together.

Heads are 0 for the root and i + 1 for the word at position i, as in CoNLL-U. Every word counts,
also in sentences of one word and if it hangs from the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from fgg.scores.f1 import ItemScores, compare

Spans = Iterable[tuple[int, int] | tuple[int, int, str]]  # (start, end) or with a label, half open
Pair = tuple[int, int]
Heads = Sequence[int]


def plain_spans(spans: Spans, length: int) -> set[Pair]:
    """The spans that count, without labels."""
    pairs = {(span[0], span[1]) for span in spans}
    return {(i, j) for i, j in pairs if j - i > 1 and (i, j) != (0, length)}


def span_score(
    gold: Iterable[Spans], predicted: Iterable[Spans], lengths: Sequence[int]
) -> ItemScores:
    """The scores of the spans of sentences with these lengths."""
    scores = []
    for right, guess, length in zip(gold, predicted, lengths, strict=True):
        if length > 1:
            scores.append(compare(plain_spans(right, length), plain_spans(guess, length)))
    return ItemScores(tuple(scores))


def left_branching(length: int) -> set[Pair]:
    """The spans of the tree in which every phrase begins with the first word."""
    return {(0, end) for end in range(2, length + 1)}


def right_branching(length: int) -> set[Pair]:
    """The spans of the tree in which every phrase ends with the last word."""
    return {(start, length) for start in range(length - 1)}


def random_tree(length: int, seed: int | str) -> set[Pair]:
    """The spans of a random binary tree: from the root down, each split is drawn uniformly."""
    draw = Random(seed)
    spans: set[Pair] = set()
    waiting = [(0, length)]
    while waiting:
        start, end = waiting.pop()
        if end - start < 2:
            continue
        spans.add((start, end))
        middle = draw.randrange(start + 1, end)
        waiting += [(start, middle), (middle, end)]
    return spans


def oracle_binary(gold: Spans, length: int) -> set[Pair]:
    """The spans of a binary tree that contains the gold tree; no binary tree scores better.

    Phrases of more than two children branch to the right.
    """
    kept = sorted({*plain_spans(gold, length), (0, length)}, key=lambda s: (s[0], -s[1]))
    children: dict[Pair, list[Pair]] = {span: [] for span in kept}
    above: list[Pair] = []
    for span in kept:  # parents first
        while above and above[-1][1] < span[1]:
            above.pop()
        if above:
            children[above[-1]].append(span)
        above.append(span)
    spans: set[Pair] = set()
    for (start, end), parts in children.items():
        inside = {place for low, high in parts for place in range(low + 1, high)}
        spans |= {(i, end) for i in range(start, end - 1) if i not in inside}
    return spans


@dataclass(frozen=True)
class HeadScore:
    """The number of words, and how many of them have the right head."""

    words: int
    directed_right: int
    undirected_right: int

    @property
    def directed(self) -> float:
        """The share of words with the right head."""
        return self.directed_right / self.words if self.words else 0.0

    @property
    def undirected(self) -> float:
        """The share of words whose edge to their head is right in either direction."""
        return self.undirected_right / self.words if self.words else 0.0


def head_score(gold: Iterable[Heads], predicted: Iterable[Heads]) -> HeadScore:
    """The score of the heads of sentences.

    Directed: the predicted head is the gold head. Undirected: or the word is the gold head of the
    predicted one.
    """
    words = directed = undirected = 0
    for right, guess in zip(gold, predicted, strict=True):
        words += len(right)
        for position, (true, head) in enumerate(zip(right, guess, strict=True)):
            same = true == head
            directed += same
            undirected += same or (head > 0 and right[head - 1] == position + 1)
    return HeadScore(words, directed, undirected)


def left_neighbours(length: int) -> list[int]:
    """The heads of a chain: each word hangs from the one before it, the first from the root."""
    return list(range(length))


def right_neighbours(length: int) -> list[int]:
    """The heads of a chain: each word hangs from the one after it, the last from the root."""
    return [*range(2, length + 1), 0][:length]
