"""Where a family can have a value other than zero: its *support*.

A range says which indices a derivation may reach from above; the support says for which of them
there is a derivation at all: a preterminal spans one word, whatever the range of spans is. It is
the least fixed point of the rules from below, in the same shape of region and with the same
widening. Charts store no more than the support, and a rule runs only where no operand is zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import size_values
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, is_feasible
from fgg.grammar.memo import per_grammar
from fgg.grammar.ranges import (
    ROUNDS_BEFORE_WIDENING,
    Region,
    least_value,
    regions,
    rule_rows,
    templates,
)

ROUNDS = 60


@per_grammar
def support(grammar: Grammar) -> Mapping[str, Region]:
    """The region of every family that can be reached and has a derivation.

    It contains every index with a value other than zero that the start symbol can use. A family
    that is not in it has no such index.
    """
    ranges = regions(grammar)
    bounds: dict[str, dict[Expr, int]] = {}
    for number in range(ROUNDS):
        changed = False
        for rule in grammar.rules:
            if rule.lhs not in ranges:
                continue
            rows = supported_rows(grammar, rule, ranges, _regions(grammar, ranges, bounds))
            if rows is not None and is_feasible(rows):
                changed |= _join(grammar, rule.lhs, rule.indices, rows, bounds, number)
        if not changed:
            break
    return _regions(grammar, ranges, bounds)


def supported_rows(
    grammar: Grammar,
    rule: Rule,
    ranges: Mapping[str, Region],
    supports: Mapping[str, Region],
) -> list[Row] | None:
    """Inequalities where a rule is not zero; None if a nonterminal of it is zero everywhere."""
    sizes = size_values(grammar)
    rows = rule_rows(grammar, rule, ranges)
    for edge in rule.rhs.edges:
        if edge.label in grammar.nonterminal:
            if edge.label not in supports:
                return None
            rows += supports[edge.label].rows(edge.indices, sizes)
    return rows


def _regions(
    grammar: Grammar, ranges: Mapping[str, Region], supports: Mapping[str, Mapping[Expr, int]]
) -> dict[str, Region]:
    return {
        name: Region(
            grammar.nonterminal[name].indices,
            tuple(
                dict.fromkeys(
                    (*ranges[name].conditions, *(form - least for form, least in bounds.items()))
                )
            ),
            declared=False,
        )
        for name, bounds in supports.items()
    }


def _join(
    grammar: Grammar,
    name: str,
    indices: tuple[Expr, ...],
    rows: list[Row],
    supports: dict[str, dict[Expr, int]],
    number: int,
) -> bool:
    """Enlarge a family's support by the indices at which a rule gives it a value."""
    sizes = size_values(grammar)
    values = dict(zip(grammar.nonterminal[name].indices, indices, strict=True))
    first = name not in supports
    bounds = supports.setdefault(name, {})
    changed = first
    for form in templates(grammar, name):
        if not first and form not in bounds:
            continue
        least = least_value(form.substitute(values), rows, sizes)
        if first:
            if least is not None:
                bounds[form] = least
        elif least is None or least < bounds[form]:
            changed = True
            if least is None or number >= ROUNDS_BEFORE_WIDENING:
                del bounds[form]
            else:
                bounds[form] = least
    return changed
