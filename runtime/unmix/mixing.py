"""The mixing matrix: how moments of observed words are made of compound parameters [ID eq. 4]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from fgg.grammar import Grammar
from fgg.grammar.definitions import Tied
from fgg.grammar.memo import per_grammar
from fgg.runtime.identify.fields import one_thread
from fgg.runtime.memory import require
from fgg.runtime.unmix.backbone import Backbone, Backbones
from fgg.runtime.unmix.topology import topologies

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
"""The tolerance of an exact solution: entries of the matrix are ratios of counts."""


@dataclass(frozen=True, order=True)
class Observed:
    """An observation matrix: the positions of its two words, and of a third that is projected.

    Positions are counted from 0; sentences have `length` words. Without a third word it is the
    matrix of pairs, E[x_i ⊗ x_j]; with it, E[x_i ⊗ x_j (η·x_k)].
    """

    length: int
    first: int
    second: int
    third: int | None = None

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions in the order of the axes: rows, columns, the projected one."""
        pair = (self.first, self.second)
        return pair if self.third is None else (*pair, self.third)

    def __str__(self) -> str:
        words = "".join(f" {i + 1}" for i in self.positions[:2])
        third = "" if self.third is None else f"; {self.third + 1}"
        return f"length {self.length}:{words}{third}"


@dataclass(frozen=True, eq=False)
class Mixing:
    """Rows are observations, columns backbones, entries the share of topologies.

    In the backbones, word 1 is that of the rows of a compound parameter, 2 that of its columns, 3
    the projected one.
    """

    rows: tuple[Observed, ...]
    columns: tuple[Backbone, ...]
    matrix: Floats
    topologies: Mapping[int, int]

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """The eigenvalues of M Mᵀ that are not 0, and their vectors as columns.

        It is several times faster than singular values, and squares them: where that leaves no
        clear gap the singular values decide how many there are.
        """
        with one_thread():
            matrix = torch.from_numpy(self.matrix)
            eigen = torch.linalg.eigh(matrix @ matrix.T)
        values, vectors = eigen.eigenvalues.numpy(), eigen.eigenvectors.numpy()
        top = max(float(values[-1]), 1e-300) if values.size else 1.0
        least = 1e-13 * top
        if bool(((values > 1e-15 * top) & (values < 1e-11 * top)).any()):
            count = int(np.linalg.matrix_rank(self.matrix))
            least = values[-count] if count else np.inf
        return values[values >= least], vectors[:, values >= least]

    @property
    def rank(self) -> int:
        """The rank of the matrix."""
        return len(self._spectrum[0])

    @cached_property
    def determined(self) -> tuple[Backbone, ...]:
        """The compound parameters that moments determine: those in the row space [ID Prop. 1]."""
        values, vectors = self._spectrum
        rows = (vectors.T @ self.matrix) / np.sqrt(values)[:, None]
        # The diagonal of the projection on the row space is 1 just there.
        near = np.einsum("ij,ij->j", rows, rows) > 1 - 1e-6
        candidates = (b for b, close in zip(self.columns, near, strict=True) if close)
        return tuple(b for b in candidates if self.combination({b: 1.0}) is not None)

    def combination(self, target: Mapping[Backbone, float]) -> dict[Observed, float] | None:
        """The least weights of observations that add up to a sum of compound parameters.

        That is a row of the pseudoinverse. None if there are none: the sum is not in the row space.
        """
        wanted = np.zeros(len(self.columns))
        places = {backbone: i for i, backbone in enumerate(self.columns)}
        for backbone, weight in target.items():
            if backbone not in places:
                return None
            wanted[places[backbone]] = weight
        values, vectors = self._spectrum
        weights = np.zeros(len(self.rows))
        for _ in range(3):  # what squaring lost comes back
            rest = self.matrix @ (wanted - weights @ self.matrix)
            weights = weights + vectors @ ((vectors.T @ rest) / values)
        if np.abs(weights @ self.matrix - wanted).max() > TOLERANCE * max(
            1.0, np.abs(wanted).max()
        ):
            return None
        pairs = zip(self.rows, weights.tolist(), strict=True)
        return {row: weight for row, weight in pairs if abs(weight) > TOLERANCE}


