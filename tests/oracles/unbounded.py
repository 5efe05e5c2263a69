"""An oracle whose numbers have no bound: sums over all assignments of a ground grammar's rules.

It shares nothing with the engines but the ground grammar. Its numbers are those of mpmath, whose
exponents may be of any size, so nothing is lost whatever the weights are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import product
from typing import Any

import mpmath
import numpy as np

from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import domain_size, select
from fgg.grammar.semantics import array_of
from fgg.rewrite.ground import ground
from tests.oracles.comparing import Array, Item, Weights

MP = mpmath.mp.clone()
MP.prec = 160
ZERO, ONE = MP.mpf(0), MP.mpf(1)
MAX_TERMS = 60_000
"""Assignments of all ground rules: more would keep the oracle busy for many seconds."""

Cell = tuple[int, ...]
Number = Any  # mpmath has no types


@dataclass(frozen=True)
class Truth:
    """What is true of an item.

    Derivatives of log Z in weights and log-potentials; how often each state of each cell is used.
    """

    log_z: Number
    weights: Mapping[str, Array]
    potentials: Mapping[str, Array]
    cells: Mapping[tuple[str, Cell], Array]


class TooLarge(Exception):
    """A ground grammar has too many assignments for the oracle."""


@dataclass(frozen=True)
class Term:
    """An assignment of a ground rule: the head's cell, and what its edges touch."""

    head: Cell
    edges: tuple[tuple[str, Cell], ...]


class Oracle:
    """Inside values and derivatives of a ground grammar without recursion, by brute force."""

    def __init__(self, flat: Grammar, arrays: Mapping[str, Any], fixed: frozenset[str]) -> None:
        self.flat = flat
        self.arrays = arrays
        self.fixed = fixed
        self.left = MAX_TERMS
        self.sizes = {domain.name: domain_size(flat, domain.name) for domain in flat.domains}
        self.selections: dict[tuple[str, tuple[str, ...]], tuple[int | None, ...]] = {}
        self.values: dict[str, dict[Cell, Number]] = {}
        self.terms: dict[str, list[Term]] = {}
        below = {n.name: self.children(n.name) for n in flat.nonterminals}
        self.order = tuple(TopologicalSorter(below).static_order())
        for name in self.order:
            self.fill(name)
        self.start = flat.start.label
        self.z = sum(self.values[self.start].values(), ZERO)

    def children(self, name: str) -> list[str]:
        """The nonterminals in the rules of one."""
        edges = (edge for rule in self.flat.rules_of.get(name, ()) for edge in rule.rhs.edges)
        return [edge.label for edge in edges if edge.label in self.flat.nonterminal]

    def fill(self, name: str) -> None:
        """Compute the values of a nonterminal."""
        self.terms[name] = [
            term for rule in self.flat.rules_of.get(name, ()) for term in self.assignments(rule)
        ]
        values = self.values[name] = {}
        for term in self.terms[name]:
            value = ONE
            for label, cell in term.edges:
                value *= self.value(label, cell)
            values[term.head] = values.get(term.head, ZERO) + value

    def value(self, label: str, cell: Cell) -> Number:
        """The value of a factor's entry or a nonterminal's cell."""
        if label in self.values:
            return self.values[label].get(cell, ZERO)
        return self.arrays[label][cell]

    def assignments(self, rule: Rule) -> Iterator[Term]:
        """The assignments with at most one edge of value 0: no derivative goes to others."""
        nodes = sorted(rule.rhs.nodes, key=lambda node: not self.observed(rule, node.name))
        place = {node.name: i for i, node in enumerate(nodes)}
        ready: list[list[tuple[str, list[tuple[int, tuple[int | None, ...]]]]]]
        ready = [[] for _ in range(len(nodes) + 1)]
        for edge in rule.rhs.edges:
            touched = [
                (place[a.node], self.selection(nodes[place[a.node]].domain, a.path))
                for a in edge.attachments
            ]
            ready[max((p + 1 for p, _ in touched), default=0)].append((edge.label, touched))
        values = [0] * len(nodes)
        head = [place[name] for name in rule.rhs.externals]

        def go(depth: int, edges: tuple[tuple[str, Cell], ...], zeros: int) -> Iterator[Term]:
            for label, touched in ready[depth]:
                cell = tuple(table[values[p]] for p, table in touched)
                if None in cell:
                    return
                known: Any = cell
                if self.value(label, known) == 0:
                    zeros += 1
                    if zeros > 1 or label in self.fixed:
                        return
                edges = (*edges, (label, known))
            if depth == len(nodes):
                self.left -= 1
                if self.left < 0:
                    raise TooLarge
                yield Term(tuple(values[p] for p in head), edges)
                return
            for value in range(self.sizes[nodes[depth].domain]):
                values[depth] = value
                yield from go(depth + 1, edges, zeros)

        yield from go(0, (), 0)

    def selection(self, domain: str, path: tuple[str, ...]) -> tuple[int | None, ...]:
        """The part of each value of a domain that a path leads to; None where it has none."""
        key = (domain, path)
        if key not in self.selections:
            values = range(self.sizes[domain])
            self.selections[key] = tuple(select(self.flat, domain, path, v) for v in values)
        return self.selections[key]

    def observed(self, rule: Rule, node: str) -> bool:
        """Whether evidence touches a node: it comes first, since it leaves few values."""
        return any(
            edge.label in self.fixed and any(a.node == node for a in edge.attachments)
            for edge in rule.rhs.edges
        )

    def derivatives(self) -> dict[str, dict[Cell, Number]]:
        """The derivatives of Z in every factor's entries and every nonterminal's cells."""
        found: dict[str, dict[Cell, Number]] = {name: {} for name in self.order}
        found[self.start] = dict.fromkeys(self.values[self.start], ONE)
        for name in reversed(self.order):
            for term in self.terms[name]:
                above = found[name].get(term.head, ZERO)
                if above == 0:
                    continue
                values = [self.value(label, cell) for label, cell in term.edges]
                for place, (label, cell) in enumerate(term.edges):
                    rest = above
                    for other, value in enumerate(values):
                        if other != place:
                            rest *= value
                    if rest != 0:
                        entries = found.setdefault(label, {})
                        entries[cell] = entries.get(cell, ZERO) + rest
        return found


