"""Oracles for the reference engine: all derivations with their assignments, and plain iteration.

Nothing here uses the engine: weights come from the definition (`fgg.grammar.semantics`), in
fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import domain_size, select
from fgg.grammar.semantics import array_of
from fgg.grammar.values import exact

Cell = tuple[int, ...]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tree:
    """A derivation with the values of all nodes, and its weight."""

    rule: Rule
    values: tuple[tuple[str, int], ...]
    children: tuple[Tree, ...]
    weight: Fraction

    def steps(self) -> Iterator[Tree]:
        """The tree and all trees in it, in preorder."""
        yield self
        for child in self.children:
            yield from child.steps()

    @property
    def key(self) -> tuple[object, ...]:
        """The rules and the values of their nodes, as derivations of the engine have them."""
        return tuple((t.rule.name, t.values) for t in self.steps())


def exact_arrays(grammar: Grammar, weights: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The weights of every factor, as nested lists or arrays of fractions."""
    found: dict[str, Any] = {}
    for factor in grammar.factors:
        given = (weights or {}).get(factor.name)
        nested = array_of(grammar, factor) if given is None else given
        array = np.array(nested, dtype=object)
        found[factor.name] = np.asarray(np.frompyfunc(_fraction, 1, 1)(array), dtype=object)
        if factor.value is not None and given is None and array.dtype == object:
            uniform = type(factor.value).__name__ == "Uniform"
            if uniform:  # the definition has floats there
                found[factor.name] = np.asarray(
                    np.frompyfunc(lambda x: Fraction(1, round(1 / x)), 1, 1)(array), dtype=object
                )
    return found


def _fraction(number: Any) -> Fraction:
    if isinstance(number, Fraction | int):
        return Fraction(number)
    return exact(float(number))


def trees(
    grammar: Grammar,
    *,
    weights: Mapping[str, Any] | None = None,
    max_depth: int | None = None,
) -> list[tuple[Cell, Tree]]:
    """All derivations and assignments of weight other than 0, with the start's cell.

    A recursive grammar needs a `max_depth`: the most rules on a path from the root.
    """
    arrays = exact_arrays(grammar, weights)
    depth = len(grammar.nonterminals) if max_depth is None else max_depth

    @cache
    def below(label: str, cell: Cell, depth: int) -> tuple[Tree, ...]:
        if depth == 0:
            return ()
        found: list[Tree] = []
        for rule in grammar.rules_of.get(label, ()):
            for values in _assignments(grammar, rule, cell):
                found += _complete(grammar, arrays, rule, values, below, depth)
        return tuple(found)

    signature = grammar.nonterminal[grammar.start.label].domains
    sizes = [range(domain_size(grammar, d)) for d in signature]
    return [(c, t) for c in product(*sizes) for t in below(grammar.start.label, c, depth)]


def _assignments(grammar: Grammar, rule: Rule, cell: Cell) -> Iterator[dict[str, int]]:
    """The assignments of a fragment's nodes that give its external nodes the values of a cell."""
    fixed: dict[str, int] = {}
    for name, value in zip(rule.rhs.externals, cell, strict=True):
        if fixed.setdefault(name, value) != value:
            return
    free = rule.rhs.internals
    for chosen in product(*(range(domain_size(grammar, node.domain)) for node in free)):
        yield {**fixed, **{node.name: v for node, v in zip(free, chosen, strict=True)}}


def _complete(
    grammar: Grammar,
    arrays: Mapping[str, Any],
    rule: Rule,
    values: Mapping[str, int],
    below: Callable[[str, Cell, int], tuple[Tree, ...]],
    depth: int,
) -> Iterator[Tree]:
    """The trees that begin with a rule and values for its nodes."""
    weight = Fraction(1)
    open_cells: list[tuple[str, Cell]] = []
    for edge in rule.rhs.edges:
        places = [
            select(grammar, rule.rhs.by_name[a.node].domain, a.path, values[a.node])
            for a in edge.attachments
        ]
        cell = tuple(v for v in places if v is not None)
        if len(cell) < len(places):
            return
        if edge.label in grammar.nonterminal:
            open_cells.append((edge.label, cell))
        else:
            weight *= arrays[edge.label][cell]
    if not weight:
        return
    shown = tuple(sorted(values.items()))
    for children in product(*(below(label, cell, depth - 1) for label, cell in open_cells)):
        yield Tree(rule, shown, children, weight * prod((t.weight for t in children), start=1))


def kleene(
    grammar: Grammar, weights: Mapping[str, Any] | None = None, rounds: int = 300
) -> Iterator[dict[str, Floats]]:
    """The values of all nonterminals by plain iteration from 0, round by round, in floats."""
    arrays = {n: np.asarray(a, dtype=float) for n, a in exact_arrays(grammar, weights).items()}
    size = {d.name: domain_size(grammar, d.name) for d in grammar.domains}
    x = {n.name: np.zeros([size[d] for d in n.domains]) for n in grammar.nonterminals}
    for _ in range(rounds):
        following = {name: np.zeros_like(value) for name, value in x.items()}
        for rule in grammar.rules:
            number = {node.name: i for i, node in enumerate(rule.rhs.nodes)}
            operands: list[Any] = []
            for node in rule.rhs.nodes:  # so that every node is there
                operands += [np.ones(size[node.domain]), [number[node.name]]]
            for edge in rule.rhs.edges:
                array = x[edge.label] if edge.label in x else arrays[edge.label]
                for axis, a in enumerate(edge.attachments):
                    array = _spread(grammar, rule, array, axis, a.node, a.path)
                operands += [array, [number[a.node] for a in edge.attachments]]
            out = list(dict.fromkeys(number[name] for name in rule.rhs.externals))
            value = np.einsum(*operands, out) if operands else np.asarray(1.0)
            add_at_externals(following[rule.lhs], value, rule, number, out)
        x = following
        yield x


def _spread(
    grammar: Grammar, rule: Rule, array: Floats, axis: int, node: str, path: tuple[str, ...]
) -> Floats:
    """An array over a part of a node as one over the node."""
    domain = rule.rhs.by_name[node].domain
    rows = [select(grammar, domain, path, v) for v in range(domain_size(grammar, domain))]
    moved = np.moveaxis(array, axis, 0)
    whole = np.stack([np.zeros(moved.shape[1:]) if r is None else moved[r] for r in rows])
    return np.moveaxis(whole, 0, axis)


def add_at_externals(
    total: Floats, value: Floats, rule: Rule, number: Mapping[str, int], out: list[int]
) -> None:
    """Add a value over each external node once to an array over all external places."""
    for index in np.ndindex(*value.shape):
        chosen = dict(zip(out, index, strict=True))
        total[tuple(chosen[number[name]] for name in rule.rhs.externals)] += value[index]
