"""Factors with blocks: what the language makes of them, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import fgg
from fgg.compiler import load_text
from fgg.grammar.printer import print_grammar, print_rule
from fgg.grammar.semantics import brute_force
from fgg.runtime.program.bind import bind

TEXT = """
domain M = 2
domain K = 2
domain N = 2
domain T = M * K
domain C = N + T
domain W = 5
factor clusters(W -> M) = map(0, 1, 1, 0, 1)
factor first(-> C)
factor emit({signature}) {more}
nonterminal S()
start S
rule S -> first(a) emit({node}, o){rest}
"""


def text(
    signature: str = "T -> W",
    more: str = "with blocks = clusters",
    node: str = "a.T",
    rest: str = "",
) -> str:
    return TEXT.format(signature=signature, more=more, node=node, rest=rest)


def codes(source: str) -> list[str]:
    return [d.code for d in load_text(source)[1]]


def test_the_map_becomes_an_edge_and_the_factor_smaller() -> None:
    grammar = fgg.loads(text())
    assert print_rule(grammar, grammar.rules[0]) == (
        "rule S: S -> first(a) emit(a.T.K, o) clusters(o, a.T.M)"
    )
    assert grammar.factor["emit"].domains == ("K", "W") and grammar.factor["emit"].given == 1
    assert fgg.loads(print_grammar(grammar)) == grammar


def test_the_value_is_that_of_the_whole_factor() -> None:
    grammar = fgg.loads(text())
    weights = bind(grammar, seed=0)
    blocks = np.array([0, 1, 1, 0, 1])
    whole = np.zeros((4, 5))
    for m in range(2):
        for k in range(2):
            whole[2 * m + k] = np.where(blocks == m, weights["emit"][k], 0)
    assert np.allclose(whole.sum(1), 1)
    dense = fgg.loads(text(more=""))
    wanted = brute_force(dense, {"first": weights["first"], "emit": whole})
    assert brute_force(grammar, weights) == pytest.approx(wanted)


def test_random_weights_sum_to_one_in_each_block_exactly() -> None:
    grammar = fgg.loads(text())
    emit = bind(grammar, seed=3, exactly=True)["emit"]
    for k in range(2):
        assert emit[k, [0, 3]].sum() == 1 and emit[k, [1, 2, 4]].sum() == 1


def test_queries_may_touch_blocked_factors() -> None:
    grammar = fgg.loads("""
    domain M = 2  domain K = 2  domain T = M * K  domain W = 3
    factor clusters(W -> M) = map(0, 1, 0)
    factor first(-> T)
    factor emit(T -> W) with blocks = clusters
    nonterminal S() start S
    rule one: S -> first(t) (o: W)
    query word(w: W[n]) { rule one: S -> emit(t, o) o = w[0] }
    """)
    (rule,) = grammar.queries[0].rules
    assert [edge.label for edge in rule.edges] == ["emit", "clusters"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (text(more="with blocks = clusters2"), "F494"),
        (text(more="with blocks = first"), "F494"),
        (text(signature="W -> T", node="o: W, a.T").replace(", o)", ")"), "F494"),
        (text(more="rank 2 with blocks = clusters"), "F494"),
        (text(more="= uniform with blocks = clusters"), "F494"),
        (text(signature="N -> W", node="a.N"), "F495"),
    ],
)
def test_what_does_not_fit_is_said(source: str, code: str) -> None:
    assert codes(source) == [code]


def test_the_smaller_factor_may_be_written_and_given() -> None:
    rest = " clusters(o, a.T.M)"
    table = "= [[0.5, 0.1, 0.2, 0.5, 0.7], [1, 0, 1, 0, 0]] with blocks = clusters"
    assert codes(text("K -> W", table, "a.T.K", rest)) == []
    wrong = table.replace("0.7", "0.6")
    assert codes(text("K -> W", wrong, "a.T.K", rest)) == ["F128"]


def test_stories_and_checks_speak_of_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    from fgg.check.describe import describe

    found = describe(fgg.load("hmm_blocks"))
    assert "the probability of W given K within each block of `clusters`" in found
    assert "clusters(W, M): the M of each W" in found
