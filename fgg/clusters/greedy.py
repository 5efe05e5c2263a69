"""Brown clustering: greedy merging of word classes that keeps the most mutual information.

P. Brown et al. 1992, *Class-based n-gram models of natural language*, section 3, in its form with a
window: the c most frequent words begin as clusters of their own; each further word, in order of
frequency, becomes cluster c + 1, and the two clusters of least loss are merged. Merging goes on at
the end until one cluster is left: these merges are the hierarchy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgg.clusters.counts import Bigrams
from fgg.clusters.window import Window

Ints = NDArray[np.int64]
Progress = Callable[[int, int], None]  # words done, words in all

REFRESH = 4096  # words after which the table of losses is made anew


@dataclass(frozen=True)
class _Neighbours:
    """The words after (or before) each word, with counts: of word i from ends[i] to ends[i+1]."""

    ends: Ints
    words: Ints
    counts: Ints

    def of(self, word: int) -> tuple[Ints, Ints]:
        here = slice(self.ends[word], self.ends[word + 1])
        return self.words[here], self.counts[here]


def _neighbours(here: Ints, there: Ints, counts: Ints, many: int) -> _Neighbours:
    order = np.argsort(here, kind="stable")
    ends = np.searchsorted(here[order], np.arange(many + 1))
    return _Neighbours(ends, there[order], counts[order])


class _Merging:
    """The clusters on their way: which words each slot of the window holds."""

    def __init__(self, bigrams: Bigrams, clusters: int) -> None:
        many = len(bigrams.words)
        self.bigrams = bigrams
        self.window = Window(min(clusters, many) + 1, int(bigrams.tokens.sum()))
        self.after = _neighbours(bigrams.left, bigrams.right, bigrams.pairs, many)
        self.before = _neighbours(bigrams.right, bigrams.left, bigrams.pairs, many)
        self.slot = np.full(many, -1)  # of each word that is in the window
        self.members: list[list[int]] = [[] for _ in range(self.window.size)]
        self.free = list(range(self.window.size - 1, -1, -1))

    def add(self, word: int) -> None:
        """Let a word be a cluster of its own."""
        place = self.free.pop()
        self.slot[word] = place
        self.members[place] = [word]
        row, column = self._counts(self.after, word), self._counts(self.before, word)
        self.window.add(place, row, column, int(self.bigrams.tokens[word]))

    def _counts(self, neighbours: _Neighbours, word: int) -> Ints:
        others, times = neighbours.of(word)
        places = self.slot[others]
        known = places >= 0
        return np.bincount(places[known], times[known], self.window.size).astype(np.int64)

    def merge(self) -> tuple[int, int]:
        """Merge the two clusters of least loss; the slot that holds both now, and the free one."""
        kept, gone = self.window.cheapest()
        neighbours = np.count_nonzero(self.window.counts[[kept, gone]], axis=1)
        if neighbours[0] < neighbours[1]:
            kept, gone = gone, kept  # the work is where `gone` has neighbours
        self.window.merge(kept, gone)
        self.slot[self.members[gone]] = kept
        self.members[kept] += self.members[gone]
        self.members[gone] = []
        self.free.append(gone)
        return kept, gone


def greedy(
    bigrams: Bigrams, clusters: int, progress: Progress | None = None
) -> tuple[Ints, tuple[str, ...]]:
    """The cluster of each word, and the bit string of each cluster; clusters are in bit order.

    `progress` is called now and then. Of pairs of equal loss the one in the first slots is merged,
    so the result is the same on every run.
    """
    many = len(bigrams.words)
    merging = _Merging(bigrams, clusters)
    for word in range(many):
        merging.add(word)
        if word >= clusters:
            merging.merge()
        if word % REFRESH == REFRESH - 1:
            merging.window.recompute()
        if progress is not None and (word % 64 == 0 or word == many - 1):
            progress(word + 1, many)
    slots = merging.slot.copy()
    bits = _hierarchy(merging)
    names = sorted(bits.values())
    place = np.zeros(merging.window.size, np.int64)
    for number, name in bits.items():
        place[number] = names.index(name)
    return place[slots], tuple(names)


def _hierarchy(merging: _Merging) -> dict[int, str]:
    """The bit string of the cluster in each slot: the way to it from the last merge of all."""
    tree: dict[int, list[int]] = {int(s): [int(s)] for s in np.flatnonzero(merging.window.active)}
    bits: dict[int, list[str]] = {slot: [] for slot in tree}
    for _ in range(len(tree) - 1):
        kept, gone = merging.merge()
        for bit, side in (("0", kept), ("1", gone)):
            for slot in tree[side]:
                bits[slot].append(bit)
        tree[kept] += tree.pop(gone)
    return {slot: "".join(reversed(way)) or "0" for slot, way in bits.items()}
