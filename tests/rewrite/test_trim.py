"""Useless symbols, in models and in their queries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.grammar import Grammar
from fgg.grammar.semantics import brute_force
from fgg.rewrite.trim import productive, reachable, trim
from tests.generators.grammars import any_grammars, finite_grammars

USELESS = """
factor f() = 2
nonterminal S()
nonterminal X()
nonterminal Loop()
nonterminal Alone()
nonterminal Empty()
start S
rule good:  S     -> f() X()
rule bad:   S     -> X() Loop()
rule leaf:  X     -> f()
rule loop:  Loop  -> Loop()
rule alone: Alone -> f()
rule empty: Alone -> Empty()
"""


def test_useless_symbols_are_dropped() -> None:
    grammar = loads(USELESS)
    assert productive(grammar) == {"S", "X", "Alone"}
    assert reachable(grammar) == {"S", "X", "Loop"}
    result = trim(grammar)
    assert [x.name for x in result.nonterminals] == ["S", "X"]
    assert [rule.name for rule in result.rules] == ["good", "leaf"]


def test_a_start_symbol_that_derives_nothing_stays() -> None:
    grammar = loads("nonterminal S()\nstart S\nrule S -> S()")
    result = trim(grammar)
    assert [x.name for x in result.nonterminals] == ["S"] and not result.rules


def test_a_grammar_without_useless_symbols_is_returned_as_it_is() -> None:
    for name in ("pcfg", "hmm", "eisner"):
        grammar = load(name)
        assert trim(grammar) is grammar


def test_query_rules_go_with_their_model_rules() -> None:
    grammar = loads(
        USELESS
        + """
        query ask {
          nonterminal Loop[i] for 0 <= i <= 1
          nonterminal X[i] for 0 <= i <= 1
          rule good:  S       -> X[0]
          rule good:  S       -> X[1]
          rule bad:   S       -> X[0] Loop[0]
          rule loop:  Loop[i] -> Loop[i]
          rule leaf:  X[i]    ->
          rule alone: Alone   ->
        }
        """
    )
    result = trim(grammar)
    query = result.queries[0]
    assert [rule.name for rule in query.rules] == ["good", "good", "leaf"]
    assert [family.name for family in query.families] == ["X"]
    assert not [d for d in check_grammar(result) if d.is_error]


def test_what_only_a_query_starts_from_is_kept() -> None:
    grammar = loads(
        USELESS
        + """
        query ask {
          start Alone[0]
          rule alone: Alone[i] -> for i == 0
        }
        """
    )
    result = trim(grammar)
    assert [x.name for x in result.nonterminals] == ["S", "X", "Alone"]
    assert [rule.name for rule in result.queries[0].rules] == ["alone"]


@given(finite_grammars())
@settings(max_examples=60)
def test_trimming_keeps_the_value(grammar: Grammar) -> None:
    np.testing.assert_array_equal(brute_force(trim(grammar), {}), brute_force(grammar, {}))


@given(any_grammars())
def test_trimmed_grammars_are_valid_and_stay_as_they_are(grammar: Grammar) -> None:
    result = trim(grammar)
    assert trim(result) is result
    useless = {d.code for d in check_grammar(result)} & {"F201", "F202", "F203"}
    assert not useless or not result.rules_of.get(result.start.label) or result.queries
