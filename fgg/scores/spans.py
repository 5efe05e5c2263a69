"""Unlabelled F1 of phrases, as unsupervised parsing reports it, and the trees to compare with.

The convention: labels are cut off and a span counts once; spans of one word and the span of the
whole sentence, which every tree has, do not count; sentences of one word are left out. A sentence
of two words has no span that counts, and F1 1. *S-F1* is the mean over sentences, *corpus F1*
that of all spans together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from fgg.scores.counting import Score, compare, mean_f1, pooled

Spans = Iterable[Sequence[Any]]  # (start, end) or (start, end, label), half open
Pair = tuple[int, int]


@dataclass(frozen=True)
class SpanScore:
    """The scores of the sentences that count, in order."""

    scores: tuple[Score, ...]

    @property
    def sentence_f1(self) -> float:
        """S-F1: the mean F1 of sentences."""
        return mean_f1(self.scores)

    @property
    def corpus(self) -> Score:
        """Precision, recall and F1 of all spans together."""
        return pooled(self.scores)


def plain_spans(spans: Spans, length: int) -> set[Pair]:
    """The spans that count."""
    pairs = {(int(span[0]), int(span[1])) for span in spans}
    return {(i, j) for i, j in pairs if j - i > 1 and (i, j) != (0, length)}


def span_score(
    gold: Iterable[Spans], predicted: Iterable[Spans], lengths: Sequence[int]
) -> SpanScore:
    """The score of the spans of sentences of these lengths."""
    found = []
    for right, guess, length in zip(gold, predicted, lengths, strict=True):
        if length > 1:
            found.append(compare(plain_spans(right, length), plain_spans(guess, length)))
    return SpanScore(tuple(found))


def left_branching(length: int) -> set[Pair]:
    """The spans of the tree in which every phrase begins with the first word."""
    return {(0, end) for end in range(2, length + 1)}


def right_branching(length: int) -> set[Pair]:
    """The spans of the tree in which every phrase ends with the last word."""
    return {(start, length) for start in range(length - 1)}


def random_tree(length: int, seed: int | str) -> set[Pair]:
    """The spans of a binary tree; from the root on, each split is drawn uniformly."""
    draw = Random(seed)
    found: set[Pair] = set()
    waiting = [(0, length)]
    while waiting:
        start, end = waiting.pop()
        if end - start < 2:
            continue
        found.add((start, end))
        middle = draw.randrange(start + 1, end)
        waiting += [(start, middle), (middle, end)]
    return found


def oracle_binary(gold: Spans, length: int) -> set[Pair]:
    """The spans of a binary tree that has all spans of the gold tree: no binary tree does better.

    The children of a phrase that has more than two are branched to the right.
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
    found: set[Pair] = set()
    for (start, end), parts in children.items():
        inside = {place for low, high in parts for place in range(low + 1, high)}
        found |= {(i, end) for i in range(start, end - 1) if i not in inside}
    return found
