"""Which unions splitting leaves whole: those where a step for each part would take longer."""

from __future__ import annotations

from math import prod

from fgg.grammar import Grammar, Union
from fgg.grammar.domains import domain_size
from fgg.grammar.slices import extent

WHOLE = 8
"""How many values a union may have to be left whole."""
MANY = 4
"""How many rules one rule would become, in the mean, for that."""


def whole_unions(grammar: Grammar) -> frozenset[str]:
    """The unions that are left whole.

    They are small, without products in them; there are no rank nodes, which want their neighbours
    apart; and to split them would make many rules of one: a step for each takes its time, however
    little there is to multiply.
    """
    if any(domain.rank for domain in grammar.domains) or any(
        factor.rank is not None for factor in grammar.factors
    ):
        return frozenset()
    found = frozenset(
        name
        for name, domain in grammar.domain.items()
        if isinstance(domain.shape, Union)
        and domain_size(grammar, name) <= WHOLE
        and extent(grammar, name)[1] == 1
        and _distinct(grammar, name)
    )
    apart, together = (_rules(grammar, whole) for whole in (frozenset[str](), found))
    return found if apart > MANY * together else frozenset()


def _rules(grammar: Grammar, whole: frozenset[str]) -> int:
    """How many rules splitting makes if some unions are left whole."""
    return sum(
        prod(extent(grammar, node.domain, whole)[0] for node in rule.rhs.nodes)
        for rule in grammar.rules
    )


def _distinct(grammar: Grammar, union: str) -> bool:
    """Whether a union has no part twice, so that a part says where it is."""
    inner = [union]
    for name in inner:
        shape = grammar.domain[name].shape
        inner += shape.parts if isinstance(shape, Union) else ()
    return len(set(inner)) == len(inner)
