"""Cell weights: a log-potential for each cell, whose derivative is the cell's marginal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fgg.grammar import Edge, Fragment, Grammar, InputFactor, Rule
from fgg.grammar.domains import size_values
from fgg.grammar.index import Condition, Expr
from fgg.grammar.linear import TooManyRows, implies
from fgg.grammar.names import fresh
from fgg.grammar.ranges import Region, length_rows, regions, row


@dataclass(frozen=True)
class CellWeights:
    """A grammar whose cells have weights, and the input factor of each family's weights."""

    grammar: Grammar
    factors: Mapping[str, str]


def with_cell_weights(grammar: Grammar) -> CellWeights | None:
    """The grammar with one more factor in each rule of an indexed family, a number for each cell.

    Where X[i] has the weight exp(u_X[i]), the derivative of log Z in u_X[i] is the expected number
    of uses of the cell, its marginal summed over its states. It is there in whatever space the
    grammar is compiled, also where no chart has states. With all weights 1, the value is the same.

    Requires a grammar without queries. None if a family has cells with negative indices.
    """
    assert not grammar.queries, "conjoin the grammar with a query first"
    known = regions(grammar)
    taken = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
    factors: dict[str, InputFactor] = {}
    for item in grammar.nonterminals:
        region = known.get(item.name)
        if not item.indices or region is None:
            continue
        if not _is_counted_from_zero(grammar, region):
            return None
        name = fresh(f"cell_{item.name}", taken)
        taken.add(name)
        factors[item.name] = InputFactor(
            name=name,
            domains=(),
            indices=region.indices,
            conditions=tuple(Condition((Expr(), e), ("<=",)) for e in region.conditions),
        )
    rules = tuple(
        _weighted(rule, factors[rule.lhs].name) if rule.lhs in factors else rule
        for rule in grammar.rules
    )
    inputs = (*grammar.input_factors, *factors.values())
    weighted = replace(grammar, rules=rules, input_factors=inputs)
    return CellWeights(weighted, {family: factor.name for family, factor in factors.items()})


def _is_counted_from_zero(grammar: Grammar, region: Region) -> bool:
    """Whether no index of a family is negative."""
    sizes = size_values(grammar)
    rows = [*(row(e, sizes) for e in region.conditions), *length_rows(grammar)]
    try:
        return all(implies(rows, row(Expr.of(name), sizes)) for name in region.indices)
    except TooManyRows:
        return False


def _weighted(rule: Rule, factor: str) -> Rule:
    edge = Edge(label=factor, attachments=(), indices=rule.indices, span=rule.span)
    rhs = rule.rhs
    more = Fragment.make(rhs.nodes, (*rhs.edges, edge), rhs.clamps, rhs.externals)
    return replace(rule, rhs=more)
