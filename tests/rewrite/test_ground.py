"""Grounding: families written out, inputs as unary factors."""

from __future__ import annotations

from math import comb, exp

import pytest

from fgg.compiler import load, load_text, loads
from fgg.diagnostics import GrammarError
from fgg.grammar.printer import print_grammar
from fgg.grammar.values import Constant, Sparse, Table
from fgg.library import library_names
from fgg.rewrite.ground import ground

TREE = {"left": [1, 3, -1, -1, -1], "right": [2, 4, -1, -1, -1]}


def codes(error: pytest.ExceptionInfo[GrammarError]) -> list[str]:
    return [d.code for d in error.value.diagnostics]


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_a_chart_has_a_rule_for_every_split(n: int) -> None:
    grammar = ground(load("pcfg"), query="string", lengths={"n": n})
    splits = comb(n + 1, 3)
    assert len(grammar.rules) == 1 + splits + n
    assert len(grammar.nonterminals) == 1 + comb(n + 1, 2)


def test_positions_become_unary_factors() -> None:
    grammar = ground(load("hmm"), query="string", inputs={"w": [3, -1, -2]})
    assert grammar.factor["w_0"].value == Sparse((((3,), 1.0),))
    assert grammar.factor["w_1"].value == Constant(1.0)  # missing: summed out
    assert grammar.factor["w_2"].value == Constant(0.0)  # impossible


def test_positions_without_input_are_parameters() -> None:
    grammar = ground(load("hmm"), query="string", lengths={"n": 2})
    assert grammar.factor["w_0"].value is None


def test_rules_remember_where_they_come_from() -> None:
    grammar = ground(load("pcfg"), query="string", lengths={"n": 2})
    rule = next(r for r in grammar.rules if r.origin and r.origin.rule == "binary")
    assert rule.origin is not None and dict(rule.origin.values) == {"i": 0, "j": 2, "k": 1}
    assert grammar.nonterminal[rule.lhs].origin == ("X", (0, 2))


def test_log_potentials_become_weights() -> None:
    text = """
    domain T = 2
    input factor phi[i](T) for 0 <= i < n
    input w: T[n]
    nonterminal X[i]() for 0 <= i <= n
    start X[0]
    rule a: X[i] -> phi[i](t) X[i+1] for i < n
    rule b: X[n] ->
    """
    grammar = ground(loads(text), lengths={"n": 1}, inputs={"phi": [[0.0, 1.0]]})
    assert grammar.factor["phi_0"].value == Table((1.0, exp(1.0)))


def test_positions_outside_an_input_never_match() -> None:
    text = """
    domain T = 2
    factor f(T)
    input w: T[n]
    nonterminal X[i]() for 0 <= i <= n
    start X[0]
    rule a: X[i] -> f(w[i+5])
    """
    assert ground(loads(text), lengths={"n": 3}).rules == ()


def test_tables_are_looked_up() -> None:
    text = """
    input table left[m]
    nonterminal X[v]() for 0 <= v < m
    start X[0]
    rule a: X[v] -> X[left[v]]
    rule b: X[m-1] ->
    """
    grammar = ground(loads(text), inputs={"left": [2, 5, 9]})
    assert [(r.lhs, r.rhs.edges[0].label) for r in grammar.rules if r.rhs.edges] == [("X_0", "X_2")]


def test_lengths_follow_from_inputs() -> None:
    grammar = ground(load("hmm"), query="string", inputs={"w": [0, 1, 2, 3]})
    assert "w_3" in grammar.factor


def test_words_are_looked_up() -> None:
    text = """
    domain W = {the, dog}
    factor f(W)
    nonterminal S()
    start S
    rule s: S -> f(o)
    query one(w: W[n]) { rule s: S -> o = w[0] }
    """
    grammar = ground(loads(text), query="one", inputs={"w": ["dog"]})
    assert grammar.factor["w_0"].value == Sparse((((1,), 1.0),))
    with pytest.raises(GrammarError) as error:
        ground(loads(text), query="one", inputs={"w": ["dig"]})
    assert "did you mean `dog`?" in str(error.value) and "w[0]" in str(error.value)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"query": "strings", "lengths": {"n": 2}}, "F409"),
        ({"query": "string"}, "F301"),
        ({"query": "string", "lengths": {"m": 2}}, "F411"),
        ({"query": "string", "lengths": {"n": -1}}, "F411"),
        ({"query": "string", "inputs": {"v": [1]}}, "F411"),
        ({"query": "string", "inputs": {"w": [100]}}, "F411"),
        ({"query": "string", "inputs": {"w": [-3]}}, "F411"),
        ({"query": "string", "inputs": {"w": 3}}, "F411"),
        ({"query": "string", "inputs": {"w": [1, 2]}, "lengths": {"n": 3}}, "F411"),
        ({"query": "string", "lengths": {"n": 1000}, "limit": 100}, "F302"),
        ({"query": "string", "lengths": {"n": 2}, "sizes": {"z": 2}}, "F410"),
    ],
)
def test_what_does_not_fit_is_an_error(options: dict[str, object], code: str) -> None:
    with pytest.raises(GrammarError) as error:
        ground(load("hmm"), **options)  # type: ignore[arg-type]
    assert code in codes(error)


