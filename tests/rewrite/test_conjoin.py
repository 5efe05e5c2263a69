"""Conjunctions: of a model with a query, and of two grammars."""

from __future__ import annotations

import numpy as np
import pytest

from fgg.compiler import load, loads
from fgg.diagnostics import GrammarError
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.rewrite.conjoin import conjoin, conjunction
from tests.conftest import Golden

HMM = """
domain Q = 2
domain W = 2
factor bos(Q) = [0.3, 0.7]
factor tr(Q, Q) = [[0.3, 0.2], [0.25, 0.35]]
factor em(Q, W) = [[0.6, 0.4], [0.1, 0.9]]
factor stop(Q) = [0.5, 0.4]
nonterminal S()
nonterminal X(Q)
start S
rule begin: S     -> bos(v1) X(v1)
rule step:  X(v1) -> em(v1, w) tr(v1, v2) X(v2)
rule end:   X(v1) -> stop(v1)
"""

# Words of even length whose second, fourth, … symbols are 1.
PARITY = """
domain Q = 2
domain W = 2
factor isone(W) = [0, 1]
factor any(W) = [1, 1]
nonterminal T()
nonterminal E(Q)
nonterminal O(Q)
start T
rule begin: T     -> E(v1)
rule odd:   E(v1) -> any(w) O(v2)
rule even:  O(v1) -> isone(w) E(v2)
rule end:   E(v1) ->
"""


def closed_form() -> float:
    bos, stop = np.array([0.3, 0.7]), np.array([0.5, 0.4])
    tr, em = np.array([[0.3, 0.2], [0.25, 0.35]]), np.array([[0.6, 0.4], [0.1, 0.9]])
    a, b = np.diag(em.sum(1)) @ tr, np.diag(em[:, 1]) @ tr
    return float(bos @ np.linalg.solve(np.eye(2) - a @ b, stop))


def test_an_automaton_selects_the_words_of_a_markov_model(golden: Golden) -> None:
    grammar = conjunction(loads(HMM), loads(PARITY))
    assert len(grammar.rules) == 4
    assert [x.name for x in grammar.nonterminals] == ["S_T", "X_E", "X_O"]
    golden(print_grammar(grammar), "fgg")


def test_the_conjunction_has_the_value_of_the_closed_form() -> None:
    assert closed_form() == pytest.approx(0.5523720656994653, rel=1e-12)
    grammar = conjunction(loads(HMM), loads(PARITY))
    # Longer words matter less and less; 5 rules are two words, enough for the first terms.
    bos, stop = np.array([0.3, 0.7]), np.array([0.5, 0.4])
    tr, em = np.array([[0.3, 0.2], [0.25, 0.35]]), np.array([[0.6, 0.4], [0.1, 0.9]])
    step = np.diag(em.sum(1)) @ tr @ np.diag(em[:, 1]) @ tr
    expected = bos @ stop + bos @ step @ stop
    assert brute_force(grammar, {}, max_depth=4) == pytest.approx(expected)


def test_rules_may_have_to_have_the_same_name() -> None:
    grammar = conjunction(loads(HMM), loads(PARITY), by_name=True)
    assert [rule.name for rule in grammar.rules] == ["begin", "end"]


def test_rules_with_different_nodes_do_not_pair() -> None:
    other = PARITY.replace("any(w) O(v2)", "any(w) O(v1) (v2: Q)")
    assert len(conjunction(loads(HMM), loads(other)).rules) == 2


def test_declarations_must_agree() -> None:
    with pytest.raises(GrammarError, match=r"F304.*domain `W` is declared differently"):
        conjunction(loads(HMM), loads(PARITY.replace("domain W = 2", "domain W = {a, b}")))
    with pytest.raises(GrammarError, match=r"F304.*`X` is a factor in one grammar"):
        conjunction(loads(HMM), loads(PARITY.replace("any", "X")))


def test_indexed_grammars_have_no_conjunction() -> None:
    with pytest.raises(GrammarError, match="F303"):
        conjunction(load("eisner"), load("eisner"))


def test_a_query_indexes_its_model(golden: Golden) -> None:
    grammar = load("pcfg")
    result = conjoin(grammar, grammar.query["string"])
    assert not result.queries
    golden(print_grammar(result), "fgg")
