"""Gradients against finite differences; counts, marginals and entropy against enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from fgg.compiler.resolve.load import loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.domains import select
from fgg.runtime.reference.posterior import GroundPosterior, gradients, posterior
from fgg.runtime.reference.solve import solve
from tests.helpers.engine_grammars import scalars, started_anywhere
from tests.oracles.enumeration import Cell, Tree, trees
from tests.runtime.reference.test_solve import chain

ACYCLIC = """
domain T = 2
domain U = 3
domain C = T + U
factor f(T, U)
factor g(T, T)
factor v(C)
nonterminal S()
nonterminal X(T, T)
start S
rule a: S -> X(a, b) f(a, u) g(b, b)
rule b: S -> v(c) g(c.T, a) X(a, a)
rule x: X(a, a) -> g(a, b)
rule y: X(a, b) -> f(b, u) f(a, u)
"""
LINEAR = """
domain T = 2
factor m(T, T)
factor u(T)
factor s(T)
nonterminal S()
nonterminal X(T)
nonterminal Y(T)
start S
rule s: S -> s(a) X(a)
rule stop: X(a) -> u(a)
rule step: X(a) -> m(a, b) Y(b)
rule on: Y(a) -> m(b, a) X(b)
rule off: Y(a) -> Y(a) u(a) u(a)
"""
NONLINEAR = """
domain T = 2
factor p(T, T, T)
factor q(T)
factor s(T)
nonterminal S()
nonterminal X(T)
start S
rule s: S -> s(a) X(a)
rule two: X(a) -> p(a, b, c) X(b) X(c)
rule none: X(a) -> q(a)
"""
MATRIX = """
domain T = 2
factor m(T, T)
factor u(T, T)
nonterminal X(T, T)
start X
rule stop: X(a, b) -> u(a, b)
rule step: X(a, b) -> m(a, c) X(c, b)
"""
TEXTS = {"acyclic": ACYCLIC, "linear": LINEAR, "nonlinear": NONLINEAR, "matrix": MATRIX}


def random_weights(grammar: Grammar, seed: int = 0) -> dict[str, Tensor]:
    """Weights small enough for all these recursions to converge."""
    rng = np.random.default_rng(seed)
    size = {"T": 2, "U": 3, "C": 5}
    return {
        f.name: torch.tensor(0.05 + 0.2 * rng.random([size[d] for d in f.domains]))
        for f in grammar.factors
    }


@pytest.mark.parametrize("semiring", ["real", "log"])
@pytest.mark.parametrize("name", TEXTS)
def test_first_and_second_derivatives_are_finite_differences(name: str, semiring: str) -> None:
    grammar = loads(TEXTS[name])
    weights = random_weights(grammar)
    leaves = [w.clone().requires_grad_() for w in weights.values()]

    def function(*tensors: Tensor) -> Tensor:
        found: Tensor = solve(
            grammar, semiring, weights=dict(zip(weights, tensors, strict=True))
        ).value
        return found

    assert gradcheck(function, leaves, atol=1e-7, rtol=1e-5)
    assert gradgradcheck(function, leaves, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", TEXTS)
def test_gradients_are_central_differences(name: str) -> None:
    grammar = loads(TEXTS[name])
    weights = random_weights(grammar, 1)

    def total(changed: str, index: tuple[int, ...], by: float) -> float:
        moved = {n: w.clone() for n, w in weights.items()}
        moved[changed][index] += by
        return float(solve(grammar, "real", weights=moved).value.sum())

    found = gradients(grammar, of="z", weights=weights)
    logs = gradients(grammar, weights=weights)
    z = float(solve(grammar, "real", weights=weights).value.sum())
    for factor, grad in found.items():
        for index in np.ndindex(*grad.shape):
            slope = (total(factor, index, 1e-5) - total(factor, index, -1e-5)) / 2e-5
            assert float(grad[index]) == pytest.approx(slope, rel=1e-6, abs=1e-9)
        assert torch.allclose(logs[factor], grad / z, rtol=1e-10)


def test_a_gradient_in_a_weight_of_zero_is_there() -> None:
    grammar = scalars("S -> z X; S -> o; X -> o; X -> h X", z=0.0, o=1.0, h=0.5)
    assert float(gradients(grammar, of="z")["z"]) == pytest.approx(2)
    zero = scalars("S -> z z; S -> z", z=0.0)
    assert float(gradients(zero, of="z")["z"]) == pytest.approx(1)
    with pytest.raises(GrammarError, match="F423"):
        gradients(zero)


@pytest.mark.parametrize("weights", [{"a": 0.5, "b": 0.5}, {"a": 2.0, "b": 1.0}])
def test_a_critical_or_divergent_recursion_has_no_gradient(weights: dict[str, float]) -> None:
    with pytest.raises(GrammarError, match="F423"):
        gradients(scalars("S -> a S S; S -> b", **weights))
    with pytest.raises(GrammarError, match="F423"):
        posterior(scalars("S -> a S S; S -> b", **weights))


def test_nothing_has_no_posterior() -> None:
    with pytest.raises(GrammarError, match="F423"):
        posterior(scalars("S -> S"))


def test_gradients_survive_what_real_numbers_do_not() -> None:
    grammar = scalars("S -> A B; A -> a a a; B -> b b b", a=1e-200, b=1e200)
    found = gradients(grammar)
    assert float(found["a"]) * 1e-200 == pytest.approx(3)
    assert float(found["b"]) * 1e200 == pytest.approx(3)
    counts = gradients(chain(2000))["half"]
    assert float(counts) * 0.5 == pytest.approx(2000)


Weighted = Sequence[tuple[Cell, Tree]]


def expected_counts(grammar: Grammar, found: Weighted) -> dict[Any, float]:
    """Expected uses of entries, cells, rules, and of nodes' values, by their definition."""
    z = sum(tree.weight for _, tree in found)
    counts: dict[Any, float] = {}
    for cell, tree in found:
        share = float(tree.weight / z)
        del cell
        for step in tree.steps():
            values = dict(step.values)
            keys: list[Any] = [("rule", step.rule.name)]
            externals = tuple(values[name] for name in step.rule.rhs.externals)
            keys.append(("cell", step.rule.lhs, externals))
            keys += [("node", step.rule.name, n, v) for n, v in values.items()]
            for edge in step.rule.rhs.edges:
                if edge.label in grammar.factor:
                    places = tuple(
                        select(
                            grammar, step.rule.rhs.by_name[a.node].domain, a.path, values[a.node]
                        )
                        for a in edge.attachments
                    )
                    keys.append(("entry", edge.label, places))
            for number, edge in enumerate(step.rule.rhs.edges):
                nodes = tuple(dict.fromkeys(a.node for a in edge.attachments))
                keys.append(("edge", step.rule.name, number, tuple(values[n] for n in nodes)))
            for key in keys:
                counts[key] = counts.get(key, 0.0) + share
    return counts