def numbers(array: Any) -> Any:
    """An array of mpmath's numbers."""
    return np.asarray(np.frompyfunc(MP.mpf, 1, 1)(np.asarray(array, dtype=float)), dtype=object)


def truth(grammar: Grammar, item: Item, given: Weights) -> Truth | None:
    """What is true of an item; None where it asks for log-potentials that are not given."""
    # Exponentials of log-potentials may be no floats, so the ground grammar is made without them.
    inputs: dict[str, Any] = {
        name: (np.zeros(array.shape) if array.dtype.kind == "f" else array).tolist()
        for name, array in item.inputs.items()
    }
    try:
        flat = ground(grammar, lengths=item.lengths, inputs=inputs)
    except GrammarError as error:
        if {d.code for d in error.diagnostics} == {"F411"}:
            return None
        raise
    arrays = {name: numbers(w) for name, w in given.items() if name in flat.factor}
    places = dict(_potential_places(grammar, item))
    for label, (name, index) in places.items():
        if label in flat.factor:
            arrays[label] = np.asarray(
                np.frompyfunc(lambda x: MP.exp(MP.mpf(x)), 1, 1)(item.inputs[name][index]),
                dtype=object,
            )
    fixed = frozenset(f.name for f in flat.factors if f.name not in given)
    for factor in flat.factors:
        if factor.name not in arrays and factor.value is not None:
            arrays[factor.name] = numbers(array_of(flat, factor))
    oracle = Oracle(flat, arrays, fixed)
    weights = {name: numbers(np.zeros(np.shape(w))) for name, w in given.items()}
    potentials = {
        f.name: numbers(np.zeros(item.inputs[f.name].shape)) for f in grammar.input_factors
    }
    cells: dict[tuple[str, Cell], Array] = {}
    if oracle.z == 0:
        return Truth(MP.ninf, weights, potentials, cells)
    for label, entries in oracle.derivatives().items():
        for cell, derivative in entries.items():
            share = derivative / oracle.z
            if label in weights:
                weights[label][cell] = share
            elif label in places:
                name, index = places[label]
                potentials[name][(*index, *cell)] = share * arrays[label][cell]
            elif label in flat.nonterminal:
                nonterminal = flat.nonterminal[label]
                assert nonterminal.origin is not None
                shape = [domain_size(flat, d) for d in nonterminal.domains]
                array = cells.setdefault(nonterminal.origin, numbers(np.zeros(shape)))
                array[cell] = share * oracle.values[label].get(cell, ZERO)
    return Truth(MP.log(oracle.z), weights, potentials, cells)


def _potential_places(grammar: Grammar, item: Item) -> Iterator[tuple[str, tuple[str, Cell]]]:
    """The names of ground factors that log-potentials have, and where these stand."""
    for factor in grammar.input_factors:
        shape = item.inputs[factor.name].shape[: len(factor.indices)]
        for index in product(*map(range, shape)):
            yield "_".join([factor.name, *map(str, index)]), (factor.name, index)
