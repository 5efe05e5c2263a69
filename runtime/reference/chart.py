"""The values of factors and nonterminals in a semiring, as contractions read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

import numpy as np

from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size, select
from fgg.runtime.interpret.semirings import Letters, Semiring
from fgg.runtime.interpret.semirings.base import Array, Numbers
from fgg.runtime.program.bind import Logs


class Weights(Generic[Array]):
    """The factors' weights as values of a semiring.

    `real` has each factor's weights, `[*values of its nodes]`, as numbers or as `Logs`.
    """

    def __init__(
        self, grammar: Grammar, semiring: Semiring[Array], real: Mapping[str, Numbers | Logs]
    ) -> None:
        self.grammar = grammar
        self.semiring = semiring
        self.real = real
        self._converted: dict[str, Array] = {}
        self._spread: dict[tuple[str, tuple[tuple[str, ...], ...], tuple[str, ...]], Array] = {}

    def converted(self, label: str) -> Array:
        """A factor's weights as semiring values."""
        if label not in self._converted:
            weights, semiring = self.real[label], self.semiring
            self._converted[label] = (
                semiring.convert_logs(weights.array)
                if isinstance(weights, Logs)
                else semiring.convert(weights)
            )
        return self._converted[label]

    def get(self, label: str, paths: tuple[tuple[str, ...], ...], domains: Sequence[str]) -> Array:
        """A factor's weights over the whole domains of the nodes it touches.

        `paths` name the part of each node that the factor touches, `domains` the nodes' domains.
        """
        array = self.converted(label)
        if not any(paths):
            return array
        key = (label, paths, tuple(domains))
        if key not in self._spread:
            self._spread[key] = spread(self.grammar, self.semiring, array, paths, domains)
        return self._spread[key]


def spread(
    grammar: Grammar,
    semiring: Semiring[Array],
    array: Array,
    paths: Sequence[tuple[str, ...]],
    domains: Sequence[str],
) -> Array:
    """An array over parts of nodes as one over the whole nodes; zero outside the parts."""
    for axis, (path, domain) in enumerate(zip(paths, domains, strict=True)):
        if not path:
            continue
        size = array.shape[axis]
        rows = [select(grammar, domain, path, v) for v in range(domain_size(grammar, domain))]
        if None in rows:
            order = [axis, *(i for i in range(len(array.shape)) if i != axis)]
            moved = semiring.permute(array, order)
            zero = semiring.full((1, *moved.shape[1:]), one=False)
            padded = semiring.concatenate([moved, zero])
            back = list(np.argsort(order))
            array = semiring.permute(padded, back)
        array = semiring.take(array, [size if row is None else row for row in rows], axis)
    return array


class ValueChart(Generic[Array]):
    """The values of the nonterminals that are solved, in blocks `[nonterminals, *values]`."""

    def __init__(self, semiring: Semiring[Array]) -> None:
        self.semiring = semiring
        self.blocks: list[Array] = []
        self.place: dict[str, tuple[int, int]] = {}

    def add(self, names: Sequence[str], block: Array) -> None:
        """Add the values of several nonterminals, a row for each."""
        for row, name in enumerate(names):
            self.place[name] = (len(self.blocks), row)
        self.blocks.append(block)

    def get(self, name: str) -> Array:
        """The value of a nonterminal."""
        block, row = self.place[name]
        return self.blocks[block][row, ...]  # an array also where there are no axes

    def gather(self, names: Sequence[str]) -> Array:
        """The values of several nonterminals of one shape, a row for each."""
        by_block: dict[int, list[int]] = {}
        for position, name in enumerate(names):
            by_block.setdefault(self.place[name][0], []).append(position)
        pieces = [
            self.semiring.take(self.blocks[block], [self.place[names[p]][1] for p in positions])
            for block, positions in by_block.items()
        ]
        if len(pieces) == 1:
            return pieces[0]
        order = [p for positions in by_block.values() for p in positions]
        return self.semiring.take(self.semiring.concatenate(pieces), np.argsort(order).tolist())


def diagonal(array: Array, letters: Letters) -> tuple[Array, Letters]:
    """The entries where axes with the same letter agree, each letter once."""
    while len(set(letters)) < len(letters):
        first = next(i for i, a in enumerate(letters) if a in letters[i + 1 :])
        second = letters.index(letters[first], first + 1)
        array = array.diagonal(0, first, second)
        letter = letters[first]
        rest = tuple(a for i, a in enumerate(letters) if i not in (first, second))
        letters = (*rest, letter)
    return array, letters