def compare(grammar: Grammar, believed: GroundPosterior, found: Weighted, tolerance: float) -> None:
    """Compare all that a posterior says with enumeration."""
    z = sum((tree.weight for _, tree in found), start=Fraction(0))
    counts = expected_counts(grammar, found)
    near: dict[str, Any] = {"rel": tolerance, "abs": tolerance}
    assert believed.log_z == pytest.approx(log(float(z)), **near)
    for rule in grammar.rules:
        assert believed.rules[rule.name] == pytest.approx(
            counts.get(("rule", rule.name), 0), **near
        )
        for node in rule.rhs.nodes:
            for value, share in enumerate(believed.node(rule.name, node.name).tolist()):
                expected = counts.get(("node", rule.name, node.name, value), 0)
                assert share == pytest.approx(expected, **near)
        for number in range(len(rule.rhs.edges)):
            together = believed.edge(rule.name, number)
            for index in np.ndindex(*together.shape):
                expected = counts.get(("edge", rule.name, number, index), 0)
                assert float(together[index]) == pytest.approx(expected, **near)
    for kind, tables in (("entry", believed.counts), ("cell", believed.nonterminals)):
        for name, table in tables.items():
            for index in np.ndindex(*table.shape):
                expected = counts.get((kind, name, index), 0)
                assert float(table[index]) == pytest.approx(expected, **near)
    shares = [float(tree.weight / z) for _, tree in found]
    entropy = -sum(p * log(p) for p in shares if p > 0)
    assert believed.entropy == pytest.approx(entropy, rel=10 * tolerance, abs=10 * tolerance)


@settings(max_examples=60)
@given(started_anywhere())
def test_what_is_expected_is_what_enumeration_gives(grammar: Grammar) -> None:
    found = trees(grammar)
    assume(found)
    compare(grammar, posterior(grammar), found, 1e-9)


@pytest.mark.parametrize(
    ("name", "depth"), [("acyclic", 3), ("linear", 7), ("nonlinear", 4), ("matrix", 8)]
)
def test_what_is_expected_of_a_recursion_is_the_limit_of_enumeration(name: str, depth: int) -> None:
    grammar = loads(TEXTS[name])
    weights = {n: (w / 8).numpy() for n, w in random_weights(grammar, 2).items()}
    if name == "nonlinear":
        weights["p"] = weights["p"] / 10
    found = trees(grammar, weights=weights, max_depth=depth)
    compare(grammar, posterior(grammar, weights=weights), found, 1e-6)


def test_the_entropy_of_a_geometric_distribution_is_known() -> None:
    believed = posterior(scalars("S -> p S; S -> q", p=0.75, q=0.25))
    assert believed.entropy == pytest.approx(-(0.25 * log(0.25) + 0.75 * log(0.75)) / 0.25)
    assert believed.rules == pytest.approx({"r0": 3.0, "r1": 1.0})
    assert float(believed.counts["p"]) == pytest.approx(3)


def test_the_entropy_of_equal_derivations_is_the_logarithm_of_their_number() -> None:
    grammar = loads("domain T = 8\nnonterminal S()\nstart S\nrule S -> (a: T)\nrule t: S -> (b: T)")
    assert posterior(grammar).entropy == pytest.approx(log(16))


def test_infinite_cells_that_count_for_nothing_do_no_harm() -> None:
    grammar = scalars("S -> z X; S -> o; X -> t X; X -> o", z=0.0, o=1.0, t=2.0)
    assert posterior(grammar).rules == {"r0": 0.0, "r1": 1.0, "r2": 0.0, "r3": 0.0}
