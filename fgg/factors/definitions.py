"""Which factors a grammar needs: those that edges use, and those that these follow from."""

from __future__ import annotations

from fgg.factors.maps import blocks_of
from fgg.factors.pieces import piece_of
from fgg.factors.product_factors import joint_of
from fgg.grammar import Factor, Grammar
from fgg.grammar.slices import slice_of
from fgg.grammar.values import Call, Word


def needed_factors(grammar: Grammar) -> set[str]:
    """The factors that rules and queries use, and those that any factor follows from."""
    used = {edge.label for rule in grammar.rules for edge in rule.rhs.edges}
    return used | asked_factors(grammar) | {s for f in grammar.factors for s in sources(f)}


def asked_factors(grammar: Grammar) -> set[str]:
    """The factors that queries add to rules."""
    return {edge.label for query in grammar.queries for r in query.rules for edge in r.edges}


def sources(factor: Factor) -> set[str]:
    """The factors that another one follows from: by a slice, a piece, a product, a tie, blocks."""
    cut, piece, joint = slice_of(factor), piece_of(factor), joint_of(factor)
    found = {item.source for item in (cut, piece) if item is not None}
    found |= {part.source for part in joint.parts} if joint else set()
    tied = factor.attribute("tied")
    if isinstance(tied, Call):
        found |= {item.name for item in tied.arguments if isinstance(item, Word)}
    blocks = blocks_of(factor)
    return found if blocks is None else found | {blocks}
