"""Conditions with `!=`: as inequalities they are alternatives, `i < j` or `i > j`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import size_values
from fgg.grammar.index import Condition
from fgg.grammar.linear import is_feasible
from fgg.grammar.memo import per_grammar
from fgg.grammar.names import fresh
from fgg.grammar.ranges import condition_rows, length_rows

MAX_UNEQUAL = 6
"""The most `!=` that one rule can have: n of them are 2^n alternatives."""


def unequal_count(conditions: Sequence[Condition]) -> int:
    """The number of `!=` in conditions."""
    return sum(condition.operators.count("!=") for condition in conditions)


def alternatives(conditions: Sequence[Condition]) -> Iterator[tuple[Condition, ...]]:
    """Conditions without `!=`, of which exactly one set holds where the given ones do."""
    choices = [
        ("<", ">") if operator == "!=" else (operator,)
        for condition in conditions
        for operator in condition.operators
    ]
    for chosen in product(*choices):
        operators = iter(chosen)
        yield tuple(
            replace(c, operators=tuple(next(operators) for _ in c.operators)) for c in conditions
        )


@per_grammar
def split_unequal(grammar: Grammar) -> Grammar:
    """The grammar with several rules for each rule whose conditions contain `!=`.

        rule r: X -> … for i != j   becomes   rule r: X -> … for i < j   and   … for i > j

    Guarantees that no rule's condition contains `!=`; that derivations and their weights are the
    same; that rules keep their sources and spans. Alternatives that never hold are left out.
    """
    if not any(unequal_count(rule.conditions) for rule in grammar.rules):
        return grammar
    taken = {rule.name for rule in grammar.rules}
    rules: list[Rule] = []
    for rule in grammar.rules:
        name = rule.name
        for conditions in possible_alternatives(grammar, rule):
            rules.append(replace(rule, name=name, conditions=conditions))
            taken.add(name)
            name = fresh(rule.name, taken)
    return replace(grammar, rules=tuple(rules))


def possible_alternatives(grammar: Grammar, rule: Rule) -> list[tuple[Condition, ...]]:
    """The alternatives of a rule's conditions that some indices satisfy."""
    if not unequal_count(rule.conditions):
        return [rule.conditions]
    sizes, lengths = size_values(grammar), length_rows(grammar)
    return [
        conditions
        for conditions in alternatives(rule.conditions)
        if is_feasible([*condition_rows(conditions, sizes), *lengths])
    ]
