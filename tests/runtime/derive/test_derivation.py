"""Derivations as values, texts and JSON."""

from __future__ import annotations

import json
from math import log

from fgg.compiler.resolve.load import load, loads
from fgg.rewrite.ground import ground
from fgg.runtime.derive.decode_ground import k_best, viterbi

GRAMMAR = """
domain T = {Noun, Verb}
factor f(T, T) = [[1, 3], [2, 0.5]]
nonterminal S()
nonterminal X(T)
start S
rule top: S -> X(a) f(a, b) X(b)
rule leaf: X(a) ->
"""


def test_steps_are_in_preorder_with_parents_and_children() -> None:
    best = viterbi(loads(GRAMMAR))
    assert best.rules == best.source_rules == ("top", "leaf", "leaf")
    assert [s.parent for s in best.steps] == [None, 0, 0]
    assert [s.children for s in best.steps] == [(1, 2), (), ()]
    assert dict(best.steps[0].values) == {"a": 0, "b": 1}
    assert best.log_weight == log(3) and abs(best.weight - 3) < 1e-12


def test_a_derivation_is_printed_with_the_names_of_values() -> None:
    best = viterbi(loads(GRAMMAR))
    assert str(best) == "S top  a=Noun, b=Verb\n  X leaf  a=Noun\n  X leaf  a=Verb"
    assert best.brackets() == "(top (leaf) (leaf))"
    assert best.value_name(best.steps[2], "a") == "Verb"


def test_derivations_are_told_apart_by_rules_and_values() -> None:
    found = k_best(loads(GRAMMAR), 10)
    assert len({*found}) == 4
    assert found[0] == viterbi(loads(GRAMMAR)) != found[1]
    assert hash(found[0]) == hash(viterbi(loads(GRAMMAR)))


def test_indices_and_source_rules_of_a_ground_grammar_are_kept() -> None:
    grammar = load("cnf", sizes={"k": 1, "d": 2})
    best = viterbi(ground(grammar, query="string", inputs={"w": [0, 1]}), seed=0)
    assert best.source_rules[0] != "" and len(best.rules) == len(best.spans())
    spans = [(family, indices) for family, indices, _ in best.spans() if indices]
    assert [i for _, i in spans] == [(0, 2), (0, 1), (1, 2)]


def test_a_derivation_is_json() -> None:
    shown = json.loads(json.dumps(viterbi(loads(GRAMMAR)).as_json()))
    assert shown["log_weight"] == log(3) and shown["inputs"] is None
    first = shown["steps"][0]
    assert first["rule"] == "top" and first["values"] == {"a": "Noun", "b": "Verb"}
    assert first["children"] == [1, 2] and first["nonterminal"] == "S"
