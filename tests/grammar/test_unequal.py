"""`!=` in conditions: its meaning on every engine, and what is said where it cannot stand."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import fgg
from fgg.check import equations
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.grammar.ranges import regions
from fgg.grammar.unequal import alternatives, split_unequal
from tests.helpers.problems import codes, grammar_of, problem

ARCS = """
domain T = 2
input w: T[n]
factor pair(T, T) = [[1, 2], [3, 5]]
nonterminal S()
nonterminal X[i, j]()
start S
rule arc:  S       -> X[i, j]            for 0 <= i < n, 0 <= j < n{condition}
rule both: X[i, j] -> pair(w[i], w[j])
"""
WORDS = [0, 1, 1, 0]
WEIGHT = ((1, 2), (3, 5))
PAIR = {"pair": torch.tensor(WEIGHT, dtype=torch.float64)}


def compiled_value(grammar: Grammar, **inputs: Any) -> float:
    program = fgg.compile(grammar)
    return float(torch.exp(program.posterior(PAIR, inputs).log_z))


def ground_value(grammar: Grammar, **inputs: Any) -> float:
    ground = fgg.rewrite.ground(grammar, inputs=inputs)
    return float(fgg.reference.solve(ground, "real").value)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (", i != j", lambda i, j: i != j),
        (", i != j + 1, i != 2", lambda i, j: i not in (j + 1, 2)),
        (", 0 != i != j != n - 1", lambda i, j: 0 != i != j != 3),
        (", i + j != n", lambda i, j: i + j != 4),
    ],
)
def test_the_sum_is_over_indices_that_differ(condition, holds) -> None:  # type: ignore[no-untyped-def]
    grammar = grammar_of(ARCS.format(condition=condition))
    expected = sum(
        WEIGHT[WORDS[i]][WORDS[j]] for i, j in itertools.product(range(4), repeat=2) if holds(i, j)
    )
    assert ground_value(grammar, w=WORDS) == pytest.approx(expected)
    assert compiled_value(grammar, w=[WORDS]) == pytest.approx(expected)


def test_a_table_may_differ_from_an_index() -> None:
    text = """
    input table left[n] input factor phi[i]() for 0 <= i < n
    nonterminal S() start S
    rule S -> phi[i] for 0 <= i < n, left[i] != i
    """
    grammar = grammar_of(text)
    potentials = [[0.0, 1.0, 2.0, 3.0]]
    inputs = {"left": [0, 3, 1, 3], "phi": torch.tensor(potentials[0], dtype=torch.float64)}
    expected = torch.exp(torch.tensor([1.0, 2.0], dtype=torch.float64)).sum()
    assert ground_value(grammar, **inputs) == pytest.approx(float(expected))


def test_derivations_name_the_rule_that_was_written() -> None:
    grammar = grammar_of(ARCS.format(condition=", i != j"))
    best = fgg.compile(grammar).posterior(PAIR, {"w": [[1, 0]]}).best()[0]
    assert best.source_rules == ("arc", "both")


def test_alternatives_cover_what_differs_once() -> None:
    grammar = grammar_of(ARCS.format(condition=", i != j"))
    cases = list(alternatives(grammar.rules[0].conditions))
    assert [str(case[-1]) for case in cases] == ["i < j", "i > j"]
    names = [rule.name for rule in split_unequal(grammar).rules]
    assert names == ["arc", "arc_2", "both"]


def test_a_grammar_without_it_is_returned_as_it_is() -> None:
    grammar = grammar_of(ARCS.format(condition=""))
    assert split_unequal(grammar) is grammar


def test_it_is_printed_as_written() -> None:
    grammar = grammar_of(ARCS.format(condition=", i != j"))
    assert "i != j" in print_grammar(grammar)
    assert grammar_of(print_grammar(grammar)) == grammar
    assert equations(grammar)[0].endswith("i != j")


def test_a_range_is_inferred_from_what_differs() -> None:
    text = """
    input factor phi[i]() for 0 <= i < n
    nonterminal S() nonterminal X[i]() start S
    rule S -> X[0]
    rule X[i] -> phi[i] X[i+1] for i != n
    rule X[n] ->
    """
    grammar = grammar_of(text)
    assert len(regions(grammar)["X"].conditions) >= 2
    ones = {"phi": torch.zeros(3, dtype=torch.float64)}
    assert ground_value(grammar, **ones) == pytest.approx(1.0)


def test_a_reference_is_inside_a_range_if_each_alternative_is() -> None:
    text = """
    input w: T[n] domain T = 2 nonterminal S() nonterminal X[i]() for 0 <= i <= n start S
    rule S -> X[0]
    rule X[i] -> X[i+1] for i != {end}
    rule X[n] -> w[0] = w[0]
    """.replace("w[0] = w[0]", "o = w[0]")
    assert codes(text.format(end="n")) == []
    assert codes(text.format(end="n - 1")) == ["F118"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nonterminal X[i]() for 0 <= i < n, i != 1", "F150"),
        ("input factor phi[i]() for 0 <= i < n, i != 1", "F150"),
        ("rule S -> o = w[i] for i != i", "F117"),
        ("rule S -> o = w[i] for i " + " ".join(f"!= {k}" for k in range(7)), "F150"),
    ],
)
def test_it_is_refused_where_it_cannot_stand(text: str, code: str) -> None:
    base = "domain T = 2 input w: T[n] nonterminal S() start S rule S -> o = w[0] "
    assert code in codes(base + text)


def test_the_sign_of_books_is_explained() -> None:
    found = problem(ARCS.format(condition=", i ≠ j"))
    assert (found.code, found.help) == ("F003", "write `!=`")
