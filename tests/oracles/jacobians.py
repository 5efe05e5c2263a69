"""Ranks of Jacobians of moments by brute force: every string, every derivation, differences.

Nothing is shared with `fgg.runtime.identify`: probabilities of strings come from the definition in
`fgg.grammar.semantics`, derivatives are central differences, and ranks are counted in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from fgg.grammar import Grammar
from fgg.grammar.semantics import brute_force
from fgg.rewrite import ground

Floats = NDArray[np.float64]
Tables = Mapping[str, Floats]
STEP = 1e-4
TOLERANCE = 1e-6
"""Differences have errors of about 1e-8; true singular values of these cases are above 1e-5."""


def stationary(transition: Floats) -> Floats:
    """The stationary distribution of a matrix whose rows sum to one."""
    size = len(transition)
    matrix = np.vstack([transition.T - np.eye(size), np.ones(size)])
    return np.asarray(np.linalg.lstsq(matrix, np.eye(size + 1)[-1], rcond=None)[0])


def rank_by_differences(
    grammar: Grammar,
    values: int,
    lengths: Sequence[int],
    order: int | None,
    tables: Tables,
    complete: Callable[[Tables], Tables] = lambda tables: tables,
) -> tuple[int, int]:
    """The rank of the moments of all sets of `order` tokens, and the number of coordinates.

    With no order, the first two tokens are known. `tables` have distributions along their last
    axis; their zeros stay zero, and `complete` adds factors that follow from them.
    """

    def moments(tables: Tables) -> Floats:
        weights = complete(tables)
        rows: list[float] = []
        for length in lengths:
            strings = list(product(range(values), repeat=length))
            joint = np.array(
                [
                    brute_force(ground(grammar, inputs={"w": list(string)}), weights)
                    for string in strings
                ]
            ).reshape((values,) * length)
            sets = [(0, 1)] if order is None else list(combinations(range(length), order))
            for kept in sets:
                rest = tuple(axis for axis in range(length) if axis not in kept)
                rows += joint.sum(axis=rest).reshape(-1).tolist()
        return np.array(rows)

    columns = []
    for name, table in tables.items():
        for row in np.ndindex(table.shape[:-1]):
            support = np.flatnonzero(table[row])
            for column in support[:-1]:
                change = np.zeros(table.shape)
                change[(*row, column)], change[(*row, support[-1])] = STEP, -STEP
                more = moments({**tables, name: table + change})
                less = moments({**tables, name: table - change})
                columns.append((more - less) / (2 * STEP))
    singular = np.linalg.svd(np.array(columns), compute_uv=False)
    return int((singular > TOLERANCE).sum()), len(columns)
