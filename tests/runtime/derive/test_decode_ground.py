"""The best derivations against sorting all of them."""

from __future__ import annotations

from itertools import islice, pairwise
from math import exp, log

import pytest
from hypothesis import assume, given, settings

from fgg.compiler.resolve.load import loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.runtime.derive.decode_ground import enumerate_best, k_best, viterbi
from tests.helpers.engine_grammars import scalars, started_anywhere
from tests.oracles.enumeration import trees
from tests.runtime.reference.test_solve import chain


@settings(max_examples=80)
@given(started_anywhere())
def test_the_best_derivations_are_all_of_them_sorted(grammar: Grammar) -> None:
    expected = {tree.key: tree.weight for _, tree in trees(grammar)}
    assume(expected)
    found = k_best(grammar, 300)
    assert len(found) == min(len(expected), 300)
    assert len({d.key for d in found}) == len(found)
    for derivation in found:
        assert exp(derivation.log_weight) == pytest.approx(
            float(expected[derivation.key]), rel=1e-9
        )
    ranked = sorted(map(float, expected.values()), reverse=True)
    assert [exp(d.log_weight) for d in found] == pytest.approx(ranked[: len(found)], rel=1e-9)
    assert exp(viterbi(grammar).log_weight) == pytest.approx(ranked[0], rel=1e-9)


def test_all_of_many_ties_are_found() -> None:
    grammar = loads(
        "domain T = 3\nfactor f(T, T) = 0.5\nnonterminal S()\nnonterminal X(T)\n"
        "start S\nrule s: S -> f(a, b) X(b)\nrule x: X(b) -> f(b, c)\nrule y: X(b) -> f(b, b)"
    )
    found = k_best(grammar, 1000)
    assert len(found) == 27 + 9 == len({d.key for d in found})
    assert all(d.log_weight == pytest.approx(2 * log(0.5)) for d in found)


@pytest.mark.parametrize(
    "rules", ["S -> S; S -> o", "S -> o; S -> S", "S -> X; X -> S; X -> X; X -> o"]
)
def test_a_cycle_of_weight_one_gives_endless_ties(rules: str) -> None:
    grammar = scalars(rules, o=0.5)
    assert viterbi(grammar).log_weight == pytest.approx(log(0.5))
    found = k_best(grammar, 20)
    assert len({d.key for d in found}) == 20
    assert all(d.log_weight == pytest.approx(log(0.5)) for d in found)


def test_a_cycle_whose_weights_multiply_to_one_up_to_rounding_ends() -> None:
    grammar = scalars("S -> a X; S -> o; X -> b S; X -> c X; X -> o", a=3.0, b=1 / 3, c=1.0, o=0.3)
    assert viterbi(grammar).log_weight == pytest.approx(log(0.9))
    found = k_best(grammar, 30)
    assert len({d.key for d in found}) == 30


def test_the_best_of_infinitely_many_derivations_come_in_order() -> None:
    grammar = scalars("S -> h S S; S -> q S; S -> o", h=0.5, q=0.25, o=1.0)
    expected = sorted((t.weight for _, t in trees(grammar, max_depth=5)), reverse=True)[:40]
    found = list(islice(enumerate_best(grammar), 40))
    assert len({d.key for d in found}) == 40
    assert [d.weight for d in found] == pytest.approx([float(w) for w in expected])


def test_recursion_over_values_finds_the_cheapest_path() -> None:
    grammar = loads("""
        domain T = 4
        factor m(T, T) = [[0.9, 0.2, 0.01, 0], [0, 0.9, 0.5, 0], [0.3, 0, 0.9, 0.5], [1, 0, 0, 0]]
        factor u(T) = [0, 0, 0, 1]
        nonterminal S()
        nonterminal X(T)
        factor s(T) = [1, 0, 0, 0]
        start S
        rule s: S -> s(a) X(a)
        rule stop: X(a) -> u(a)
        rule step: X(a) -> m(a, b) X(b)
    """)
    best = viterbi(grammar)
    assert best.weight == pytest.approx(0.2 * 0.5 * 0.5)
    assert [step.values["a"] for step in best.steps] == [0, 0, 1, 2, 3]
    expected = sorted((t.weight for _, t in trees(grammar, max_depth=9)), reverse=True)[:12]
    assert [d.weight for d in k_best(grammar, 12)] == pytest.approx([float(w) for w in expected])


@pytest.mark.parametrize(
    ("rules", "weights"),
    [
        ("S -> t S; S -> o", {"t": 2.0, "o": 1.0}),
        ("S -> t S S; S -> o", {"t": 1.0, "o": 1.5}),
        ("S -> X; X -> t Y; Y -> t X; Y -> o", {"t": 1.1, "o": 0.1}),
        ("S -> S", {}),
        ("S -> z", {"z": 0.0}),
    ],
)
def test_there_may_be_no_best_derivation(rules: str, weights: dict[str, float]) -> None:
    for function in (viterbi, lambda g: k_best(g, 2)):
        with pytest.raises(GrammarError, match="F421"):
            function(scalars(rules, **weights))


def test_a_cycle_that_gains_but_is_never_used_does_no_harm() -> None:
    grammar = scalars("S -> z X; S -> o; X -> t X; X -> o", z=0.0, o=1.0, t=2.0)
    assert viterbi(grammar).rules == ("r1",)
    assert [d.rules for d in k_best(grammar, 5)] == [("r1",)]


def test_a_large_fragment_is_decoded_in_pieces_and_put_together() -> None:
    n = 18
    names = [f"x{i}" for i in range(n)]
    edges = " ".join(f"f({a}, {b})" for a, b in pairwise(names))
    grammar = loads(
        "domain T = 3\nfactor f(T, T) = [[1, 2, 0], [0, 1, 3], [2, 0, 1]]\n"
        f"factor g(T) = [1, 0, 0]\nnonterminal S()\nnonterminal X(T)\nstart S\n"
        f"rule s: S -> X(x0) {edges} X({names[-1]})\nrule x: X(a) -> g(a)"
    )
    best = viterbi(grammar)
    path = [best.steps[0].values[name] for name in names]
    table = [[1, 2, 0], [0, 1, 3], [2, 0, 1]]
    weight = 1.0
    for a, b in pairwise(path):
        weight *= table[a][b]
    assert path[0] == path[-1] == 0 and best.rules == ("s", "x", "x")
    assert best.weight == pytest.approx(weight)
    assert weight == pytest.approx(12.0**5)
    assert len({d.key for d in k_best(grammar, 10)}) == 10


def test_the_best_of_a_long_chain_are_found_without_recursion() -> None:
    (only,) = k_best(chain(5000), 3)
    assert len(only.steps) == 5001


def test_recursions_one_after_the_other_have_a_best_derivation() -> None:
    text = """
    domain T = 2
    factor u(T, T) = [[0.2, 0.1], [0.1, 0.3]]
    factor e(T) = [0.9, 0.8]
    nonterminal S()
    nonterminal X(T)
    nonterminal Y(T)
    start S
    rule s: S -> X(t)
    rule more: X(t) -> u(t, v) X(v)
    rule on: X(t) -> e(t) Y(t)
    rule end: Y(t) -> e(t)
    rule again: Y(t) -> u(t, v) Y(v)
    """
    grammar = loads(text)
    assert viterbi(grammar).rules == ("s", "on", "end")
    assert [d.rules for d in k_best(grammar, 2)][1] == ("s", "on", "end")
