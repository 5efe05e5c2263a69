"""Index expressions form a ring in normal form, print as they are read, and compare as integers."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fgg.compiler.resolve.scope import Scope
from fgg.compiler.syntax.parse import parse
from fgg.compiler.syntax.tree import RuleDecl
from fgg.diagnostics import Report
from fgg.grammar import InputTable
from fgg.grammar.index import (
    MAX_DEGREE,
    MAX_TERMS,
    OPERATORS,
    Condition,
    Expr,
    ExpressionTooLarge,
    Lookup,
    is_plain_name,
    quote_name,
)
from fgg.grammar.spans import Source, Span
from tests.generators.grammars import names

VARIABLES = ("i", "j", "n", "the i")


def _table(indices: list[Expr]) -> Expr:
    return Expr.of(Lookup("left" if len(indices) == 1 else "the table", tuple(indices)))


def expressions() -> SearchStrategy[Expr]:
    """Sums and products of small numbers, names and look-ups."""
    leaves = st.one_of(st.integers(-3, 3).map(Expr.of), st.sampled_from(VARIABLES).map(Expr.of))

    def grow(inner: SearchStrategy[Expr]) -> SearchStrategy[Expr]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] - pair[1]),
            st.tuples(inner, leaves).map(lambda pair: pair[0] * pair[1]),
            st.lists(inner, min_size=1, max_size=2).map(_table),
        )

    return st.recursive(leaves, grow, max_leaves=6)


def look_up(table: str, indices: tuple[int, ...]) -> int | None:
    """A table of some integers, with a hole."""
    total = sum(7 * position + i * (position + 2) for position, i in enumerate(indices))
    return None if total == 5 else total % 11 - len(table)


VALUES = {"i": 2, "j": -3, "n": 7, "the i": 1}


@given(expressions(), expressions(), expressions())
def test_expressions_form_a_commutative_ring(a: Expr, b: Expr, c: Expr) -> None:
    zero, one = Expr.of(0), Expr.of(1)
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + zero == a
    assert a - a == zero
    assert a + -b == a - b
    assert a * one == a
    assert a * zero == zero
    try:
        assert a * b == b * a
        assert (a * b) * c == a * (b * c)
        assert a * (b + c) == a * b + a * c
    except ExpressionTooLarge:
        pass


@given(expressions(), expressions())
def test_evaluation_is_a_homomorphism(a: Expr, b: Expr) -> None:
    left, right = a.evaluate(VALUES, look_up), b.evaluate(VALUES, look_up)
    if left is None or right is None:
        return
    # A hole in a table may cancel out, but what is left is worth the same.
    assert (a + b).evaluate(VALUES, look_up) == left + right
    assert (a - b).evaluate(VALUES, look_up) == left - right
    assert (a * b).evaluate(VALUES, look_up) == left * right
    assert (-a).evaluate(VALUES, look_up) == -left


@given(expressions(), st.sampled_from(VARIABLES), expressions())
def test_substituting_and_evaluating_is_evaluating_with_the_value(
    a: Expr, name: str, value: Expr
) -> None:
    number = value.evaluate(VALUES, look_up)
    if number is None:
        return
    try:
        substituted = a.substitute({name: value})
    except ExpressionTooLarge:
        return
    expected = a.evaluate({**VALUES, name: number}, look_up)
    if expected is not None:
        assert substituted.evaluate(VALUES, look_up) == expected
    assert a.substitute({n: Expr.of(n) for n in VARIABLES}) == a


def read(text: str) -> Condition:
    """The condition that a text stands for."""
    report = Report()
    scope = Scope(report, ".")
    scope.tables = {
        "left": InputTable(name="left", shape=(Expr.of(1),)),
        "the table": InputTable(name="the table", shape=(Expr.of(1), Expr.of(1))),
    }
    (rule,) = parse(Source("", f"rule X -> for {text}"), report)
    assert isinstance(rule, RuleDecl)
    comparison = rule.conditions[0]
    variables: set[str] = set()
    terms = [scope.expr(term, variables) for term in comparison.terms]
    assert report.diagnostics == []
    return Condition(tuple(t for t in terms if t is not None), comparison.operators)


def conditions() -> SearchStrategy[Condition]:
    return st.integers(1, 3).flatmap(
        lambda count: st.builds(
            Condition,
            st.tuples(*[expressions()] * (count + 1)),
            st.tuples(*[st.sampled_from(OPERATORS)] * count),
        )
    )


@given(conditions())
def test_a_printed_condition_reads_back(condition: Condition) -> None:
    assert read(str(condition)) == condition


@given(conditions(), st.lists(st.integers(-4, 4), min_size=4, max_size=4))
def test_a_condition_holds_where_its_inequalities_are_not_negative(
    condition: Condition, numbers: list[int]
) -> None:
    values = dict(zip(VARIABLES, numbers, strict=True))
    terms = [term.evaluate(values, look_up) for term in condition.terms]
    if any(term is None for term in terms):
        return
    compare = {
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
        "==": int.__eq__,
        "!=": int.__ne__,
    }
    known = [term for term in terms if term is not None]
    holds = all(
        compare[operator](left, right)
        for left, operator, right in zip(known, condition.operators, known[1:], strict=False)
    )
    found = [e.evaluate(values, look_up) for e in condition.inequalities()]
    apart = [e.evaluate(values, look_up) for e in condition.differences()]
    if None not in (*found, *apart):
        assert (all(v is not None and v >= 0 for v in found) and 0 not in apart) == holds


@pytest.mark.parametrize(("operator", "count"), [("<", 1), (">=", 1), ("==", 2)])
def test_equality_is_two_inequalities(operator: str, count: int) -> None:
    condition = Condition((Expr.of("i"), Expr.of("j")), (operator,))
    assert len(list(condition.inequalities())) == count


def test_spans_take_no_part_in_equality() -> None:
    expr = Expr.of("i") + 1
    assert expr.at(Span(3, 4)) == expr
    assert hash(expr.at(Span(3, 4))) == hash(expr)


@given(expressions())
def test_names_are_the_names_in_the_text_in_any_depth(expr: Expr) -> None:
    words = re.findall(r"`[^`]+`|[a-z]+", str(expr))
    shown = {word.strip("`") for word in words} - {"left", "the table"}
    assert set(expr.names()) == shown


def test_expressions_do_not_grow_without_bounds() -> None:
    sums = [Expr.of(f"x{i}") for i in range(MAX_TERMS + 1)]
    with pytest.raises(ExpressionTooLarge):
        sum(sums, Expr())
    power = Expr.of(1)
    for _ in range(MAX_DEGREE):
        power = power * Expr.of("x")
    with pytest.raises(ExpressionTooLarge):
        power * Expr.of("x")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Expr(), "0"),
        (Expr.of(-3), "-3"),
        (Expr.of("n") - 1, "n - 1"),
        (-Expr.of("i") - 1, "-i - 1"),
        (Expr.of("k") * Expr.of("i") * 2 + Expr.of("j"), "2*i*k + j"),
        (Expr.of("the i") + 1, "`the i` + 1"),
        (Expr.of(Lookup("left", (Expr.of("v") + 1,))), "left[v + 1]"),
    ],
)
def test_expressions_print_as_people_write_them(expr: Expr, text: str) -> None:
    assert str(expr) == text


def test_constants_know_that_they_are_constant() -> None:
    assert Expr.of(0).constant == 0
    assert Expr.of(7).constant == 7
    assert Expr.of("n").constant is None
    assert (Expr.of("n") - Expr.of("n") + 2).constant == 2


def test_a_hole_in_a_table_has_no_value() -> None:
    expr = Expr.of(Lookup("left", (Expr.of("i"),)))
    assert expr.evaluate({"i": 3}, lambda table, indices: None) is None
    with pytest.raises(KeyError):
        expr.evaluate({"i": 3})
    with pytest.raises(KeyError):
        Expr.of("i").evaluate({})


@given(names())
def test_a_quoted_name_is_plain_or_between_backquotes(name: str) -> None:
    quoted = quote_name(name)
    assert quoted == (name if is_plain_name(name) else f"`{name}`")


def test_all_ways_to_order_a_product_are_one() -> None:
    atoms = [Expr.of("i"), Expr.of("j"), Expr.of(Lookup("left", (Expr.of("i"),)))]
    found = {a * b * c for a, b, c in product(atoms, repeat=3) if {a, b, c} == set(atoms)}
    assert len(found) == 1
