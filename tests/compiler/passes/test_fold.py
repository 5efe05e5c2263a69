"""Messages: the value stays, indices that only they depend on are summed."""

from __future__ import annotations

import pytest

from fgg.api.compile import compile
from fgg.compiler import loads
from fgg.compiler.passes.fold import fold
from fgg.compiler.passes.tie import tie
from fgg.compiler.plan.contraction import MAX_EXACT
from fgg.compiler.plan.rule_operands import rule_operands
from fgg.grammar import Grammar
from fgg.rewrite.ground import ground
from fgg.runtime.reference.solve import solve

HEAD = """
domain T = 3
domain W = 2
rank R = 2
nonterminal S()
start S
"""

# Two equal messages in one rule: neither of them may be lost.
SQUARE = """
input w: W[n]
factor v(R, T)
factor u(T, R)
factor emit(T -> W)
nonterminal X[i](T) for 0 <= i <= n
rule X[n](a) ->
rule X[i](a) -> u(a, q) v(q, b) X[i+1](b) v(q, c) X[i+1](c) emit(a, w[i])   for i < n
rule S -> X[0](a)
"""

# A second index that a rule sums on its own, with an input beside it, and one with a bound.
SUMMED = """
input s: W[m]
input w: W[n]
factor v(R, T, W)
factor u(T, R)
factor emit(T -> W)
nonterminal X[i, j, t](T) for 0 <= i < j <= n, 0 <= t < m
rule X[i,i+1,t](a) -> emit(a, w[i]) emit(a, s[t])
rule X[i,j,t](a) -> u(a, q) v(q, b, s[x]) X[i,k,x](b) v(q, c, s[t]) X[k,j,y](c)
    for i < k < j, 0 <= x < m, t <= y < m
rule S -> X[0,n,t](a)   for 0 <= t < m
"""

# The index of a family has the name of another rule's split.
NAMES = """
input s: W[m]
input w: W[n]
factor f(T, W, T, T)
factor emit(T -> W)
nonterminal X[i, j, k](T) for 0 <= i < j <= n, 0 <= k < m
rule X[i,i+1,k](a) -> emit(a, w[i]) emit(a, s[k])
rule X[i,j,v](a) -> f(a, s[v], b, c) X[i,k,u](b) X[k,j,t](c)
    for i < k < j, 0 <= u < m, 0 <= t < m
rule S -> X[0,n,v](a)   for 0 <= v < m
"""


def value(grammar: Grammar, inputs: dict[str, list[int]], semiring: str = "gf") -> float:
    given = {x: y for x, y in inputs.items() if x in grammar.input}
    return float(solve(ground(grammar, inputs=given), semiring, seed=3).value)


@pytest.mark.parametrize("text", [SQUARE, SUMMED, NAMES])
def test_messages_keep_the_value(text: str) -> None:
    grammar = loads(HEAD + text)
    # A message hides which tokens a rule reads: those that may be missing are tied before.
    folded = fold(tie(grammar))
    assert fold(grammar) != grammar or text == NAMES
    for inputs in ({"w": [0, 1], "s": [1, 0]}, {"w": [1, 1, 0], "s": [0, -1, 1]}):
        assert value(folded, inputs) == value(grammar, inputs)


@pytest.mark.parametrize("text", [SQUARE, SUMMED, NAMES])
def test_programs_with_messages_agree_with_the_source(text: str) -> None:
    grammar = loads(HEAD + text)
    program = compile(grammar, fallback=False)
    inputs = {"w": [0, 1, 1, 0, 1], "s": [1, 0, 1]}
    used = {x: [y] for x, y in inputs.items() if x in grammar.input}
    found = float(program.log_z(program.weights(seed=3), used)[0])
    assert found == pytest.approx(value(grammar, inputs, "log"), rel=1e-5)


def test_an_index_that_only_a_message_depends_on_is_no_index_of_it() -> None:
    folded = fold(loads(HEAD + SUMMED))
    assert ("i", "j") in {x.indices for x in folded.nonterminals if x.name.startswith("X_")}


def test_rules_with_many_parts_have_messages_too() -> None:
    extra = " ".join(f"g{i}(q)" for i in range(6))
    text = "\n".join(f"factor g{i}(R)" for i in range(6)) + SQUARE.replace(
        "emit(a, w[i])   ", extra
    )
    grammar = loads(HEAD + text)
    rule = grammar.rules[1]
    assert len(rule_operands(grammar, rule).parts) > MAX_EXACT
    folded = fold(grammar)
    assert any(x.name.startswith("X_") for x in folded.nonterminals)
    assert value(folded, {"w": [0, 1]}) == value(grammar, {"w": [0, 1]})
