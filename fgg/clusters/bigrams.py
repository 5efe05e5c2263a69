"""Bigram counts: how often each word follows each other word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

CHUNK = 1 << 20  # tokens that are read before their pairs are added up


@dataclass(frozen=True, kw_only=True)
class Bigrams:
    """Words by descending frequency, and how often each pair of them is adjacent.

    `tokens[i]` is the number of tokens of word i; equally frequent words are in order of their
    first occurrence. Word `left[p]` comes before word `right[p]` `pairs[p]` times; pairs are sorted
    by (left, right).
    """

    words: tuple[str, ...]
    tokens: Ints
    left: Ints
    right: Ints
    pairs: Ints

    @property
    def total(self) -> int:
        """The number of adjacent pairs of tokens."""
        return int(self.pairs.sum())


def count_bigrams(sentences: Iterable[Sequence[str]], *, across: bool = True) -> Bigrams:
    """The bigrams of sentences, which are read once.

    With `across`, the text is one stream: the last word of a sentence precedes the first of the
    next. Memory grows with the number of different pairs, not of tokens.
    """
    number: dict[str, int] = {}
    runs = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]  # pairs as numbers, and their counts
    tokens = np.zeros(0, np.int64)
    for left, right, seen in _chunks(sentences, number, across):
        runs.append(np.unique(left << 32 | right, return_counts=True))
        while len(runs) > 1 and len(runs[-2][0]) < 2 * len(runs[-1][0]):
            runs.append(_added(*runs.pop(), *runs.pop()))  # of similar size: a pair moves rarely
        tokens = np.pad(tokens, (0, len(number) - len(tokens)))
        tokens += np.bincount(seen, minlength=len(number))
    while len(runs) > 1:
        runs.append(_added(*runs.pop(), *runs.pop()))
    keys, pairs = runs[0]
    order = np.argsort(-tokens, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    left, right = place[keys >> 32], place[keys & 0xFFFFFFFF]
    by_place = np.lexsort((right, left))
    words = list(number)
    return Bigrams(
        words=tuple(words[i] for i in order),
        tokens=tokens[order],
        left=left[by_place],
        right=right[by_place],
        pairs=pairs[by_place],
    )


def _added(keys: Ints, counts: Ints, more: Ints, times: Ints) -> tuple[Ints, Ints]:
    """The union of two sorted lists of keys, with counts added up."""
    joined, inverse = np.unique(np.concatenate([keys, more]), return_inverse=True)
    total = np.zeros(len(joined), np.int64)
    np.add.at(total, inverse, np.concatenate([counts, times]))
    return joined, total


def _chunks(
    sentences: Iterable[Sequence[str]], number: dict[str, int], across: bool
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """(left words, right words, all words) of each chunk of the text; extends `number`."""
    ids: list[int] = []
    cuts: list[int] = []  # where a sentence begins: no pair ends there
    new = 0  # how many of `ids` have not been counted as tokens yet
    for sentence in sentences:
        if not across:
            cuts.append(len(ids))
        ids += [number.setdefault(word, len(number)) for word in sentence]
        new += len(sentence)
        if new >= CHUNK:
            yield _pairs(ids, cuts, new)
            ids, cuts, new = ids[-1:], [], 0
    if new:
        yield _pairs(ids, cuts, new)


def _pairs(ids: list[int], cuts: list[int], new: int) -> tuple[Ints, Ints, Ints]:
    row = np.array(ids, np.int64)
    kept = np.ones(len(row) + 1, bool)
    kept[cuts] = False
    kept = kept[1 : len(row)]
    return row[:-1][kept], row[1:][kept], row[len(row) - new :]
