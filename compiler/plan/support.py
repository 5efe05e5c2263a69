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
    least_values,
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
    supports: dict[str, Region] = {}
    known: dict[int, tuple[Region | None, ...]] = {}
    for number in range(ROUNDS):
        changed = False
        for place, rule in enumerate(grammar.rules):
            body = tuple(supports.get(edge.label) for edge in rule.rhs.edges)
            if rule.lhs not in ranges or known.get(place) == body:
                continue  # it would give its head nothing new
            known[place] = body
            rows = supported_rows(grammar, rule, ranges, supports)
            if rows is not None and is_feasible(rows):
                if _join(grammar, rule.lhs, rule.indices, rows, bounds, number):
                    changed = True
                    supports[rule.lhs] = _region(ranges[rule.lhs], bounds[rule.lhs])
        if not changed:
            break
    return supports


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


def _region(reached: Region, bounds: Mapping[Expr, int]) -> Region:
    """The part of a family's range where its forms are within bounds."""
    conditions = (*reached.conditions, *(form - least for form, least in bounds.items()))
    return Region(reached.indices, tuple(dict.fromkeys(conditions)), declared=False)


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
    forms = [form for form in templates(grammar, name) if first or form in bounds]
    lowest = least_values([form.substitute(values) for form in forms], rows, sizes)
    for form, least in zip(forms, lowest, strict=True):
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
