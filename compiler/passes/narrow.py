"""Narrow: a variable that the other indices determine is replaced by its value.

Where a preterminal spans one word, `X[i,j] -> P[i,k] Y[k,j]` holds for k = i + 1 only. Written so,
the edge `P[i,i+1]` has one free index and not two; the search for messages counts free indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fgg.compiler.plan.affine import expr_of, implicit_equalities, irredundant, solve_equalities
from fgg.compiler.plan.support import support, supported_rows
from fgg.grammar import Fragment, Grammar, Rule
from fgg.grammar.domains import lengths
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, TooManyRows, implies


def narrow(grammar: Grammar) -> Grammar:
    """The grammar with fewer variables in its rules; its value is the same."""
    rules = tuple(narrowed(grammar, rule) for rule in grammar.rules)
    return grammar if rules == grammar.rules else replace(grammar, rules=rules)


def narrowed(grammar: Grammar, rule: Rule, *, head: bool = False) -> Rule:
    """A rule without the body's variables that follow from others; with `head`, the head's too.

    The head of such a rule says itself which cells the rule fills.
    """
    values = fixed(grammar, rule, head=head)
    return with_values(rule, values) if values else rule


def fixed(grammar: Grammar, rule: Rule, *, head: bool = False) -> dict[str, Expr]:
    """The body's variables that follow from others, and what they are in terms of them.

    With `head` so are the head's, the last ones first.
    """
    regions = support(grammar)
    given = {*lengths(grammar), *grammar.size}
    outer = list(dict.fromkeys(name for index in rule.indices for name in index.names()))
    free = [name for name in body_variables(rule) if name not in given and name not in outer]
    if head:
        free += [name for name in reversed(outer) if name not in given]
    if not free or rule.lhs not in regions:
        return {}
    rows = supported_rows(grammar, rule, regions, regions)
    if rows is None:
        return {}
    try:
        equalities = implicit_equalities(irredundant(rows)) + implied(rows, free)
    except TooManyRows:
        return {}
    # A row speaks of a look-up as of a variable; nothing is solved for one.
    known = {*outer, *free, *lengths(grammar)}
    looked_up = {n for e in equalities for n in e.names() if n not in known}
    values, _ = solve_equalities(equalities, free, looked_up)
    unknown = set(values) if head else set(free)
    return {n: e for n, e in values.items() if not set(e.names()) & unknown}


def implied(rows: Sequence[Row], names: Sequence[str]) -> list[Expr]:
    """Rows that can only hold with equality."""
    equalities = []
    for r in dict.fromkeys(rows):
        if any(r.coefficient(name) for name in names):
            negated = Row(tuple((n, -c) for n, c in r.coefficients), -r.constant)
            if implies(rows, negated):
                equalities.append(expr_of(r))
    return equalities


def body_variables(rule: Rule) -> list[str]:
    """The names in the indices of a rule's body."""
    edges = [name for e in rule.rhs.edges for i in e.indices for name in i.names()]
    clamps = [name for c in rule.rhs.clamps for i in c.indices for name in i.names()]
    return list(dict.fromkeys(edges + clamps))


def with_values(rule: Rule, values: dict[str, Expr]) -> Rule:
    """The rule with expressions for variables, conditions included."""
    known = dict[str, int | Expr](values)
    edges = tuple(
        replace(e, indices=tuple(i.substitute(known) for i in e.indices)) for e in rule.rhs.edges
    )
    clamps = tuple(
        replace(c, indices=tuple(i.substitute(known) for i in c.indices)) for c in rule.rhs.clamps
    )
    return replace(
        rule,
        indices=tuple(i.substitute(known) for i in rule.indices),
        rhs=Fragment.make(rule.rhs.nodes, edges, clamps, rule.rhs.externals),
        conditions=tuple(c.substitute(known) for c in rule.conditions),
    )
