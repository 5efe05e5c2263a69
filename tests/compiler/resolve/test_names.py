"""Names: what they stand for, which are near, and what is said once if they stand for nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.helpers.problems import grammar_of, problem, problems
from tests.helpers.resolving import MODEL, QUERY


def test_namespaces_are_apart() -> None:
    text = """
    size n = 2  domain T = n  factor f(T)  nonterminal T()  input f: T[m]  start T
    rule f: T -> f(f[0])
    """
    grammar = grammar_of(text)
    assert grammar.nonterminal["T"].domains == ()
    assert grammar.rules[0].name == "f"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("size T = 2", "domain T = 3"),
        ("rank T = 2", "domain T = 3"),
        ("factor f(D)", "nonterminal f()"),
        ("factor f(D)", "input factor f(D)"),
        ("input w: D[n]", "input table w[n]"),
        ("rule r: S ->", "rule r: S -> S"),
        ("query q { rule s: S -> }", "query q { rule s: S -> }"),
    ],
)
def test_a_name_cannot_be_declared_twice(first: str, second: str) -> None:
    text = f"domain D = 2 nonterminal S() start S rule s: S -> {first} {second}"
    found = [d for d in problems(text) if d.is_error]
    assert [d.code for d in found] == ["F107"]
    assert found[0].labels[0].span.start < found[0].span.start  # type: ignore[union-attr]


def test_a_query_may_not_redeclare_an_input_or_a_family() -> None:
    text = f"{MODEL} input w: W[m] {QUERY}"
    assert {d.code for d in problems(text) if d.is_error} == {"F107"}
    twice = "nonterminal X[i] for i == 0 nonterminal X[i] for i == 0 }"
    found = [d for d in problems(MODEL + "query q {" + twice) if d.is_error]
    assert [d.code for d in found] == ["F107"]
    assert found[0].labels


def test_rules_without_a_name_are_called_after_their_nonterminal() -> None:
    text = "nonterminal S() start S rule S -> rule S -> S rule S_2: S -> S S"
    names = [rule.name for rule in grammar_of(text).rules]
    assert names[0] == "S" and len(set(names)) == 3 and "S_2" in names


def test_the_order_of_statements_is_free() -> None:
    text = "rule S -> f(u) start S nonterminal S() factor f(T) domain T = k size k = m size m = 2"
    assert grammar_of(text) == grammar_of(
        "size k = m size m = 2 domain T = k factor f(T) nonterminal S() start S rule S -> f(u)"
    )


@pytest.mark.parametrize(
    ("wrong", "code", "hint"),
    [
        ("domain D = kk + 1", "F101", "k"),
        ("nonterminal Y(Cc)", "F102", "C"),
        ("rule r: S -> bniary(a, b, c)", "F103", "binary"),
        ("input words: W[n] rule r: S -> emit(p, word[0])", "F104", "words"),
        ("domain Long = N + W rule r: S -> root(a.M) (a: Long)", "F105", ""),
        ("domain Nn = 2 domain U = Nn + W rule r: S -> root(a.N) (a: U)", "F105", "Nn"),
        ("rule r: Xx(a) ->", "F106", "X"),
        ("input table left[n] nonterminal Z[i] rule r: S -> Z[lft[0]]", "F108", "left"),
        ("factor g(W) = {teh: 1}", "F129", "the"),
        ("factor g(W) with piror = dirichlet(1)", "F133", "prior"),
        ("query q { rule wrod: X -> }", "F143", "word"),
        ("query q(w: W[n]) { rule word: X -> oo = w[0] }", "F146", "o"),
    ],
)
def test_near_names_are_proposed(wrong: str, code: str, hint: str) -> None:
    found = [d for d in problems(MODEL + wrong) if d.is_error]
    assert [d.code for d in found] == [code]
    assert found[0].help == (f"did you mean `{hint}`?" if hint else "")


def test_a_size_in_the_place_of_a_domain_is_explained() -> None:
    found = problem(MODEL + "nonterminal Y(k)")
    assert found.code == "F102"
    assert found.help == "`k` is a size; declare `domain K = k`"


def test_an_input_in_the_place_of_a_factor_is_explained() -> None:
    text = MODEL + "input v: W[n] rule r: S -> v(o)"
    assert problem(text).help == "`v` is an input: touch a position, `f(u, v[i])`"


# All errors at once


MANY = """
size k = mm
size a = b
size b = a
domain T = 3
domain U = T + 2
domain E = {x, y, x}
factor f(T -> Tt)
factor g(T -> T) = [[1, 0], [0, 1], [0, -1]]
factor h(T) with prior = gamma(1)
factor f(T)
nonterminal S()
nonterminal X[i, i](T)
start SS
rule one:  S -> g(t) h(t)
rule two:  S -> zz(t)
rule three: h(t) -> g(t, u)
rule four: S -> g(e, t) (e: E)
rule four: S -> h(t.T) (t: T)
query q {
  rule six: S ->
}
"""


def test_all_errors_of_a_file_come_at_once() -> None:
    found = problems(MANY)
    assert [d.code for d in found] == [
        "F101",  # mm
        "F109",  # a, b
        "F124",  # T + 2
        "F122",  # x
        "F102",  # Tt
        "F125",  # two entries a row
        "F125",
        "F125",
        "F134",  # gamma
        "F107",  # f
        "F142",  # i, i
        "F106",  # SS
        "F112",  # g(t)
        "F103",  # zz
        "F135",  # h(t) ->
        "F113",  # e
        "F107",  # four
        "F140",  # t.T
        "F143",  # six
    ]
    assert all(d.span is not None for d in found)


def test_one_mistake_is_reported_once() -> None:
    """A broken declaration is not reported again wherever its name is used."""
    text = MODEL.replace("domain P = 2 * k", "domain P = 2 * kk")
    assert problem(text + QUERY).code == "F101"


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("domain N = k", "domain N = [k]", "F001"),
        ("size k = 3", "size k = 3 +", "F001"),
        ("factor emit(P -> W)", "factor emit(P -> W", "F017"),
        ("nonterminal X(C)", "nonterminal X(C", "F017"),
        ("start S", "start", "F001"),
        ("rule word:", "rule word", "F020"),
        ("query string(w: W[n])", "query string(w: W[n)", "F017"),
    ],
)
def test_a_statement_that_cannot_be_read_hides_no_name(right: str, wrong: str, code: str) -> None:
    text = MODEL + QUERY
    assert right in text
    assert Counter(d.code for d in problems(text.replace(right, wrong, 1))) == {code: 1}


def test_an_unreadable_input_takes_its_lengths_along() -> None:
    text = """
    domain W = 2 factor f(W) input w: W[n nonterminal S() start S
    nonterminal X[i] for 0 <= i < n
    rule S -> X[0]
    rule X[i] -> f(w[i])
    """
    assert [d.code for d in problems(text)] == ["F017"]


@pytest.mark.parametrize("kind", ["factor phi[i](W", "table left[n"])
def test_other_inputs_that_cannot_be_read_hide_no_name(kind: str) -> None:
    text = f"""
    domain W = 2 input w: W[n] input {kind} nonterminal S() start S
    nonterminal X[i] for 0 <= i < n
    rule S -> X[0]
    rule X[i] -> (o: W) {"phi[i](o)" if "phi" in kind else "X[left[i]]"}
    """
    assert [d.code for d in problems(text)] == ["F017"]


def test_an_error_beside_an_unreadable_statement_is_still_found() -> None:
    text = MODEL.replace("domain N = k", "domain N = [k]") + "rule r: X(a) -> nothing(a)"
    assert [d.code for d in problems(text)] == ["F001", "F103"]