PAIRS = ((1, 2),)
TRIPLES = ((1, 2, 3), (1, 3, 2), (2, 3, 1))
"""For words in the order of the sentence: which are rows, columns, and projected."""


def mixing(grammar: Grammar, lengths: Iterable[int], *, order: int = 3) -> Mixing:
    """The mixing matrix of a grammar joined with its query, with all lengths combined.

    `order` is 2 for pairs i < j and 3 for pairs with a third word. Raises GrammarError (F460) for
    grammars whose derivations are no trees.
    """
    return _mixing(grammar, tuple(sorted(set(lengths))), order)


@per_grammar
def _mixing(grammar: Grammar, lengths: tuple[int, ...], order: int) -> Mixing:
    names = stationary_roots(grammar)
    counting = Backbones()
    column: dict[Backbone, int] = {}
    known: dict[tuple[int, int], int] = {}
    rows: list[Observed] = []
    entries: list[tuple[int, int, float]] = []
    totals: dict[int, int] = {}
    for length in lengths:
        trees = topologies(grammar, length)
        observed = list(combinations(range(length), order))
        for words, counts in zip(observed, counting.count_all(trees, observed), strict=True):
            total = totals[length] = sum(counts.values())
            for kind, roles in enumerate(PAIRS if order == 2 else TRIPLES):
                places = [words[role - 1] for role in roles]
                for number, count in counts.items():
                    if (number, kind) not in known:
                        renaming = {role: i for i, role in enumerate(roles, 1)}
                        backbone = counting.tree(number).renamed(renaming).without_stem(names)
                        known[number, kind] = column.setdefault(backbone, len(column))
                    entries.append((len(rows), known[number, kind], count / total))
                rows.append(Observed(length, *places))
    require(4 * 8 * len(rows) * len(column), torch.device("cpu"), "the mixing matrix")
    matrix = np.zeros((len(rows), len(column)))
    for row, place, share in entries:
        matrix[row, place] += share
    return Mixing(tuple(rows), tuple(column), matrix, totals)


def stationary_roots(grammar: Grammar) -> dict[str, str]:
    """The factors that are tied to be stationary, and the transitions that keep them."""
    definitions = {factor.name: factor.definition for factor in grammar.factors}
    return {name: d.source for name, d in definitions.items() if isinstance(d, Tied)}


def compound(
    backbone: Backbone, weights: Mapping[str, Floats], third: Floats | None = None
) -> Floats:
    """The compound parameter of a backbone: `[row word, column word]`, with η given for word 3.

    Weights are `[parent, child]`, roots `[child]` [ID eq. 19-20].
    """
    size = {path[-1]: weights[path[-1]].shape[1] for path in _paths(backbone)}
    words = max(size.values(), default=len(weights[backbone.source]))
    values = {
        1: (np.eye(words)[:, :, None], "rows"),
        2: (np.eye(words)[:, None, :], "columns"),
        3: (np.ones((words, 1, 1)) if third is None else third[:, None, None], "projected"),
    }

    def message(tree: Backbone) -> Floats:
        """The contribution of a subtree for each value of its node, `[value, rows, columns]`."""
        total: Floats = values[tree.word][0] if tree.word else np.ones((1, 1, 1))
        for path, child in tree.children:
            below = message(child)
            for label in reversed(path):
                below = np.einsum("ab,bij->aij", weights[label], below)
            total = total * below
        return total

    return np.asarray(np.einsum("a,aij->ij", weights[backbone.source], message(backbone)))


def _paths(backbone: Backbone) -> list[tuple[str, ...]]:
    paths = []
    for path, child in backbone.children:
        paths += [path, *_paths(child)]
    return paths