def test_sizes_can_be_changed() -> None:
    grammar = ground(load("hmm"), query="string", sizes={"k": 3}, lengths={"n": 1})
    assert str(grammar.size["k"].value) == "3"


@pytest.mark.parametrize("name", library_names())
def test_ground_library_grammars_print_and_parse_back(name: str) -> None:
    grammar = load(name)
    for query in grammar.query or [None]:
        inputs = {t.name: TREE.get(t.name, [1, 2, 2]) for t in grammar.tables}
        if query is not None:
            inputs |= {t.name: TREE.get(t.name, [1, 2, 2]) for t in grammar.query[query].tables}
        lengths = {n: 3 for n in ("n", "m") if _has_length(name, query, n, inputs)}
        small = ground(grammar, query=query, lengths=lengths, inputs=inputs)
        again, diagnostics, _ = load_text(print_grammar(small))
        assert not [d for d in diagnostics if d.is_error]
        assert again == small


def _has_length(name: str, query: str | None, length: str, inputs: dict[str, list[int]]) -> bool:
    try:
        ground(load(name), query=query, inputs=inputs)
    except GrammarError as error:
        return f"`{length}`" in str(error)
    return False


POTENTIALS = """
domain T = 2
input factor phi[i](T, T) for 0 <= i < n
nonterminal X[i](T) for 0 <= i <= n
start X[0]
rule a: X[i](t) -> phi[i](t, u) X[i+1](u) for i < n
rule b: X[n](t) ->
"""


def test_lengths_follow_from_log_potentials() -> None:
    grammar = ground(loads(POTENTIALS), inputs={"phi": [[[0, 0], [0, 1]]] * 3})
    assert {"phi_0", "phi_1", "phi_2"} <= set(grammar.factor)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[[0, 0], [0, "x"]]], "`phi[0, 1, 1]` is 'x', but a number is expected"),
        ([[[0, 0], [0, float("nan")]]], "`phi[0, 1, 1]` is nan"),
        ([[[0, 0], [0, True]]], "`phi[0, 1, 1]` is True"),
        ([[[0, 0], [0, float("inf")]]], "`phi[0, 1, 1]` is infinite"),
        ([[[0, 0]]], "`phi[0]`: a list of 2 entries is expected, not 1"),
        ("a b", "a list of entries is expected"),
    ],
)
def test_log_potentials_are_checked(value: object, message: str) -> None:
    with pytest.raises(GrammarError) as error:
        ground(loads(POTENTIALS), lengths={"n": 1}, inputs={"phi": value})  # type: ignore[dict-item]
    assert message in str(error.value)


def test_missing_log_potentials_are_named() -> None:
    with pytest.raises(GrammarError, match="`phi\\[1\\]` is needed"):
        ground(loads(POTENTIALS), lengths={"n": 2}, inputs={"phi": [[[0, 0], [0, 0]]]})


def test_positions_that_are_not_given_are_no_parameters() -> None:
    from fgg.check.describe import free_parameters

    model = load("hmm")
    grammar = ground(model, query="string", lengths={"n": 2})
    assert free_parameters(grammar, grammar.factor["w_0"]) == 0


def test_conditions_on_sizes_decide_which_rules_there_are() -> None:
    text = "size k = 2 factor f() nonterminal S() start S rule a: S -> f for k > 2 rule b: S ->"
    assert [rule.name for rule in ground(loads(text)).rules] == ["b"]
    assert len(ground(loads(text), sizes={"k": 3}).rules) == 2


def test_an_input_factor_has_nothing_outside_its_range() -> None:
    text = """
        input table left[n]
        input factor phi[i, j]() for 0 <= i < j <= n
        nonterminal S()
        start S
        rule a: S -> phi[left[p], 1] for 0 <= p < n
    """
    left, phi = [0, 1, 2, -1, 9], [[0.0] * 6] * 5
    rules = ground(loads(text), inputs={"left": left, "phi": phi}).rules
    assert [rule.origin.values for rule in rules if rule.origin] == [(("p", 0),)]
