"""Pieces with numbers in the text: factors of known pieces become tables around rank nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fgg.compiler.passes.cpd import CpdImpossible, cpd
from fgg.factors.pieces import given_pieces
from fgg.grammar import Factor, Grammar
from fgg.grammar.values import Nested, Table
from fgg.rewrite.trim import query_factors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NestedLists = list["NestedLists"] | float

MAX_TABLE = 20_000
"""More entries than a grammar should have as text."""


def write_pieces(grammar: Grammar, weights: Mapping[str, Array], names: Collection[str]) -> Grammar:
    """The grammar with pieces of these factors that have tables as values, around rank nodes.

    Requires factors of declared rank, and arrays of their pieces by name. Guarantees the value Z of
    the grammar with these weights; the factors themselves are gone. Raises CpdImpossible if the
    pieces are too many or have signs, or if a whole factor is needed too.
    """
    labels = given_pieces(grammar)
    arrays = {label: weights[label] for name in names for label in labels[name]}
    entries = sum(int(array.size) for array in arrays.values())
    help = "write them to a file: `--weights-out pieces.safetensors`"
    if entries > MAX_TABLE:
        message = f"the pieces have {entries:,} entries: too many to be written as text"
        raise CpdImpossible(message, help)
    if any(bool((array < 0).any()) for array in arrays.values()):
        message = "some pieces are negative, but the weights of a grammar cannot be"
        raise CpdImpossible(message, help)
    followed = {source for factor in grammar.factors for source in factor.sources}
    for name in names:
        if name in followed | query_factors(grammar):
            message = f"factor `{name}` is needed whole: a query or another factor uses it"
            raise CpdImpossible(message, help)
    decomposed = cpd(grammar, only=names)
    factors = [f for f in decomposed.factors if f.name not in names]
    return replace(
        decomposed,
        factors=tuple(_with_table(f, arrays[f.name]) if f.name in arrays else f for f in factors),
    )


def _with_table(factor: Factor, array: Array) -> Factor:
    kept = tuple(a for a in factor.attributes if a.key not in ("prior", "net", "init"))
    table = Table(_tuples(array.tolist()))
    return replace(factor, value=table, definition=None, attributes=kept)


def _tuples(value: NestedLists) -> Nested:
    return tuple(map(_tuples, value)) if isinstance(value, list) else float(value)
