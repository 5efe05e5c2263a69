"""All derivations of a small forest, one by one: how often each uses each entry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgg.runtime.forest.forest import LN2, Forest

Ints = NDArray[np.int64]
Uses = tuple[tuple[int, int], ...]
"""Entries of the flat weights, in order, and how often each is used."""


class TooMany(Exception):
    """A forest has more derivations than allowed."""


@dataclass(frozen=True, eq=False)
class Derivations:
    """Derivations by their counts: `counts[d, e]` of entry `entries[e]`.

    Derivations with equal counts are one, with the sum of their coefficients, `log_coefficient`.
    """

    entries: Ints
    counts: NDArray[np.float64]
    log_coefficient: NDArray[np.float64]


def derivations(forest: Forest, tokens: Ints, most: int) -> Derivations:
    """All derivations of an item. Raises TooMany if a node has more than `most`."""
    slots = _entries(forest, tokens)
    nodes: list[dict[Uses, float]] = []
    for node in range(forest.nodes):
        classes: dict[Uses, float] = {}
        for alternative in range(forest.node_first[node], forest.node_first[node + 1]):
            for uses, coefficient in _products(forest, alternative, slots, nodes, most).items():
                classes[uses] = float(np.logaddexp(classes.get(uses, -np.inf), coefficient))
            if len(classes) > most:
                raise TooMany
        nodes.append(classes)
    root = nodes[-1]
    entries = sorted({entry for uses in root for entry, _ in uses})
    place = {entry: i for i, entry in enumerate(entries)}
    counts = np.zeros((len(root), len(entries)))
    for row, uses in enumerate(root):
        for entry, count in uses:
            counts[row, place[entry]] = count
    return Derivations(np.array(entries, dtype=np.int64), counts, np.array(list(root.values())))


def _entries(forest: Forest, tokens: Ints) -> list[int | None]:
    """The entry of each slot; None for a token that is impossible."""
    entries: list[int | None] = []
    for slot in range(forest.slots):
        terms = range(forest.term_first[slot], forest.term_first[slot + 1])
        read = [int(tokens[forest.token[i]]) for i in terms]
        strides = [int(forest.stride[i]) for i in terms]
        entry = int(forest.base[slot]) + sum(s * t for s, t in zip(strides, read, strict=True))
        entries.append(entry if all(t >= 0 for t in read) else None)
    return entries


def _products(
    forest: Forest,
    alternative: int,
    slots: list[int | None],
    nodes: list[dict[Uses, float]],
    most: int,
) -> dict[Uses, float]:
    """The derivations of an alternative, with the logarithms of their coefficients."""
    own = [slots[i] for i in forest.use[slice(*forest.use_first[alternative : alternative + 2])]]
    mantissa = float(forest.mantissa[alternative])
    if mantissa == 0.0 or None in own:
        return {}
    start = _sum(tuple((entry, 1) for entry in own if entry is not None))
    products = {start: float(np.log(mantissa)) + float(forest.exponent[alternative]) * LN2}
    for child in forest.child[slice(*forest.child_first[alternative : alternative + 2])]:
        longer: dict[Uses, float] = {}
        for uses, one in products.items():
            for more, other in nodes[child].items():
                key = _sum(uses + more)
                longer[key] = float(np.logaddexp(longer.get(key, -np.inf), one + other))
            if len(longer) > most:
                raise TooMany
        products = longer
    return products


def _sum(uses: Uses) -> Uses:
    """Uses with each entry once."""
    counts: dict[int, int] = {}
    for entry, count in uses:
        counts[entry] = counts.get(entry, 0) + count
    return tuple(sorted(counts.items()))
