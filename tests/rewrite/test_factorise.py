"""Factorisation keeps the value and makes fragments small."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from fgg.check.grammar import check_grammar
from fgg.compiler.resolve.load import load, loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.rewrite.factorise import factorise, tree_decomposition
from fgg.runtime.reference.solve import solve
from tests.helpers.engine_grammars import recursive_grammars, started_anywhere

CYCLE = "domain T = 2\nfactor f(T, T) = [[1, 2], [3, 0.5]]\nnonterminal S(T)\nstart S\n"


def ring(size: int) -> Grammar:
    edges = " ".join(f"f(x{i}, x{(i + 1) % size})" for i in range(size))
    return loads(CYCLE + f"rule s: S(x0) -> {edges}")


@settings(max_examples=60)
@given(started_anywhere())
def test_a_factorised_grammar_has_the_same_value(grammar: Grammar) -> None:
    cut = factorise(grammar).grammar
    assert not [d for d in check_grammar(cut) if d.is_error]
    expected = np.asarray(brute_force(grammar, {}))
    assert np.allclose(np.asarray(brute_force(cut, {})), expected, rtol=1e-10)
    assert np.allclose(solve(cut, "real").value.numpy(), expected, rtol=1e-10)
    counts = [np.asarray(solve(g, "counting").value, dtype=object) for g in (grammar, cut)]
    assert (counts[0] == counts[1]).all()


@settings(max_examples=30)
@given(recursive_grammars())
def test_recursion_is_kept(grammar: Grammar) -> None:
    try:
        expected = solve(grammar, "real").value
        found = solve(factorise(grammar).grammar, "real").value
    except GrammarError as error:
        assert {d.code for d in error.diagnostics} == {"F418"}
        return
    assert np.allclose(found.numpy(), expected.numpy(), rtol=1e-8)


def test_a_ring_is_cut_into_triangles() -> None:
    grammar = ring(12)
    found = factorise(grammar)
    assert max(len(rule.rhs.nodes) for rule in found.grammar.rules) == 3
    expected = np.diag(np.linalg.matrix_power(np.array([[1, 2], [3, 0.5]]), 12))
    assert np.allclose(solve(found.grammar, "real").value.numpy(), expected)
    assert np.allclose(solve(grammar, "real").value.numpy(), expected)


def test_every_edge_is_in_one_part() -> None:
    grammar = ring(9)
    found = factorise(grammar)
    (source,) = grammar.rules
    places = [e for part in found.parts.values() for e in part.edges if e is not None]
    assert sorted(places) == list(range(len(source.rhs.edges)))
    assert sum(part.root for part in found.parts.values()) == 1
    assert {part.source for part in found.parts.values()} == {source}


def test_a_grammar_of_small_fragments_stays_as_it_is() -> None:
    grammar = load("branching")
    assert factorise(grammar).grammar is grammar


def test_bags_hold_every_edge_and_follow_their_parents() -> None:
    (rule,) = ring(7).rules
    bags = tree_decomposition(rule.rhs)
    assert bags[0].nodes >= set(rule.rhs.externals)
    for number, bag in enumerate(bags[1:], 1):
        assert bag.parent < number
    for edge in rule.rhs.edges:
        assert any(bag.nodes >= {a.node for a in edge.attachments} for bag in bags)
    for node in rule.rhs.nodes:  # the bags of a node hang together
        own = [i for i, bag in enumerate(bags) if node.name in bag.nodes]
        assert sum(bags[i].parent not in own for i in own[1:]) == 0


def test_an_indexed_grammar_is_refused() -> None:
    with pytest.raises(GrammarError, match="F303"):
        factorise(load("eisner"))


def test_the_result_is_the_same_on_every_run() -> None:
    code = (
        "import sys; from fgg import loads;"
        "from fgg.rewrite.factorise import factorise;"
        "print(factorise(loads(sys.argv[1])).grammar)"
    )
    text = print_grammar(ring(11))
    found = {print_grammar(factorise(ring(11)).grammar) + "\n"}
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, text]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        found.add(done.stdout)
    assert len(found) == 1
