"""Terms evaluated: one by one, or all of one shape as a batched contraction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgg.runtime.interpret.semirings import AnySemiring, Letters, Semiring
from fgg.runtime.interpret.semirings.base import Array
from fgg.runtime.reference.chart import Chart, Weights, diagonal, spread
from fgg.runtime.reference.contract import contract
from fgg.runtime.reference.system import BATCH, Operand, System, Term

Lookup = Callable[[str], Any]


def unique(letters: Letters) -> Letters:
    """The letters, each once, in order."""
    return tuple(dict.fromkeys(letters))


def factor_array(weights: Weights, term: Term, operand: Operand) -> Any:
    """The weights of a factor edge over the nodes it touches."""
    nodes = term.rule.rhs.nodes
    return weights.get(operand.label, operand.paths, [nodes[a].domain for a in operand.letters])


def operand_array(weights: Weights, term: Term, operand: Operand, look_up: Lookup) -> Any:
    """The value of an edge over the nodes it touches: a factor's, or a nonterminal's."""
    if not operand.nonterminal:
        return factor_array(weights, term, operand)
    array = look_up(operand.label)
    if any(operand.paths):
        nodes = [term.rule.rhs.nodes[a].domain for a in operand.letters]
        array = spread(weights.grammar, weights.semiring, array, operand.paths, nodes)
    return array


def term_value(
    weights: Weights,
    term: Term,
    look_up: Lookup,
    *,
    out: Letters | None = None,
    without: int | None = None,
    extra: Sequence[tuple[Any, Letters]] = (),
) -> Any:
    """A term's contraction over the letters `out` (its external nodes if not given).

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
    inside = (
        semiring.convert(mask.astype(float)) if not semiring.exactly else _exact(semiring, mask)
    )
    axes = tuple(range(len(letters)))
    return semiring.contract(array, (BATCH, *axes), inside, axes, (BATCH, *axes))


def _exact(semiring: AnySemiring, mask: Any) -> Any:
    from fractions import Fraction

    return semiring.convert(
        np.asarray(np.frompyfunc(Fraction, 1, 1)(mask.astype(int)), dtype=object)
    )


def evaluate_level(
    system: System,
    weights: Weights,
    chart: Chart,
    names: Sequence[str],
    adjust: Callable[[Sequence[Term], Any], Any] | None = None,
) -> list[tuple[list[str], Any]]:
    """The values of nonterminals that need nothing of each other, in blocks of one shape.

    `adjust` may change the values of terms, one a row, before they are added up.
    """
    semiring = weights.semiring
    blocks: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        blocks.setdefault(system.shapes[name], []).append(name)
    found = []
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
            found.append((members, parts[0][1]))  # one term each
        else:
            found.append((members, semiring.accumulate(parts, (len(members), *shape))))
    return found


def batch_value(weights: Weights, chart: Chart, terms: Sequence[Term]) -> Any:
    """The values of terms of one shape, one a row, over their unique external nodes."""
    semiring = weights.semiring
    first = terms[0]
    operands: list[tuple[Any, Letters]] = []
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
