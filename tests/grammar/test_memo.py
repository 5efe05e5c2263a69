"""Results that are kept for a grammar: computed once, with it, and no part of what it is."""

import gc
import weakref
from dataclasses import replace

from fgg.compiler import load
from fgg.grammar import Grammar
from fgg.grammar.memo import per_grammar, remember

CALLS: list[str] = []


@per_grammar
def rules_of(grammar: Grammar, name: str = "") -> int:
    CALLS.append(name)
    return len(grammar.rules_of.get(name, grammar.rules))


def test_a_result_is_computed_once_for_each_grammar_and_argument() -> None:
    CALLS.clear()
    grammar = load("hmm")
    assert rules_of(grammar, "X") == rules_of(grammar, "X") > 0
    assert rules_of(grammar) == rules_of(grammar) == len(grammar.rules)
    assert CALLS == ["X", ""]
    assert rules_of(replace(grammar), "X") and CALLS == ["X", "", "X"]


def test_results_are_no_part_of_a_grammar_and_go_with_it() -> None:
    grammar, other = load("hmm"), load("hmm")
    rules_of(grammar)
    assert grammar.memo and not replace(grammar).memo
    assert grammar == other and hash(grammar) == hash(other)
    reference = weakref.ref(grammar)
    del grammar
    gc.collect()
    assert reference() is None


def test_a_result_can_be_set() -> None:
    grammar = load("hmm")
    remember(rules_of, grammar, -1)
    assert rules_of(grammar) == -1
