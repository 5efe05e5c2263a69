"""Tie: rules that may read a position twice become rules that read it once."""

from __future__ import annotations

import pytest
import torch

from fgg.api.compile import compile
from fgg.compiler import load, loads
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.passes.split import SplitImpossible, split
from fgg.compiler.passes.tie import tie
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.printer import print_rule
from fgg.grammar.provenance import origins_of, traced
from fgg.rewrite.conjoin import conjoin

HEAD = """
domain W = 3
domain M = 2
factor f(W)
factor g(W)
factor m(M)
factor block(W -> M) = map(0, 1, 1)
input w: W[n]
input table t[n]
nonterminal S()
start S
"""


def rules(text: str) -> list[str]:
    tied = tie(split(loads(HEAD + text)))
    return [" ".join(print_rule(tied, rule).split()) for rule in tied.rules]


def test_indices_that_may_be_the_same_are_told_apart() -> None:
    assert rules("rule r: S -> f(w[i]) g(w[k]) for i <= k") == [
        "rule r_tied: S -> f(w[i]) g(w[k]) for i <= k, i - k < 0",
        "rule r_tied_2: S -> f(w[i]) g(w[i]) for i <= k, i - k == 0",
    ]


def test_tables_decide_at_run_time() -> None:
    found = rules("rule r: S -> f(w[i]) g(w[t[i]]) for 0 <= i < n")
    assert [rule.split(" for ")[1] for rule in found] == [
        f"0 <= i < n, i - t[i] {operator} 0" for operator in ("<", ">", "==")
    ]


def test_what_a_map_says_of_a_token_follows_from_the_token() -> None:
    (found,) = rules("rule r: S -> m(u) u = w[0].block f(o) o = w[0]")
    assert found == "rule r_tied: S -> m(u) f(o) w_gives_block(o, u) o = w[0]"


@pytest.mark.parametrize("name", ["hmm", "pcfg", "dyck", "rna", "dmv", "tagger"])
def test_a_grammar_that_reads_positions_once_is_returned_as_it_is(name: str) -> None:
    grammar = load(name)
    source: Grammar = conjoin(grammar, grammar.queries[0])
    atomic = split(source)
    assert tie(atomic) is atomic
    assert plan_of(source, Expected(), "dense").known == ()


def test_origins_say_which_node_stands_for_several() -> None:
    grammar = loads(HEAD + "rule r: S -> f(w[i]) g(w[k]) for i <= k")
    origins = origins_of(tie(traced(grammar)))
    leaves = {n: [x.nodes for x in rule.nodes.values()] for n, rule in origins.items()}
    assert leaves == {"r_tied": [("w",), ("w2",)], "r_tied_2": [("w",), ("w",)]}


def test_positions_in_too_many_orders_are_refused() -> None:
    names = [f"a{number}" for number in range(6)]
    edges = " ".join(f"f(w[{name}])" for name in names)
    conditions = ", ".join(f"0 <= {name} < n" for name in names)
    grammar = loads(HEAD + f"rule r: S -> {edges} for {conditions}")
    with pytest.raises(SplitImpossible, match="too many orders"):
        tie(grammar)
    program = compile(grammar, fallback=False)
    weights = {"f": torch.tensor([1.0, 2, 3])}
    tables = {"t": [[0]]}
    assert program.log_z(weights, {"w": [[1]], **tables}).exp().item() == pytest.approx(2**6)
    with pytest.raises(GrammarError, match="too many orders"):
        program.log_z(weights, {"w": [[-1]], **tables})
