"""EM, CVB and Hastings for the library's `morphology`, in plain NumPy: one word after the other.

A word is the product of one or more parts by a template. The weights of the parts [i, j) of a word
in a lexicon are a matrix, so inside and outside values are products of vectors and matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma, log

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEXICA = ("stem", "mood", "subject", "tense", "object")
TEMPLATES: tuple[tuple[str, ...], ...] = (
    ("stem",),
    ("stem", "mood"),
    ("subject", "stem", "mood"),
    ("subject", "tense", "stem", "mood"),
    ("subject", "tense", "object", "stem", "mood"),
)


class ByHand:
    """Words with the counts of their parts; `parts[w][i, j]` is the number of [i, j), or < 0."""

    def __init__(
        self, words: Sequence[Sequence[Sequence[int]]], size: int, prior: float, seed: int = 0
    ) -> None:
        self.parts = [np.array(word, dtype=np.int64) for word in words]
        self.prior = prior
        self.size = size
        self.random = np.random.default_rng(seed)
        self.counts = {name: np.zeros(size) for name in LEXICA}
        self.counts["template"] = np.zeros(len(TEMPLATES))
        self.totals = dict.fromkeys(self.counts, 0.0)
        self.local: dict[int, list[tuple[str, Ints, Floats]]] = {}

    def start(self, weights: dict[str, Floats], *, draw: bool = False) -> float:
        """Count all words with given weights, or draw; returns the sum of log Z."""
        total = 0.0
        for word, parts in enumerate(self.parts):
            tables = {name: _table(weights[name], parts) for name in LEXICA}
            log_z, counts = self.word(parts, weights["template"], tables, draw=draw)
            self.add(counts, 1.0)
            self.local[word] = counts
            total += log_z
        return total

    def cvb(self) -> float:
        """A sweep of CVB; returns the sum of log Z."""
        total = 0.0
        for word, parts in enumerate(self.parts):
            self.add(self.local[word], -1.0)
            log_z, self.local[word] = self.word(parts, *self.means(parts))
            self.add(self.local[word], 1.0)
            total += log_z
        return total

    def hastings(self) -> float:
        """A sweep of the sampler; returns the share of accepted proposals."""
        accepted = 0
        for word, parts in enumerate(self.parts):
            old = self.local[word]
            self.add(old, -1.0)
            template, tables = self.means(parts)
            _, new = self.word(parts, template, tables, draw=True)
            gain = self.log_ratio(new) - self.log_ratio(old)
            if np.log(self.random.random()) < gain:
                self.local[word] = new
                accepted += 1
            self.add(self.local[word], 1.0)
        return accepted / len(self.parts)

    def means(self, parts: Ints) -> tuple[Floats, dict[str, Floats]]:
        """(f + α) / Σ (f + α) of templates, and of the parts of a word in each lexicon."""
        template = (self.counts["template"] + self.prior) / (
            self.totals["template"] + self.prior * len(TEMPLATES)
        )
        tables = {}
        for name in LEXICA:
            counts = self.counts[name][np.maximum(parts, 0)] + self.prior
            share = counts / (self.totals[name] + self.prior * self.size)
            tables[name] = np.where(parts >= 0, share, 0.0)
        return template, tables

    def word(
        self, parts: Ints, template: Floats, tables: dict[str, Floats], *, draw: bool = False
    ) -> tuple[float, list[tuple[str, Ints, Floats]]]:
        """log Z of a word, and the counts of its parts: expected ones, or those of a draw."""
        n = len(parts)
        square = {name: np.vstack([table, np.zeros(n + 1)]) for name, table in tables.items()}
        chains = []
        for lexica in TEMPLATES:
            row = np.zeros(n + 1)
            row[0] = 1.0
            rows = [row]
            for name in lexica:
                rows.append(rows[-1] @ square[name])
            chains.append(rows)
        weights = template * np.array([rows[-1][n] for rows in chains])
        z = float(weights.sum())
        if draw:
            return log(z), self.drawn(parts, weights / z, chains, square)
        sums = {name: np.zeros((n, n + 1)) for name in LEXICA}
        for t, (lexica, rows) in enumerate(zip(TEMPLATES, chains, strict=True)):
            column = np.zeros(n + 1)
            column[n] = template[t] / z
            for place in range(len(lexica) - 1, -1, -1):
                name = lexica[place]
                sums[name] += rows[place][:n, None] * tables[name] * column
                column = square[name] @ column
        counts = [("template", np.arange(len(TEMPLATES)), weights / z)]
        for name, table in sums.items():
            used = table > 0
            counts.append((name, parts[used], table[used]))
        return log(z), counts

    def drawn(
        self, parts: Ints, chances: Floats, chains: list[list[Floats]], square: dict[str, Floats]
    ) -> list[tuple[str, Ints, Floats]]:
        """The counts of a derivation, drawn from its last part to its first."""
        one = np.ones(1)
        t = int(self.random.choice(len(TEMPLATES), p=chances))
        counts = [("template", np.array([t]), one)]
        end = len(parts)
        for place in range(len(TEMPLATES[t]) - 1, -1, -1):
            name = TEMPLATES[t][place]
            shares = chains[t][place] * square[name][:, end]
            start = int(self.random.choice(len(shares), p=shares / shares.sum()))
            counts.append((name, parts[start, end : end + 1], one))
            end = start
        return counts

    def add(self, counts: list[tuple[str, Ints, Floats]], sign: float) -> None:
        """Add the counts of a word to those of all, or subtract them."""
        for name, index, value in counts:
            np.add.at(self.counts[name], index, sign * value)
            if sign < 0:
                self.counts[name][index] = np.maximum(self.counts[name][index], 0.0)
            self.totals[name] += sign * float(value.sum())

    def log_ratio(self, counts: list[tuple[str, Ints, Floats]]) -> float:
        """log of target over proposal for the counts of a draw; no lexicon is used twice."""
        ratio = 0.0
        for name, index, _ in counts:
            size = len(TEMPLATES) if name == "template" else self.size
            base, total = self.counts[name][index[0]] + self.prior, self.totals[name]
            total += self.prior * size
            ratio += lgamma(base + 1) - lgamma(base) - lgamma(total + 1) + lgamma(total)
            ratio -= log(base / total)
        return ratio


def _table(weights: Floats, parts: Ints) -> Floats:
    return np.where(parts >= 0, weights[np.maximum(parts, 0)], 0.0)
