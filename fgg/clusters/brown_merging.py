"""Brown clustering: greedy merging of word classes that keeps the most mutual information.

P. Brown et al. 1992, *Class-based n-gram models of natural language*, section 3, in its form with a
window: the c most frequent words begin as clusters of their own; each further word, in order of
frequency, becomes cluster c + 1, and the two clusters of least loss are merged. Merging goes on at
the end until one cluster is left: these merges are the hierarchy.

The losses of all merges are kept in a table. With counts n(i,k) of the clusters in the window, f(x)
= x log x, T(i) the number of pairs within the window that cluster i takes part in, on either side,
and n(i) its number of tokens, the average mutual information of the window times the number of
pairs is, up to what no merge changes,

    Σ_ik f(n(i,k)) - Σ_i T(i) log n(i).

Merging i and j loses L(i,j) = S(i,j) + K(i,j) - M(i,j), where, with g(x,y) = f(x) + f(y) - f(x+y),

    S(i,j) = Σ_k g(n(i,k), n(j,k)) + g(n(k,i), n(k,j))        over all k in the window
    K(i,j)   puts right the four terms of S with k = i, j, whose counts all become one
    M(i,j) = T(i) log n(i) + T(j) log n(j) - (T(i) + T(j)) log (n(i) + n(j)).

As g(x,0) = 0, a cluster k contributes to S only for those i, j that are both adjacent to it. So a
new word changes S(i,j) where i and j are its neighbours, and a word that joins a cluster changes it
in the rows of its neighbours: for a rare word these are few. M is computed for each choice. In all,
a word costs O(c²), mostly additions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgg.clusters.bigrams import Bigrams

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
OnProgress = Callable[[int, int], None]  # called with the words done and the words in all

TABLE = 1 << 22  # counts up to here have f in a table: a look-up is faster than a logarithm
REFRESH = 4096  # words after which the table of losses is recomputed


class MergeTable:
    """The clusters of the window in slots 0 … size-1, and the loss of each merge in counts·nats.

    `counts[i, k]` is how often cluster i precedes cluster k. A free slot has counts 0 and infinite
    losses.
    """

    def __init__(self, size: int, total: int) -> None:
        self.size = size
        self.counts = np.zeros((size, size), np.int64)
        self.tokens = np.zeros(size, np.int64)
        self.active = np.zeros(size, bool)
        self._values = self._table(total + 1) if total < TABLE else None
        self._f = np.zeros((size, size))  # f(counts)
        self._s = np.zeros((size, size))
        self._k = np.zeros((size, size))
        self._logs = np.zeros((size, size))  # log (n(i) + n(j))
        self._blocked = np.full((size, size), np.inf)  # 0 where two clusters can be merged

    @staticmethod
    def _table(limit: int) -> Floats:
        values = np.arange(limit, dtype=np.float64)
        values[1:] *= np.log(values[1:])
        return values

    def f(self, counts: Ints) -> Floats:
        """x log x of each count."""
        if self._values is not None:
            # Merging a cluster with itself, which is never done, would have counts up to 4 N.
            return self._values.take(counts, mode="clip")
        logs: Floats = np.log(np.maximum(counts, 1))
        return logs * counts

    def add(self, slot: int, row: Ints, column: Ints, tokens: int) -> None:
        """Put a cluster into a free slot; `row` and `column` are its counts with all slots.

        `row[slot]` is how often the cluster follows itself (`column[slot]` is not read).
        """
        counts = self.counts
        counts[slot], counts[:, slot] = row, column
        counts[slot, slot] = row[slot]
        self.tokens[slot] = tokens
        self.active[slot] = True
        self._refresh(slot)
        for line in (counts[:, slot], counts[slot]):  # it is a neighbour of other pairs
            near = np.flatnonzero(line)
            x = line[near]
            fx = self.f(x)
            self._s[np.ix_(near, near)] += fx[:, None] + fx - self.f(x[:, None] + x)
        self._row(slot)

    def merge(self, kept: int, gone: int) -> None:
        """Merge cluster `gone` into the slot `kept`; the slot `gone` becomes free."""
        counts = self.counts
        self._forget(counts[:, kept].copy(), counts[:, gone].copy())
        self._forget(counts[kept].copy(), counts[gone].copy())
        counts[kept] += counts[gone]
        counts[:, kept] += counts[:, gone]
        counts[gone] = counts[:, gone] = 0
        self.tokens[kept] += self.tokens[gone]
        self.tokens[gone] = 0
        self.active[gone] = False
        self._f[gone] = self._f[:, gone] = 0
        self._s[gone] = self._s[:, gone] = self._k[gone] = self._k[:, gone] = 0
        self._blocked[gone] = self._blocked[:, gone] = np.inf
        self._refresh(kept)
        self._row(kept)

    def cheapest(self) -> tuple[int, int]:
        """The first pair of slots whose merge loses least."""
        return divmod(int(self.losses().argmin()), self.size)

    def losses(self) -> Floats:
        """The loss of each merge, `[slot, slot]`; infinite where there is nothing to merge."""
        sides = (self.counts.sum(1) + self.counts.sum(0)).astype(np.float64)
        single = sides * np.log(np.maximum(self.tokens, 1))
        losses: Floats = sides[:, None] + sides
        losses *= self._logs
        losses -= single[:, None]
        losses -= single
        losses += self._s
        losses += self._k
        losses += self._blocked
        return losses

    def recompute(self) -> None:
        """Compute the table afresh, so that rounding does not accumulate."""
        self._s[:] = 0
        for slot in np.flatnonzero(self.active):
            self._row(int(slot))

    def _forget(self, x: Ints, y: Ints) -> None:
        """Change S for the neighbours x and y of two clusters becoming neighbours x + y of one.

        Only pairs with a neighbour of the second cluster change: g is then not additive.
        """
        near = np.flatnonzero(y)
        if not len(near):
            return
        both = x + y
        f_near = self.f(both[near]) - self.f(x[near]) - self.f(y[near])
        change = f_near[:, None] + (self.f(both) - self.f(x) - self.f(y))
        change -= self.f(both[near, None] + both)
        change += self.f(x[near, None] + x)
        change += self.f(y[near, None] + y)
        self._s[near] += change
        self._s[:, near] = self._s[near].T

    def _refresh(self, slot: int) -> None:
        self._f[slot] = self.f(self.counts[slot])
        self._f[:, slot] = self.f(self.counts[:, slot])
        logs = np.log(np.maximum(self.tokens[slot] + self.tokens, 1))
        self._logs[slot] = self._logs[:, slot] = logs

    def _row(self, slot: int) -> None:
        """Compute S, K and the blocked pairs of one cluster with all others."""
        counts, f = self.counts, self._f
        row, column = np.flatnonzero(counts[slot]), np.flatnonzero(counts[:, slot])
        s = f[:, row].sum(1) + f[slot, row].sum()
        s -= self.f(counts[:, row] + counts[slot, row]).sum(1)
        s += f[column].sum(0) + f[column, slot].sum()
        s -= self.f(counts[column] + counts[column, slot, None]).sum(0)
        self._s[slot] = self._s[:, slot] = s
        self._k[slot] = self._k[:, slot] = self._corner(slot)
        blocked = np.where(self.active, 0.0, np.inf)
        blocked[slot] = np.inf
        self._blocked[slot] = self._blocked[:, slot] = blocked

    def _corner(self, slot: int) -> Floats:
        """K: one f(sum of four counts) in place of the two g of rows and the two of columns."""
        counts, f = self.counts, self._f
        ii, ij, ji, jj = counts[slot, slot], counts[slot], counts[:, slot], counts.diagonal()
        singles = f[slot, slot] + f[slot] + f[:, slot] + f.diagonal()
        pairs = self.f(ii + ij) + self.f(ji + jj) + self.f(ii + ji) + self.f(ij + jj)
        corner: Floats = pairs - singles - self.f(ii + ij + ji + jj)
        return corner


@dataclass(frozen=True)
class _Neighbours:
    """The words after (or before) each word, with counts: those of word i at ends[i]:ends[i+1]."""

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
    """The state of the clustering: the words that each slot of the table holds."""

    def __init__(self, bigrams: Bigrams, clusters: int) -> None:
        many = len(bigrams.words)
        self.bigrams = bigrams
        self.table = MergeTable(min(clusters, many) + 1, int(bigrams.tokens.sum()))
        self.after = _neighbours(bigrams.left, bigrams.right, bigrams.pairs, many)
        self.before = _neighbours(bigrams.right, bigrams.left, bigrams.pairs, many)
        self.slot = np.full(many, -1)  # of each word that is in the window
        self.members: list[list[int]] = [[] for _ in range(self.table.size)]
        self.free = list(range(self.table.size - 1, -1, -1))

    def add(self, word: int) -> None:
        """Put a word into a slot as a cluster by itself."""
        place = self.free.pop()
        self.slot[word] = place
        self.members[place] = [word]
        row, column = self._counts(self.after, word), self._counts(self.before, word)
        self.table.add(place, row, column, int(self.bigrams.tokens[word]))

    def _counts(self, neighbours: _Neighbours, word: int) -> Ints:
        others, times = neighbours.of(word)
        places = self.slot[others]
        known = places >= 0
        return np.bincount(places[known], times[known], self.table.size).astype(np.int64)

    def merge(self) -> tuple[int, int]:
        """Merge the two clusters of least loss; returns the slot of both, and the freed one."""
        kept, gone = self.table.cheapest()
        neighbours = np.count_nonzero(self.table.counts[[kept, gone]], axis=1)
        if neighbours[0] < neighbours[1]:
            kept, gone = gone, kept  # the work is where `gone` has neighbours
        self.table.merge(kept, gone)
        self.slot[self.members[gone]] = kept
        self.members[kept] += self.members[gone]
        self.members[gone] = []
        self.free.append(gone)
        return kept, gone


def greedy(
    bigrams: Bigrams, clusters: int, progress: OnProgress | None = None
) -> tuple[Ints, tuple[str, ...]]:
    """The cluster of each word, and the bit string of each cluster, in sorted order.

    `progress` is called every 64 words. Of pairs of equal loss the one in the first slots is
    merged, so the result is deterministic.
    """
    many = len(bigrams.words)
    merging = _Merging(bigrams, clusters)
    for word in range(many):
        merging.add(word)
        if word >= clusters:
            merging.merge()
        if word % REFRESH == REFRESH - 1:
            merging.table.recompute()
        if progress is not None and (word % 64 == 0 or word == many - 1):
            progress(word + 1, many)
    slots = merging.slot.copy()
    bits = _hierarchy(merging)
    names = sorted(bits.values())
    place = np.zeros(merging.table.size, np.int64)
    for number, name in bits.items():
        place[number] = names.index(name)
    return place[slots], tuple(names)


def _hierarchy(merging: _Merging) -> dict[int, str]:
    """The bit string of the cluster in each slot: the path to it from the last merge."""
    tree: dict[int, list[int]] = {int(s): [int(s)] for s in np.flatnonzero(merging.table.active)}
    bits: dict[int, list[str]] = {slot: [] for slot in tree}
    for _ in range(len(tree) - 1):
        kept, gone = merging.merge()
        for bit, side in (("0", kept), ("1", gone)):
            for slot in tree[side]:
                bits[slot].append(bit)
        tree[kept] += tree.pop(gone)
    return {slot: "".join(reversed(way)) or "0" for slot, way in bits.items()}
