"""Queries: what they mean for the model, and what is said if nothing."""

from __future__ import annotations

import pytest

from tests.helpers.problems import grammar_of, marked, problem, problems
from tests.helpers.resolving import MODEL, QUERY


def test_a_query_is_resolved_against_the_model() -> None:
    grammar = grammar_of(MODEL.replace("factor head(N, W)", "") + QUERY)
    query = grammar.query["string"]
    assert [rule.name for rule in query.rules] == ["root", "binary", "word"]
    assert [str(index) for index in query.rules[2].head.indices] == ["i", "i + 1"]
    assert query.rules[2].clamps[0].attachment.node == "o"


@pytest.mark.parametrize(
    ("right", "wrong", "code", "place"),
    [
        ("rule word:", "rule words:", "F143", "words"),
        ("X[k2,j]  ", "", "F144", "rule binary: X[i,j]   -> X[i,k2]"),
        ("-> X[0,n]", "-> S", "F145", "S"),
        ("rule root:   S ", "rule root:   X[0,n]", "F145", "X[0,n]"),
        ("-> o = w[i]", "-> p = w[i]", "F146", "p"),
        ("X[k2,j]", "X[j]", "F147", "X[j]"),
        ("-> o = w[i]", "-> a.P = w[i]", "F148", "a.P"),
        ("-> o = w[i]", "-> o = v[i]", "F104", "v"),
        ("-> o = w[i]", "-> o = w[i, i]", "F114", "w"),
        ("-> o = w[i]", "-> o = w[i] (u: W)", "F149", "(u: W)"),
        ("-> X[0,n]", "-> X[0,n](a)", "F149", "X[0,n](a)"),
        ("-> o = w[i]", "-> emit(a.P, w[i])", "F149", "emit(a.P, w[i])"),
        ("-> o = w[i]", "-> Y[i]", "F103", "Y"),
    ],
)
def test_what_is_wrong_with_a_query(right: str, wrong: str, code: str, place: str) -> None:
    query = QUERY.replace(right, wrong)
    assert query != QUERY
    text = MODEL + query
    found = [d for d in problems(text) if d.is_error]
    assert [d.code for d in found][:1] == [code]
    assert {d.code for d in found} == {code}
    assert marked(text, found[0]).startswith(place)


def test_nonterminals_in_another_order_are_each_reported() -> None:
    text = """
    nonterminal S() nonterminal A() nonterminal B() start S
    rule ab: S -> A B  rule a: A ->  rule b: B ->
    query q { rule ab: S -> B A  rule a: A ->  rule b: B -> }
    """
    found = problems(text)
    assert [d.code for d in found] == ["F145", "F145"]
    assert found[0].message == "`B` stands where the model's rule `ab` has `A`"


def test_a_query_that_indexes_the_start_symbol_must_say_where_to_start() -> None:
    text = """
    nonterminal S() start S rule more: S -> S rule stop: S ->
    query q { rule more: S[i] -> S[i+1] for i < 3  rule stop: S[3] -> }
    """
    found = problem(text)
    assert (found.code, found.help) == ("F136", "add `start S[…]` to the query")
    assert marked(text, found) == "S[i]"
    grammar_of(text.replace("query q {", "query q { start S[0]"))


def test_a_query_has_one_start_symbol() -> None:
    text = """
    nonterminal S() start S rule stop: S ->
    query q { start S[0] start S[1] rule stop: S[i] -> for 0 <= i < 2 }
    """
    found = problem(text)
    assert (found.code, found.labels[0].text) == ("F137", "the first one")


def test_the_start_of_a_query_has_as_many_indices_as_its_rules_say() -> None:
    text = """
    nonterminal S() start S rule stop: S ->
    query q { start S[0, 1] rule stop: S[0] -> }
    """
    assert [d.code for d in problems(text)] == ["F114"]


def test_a_query_may_declare_the_range_of_a_family() -> None:
    declared = "{\n  nonterminal X[i,j] for 0 <= i < j <= n\n"
    text = MODEL.replace("factor head(N, W)", "") + QUERY
    grammar = grammar_of(text.replace("{\n", declared, 1))
    assert [str(c) for c in grammar.query["string"].families[0].conditions] == ["0 <= i < j <= n"]


def test_a_query_does_not_repeat_domains() -> None:
    text = "domain T = 2 nonterminal X(T) start X rule x: X(t) ->"
    query = "query q { nonterminal X[i](T) for i == 0 start X[0] rule x: X[0] -> }"
    assert problem(text + query).code == "F149"


def test_errors_in_the_model_are_not_repeated_for_its_queries() -> None:
    text = MODEL.replace("emit(a.P, o)", "emmit(a.P, o)") + QUERY
    assert [d.code for d in problems(text)] == ["F103"]
