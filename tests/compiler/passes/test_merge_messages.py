"""Joining: interchangeable messages become one, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fgg import compile, load, loads
from fgg.api.compile import selected
from fgg.compiler.driver import Expected, after, plan_of
from fgg.compiler.passes.merge_messages import join
from fgg.grammar import Grammar
from fgg.reference import solve
from fgg.rewrite import ground

SIZES = {"nt": 3, "pt": 4, "words": 5, "r": 2}

# F and G stand for each other in every rule; what each is differs.
SUMS = """
size s = 2
domain T = s
factor f(T)
factor g(T)
nonterminal S()
nonterminal X[i, j](T)
nonterminal F[i, j](T)
nonterminal G[i, j](T)
start S
input w: T[n]
rule root: S -> X[0, n](t)
rule ff: X[i, j](t) -> F[i, k](t) F[k, j](t)   for i < k < j
rule fg: X[i, j](t) -> F[i, j-1](t) G[j-1, j](t)   for i < j - 1 < j
rule gf: X[i, j](t) -> G[i, i+1](t) F[i+1, j](t)   for i < i + 1 < j
rule gg: X[i, j](t) -> G[i, i+1](t) G[i+1, j](t)   for i < i + 1 < j
rule f: F[i, j](t) -> f(t) X[i, j](t)
rule g: G[i, i+1](t) -> g(t) t = w[i]
"""


def value(grammar: Grammar, length: int) -> int:
    flat = ground(grammar, inputs={"w": [i % 2 for i in range(length)]})
    return int(solve(flat, "gf", seed=3).value)


def test_a_product_of_sums_is_the_sum_of_all_products() -> None:
    grammar = loads(SUMS)
    joined = join(grammar, ["F", "G"])
    assert len(joined.rules) == 4 and len(joined.nonterminals) == 3
    for length in (2, 3, 4, 5):
        assert value(joined, length) == value(grammar, length)


@pytest.mark.parametrize("gone", ["ff", "fg", "gf", "gg"])
def test_a_missing_twin_keeps_messages_apart(gone: str) -> None:
    grammar = loads(SUMS)
    grammar = replace(grammar, rules=tuple(r for r in grammar.rules if r.name != gone))
    assert join(grammar, ["F", "G"]) is grammar


def test_only_messages_are_joined() -> None:
    grammar = loads(SUMS)
    assert join(grammar, ["F"]) is grammar


def test_a_twin_that_could_apply_nowhere_is_not_missed() -> None:
    longer = SUMS.replace(
        "rule gg: X[i, j](t) -> G[i, i+1](t) G[i+1, j](t)   for i < i + 1 < j",
        "rule gg: Y[i, i+2](t) -> G[i, i+1](t) G[i+1, i+2](t)",
    )
    for tail in ("i < k < j", "i < j - 1 < j", "F[i+1, j](t)   for i < i + 1 < j"):
        longer = longer.replace(tail, f"{tail}, i + 2 < j")
    more = "nonterminal Y[i, j](T)\nrule y: X[i, j](t) -> Y[i, j](t)\n"
    grammar = loads(longer.replace("start S", "start S\n" + more))
    joined = join(grammar, ["F", "G"])
    assert len(joined.nonterminals) == len(grammar.nonterminals) - 1
    for length in (2, 3, 4, 5):
        assert value(joined, length) == value(grammar, length)


@pytest.mark.parametrize("space", ["state", "rank"])
def test_the_four_rules_of_a_split_union_are_one(space: str) -> None:
    """[RS figure 4(b)]: a binary rule, two messages, and each of them for phrases and for words."""
    grammar = selected(load("pcfg"), None)
    folded = after(grammar, "fold", Expected(), space)
    binary = [r for r in folded.rules if len([e for e in r.rhs.edges if e.indices]) == 2]
    assert [rule.name for rule in binary] == ["binary"]
    assert sum(step.linear for step in plan_of(grammar, Expected(), space).steps) >= 2


def test_programs_with_joined_messages_agree_in_mixed_batches() -> None:
    words = [[0, 1, 2, 3, 4, 1], [3, 2, 1], [4, 4]]
    programs = {s: compile(load("pcfg", sizes=SIZES), space=s) for s in ("dense", "state", "rank")}
    weights = programs["state"].weights(seed=5)
    found = {s: p.log_z(weights, {"w": words}).tolist() for s, p in programs.items()}
    assert found["state"] == pytest.approx(found["dense"], rel=1e-5)
    assert found["rank"] == pytest.approx(found["dense"], rel=1e-5)


# Rules that differ in a product of factors, and in where they hold.
APART = """
domain A = 2
factor f(A) = [2, 3]
factor h(A) = [5, 7]
factor k(A, A) = [[1, 2], [3, 4]]
input w: A[n]
nonterminal S()
nonterminal X[i](A, A) for 0 <= i < n
nonterminal Y[i, j](A, A) for 0 <= i <= j < n
start S
rule root: S -> X[0](a, b)
rule more: X[i](a, b) -> Y[i, j](b, a) f(u) k(y, u) u = w[i] k(z, v) v = w[0] for i <= j < n, i > 0
rule first: X[i](a, b) -> Y[i, j](b, a) h(u) k(y, u) u = w[i] for i <= j < n, i == 0
rule end: Y[i, j](a, b) -> f(a) for 0 <= i <= j < n
"""


def test_a_message_adds_nothing_where_only_the_other_one_is_used() -> None:
    program = compile(loads(APART))
    weights = program.weights()
    found = program.log_z(weights, {"w": [[0], [1, 0], [1, 1, 0]]}).exp()
    assert found.tolist() == pytest.approx([200.0, 840.0, 1260.0])
