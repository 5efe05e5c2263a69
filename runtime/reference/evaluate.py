"""The values of terms: one by one, or those of one shape as a batched contraction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgg.runtime.interpret.semirings import Letters, Semiring
from fgg.runtime.interpret.semirings.base import Array, Bools, NumpyArray
from fgg.runtime.reference.chart import ValueChart, Weights, diagonal, spread
from fgg.runtime.reference.contract import contract
from fgg.runtime.reference.system import BATCH, System, Term, TermOperand

Lookup = Callable[[str], Array]
"""Gives the value of a nonterminal."""


def unique(letters: Letters) -> Letters:
    """The letters, each once, in order."""
    return tuple(dict.fromkeys(letters))


def factor_array(weights: Weights[Array], term: Term, operand: TermOperand) -> Array:
    """The weights of a factor edge over the nodes it touches."""
    nodes = term.rule.rhs.nodes
    return weights.get(operand.label, operand.paths, [nodes[a].domain for a in operand.letters])


def operand_array(
    weights: Weights[Array], term: Term, operand: TermOperand, look_up: Lookup[Array]
) -> Array:
    """The value of an edge over the nodes it touches: a factor's, or a nonterminal's."""
    if not operand.nonterminal:
        return factor_array(weights, term, operand)
    array = look_up(operand.label)
    if any(operand.paths):
        nodes = [term.rule.rhs.nodes[a].domain for a in operand.letters]
        array = spread(weights.grammar, weights.semiring, array, operand.paths, nodes)
    return array


def term_value(
    weights: Weights[Array],
    term: Term,
    look_up: Lookup[Array],
    *,
    out: Letters | None = None,
    without: int | None = None,
    extra: Sequence[tuple[Array, Letters]] = (),
) -> Array:
    """A term's contraction, `[*out]`; `out` are its external nodes if not given.

    `without` leaves an operand out, which gives the derivative in it; `extra` multiplies more
    arrays in.
    """
    operands = list(extra)
    for position, operand in enumerate(term.operands):
        if position != without:
            array = operand_array(weights, term, operand, look_up)
            operands.append(diagonal(array, operand.letters))
    sizes = dict(enumerate(term.sizes))
    return contract(weights.semiring, operands, unique(term.out) if out is None else out, sizes)


def embed(semiring: Semiring[Array], array: Array, letters: Letters, sizes: Sequence[int]) -> Array:
    """An array over unique letters as one over repeated letters: zero off the diagonals.

    Axis 0 is the batch. `letters` are the external nodes, `sizes` those of the result.
    """
    once = unique(letters)
    if once == letters:
        return array
    batch = array.shape[0]
    first = [letters.index(letter) for letter in once]
    shape = (batch, *(sizes[i] if i in first else 1 for i in range(len(letters))))
    array = semiring.expand(array.reshape(shape), [batch, *sizes])
    grids = np.indices(tuple(sizes), sparse=True)
    mask = np.ones(tuple(sizes), dtype=bool)
    for i, letter in enumerate(letters):
        mask &= np.equal(grids[i], grids[letters.index(letter)])
    inside = semiring.convert(_exact(mask) if semiring.exactly else mask.astype(float))
    axes = tuple(range(len(letters)))
    return semiring.contract(array, (BATCH, *axes), inside, axes, (BATCH, *axes))


def _exact(mask: Bools) -> NumpyArray:
    """A mask as fractions 0 and 1."""
    from fractions import Fraction

    return np.asarray(np.frompyfunc(Fraction, 1, 1)(mask.astype(int)), dtype=object)


def evaluate_level(
    system: System,
    weights: Weights[Array],
    chart: ValueChart[Array],
    names: Sequence[str],
    adjust: Callable[[Sequence[Term], Array], Array] | None = None,
) -> list[tuple[list[str], Array]]:
    """The values of nonterminals that do not depend on each other, in blocks of one shape.

    A block is `[nonterminals, *values]`. `adjust` may change the values of terms,
    `[terms, *values]`, before they are added up.
    """
    semiring = weights.semiring
    blocks: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        blocks.setdefault(system.shapes[name], []).append(name)
    values_of_shapes = []
    for shape, members in blocks.items():
        row = {name: i for i, name in enumerate(members)}
        groups: dict[tuple[object, ...], list[Term]] = {}
        for name in members:
            for term in system.terms_of[name]:
                groups.setdefault(term.shape_key, []).append(term)
        parts = []
        for terms in groups.values():
            values = batch_value(weights, chart, terms)
            if adjust is not None:
                values = adjust(terms, values)
            values = embed(semiring, values, terms[0].out, shape)
            parts.append(([row[term.head] for term in terms], values))
        if len(parts) == 1 and parts[0][0] == list(range(len(members))):
            values_of_shapes.append((members, parts[0][1]))  # one term each
        else:
            total = semiring.accumulate(parts, (len(members), *shape))
            values_of_shapes.append((members, total))
    return values_of_shapes


def batch_value(weights: Weights[Array], chart: ValueChart[Array], terms: Sequence[Term]) -> Array:
    """The values of terms of one shape, `[terms, *unique external nodes]`."""
    semiring = weights.semiring
    first = terms[0]
    operands: list[tuple[Array, Letters]] = []
    for position, operand in enumerate(first.operands):
        labels = [term.operands[position].label for term in terms]
        if len(set(labels)) == 1:
            array = operand_array(weights, first, operand, chart.get)
            operands.append(diagonal(array, operand.letters))
            continue
        if operand.nonterminal and not any(operand.paths):
            array = chart.gather(labels)
        else:
            pieces = [
                operand_array(weights, term, term.operands[position], chart.get) for term in terms
            ]
            array = semiring.stack(pieces)
        operands.append(diagonal(array, (BATCH, *operand.letters)))
    sizes: Mapping[int, int] = {BATCH: len(terms), **dict(enumerate(first.sizes))}
    return contract(semiring, operands, (BATCH, *unique(first.out)), sizes)
