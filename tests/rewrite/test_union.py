"""Unions of grammars: values add up, and what does not fit together is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.rewrite.ground import ground
from fgg.rewrite.rename import rename
from fgg.rewrite.union import union
from tests.conftest import Golden
from tests.generators.grammars import finite_grammars

ONE = """
domain T = 2
factor f(T) = [1, 2]
nonterminal S()
nonterminal X(T)
start S
rule go:  S    -> X(a)
rule end: X(a) -> f(a)
"""
TWO = ONE.replace("f(a)", "f(a) g(a, b)") + "factor g(T, T) = 1\n"


def test_values_of_a_union_add_up(golden: Golden) -> None:
    one, two = loads(ONE, name="one.fgg"), loads(TWO, name="two.fgg")
    result = union(one, two)
    assert brute_force(result, {}) == 3 + 6
    assert not check_grammar(result)
    golden(print_grammar(result), "fgg")


@given(finite_grammars(), finite_grammars())
@settings(max_examples=40)
def test_unions_of_any_grammars_add_up(one: Grammar, two: Grammar) -> None:
    one, two = rename(one, prefix="a"), rename(two, prefix="b")
    result = union(one, two)
    assert not [d for d in check_grammar(result) if d.is_error]
    np.testing.assert_allclose(
        brute_force(result, {}),
        np.array(brute_force(one, {})) + np.array(brute_force(two, {})),
        rtol=1e-9,
    )


def test_a_grammar_may_occur_twice() -> None:
    grammar = loads(ONE)
    assert brute_force(union(grammar, grammar, grammar), {}) == 9
    assert union(grammar) == grammar


def test_rules_of_shared_nonterminals_are_pooled() -> None:
    one, two = loads(ONE), loads(TWO)
    result = union(one, two, shared=("X", "S"))
    assert result.start.label == "S" and set(result.nonterminal) == {"S", "X"}
    assert [rule.name for rule in result.rules] == ["go", "end", "go_2", "end_2"]
    assert brute_force(result, {}) == 2 * (3 + 6)
    apart = union(one, two, shared=("X",))
    assert set(apart.nonterminal) == {"S", "S_2", "S_3", "X"}
    assert brute_force(apart, {}) == 2 * (3 + 6)


def test_the_start_symbol_can_be_chosen() -> None:
    one, two = loads(ONE), loads(TWO)
    pooled = union(one, two, shared=("X",), start="X")
    np.testing.assert_allclose(brute_force(pooled, {}), [3, 6])
    named = union(one, two, start="Both")
    assert named.start.label == "Both" and brute_force(named, {}) == 9


def test_start_symbols_with_nodes_are_joined_node_by_node() -> None:
    one, two = (loads(text.replace("start S", "start X")) for text in (ONE, TWO))
    np.testing.assert_allclose(brute_force(union(one, two), {}), [3, 6])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("domain T = 2", "domain T = {a, b}", "domain `T` is declared differently"),
        ("[1, 2]", "[1, 3]", "factor `f` is declared differently in two grammars"),
        ("domain T = 2", "size T2 = 2\nsize f2 = 3\ndomain T = T2", "domain `T` is declared"),
        ("start S", "start X", "have different domains"),
    ],
)
def test_grammars_that_do_not_fit_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(GrammarError, match=f"F304.*{message}"):
        union(loads(ONE), loads(TWO.replace(old, new)))


def test_kinds_of_names_must_agree() -> None:
    other = "size T = 2\nnonterminal S()\nstart S\nrule S ->"
    with pytest.raises(GrammarError, match="`T` is a domain in one grammar, a size in another"):
        union(loads(ONE), loads(other))
    with pytest.raises(GrammarError, match="`i` is a size, but an index or a length"):
        union(load("hmm"), loads(other.replace("T", "i")))
    with pytest.raises(GrammarError, match="no grammar has a nonterminal `Z`"):
        union(loads(ONE), loads(TWO), shared=("Z",))
    with pytest.raises(GrammarError, match="nonterminal `X` is declared differently"):
        union(loads(ONE), loads("nonterminal X()\nstart X\nrule X ->"), shared=("X",))


def test_a_nonterminal_that_is_a_factor_elsewhere_is_renamed() -> None:
    result = union(loads(ONE), loads("nonterminal f()\nstart f\nrule f ->"))
    assert set(result.nonterminal) == {"S_2", "S", "X", "f_2"}
    assert brute_force(result, {}) == 4


def test_queries_of_the_same_name_ask_all_grammars() -> None:
    hmm = load("hmm", sizes={"k": 2, "d": 3})
    other = rename(hmm, factors={"emit": "emit2"})
    result = union(hmm, other)
    assert not [d for d in check_grammar(result) if d.is_error]
    assert loads(print_grammar(result)) == result
    weights = {
        "init": [0.25, 0.75],
        "trans": [[0.5, 0.5], [0.125, 0.875]],
        "emit": [[0.5, 0.25, 0.25], [0, 0.5, 0.5]],
        "emit2": [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]],
    }
    inputs = {"w": [1, 2, 0]}
    values = [
        np.array(brute_force(ground(g, query="string", inputs=inputs), weights))
        for g in (hmm, other, result)
    ]
    assert values[2] == pytest.approx(values[0] + values[1])


def test_queries_with_starts_of_their_own_are_joined() -> None:
    text = """
    domain W = 2
    factor f(W) = [1, 3]
    nonterminal X()
    start X
    rule more: X -> f(a) X()
    rule last: X -> f(a)
    query string(w: W[n]) {
      start X[0]
      rule more: X[i]   -> X[i+1] a = w[i]   for 0 <= i < n-1
      rule last: X[n-1] -> a = w[n-1]
    }
    """
    grammar = loads(text)
    inputs = {"w": [1, 0, 1]}
    for result, times in ((union(grammar, grammar), 2), (union(grammar), 1)):
        ground_grammar = ground(result, query="string", inputs=inputs)
        assert brute_force(ground_grammar, {}) == 9 * times
    pooled = union(grammar, grammar, shared=("X",))  # two ways to take each of three steps
    assert brute_force(ground(pooled, query="string", inputs=inputs), {}) == 9 * 8


def test_queries_that_differ_are_refused() -> None:
    hmm = load("hmm")
    other = loads(print_grammar(hmm).replace("w: W[n]", "w: W[n], v: W[n]"))
    with pytest.raises(GrammarError, match="query `string` has different inputs"):
        union(hmm, other)
