"""Gibbs and Hastings: the posterior by enumeration, traces of chains, shared forests."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.runtime.learn import CVB, EM, VB, Gibbs, Hastings, Items
from fgg.runtime.learn.collapsed.gibbs import log_dirichlet
from fgg.runtime.learn.collapsed.sampler import Sampler
from fgg.runtime.learn.convergence import effective_size
from tests.oracles.learning_brute import trees
from tests.oracles.learning_cases import Case, cnf

TINY: dict[str, Any] = {
    "nonterminals": ["S", "A"],
    "rules": [["S", ["S", "S"]], ["S", ["A", "S"]], ["S", ["a"]], ["A", ["a"]], ["A", ["A", "A"]]],
    "corpus": [["a", "a"], ["a", "a", "a"]],
    "alpha": [0.3, 0.5, 1.0, 0.2, 0.7],
    "theta0": [0.3, 0.2, 0.5, 0.6, 0.4],
}


def mean_counts(data: dict[str, Any]) -> list[float]:
    """The posterior means of the counts of rules, over all choices of trees [CVB eq. 4]."""
    rules, alpha = [(head, body) for head, body in data["rules"]], data["alpha"]
    total, sums = 0.0, [0.0] * len(rules)
    each = [list(trees(rules, data["nonterminals"][0], s)) for s in data["corpus"]]
    for state in product(*each):
        counts = [sum(column) for column in zip(*state, strict=True)]
        log_joint = 0.0
        for symbol in data["nonterminals"]:
            own = [i for i, (head, _) in enumerate(rules) if head == symbol]
            log_joint += sum(math.lgamma(counts[i] + alpha[i]) for i in own)
            log_joint -= math.lgamma(sum(counts[i] + alpha[i] for i in own))
        weight = math.exp(log_joint)
        total += weight
        sums = [a + weight * b for a, b in zip(sums, counts, strict=True)]
    return [a / total for a in sums]


@pytest.mark.parametrize("kind", [Gibbs, Hastings])
@pytest.mark.parametrize("forests", [True, False])
def test_counts_of_a_chain_are_those_of_the_posterior(kind: type[Sampler], forests: bool) -> None:
    case = cnf(TINY)
    sweeps = 1500 if forests else 40
    chain = kind(case.model(), prior=case.prior(), weights=case.start(), forests=forests, seed=3)
    items = case.ready(chain)
    for _ in range(sweeps):
        report = chain.sweep(items)
    counts = case.vector(chain.layout.tables(chain.average))
    np.testing.assert_allclose(counts, mean_counts(TINY), atol=0.15 if forests else 0.8)
    assert report.kind == "log-joint" and report.items == 2
    draws = report.details["effective_draws"]
    assert draws == effective_size([chain.trace])
    assert 4 < draws < 3 * sweeps


def test_draws_of_dirichlet_distributions_have_their_moments() -> None:
    case = cnf(TINY)
    method = VB(case.model())
    dists = method.distributions["theta0"]
    alpha = torch.tensor([[0.5, 2.0, 1e-5]], dtype=torch.float64)
    chance = np.random.default_rng(1)
    draws = np.stack([log_dirichlet(dists, alpha, chance).numpy()[0] for _ in range(4000)])
    weights = np.exp(draws)
    np.testing.assert_allclose(weights.sum(-1), 1.0)
    np.testing.assert_allclose(weights.mean(0), [0.2, 0.8, 0.0], atol=0.02)
    np.testing.assert_allclose(weights[:, 0].var(), 0.2 * 0.8 / 3.50001, atol=0.005)
    # E log θ = ψ(α) - ψ(Σ α), also where θ is no number.
    wanted = torch.digamma(alpha) - torch.digamma(alpha.sum())
    np.testing.assert_allclose(draws.mean(0)[2], float(wanted[0, 2]), rtol=0.05)
    alpha[0, 1] = 0.0
    assert log_dirichlet(dists, alpha, chance)[0, 1] == -torch.inf


def test_gibbs_refuses_other_processes_and_skips_what_has_no_derivation() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    with pytest.raises(fgg.GrammarError, match="F476"):
        Gibbs(program.model(), reduce=lambda x: x + 0)
    weights = {"emit": torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64)}
    chain = Gibbs(program.model(dtype=torch.float64), weights=weights, skip=True)
    chain.step(Items({"w": [[0, 1]]}, None, (0,)))
    chain.step(Items({"w": [[0, 2]]}, None, (1,)))
    assert (chain.items, chain.skipped) == (1, 1)


# forests that several methods share


def shared_case() -> Case:
    return cnf(TINY)


def test_forests_that_are_shared_give_the_same_numbers() -> None:
    case = shared_case()
    model = case.model()
    first = EM(model, weights=case.start(), forests=True)
    if not first.uses_forests:
        pytest.skip("there is no C++ compiler")
    first.sweep(case.ready(first))
    for kind in (VB, CVB):
        objectives = []
        for forests in (first.item_forests, True):
            method = kind(case.model(), weights=case.start(), prior=case.prior(), forests=forests)
            items = case.ready(method)
            objectives.append([method.sweep(items).objective for _ in range(4)])
        assert objectives[0] == objectives[1]
    grown = dict(first.item_forests.of_item)
    second = Hastings(case.model(), prior=case.prior(), forests=first.item_forests)
    second.sweep(case.ready(second))
    assert all(second.item_forests.of_item[i] is forest for i, forest in grown.items())


def test_forests_of_another_model_are_refused() -> None:
    case = shared_case()
    first = EM(case.model(), forests=True)
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    with pytest.raises(fgg.GrammarError, match="F476"):
        CVB(program.model(), forests=first.item_forests)
    prior = case.prior()
    prior["theta0"][0] = 0.0
    with pytest.raises(fgg.GrammarError, match="F476"):
        CVB(case.model(), prior=prior, forests=first.item_forests)
