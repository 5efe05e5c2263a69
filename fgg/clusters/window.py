"""The table of merge losses of Brown clustering, kept up to date pair by pair.

With counts n(i,k) of the clusters in the window, f(x) = x log x, T(i) the number of pairs within
the window that cluster i takes part in, on either side, and n(i) its number of tokens, the average
mutual information of the window times the number of pairs is, up to what no merge changes,

    Σ_ik f(n(i,k)) - Σ_i T(i) log n(i).

Merging i and j loses L(i,j) = S(i,j) + K(i,j) - M(i,j), where, with g(x,y) = f(x) + f(y) - f(x+y),

    S(i,j) = Σ_k g(n(i,k), n(j,k)) + g(n(k,i), n(k,j))        over all k in the window
    K(i,j)   puts right the four terms of S with k = i, j, whose counts all become one
    M(i,j) = T(i) log n(i) + T(j) log n(j) - (T(i) + T(j)) log (n(i) + n(j)).

As g(x,0) = 0, a cluster k contributes to S only for those i, j that both stand beside it. So a new
word changes S(i,j) where i and j are its neighbours, and a word that joins a cluster changes it in
the rows of its neighbours: for a rare word these are few. M is made anew for each choice. All in
all a word costs O(c²), most of it additions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TABLE = 1 << 22  # counts up to here have f in a table: a look-up is faster than a logarithm


class Window:
    """Clusters in slots 0 … size-1, their counts, and what each merge would lose (in counts·nats).

    A free slot has no counts and its losses are infinite.
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
        """Each count times its logarithm, for counts that can occur."""
        if self._values is not None:
            # Of a cluster merged with itself, which nobody asks for, counts are up to 4 times N.
            return self._values.take(counts, mode="clip")
        logs: Floats = np.log(np.maximum(counts, 1))
        return logs * counts

    def add(self, slot: int, row: Ints, column: Ints, tokens: int) -> None:
        """Put a cluster into a free slot; `row` and `column` are its counts with all slots.

        `row[slot]` is how often it stands beside itself (`column[slot]` is not read).
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
        """Merge two clusters into the slot of the first; that of the second becomes free."""
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
        """Two slots whose merge loses least, the first such pair."""
        return divmod(int(self.losses().argmin()), self.size)

    def losses(self) -> Floats:
        """What each merge would lose, infinite where there is nothing to merge."""
        sides = (self.counts.sum(1) + self.counts.sum(0)).astype(np.float64)
        own = sides * np.log(np.maximum(self.tokens, 1))
        losses: Floats = sides[:, None] + sides
        losses *= self._logs
        losses -= own[:, None]
        losses -= own
        losses += self._s
        losses += self._k
        losses += self._blocked
        return losses

    def recompute(self) -> None:
        """Make the table anew, so that rounding does not add up."""
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
        """S, K and whether there is something to merge, for all pairs with one cluster."""
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
