"""The conformance cases: small grammars with reference answers from elsewhere.

They lie in the folder that FGG_CASES names, or else in `shared/cases` beside the checkout.
"""

from __future__ import annotations

import json
from functools import cache
from math import inf
from typing import Any

import numpy as np
import pytest
import torch

from fgg.grammar import (
    Attachment,
    Domain,
    Edge,
    Enumerated,
    Factor,
    Fragment,
    Grammar,
    Node,
    Nonterminal,
    Reference,
    Rule,
    Sized,
)
from fgg.grammar.index import Expr
from fgg.runtime.derive.decode_ground import k_best, viterbi
from fgg.runtime.reference.posterior import gradients, posterior
from fgg.runtime.reference.solve import solve
from tests.helpers.places import CASES as FOLDER

FILE = FOLDER / "conformance.json"

Case = dict[str, Any]


@cache
def cases() -> tuple[Case, ...]:
    return tuple(json.loads(FILE.read_text("utf-8"))["cases"]) if FILE.is_file() else ()


def with_answer(key: str) -> pytest.MarkDecorator:
    """A parameter for each case that has an answer of this kind; a skipped one without the file."""
    found = [pytest.param(c, id=c["id"]) for c in cases() if key in c["expect"]]
    reason = f"there is no {FILE.name} in FGG_CASES or in shared/cases beside the checkout"
    missing = pytest.param({}, id="missing", marks=pytest.mark.skip(reason=reason))
    return pytest.mark.parametrize("case", found or [missing])


def grammar_of(case: Case) -> Grammar:
    domains = tuple(
        Domain(name=n, shape=Sized(Expr.of(v)) if isinstance(v, int) else Enumerated(tuple(v)))
        for n, v in case["domains"].items()
    )
    rules = []
    for number, rule in enumerate(case["rules"]):
        nodes = tuple(Node(name=n, domain=d) for n, d in rule["nodes"].items())
        edges = tuple(
            Edge(label=e["label"], attachments=tuple(Attachment(node=n) for n in e["nodes"]))
            for e in rule["edges"]
        )
        rhs = Fragment.make(nodes, edges, (), tuple(rule["ext"]))
        rules.append(Rule(name=f"r{number}", lhs=rule["lhs"], rhs=rhs))
    return Grammar(
        start=Reference(label=case["start"]),
        domains=domains,
        factors=tuple(Factor(name=n, domains=tuple(f["type"])) for n, f in case["factors"].items()),
        nonterminals=tuple(
            Nonterminal(name=n, domains=tuple(d)) for n, d in case["nonterminals"].items()
        ),
        rules=tuple(rules),
    )


def weights_of(case: Case) -> dict[str, Any]:
    return {name: factor["weights"] for name, factor in case["factors"].items()}


@with_answer("Z")
def test_z_is_the_reference(case: Case) -> None:
    expect = case["expect"]
    solution = solve(grammar_of(case), "real", weights=weights_of(case))
    expected = np.array(expect["Z"], dtype=float)
    found = solution.value.numpy()
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=expect["rtol"], atol=0)
    for wrong in expect.get("wrong_roots", ()):
        assert not np.allclose(found, wrong, rtol=1e-3)


@with_answer("Z")
def test_log_z_is_the_reference(case: Case) -> None:
    expect = case["expect"]
    solution = solve(grammar_of(case), "log", weights=weights_of(case))
    total = float(torch.logsumexp(solution.value.reshape(-1), 0))
    expected = expect.get("log_Z_total", inf)
    assert total == pytest.approx(expected, rel=expect["rtol"], abs=expect["rtol"])
    if "log_Z" in expect:
        assert np.allclose(solution.value.numpy(), expect["log_Z"], rtol=expect["rtol"])


@with_answer("grad")
def test_gradients_are_the_reference(case: Case) -> None:
    expect = case["expect"]
    found = gradients(grammar_of(case), of="z", weights=weights_of(case))
    for name, expected in expect["grad"].items():
        close = np.allclose(found[name].numpy(), expected, rtol=expect["grad_rtol"], atol=1e-12)
        assert close, name


@with_answer("grad_log_Z_wrt_log_weights")
def test_expected_counts_are_the_reference(case: Case) -> None:
    found = posterior(grammar_of(case), weights=weights_of(case)).counts
    for name, expected in case["expect"]["grad_log_Z_wrt_log_weights"].items():
        assert np.allclose(found[name].numpy(), expected, rtol=1e-8), name


@with_answer("viterbi")
def test_the_best_derivation_is_the_reference(case: Case) -> None:
    grammar, expect = grammar_of(case), case["expect"]["viterbi"]
    weights = weights_of(case)
    best = viterbi(grammar, weights=weights)
    assert best.log_weight == pytest.approx(expect["log_weight"], rel=1e-10)
    if "rule_sequence" in expect:
        assert best.rules == tuple(f"r{i}" for i in expect["rule_sequence"])
    first, second = k_best(grammar, 2, weights=weights)
    assert first == best
    if "runner_up_log_weight" in expect:
        assert second.log_weight == pytest.approx(expect["runner_up_log_weight"], rel=1e-10)
    for derivation, key in ((first, "states"), (second, "runner_up_states")):
        if key in expect:
            assert [x[0] for _, _, x in derivation.spans() if x] == expect[key]
