"""Ranges of families, inferred and declared."""

from __future__ import annotations

from fgg.compiler import load, loads
from fgg.grammar import Grammar
from fgg.grammar.index import Expr
from fgg.grammar.linear import implies
from fgg.grammar.ranges import length_rows, regions, row
from fgg.rewrite.conjoin import conjoin

CHAIN = """
domain T = 2
factor f(T -> T)
nonterminal S()
nonterminal X(T)
start S
rule begin: S -> X(t)
rule step: X(t) -> f(t, u) X(u)
rule end: X(t) ->
query go(w: T[n]) {
  rule begin: S -> X[0]
  rule step: X[i] -> X[i+1] for i < n
  rule end: X[n] ->
}
"""


def conjoined(text: str, query: str) -> Grammar:
    grammar = loads(text)
    return conjoin(grammar, grammar.query[query])


def known(grammar: Grammar, family: str, expr: Expr) -> bool:
    """Whether `expr >= 0` follows from the range of a family."""
    region = regions(grammar)[family]
    rows = [row(c, {}) for c in region.conditions] + length_rows(grammar)
    return implies(rows, row(expr, {}))


def test_a_chain_runs_from_zero_to_its_length() -> None:
    grammar = conjoined(CHAIN, "go")
    (i,) = grammar.nonterminal["X"].indices
    assert known(grammar, "X", Expr.of(i))
    assert known(grammar, "X", Expr.of("n") - Expr.of(i))
    assert not known(grammar, "X", Expr.of(i) - 1)


def test_spans_lie_inside_the_string() -> None:
    pcfg = load("pcfg")
    grammar = conjoin(pcfg, pcfg.query["string"])
    i, j = map(Expr.of, grammar.nonterminal["X"].indices)
    for expr in (i, j - i, Expr.of("n") - j):
        assert known(grammar, "X", expr)


def test_a_declared_range_is_kept() -> None:
    grammar = loads(
        "domain T = 2 nonterminal X[i](T) for 0 <= i <= 4 start X[0]"
        " rule a: X[i](t) -> X[i+1](t) for i < 4 rule b: X[4](t) ->"
    )
    assert regions(grammar)["X"].declared


def test_a_backward_chain_is_bounded_too() -> None:
    text = CHAIN.replace("X[0]", "X[n]").replace("X[i+1] for i < n", "X[i-1] for i > 0")
    grammar = conjoined(text.replace("end: X[n]", "end: X[0]"), "go")
    (i,) = grammar.nonterminal["X"].indices
    assert known(grammar, "X", Expr.of(i))
    assert known(grammar, "X", Expr.of("n") - Expr.of(i))
