"""What messages propose: the text to write, with the names of the grammar in it."""

from __future__ import annotations

import pytest

import fgg
from fgg.diagnostics import GrammarError
from tests.helpers.problems import grammar_of, problem

FAMILY = """
domain W = 3 domain N = 2 domain C = N + W
input w: W[n] input table left[n]
factor f(W) factor g(N) factor h(C)
nonterminal S() nonterminal X[first, last]() for 0 <= first <= last <= n start S
"""


@pytest.mark.parametrize(
    ("rule", "help"),
    [
        ("rule S -> X f(w[0]) g(a) h(c)", "write `X[first, last]`"),
        ("rule S -> f(w[0, 1]) g(a) h(c)", "write `w[i]`"),
        ("rule S -> f[0](w[0]) g(a) h(c)", "write `f` without indices"),
        ("rule S -> f(w[left[0, 1]]) g(a) h(c)", "write `left[i]`"),
    ],
)
def test_a_wrong_number_of_indices_is_answered_with_what_to_write(rule: str, help: str) -> None:
    text = FAMILY + "rule X[i, j] -> for i < j " + rule
    found = problem(text)
    assert (found.code, found.help) == ("F114", help)


@pytest.mark.parametrize(
    ("rule", "help"),
    [
        (
            "f(o) g(w[0]) h(c)",
            "touch a node of domain `W` there, or declare `input w: N[…]`",
        ),
        (
            "f(o) g(a) h(w[0])",
            "fix that part of a node to the input, `o.W = w[…]`, and touch `o`",
        ),
        (
            "f(o) g(a) a = w[0] h(c)",
            "touch a node of domain `W` there, or declare `input w: N[…]`",
        ),
    ],
)
def test_an_input_of_another_domain_is_answered_with_a_way_out(rule: str, help: str) -> None:
    found = problem(f"{FAMILY}rule X[i, j] -> for i < j rule S -> X[0, left[0]] {rule}")
    assert (found.code, found.help) == ("F148", help)


def test_a_table_without_order_is_answered_with_a_condition_that_helps() -> None:
    text = """
    domain T = 2 factor f(T, T) input table left[m]
    nonterminal S() nonterminal X[v](T) for 0 <= v < m start S
    rule S -> X[m-1](t)
    rule step: X[v](t) -> f(t, u) X[left[v]](u) {condition}
    rule leaf: X[v](t) ->
    """
    with pytest.raises(GrammarError) as caught:
        fgg.compile(grammar_of(text.format(condition="")), fallback=False)
    (found,) = caught.value.diagnostics
    condition = "for left[v] < v"
    assert found.code == "F425" and f"`{condition}`" in found.help
    assert fgg.compile(grammar_of(text.format(condition=condition))).compiled
