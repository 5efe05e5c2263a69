"""Verify: planted faults are refuted, with the smallest example that shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fgg.api import verify as verifying
from fgg.compiler import load, loads
from fgg.compiler.driver import PIPELINES, Pass
from fgg.compiler.plan import lower
from fgg.grammar import (
    Grammar,
    Union,
)
from fgg.grammar.slices import Narrow
from fgg.plan import Cut, Plan
from fgg.runtime.program.program import Program
from fgg.runtime.verify.result import Verification
from tests.helpers.verifying import PLAIN, QUICK, rows, with_edges


def planted(
    monkeypatch: pytest.MonkeyPatch, space: str, name: str, fault: Callable[[Grammar], Grammar]
) -> None:
    """Make a pass of a space wrong."""

    def wrong(item: Pass) -> Pass:
        return Pass(item.name, lambda grammar, expected: fault(item.run(grammar, expected)))

    passes = tuple(wrong(item) if item.name == name else item for item in PIPELINES[space])
    assert passes != PIPELINES[space]
    monkeypatch.setitem(PIPELINES, space, passes)


def refuted(grammar: Grammar, space: str, name: str) -> Verification:
    """A verification that must fail, after the planted pass and no earlier."""
    found = verifying.verify(grammar, space=space, floats=False, trials=2, items=20)
    assert not found.ok and found.verdict == "refuted"
    wrong = [row.what for row in found.rows if not row.holds]
    assert wrong[0] == f"after {name}" and "plan" in wrong
    assert found.counterexample is not None and found.counterexample.what == f"after {name}"
    return found


@pytest.mark.parametrize(
    ("dropped", "length"), [("binary", 2), ("X_P_binary_2", 2), ("X_N_binary_1", 3)]
)
def test_a_dropped_rule_is_refuted(
    monkeypatch: pytest.MonkeyPatch, dropped: str, length: int
) -> None:
    def fault(grammar: Grammar) -> Grammar:
        rules = tuple(rule for rule in grammar.rules if rule.name != dropped)
        assert len(rules) < len(grammar.rules)
        return replace(grammar, rules=rules)

    planted(monkeypatch, "rank", "rank_space", fault)
    example = refuted(load("pcfg"), "rank", "rank_space").counterexample
    assert example is not None
    assert example.lengths == {"n": length} and set(example.sizes.values()) == {1}
    assert example.inputs == {"w": ["0"] * length}
    assert (example.wanted, example.found) == (1, 0)
    assert "binary" in example.rules and example.derivation.startswith("(root (binary ")


def test_a_transposed_matrix_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(grammar: Grammar) -> Grammar:
        return with_edges(
            grammar,
            lambda rule, edge: (
                replace(edge, attachments=edge.attachments[::-1]) if edge.label == "trans" else edge
            ),
        )

    planted(monkeypatch, PLAIN, "fold", fault)
    example = refuted(load("hmm"), PLAIN, "fold").counterexample
    assert example is not None
    # One transition from a state to another shows it, with one word: sizes no smaller do.
    assert example.lengths == {"n": 2} and example.sizes == {"k": 2, "d": 1}
    assert len(example.weights["trans"]) == 1 and example.rules == ("step",)


def test_a_wrong_union_slice_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(grammar: Grammar) -> Grammar:
        domains = tuple(
            replace(d, shape=Union(d.shape.parts[::-1])) if isinstance(d.shape, Union) else d
            for d in grammar.domains
        )
        return replace(grammar, domains=domains)

    planted(monkeypatch, "rank", "split", fault)
    refuted(load("pcfg"), "rank", "split")


def test_a_wrong_slice_of_a_plan_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lower.plan

    def wrong(grammar: Grammar, **options: Any) -> Plan:
        found = right(grammar, **options)
        steps = [
            replace(
                step,
                steps=tuple(
                    replace(s, offset=0) if isinstance(s, Narrow) else s for s in step.steps
                ),
            )
            if isinstance(step, Cut)
            else step
            for step in found.preparations
        ]
        return replace(found, preparations=tuple(steps))

    monkeypatch.setattr(lower, "plan", wrong)
    found = verifying.verify(load("pcfg_dense"), space=PLAIN, floats=False, **QUICK)
    assert [row.what for row in found.rows if not row.holds] == ["plan"]
    assert found.counterexample is not None and found.counterexample.lengths == {"n": 2}


def test_a_missing_message_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(grammar: Grammar) -> Grammar:
        return with_edges(
            grammar,
            lambda rule, edge: (
                None if rule.name == "binary" and edge.label == "X_binary_2" else edge
            ),
        )

    planted(monkeypatch, "rank", "rank_space", fault)
    example = refuted(load("pcfg"), "rank", "rank_space").counterexample
    assert example is not None and example.lengths == {"n": 2}


TWO = """
size t = 5
size d = 5
size r = 5
domain N = t
domain W = d
factor root(-> N)
factor one(N -> N, N) rank r
factor two(N -> N, N) rank r
factor emit(N -> W)
nonterminal S()
nonterminal X(N)
start S
rule root: S    -> root(a) X(a)
rule one:  X(a) -> one(a, b, c) X(b) X(c)
rule two:  X(a) -> two(a, b, c) X(b) X(c)
rule word: X(a) -> emit(a, o)
query string(w: W[n]) {
  rule root: S        -> X[0,n]
  rule one:  X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule two:  X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule word: X[i,i+1] -> o = w[i]
}
"""


def test_a_rank_node_shared_by_two_rules_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verifying.verify(loads(TWO), space="rank", floats=False, **QUICK).proved

    def fault(grammar: Grammar) -> Grammar:
        first, second = (x.name for x in grammar.nonterminals if x.name.startswith("X_rank"))
        shared = with_edges(
            grammar,
            lambda rule, edge: replace(edge, label=first) if edge.label == second else edge,
        )
        rules = (replace(r, lhs=first) if r.lhs == second else r for r in shared.rules)
        return replace(shared, rules=tuple(rules))

    planted(monkeypatch, "rank", "rank_space", fault)
    example = refuted(loads(TWO), "rank", "rank_space").counterexample
    assert example is not None and example.lengths == {"n": 2}
    assert {"one", "two"} & set(example.rules)


def test_a_side_without_a_value_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(grammar: Grammar) -> Grammar:
        return with_edges(
            grammar,
            lambda rule, edge: replace(edge, label="emit") if edge.label == "trans" else edge,
        )

    planted(monkeypatch, PLAIN, "fold", fault)
    found = verifying.verify(load("hmm"), space=PLAIN, floats=False, **QUICK)
    assert not found.ok and found.counterexample is not None


def test_a_wrong_program_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = verifying.program_maker

    def maker(space: str, backend: str) -> Callable[[Grammar], Program]:
        def made(source: Grammar) -> Program:
            swapped = with_edges(
                source,
                lambda rule, edge: (
                    replace(edge, attachments=edge.attachments[::-1])
                    if edge.label == "trans"
                    else edge
                ),
            )
            return right(space, backend)(swapped)

        return made

    monkeypatch.setattr(verifying, "program_maker", maker)
    found = verifying.verify(load("hmm"), space=PLAIN, **QUICK)
    assert rows(found)[PLAIN, "plan", "Z"]  # the plan is right
    assert not rows(found)[PLAIN, "program", "log Z"]
    example = found.counterexample
    assert example is not None and example.what == "program" and example.modulus is None
    assert example.lengths == {"n": 2} and example.wanted != example.found
    assert "log Z" in "\n".join(example.lines())
