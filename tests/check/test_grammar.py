"""Whole-grammar checks: attributes, useless symbols, what is only warned of."""

from __future__ import annotations

import pytest

from fgg.compiler import load_text
from fgg.library import library_names, library_text
from tests.helpers.problems import codes, marked, problem


@pytest.mark.parametrize("name", library_names())
def test_the_library_is_without_errors_and_warnings(name: str) -> None:
    assert codes(library_text(name)) == []


# Attributes


@pytest.mark.parametrize(
    ("attribute", "code"),
    [
        ("prior = dirichlet(0.1)", None),
        ("prior = dirichlet(0)", "F134"),
        ("prior = dirichlet", "F134"),
        ("prior = beta(1)", "F134"),
        ("frozen = yes", None),
        ("frozen = maybe", "F134"),
        ("net = residual(dim=16)", None),
        ("net = 3", "F134"),
        ("blocks = clusters", "F494"),
        ('blocks = "clusters.txt"', "F134"),
        ("tied = stationary(trans)", None),
        ("tied = stationary(other)", "F134"),
        ("tied = stationary(f)", "F134"),
        ("tied = trans", "F134"),
        ("colour = red", "F133"),
    ],
)
def test_attributes_are_checked(attribute: str, code: str | None) -> None:
    text = f"""
    domain T = 2
    factor f(-> T) with {attribute}
    factor trans(T -> T)
    nonterminal S() start S rule S -> f(t) trans(t, u)
    """
    assert codes(text) == ([code] if code else [])


@pytest.mark.parametrize("fixed", ["= uniform", ""])
def test_attributes_of_learning_on_fixed_factors_are_warned_of(fixed: str) -> None:
    tied = "" if fixed else "tied = stationary(trans), "
    text = f"""
    domain T = 2
    factor f(-> T) {fixed} with {tied}init = normal(0.1)
    factor trans(T -> T)
    nonterminal S() start S rule S -> f(t) trans(t, u)
    """
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F208", "init = normal(0.1)")


def test_a_tied_factor_has_no_value() -> None:
    text = """
    domain T = 2
    factor f(-> T) = uniform with tied = stationary(trans)
    factor trans(T -> T)
    nonterminal S() start S rule S -> f(t) trans(t, u)
    """
    assert problem(text).message == "`f` is tied to `trans`, but also has a value"


# Warnings


def test_warnings_do_not_stop_a_grammar() -> None:
    grammar, diagnostics, _ = load_text("nonterminal S() start S rule S -> S")
    assert grammar is not None
    assert [d.severity for d in diagnostics] == ["warning"]


def test_an_unreachable_nonterminal() -> None:
    text = "nonterminal S() nonterminal X() start S rule S -> rule X ->"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F201", "X")


def test_a_nonterminal_that_a_query_starts_at_is_reachable() -> None:
    text = """
    nonterminal S() nonterminal X() start S rule s: S -> rule x: X ->
    query q { start X rule s: S -> rule x: X -> }
    """
    assert codes(text) == []


def test_an_unproductive_nonterminal() -> None:
    text = "nonterminal S() nonterminal X() start S rule S -> rule t: S -> X rule X -> X"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F202", "X")


def test_a_nonterminal_without_rules() -> None:
    text = "nonterminal S() nonterminal X() start S rule S -> rule t: S -> X"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F203", "X")


@pytest.mark.parametrize(
    ("rules", "help_text"),
    [
        ("", "add a rule for `S`"),
        ("rule S -> S", "no derivation comes to an end: add a rule that ends one"),
    ],
)
def test_a_grammar_that_derives_nothing_is_one_warning(rules: str, help_text: str) -> None:
    found = problem(f"nonterminal S() start S {rules}")
    assert (found.code, found.help) == ("F206", help_text)


def test_an_unused_factor() -> None:
    text = "domain T = 2 factor f(T) nonterminal S() start S rule S ->"
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F204", "f")


def test_a_factor_that_only_a_query_uses_is_used() -> None:
    text = """
    domain T = 2 factor f(T) factor g(T) nonterminal S() start S rule s: S -> f(t)
    query q { rule s: S -> g(t) }
    """
    assert codes(text) == []


def test_a_rule_that_a_query_leaves_out() -> None:
    text = """
    nonterminal S() start S rule a: S -> rule b: S ->
    query q { rule a: S -> }
    """
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F205", "q")
    assert found.labels[0].text == "the rule"


def test_a_size_in_the_place_of_an_index_variable() -> None:
    text = """
    size k = 2 domain W = k factor emit(W) input w: W[n]
    nonterminal X[i, j] for 0 <= i < j <= n
    start X[0, n]
    rule split: X[i, j] -> X[i, k] X[k, j] for i < k < j
    rule word: X[i, i+1] -> emit(w[i])
    """
    found = problem(text)
    assert (found.code, marked(text, found)) == ("F207", "i < k < j")
    assert codes(text.replace("size k = 2 domain W = k", "domain W = 2")) == []
