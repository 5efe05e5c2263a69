"""Values in texts: flat lists are read at once, and mean the same as lists read one by one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgg.compiler import load_text
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.flat_lists import row_end, row_numbers, row_place, values_end
from fgg.compiler.syntax.lex import lex
from fgg.compiler.syntax.parse import parse
from fgg.compiler.syntax.tree import ValueSpans
from fgg.diagnostics import Report, render_all
from fgg.grammar import Enumerated, Grammar
from fgg.grammar.spans import Source, Span
from fgg.grammar.values import Sparse, Table

NUMBERS = st.sampled_from(
    "0 1 12 007 0.5 .5 5. 1/3 0.1/3 -1 +2 -0 -0.0 1e5 1E+9 2.5e-300 -1/7 1e299 - .25e-399".split()
)
SPACES = st.sampled_from(["", "", " ", "\n", "\t "])
VALUES = st.sampled_from(
    ["a", "b2", "été", "0", "17", '"c d"', r'"\u00e9,"', "`e f`", "`rule`", '"}"']
)


def grammar_of(text: str) -> Grammar:
    grammar, diagnostics, source = load_text(f"{text}\nnonterminal S() start S rule S ->")
    assert grammar is not None, render_all(diagnostics, source)
    return grammar


def statement_of(text: str) -> tree.Statement:
    report = Report()
    (statement,) = parse(Source("test.fgg", text), report)
    assert not report.diagnostics
    return statement


def listed(items: list[tuple[str, str, str]], comma: bool) -> str:
    """Items with space around them, separated by commas, perhaps with one more at the end."""
    return ",".join(f"{before}{item}{after}" for before, item, after in items) + "," * comma


@settings(max_examples=300)
@given(st.lists(st.tuples(SPACES, NUMBERS, SPACES), min_size=1, max_size=8), st.booleans())
def test_a_flat_list_of_numbers_is_what_it_is_with_a_comment(
    items: list[tuple[str, str, str]], comma: bool
) -> None:
    text = f"factor f(A) = [{listed(items, comma)}]"
    slow = parse(Source("", text.replace("[", "[#\n")), Report())
    fast = parse(Source("", text), Report())
    if not fast:  # `-` alone
        assert not slow
        return
    (factor,), (other,) = fast, slow
    assert isinstance(factor, tree.FactorDecl) and isinstance(other, tree.FactorDecl)
    assert isinstance(factor.value, tree.NumberRow)
    assert isinstance(other.value, tree.ListLiteral)
    spans = ValueSpans(fast)
    for index, (number, literal) in enumerate(
        zip(factor.value.numbers(), other.value.items, strict=True)
    ):
        assert isinstance(literal, tree.NumberLiteral)
        sign = -1 if literal.negative else 1
        if literal.denominator is None:
            assert repr(number) == repr(sign * float(literal.digits) + 0.0)
        else:
            assert number == sign * Fraction(literal.digits) / int(literal.denominator)
        place = literal.span
        assert spans.locate("f", (index,)) == Span(place.start - 2, place.end - 2)
    assert spans.locate("f", (len(items),)) == factor.value.span


@settings(max_examples=200)
@given(st.lists(st.tuples(SPACES, VALUES, SPACES), min_size=1, max_size=8), st.booleans())
def test_a_flat_list_of_values_is_what_it_is_with_a_comment(
    items: list[tuple[str, str, str]], comma: bool
) -> None:
    text = f"domain A = {{{listed(items, comma)}}}"
    fast, slow = statement_of(text), statement_of(text.replace("= {", "= {#\n"))
    assert isinstance(fast, tree.DomainDecl) and isinstance(slow, tree.DomainDecl)
    assert isinstance(fast.definition, tree.Enumeration)
    assert isinstance(slow.definition, tree.Enumeration)
    moved = [
        tree.Name(name.text, Span(name.span.start - 2, name.span.end - 2))
        for name in slow.definition.values
    ]
    assert list(fast.definition.values) == moved


@pytest.mark.parametrize(
    "text", ["[]", "[1", "[1 2]", "[1,,2]", "[- 1]", "[1 /3]", "[1/0]", "[1e400]", "[a]", "[[1]]"]
)
def test_some_lists_are_left_to_the_parser(text: str) -> None:
    assert row_end(text, 0) is None


@pytest.mark.parametrize(
    "text", ["{}", "{a", "{a b}", "{a: 1}", "{rule}", "{a.b}", "{a,,b}", "{1.5}"]
)
def test_some_values_are_left_to_the_parser(text: str) -> None:
    assert values_end(text, 0) is None


def test_rows_are_read_with_their_places() -> None:
    text = "[1, 1/3,\n -0.0,]"
    assert row_end(text, 0) == len(text)
    assert row_numbers(text) == (1.0, Fraction(1, 3), 0.0)
    assert row_place(text, 2) == Span(10, 14)
    assert row_place(text, 3) is None


def test_indices_are_not_rows() -> None:
    statement = statement_of("rule X[0, 1] -> o = w[2] X[3, 4]")
    assert isinstance(statement, tree.RuleDecl)
    assert len(statement.head.indices) == 2


def test_a_wrong_weight_in_a_row_is_shown_where_it_stands() -> None:
    text = "domain A = 3 factor f(A, A) = [[1, 2, 3], [4, 5, -6], [7, 8, 9]]"
    _, diagnostics, _ = load_text(text + " nonterminal S() start S rule S ->")
    (span,) = [d.span for d in diagnostics if d.code == "F126"]
    assert span is not None and text[span.start : span.end] == "-6"


def test_the_values_of_a_union_are_written_with_dots() -> None:
    text = """
    domain A = {x, y} domain B = {x, z} domain C = A + B domain N = 2 domain P = 2 domain Q = N + P
    factor f(C, Q) = {A.x: {N.0: 1, `P`.1: 2}, "B.x": {N.1: 3}, z: {"P.0": 4}}
    """
    value = grammar_of(text).factor["f"].value
    assert isinstance(value, Sparse)
    assert value.entries == (((0, 0), 1.0), ((0, 3), 2.0), ((2, 1), 3.0), ((3, 2), 4.0))


@pytest.mark.parametrize("key", ["A.", ".x", "A.0.x", "A.1e5", "A .0"])
def test_other_keys_with_dots_are_errors(key: str) -> None:
    report = Report()
    parse(Source("", f"factor f(C) = {{{key}: 1}}"), report)
    assert len(report.diagnostics) == 1


def test_long_lists_are_read_without_a_token_for_each_item() -> None:
    row = ", ".join(["0.25"] * 100_000)
    names = ", ".join(f"v{n}" for n in range(50_000))
    text = f"domain A = {{{names}}} domain T = 100000 factor f(T) = [{row}]"
    lexed = lex(text, Report())
    assert lexed is not None and len(lexed[0]) < 20
    grammar = grammar_of(text)
    value = grammar.factor["f"].value
    assert isinstance(value, Table) and isinstance(value.entries, tuple)
    assert len(value.entries) == 100_000
    shape = grammar.domain["A"].shape
    assert isinstance(shape, Enumerated) and len(shape.values) == 50_000
