"""Conditions on indices: their single comparisons, and the elimination of variables."""

from __future__ import annotations

from collections.abc import Iterable, Set

from fgg.grammar import Edge, Grammar
from fgg.grammar.index import Condition, Expr


def without(conditions: Iterable[Condition], name: str) -> tuple[Condition, ...] | None:
    """What conditions on a variable imply for the others: each lower bound is at most each upper.

    Fourier-Motzkin elimination, exact where the variable has coefficient 1 or -1; None where it
    has another one or stands in a look-up.
    """
    low: list[Expr] = []
    high: list[Expr] = []
    for condition in conditions:
        for form in condition.inequalities():
            sign = next((c for monomial, c in form.terms if monomial == (name,)), 0)
            rest = form - Expr.of(name) * sign
            if name in rest.names() or abs(sign) > 1:
                return None
            if sign:
                (low if sign > 0 else high).append(rest)
    forms = dict.fromkeys(one + two for one in low for two in high)
    return tuple(as_condition(form) for form in forms if not _is_plain(form))


def _is_plain(form: Expr) -> bool:
    return form.constant is not None and form.constant >= 0


def eliminated(conditions: tuple[Condition, ...], names: Iterable[str]) -> tuple[Condition, ...]:
    """The conditions after elimination of some variables."""
    for name in names:
        about = mentioning(conditions, {name})
        conditions = without_all(conditions, about) + (without(about, name) or ())
    return conditions


def mentioning(conditions: Iterable[Condition], names: Set[str]) -> list[Condition]:
    """The comparisons in which one of the names occurs."""
    return [
        comparison
        for comparison in single(conditions)
        if any(name in names for term in comparison.terms for name in term.names())
    ]


def without_all(
    conditions: tuple[Condition, ...], gone: Iterable[Condition]
) -> tuple[Condition, ...]:
    """The conditions without the comparisons in `gone`."""
    lost = set(gone)
    kept: list[Condition] = []
    for condition in conditions:
        parts = list(single([condition]))
        left = [c for c in parts if c not in lost]
        kept += [condition] if len(left) == len(parts) else left
    return tuple(kept)


def single(conditions: Iterable[Condition]) -> Iterable[Condition]:
    """Conditions with one comparison each."""
    for condition in conditions:
        for left, operator, right in condition.pairs():
            yield Condition((left, right), (operator,), condition.span)


def as_condition(form: Expr) -> Condition:
    """The condition `form >= 0`, with the negative terms moved to the other side."""
    right = Expr(tuple((m, c) for m, c in form.terms if c > 0))
    left = right - form
    if left.constant is None and any(not monomial for monomial, c in left.terms if c > 0):
        smaller = left - 1
        if all(monomial for monomial, _ in smaller.terms):
            return smaller < right
    return left <= right


def within(grammar: Grammar, edges: Iterable[Edge]) -> list[Condition]:
    """The conditions under which each edge of an input factor lies in the factor's range."""
    conditions: list[Condition] = []
    for edge in edges:
        factor = grammar.input_factor.get(edge.label)
        if factor is not None:
            values = dict(zip(factor.indices, edge.indices, strict=True))
            conditions += [c.substitute(values) for c in factor.conditions]
    return conditions
