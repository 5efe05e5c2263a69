"""Verify: a low-rank hidden Markov model whose matrix is the product of its pieces, exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import fgg
from fgg.api import verify as verifying
from fgg.grammar import (
    Attachment,
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Node,
    Sized,
)
from fgg.grammar.index import Expr
from fgg.grammar.values import Table
from tests.helpers.verifying import rows
from tests.runtime.reference.test_conformance import FILE, cases, grammar_of


@pytest.fixture
def low_rank_case() -> Any:
    found = [case for case in cases() if case["id"] == "25_lowrank_hmm"]
    if not found:
        pytest.skip(f"there is no {FILE.name} in FGG_CASES or in shared/cases beside the checkout")
    return found[0]


def low_rank_hmm(case: Any) -> Grammar:
    """The case, its transitions declared of low rank, with the evidence merged into emissions."""
    grammar = grammar_of(case)
    factors = [f for f in grammar.factors if f.name in ("init", "tr")]
    rules = []
    for rule in grammar.rules:
        kept = [e for e in rule.rhs.edges if e.label != "em" and not e.label.startswith("is")]
        if len(kept) < len(rule.rhs.edges):
            place = rule.lhs.removeprefix("X")
            factors.append(Factor(name=f"em{place}", domains=("Q",)))
            kept.append(Edge(label=f"em{place}", attachments=(Attachment(node="q"),)))
        nodes = tuple(node for node in rule.rhs.nodes if node.name != "w")
        rhs = Fragment.make(nodes, tuple(kept), (), rule.rhs.externals)
        rules.append(replace(rule, rhs=rhs))
    low = (replace(f, rank=Expr.of(2)) if f.name == "tr" else f for f in factors)
    return replace(grammar, factors=tuple(low), rules=tuple(rules))


def test_the_low_rank_hmm_is_proved_in_rank_space(low_rank_case: Any) -> None:
    for grammar in (grammar_of(low_rank_case), low_rank_hmm(low_rank_case)):
        assert verifying.verify(grammar).proved
    found = rows(verifying.verify(low_rank_hmm(low_rank_case)))
    assert found["rank", "plan", "Z"] and found["rank", "program", "gradients"]


def test_the_numbers_of_the_low_rank_hmm_are_proved(low_rank_case: Any) -> None:
    """Its matrix is the product of its pieces, exactly, as decimals."""
    dense = valued(grammar_of(low_rank_case), low_rank_case)
    left, right = low_rank_case["cp"]["tr"]["modes"]
    pieces = {"tr_left": left, "tr_right": right}
    rules = []
    for rule in dense.rules:
        edges: list[Edge] = []
        nodes = [*rule.rhs.nodes]
        for edge in rule.rhs.edges:
            if edge.label != "tr":
                edges.append(edge)
                continue
            nodes.append(Node(name="z", domain="R"))
            for name, node in zip(pieces, edge.attachments, strict=True):
                edges.append(Edge(label=name, attachments=(node, Attachment(node="z"))))
        rhs = Fragment.make(tuple(nodes), tuple(edges), (), rule.rhs.externals)
        rules.append(replace(rule, rhs=rhs))
    factors = [f for f in dense.factors if f.name != "tr"]
    factors += [Factor(name=n, domains=("Q", "R"), value=table(v)) for n, v in pieces.items()]
    ranks = Domain(name="R", shape=Sized(Expr.of(2)), rank=True)
    apart = replace(
        dense, domains=(*dense.domains, ranks), factors=tuple(factors), rules=tuple(rules)
    )
    found = fgg.verify(dense, apart)
    assert found.proved, str(found)
    assert found.rows[0].bound is not None and found.rows[0].bound.degree == 0
    pieces["tr_left"] = [[x + 1e-6 * (i == 0) for x in row] for i, row in enumerate(left)]
    factors[-2] = replace(factors[-2], value=table(pieces["tr_left"]))
    assert not fgg.verify(dense, replace(apart, factors=tuple(factors)))


def valued(grammar: Grammar, case: Any) -> Grammar:
    """A case's grammar with its weights as values."""
    factors = (replace(f, value=table(case["factors"][f.name]["weights"])) for f in grammar.factors)
    return replace(grammar, factors=tuple(factors))


def table(nest: Any) -> Table:
    def tuples(entry: Any) -> Any:
        return tuple(map(tuples, entry)) if isinstance(entry, list) else entry

    return Table(tuples(nest))
