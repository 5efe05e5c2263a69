"""The exact collapsed update and the sampled bound, against enumeration in plain Python."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.runtime.forest.engine import machine_code
from fgg.runtime.forest.enumerate import TooMany, derivations
from fgg.runtime.learn import CVB, ExactCVB, Items, collapsed_bound, learn
from tests.oracles.learning_brute import MADE_UP, Counts, trees
from tests.oracles.learning_cases import cnf

pytestmark = pytest.mark.skipif(machine_code() is None, reason="there is no C++ compiler")
TINY: dict[str, Any] = {
    "nonterminals": ["S", "A"],
    "rules": [["S", ["S", "S"]], ["S", ["A", "S"]], ["S", ["a"]], ["A", ["a"]], ["A", ["A", "A"]]],
    "corpus": [["a", "a"], ["a", "a", "a"], ["a", "a", "a"]],
    "alpha": [0.3, 0.5, 1.0, 0.2, 0.7],
    "theta0": [0.3, 0.2, 0.5, 0.6, 0.4],
}
CASES = [TINY, MADE_UP[2]]
"""Two corpora with few choices of trees for all sentences."""


class Enumerated:
    """A corpus with all trees of each sentence, and log P(w, t | α) of all of them."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.rules = [(head, body) for head, body in data["rules"]]
        self.alpha: Counts = data["alpha"]
        start = data["nonterminals"][0]
        self.trees = [list(trees(self.rules, start, s)) for s in data["corpus"]]
        self.theta: Counts = data["theta0"]

    def log_joint(self, chosen: list[Counts]) -> float:
        counts = [sum(column) for column in zip(*chosen, strict=True)]
        total = 0.0
        for symbol in {head for head, _ in self.rules}:
            own = [i for i, (head, _) in enumerate(self.rules) if head == symbol]
            f, a = sum(counts[i] for i in own), sum(self.alpha[i] for i in own)
            total += math.lgamma(a) - math.lgamma(f + a)
            total += sum(
                math.lgamma(counts[i] + self.alpha[i]) - math.lgamma(self.alpha[i]) for i in own
            )
        return total

    def start(self) -> list[list[float]]:
        """The posteriors of trees under the start's weights."""
        q = []
        for item in self.trees:
            weights = [
                math.prod(w**n for w, n in zip(self.theta, t, strict=True) if n) for t in item
            ]
            q.append([w / sum(weights) for w in weights])
        return q

    def update(self, q: list[list[float]], item: int) -> None:
        """Q(t_i) ∝ exp E[log P(w, t | α)], by enumeration of the other sentences' trees."""
        scores = []
        others = [range(len(t)) if i != item else range(1) for i, t in enumerate(self.trees)]
        for tree in self.trees[item]:
            mean = 0.0
            for state in product(*others):
                chance = math.prod(q[i][s] for i, s in enumerate(state) if i != item)
                chosen = [tree if i == item else self.trees[i][s] for i, s in enumerate(state)]
                mean += chance * self.log_joint(chosen)
            scores.append(mean)
        weights = [math.exp(s - max(scores)) for s in scores]
        q[item] = [w / sum(weights) for w in weights]

    def states(self) -> list[tuple[int, ...]]:
        return list(product(*(range(len(t)) for t in self.trees)))

    def chosen(self, state: tuple[int, ...]) -> list[Counts]:
        return [self.trees[i][s] for i, s in enumerate(state)]

    def bound(self, q: list[list[float]]) -> float:
        total = 0.0
        for state in self.states():
            chance = math.prod(q[i][s] for i, s in enumerate(state))
            if chance:
                total += chance * (self.log_joint(self.chosen(state)) - math.log(chance))
        return total

    def evidence(self) -> float:
        logs = [self.log_joint(self.chosen(state)) for state in self.states()]
        return float(np.logaddexp.reduce(logs))

    def counts(self, q: list[list[float]]) -> Counts:
        return [
            sum(
                p * t[r]
                for item, own in zip(self.trees, q, strict=True)
                for t, p in zip(item, own, strict=True)
            )
            for r in range(len(self.rules))
        ]


@pytest.mark.parametrize("data", CASES)
def test_the_exact_update_is_that_of_enumeration(data: dict[str, Any]) -> None:
    case, brute = cnf(data), Enumerated(data)
    method = ExactCVB(case.model(), weights=case.start(), prior=case.prior())
    items = case.ready(method)
    q, bounds = brute.start(), []
    for sweep in range(4):
        if sweep:
            for item in range(len(q)):
                brute.update(q, item)
        report = method.sweep(items)
        bounds.append(report.objective)
        assert report.objective == pytest.approx(brute.bound(q), abs=1e-9)
        counts = case.vector(method.layout.tables(method.store.total))
        assert counts == pytest.approx(brute.counts(q), abs=1e-9)
    assert all(b >= a - 1e-9 for a, b in pairwise(bounds)) and bounds[-1] > bounds[0] + 1e-3
    assert bounds[-1] <= brute.evidence() + 1e-9


@pytest.mark.parametrize("data", CASES)
def test_the_bound_and_the_evidence_are_estimated_within_their_errors(
    data: dict[str, Any],
) -> None:
    case, brute = cnf(data), Enumerated(data)
    method = CVB(case.model(), weights=case.start(), prior=case.prior())
    items = case.ready(method)
    for _ in range(3):
        method.sweep(items)
    before = method.store.total.clone()
    estimate = collapsed_bound(method, items, draws=3000, seed=2)
    assert torch.equal(method.store.total, before)
    # Q of each item, from the counts of the others.
    q = []
    for item, batch in enumerate(items):
        rest = method.store.total.clone()
        kept = method.store.units[batch.ids]
        rest[kept.index.long()] -= kept.value
        theta = case.vector(method.layout.tables(method.means(rest.clamp(min=0))))
        weights = [
            math.prod(w**n for w, n in zip(theta, t, strict=True) if n) for t in brute.trees[item]
        ]
        q.append([w / sum(weights) for w in weights])
    exact, evidence = brute.bound(q), brute.evidence()
    assert abs(estimate.bound - exact) < 4 * estimate.bound_error < 0.2
    assert exact < estimate.log_evidence < evidence + 4 * estimate.evidence_error
    if data is TINY:  # in the other corpus, rare derivations hold a tenth of the evidence
        assert abs(estimate.log_evidence - evidence) < 4 * estimate.evidence_error < 0.5
    assert 1 < estimate.weights <= 3000
    # The errors are those of repeated estimates.
    again = [collapsed_bound(method, items, draws=50, seed=s) for s in range(30)]
    spread = float(np.std([e.bound for e in again], ddof=1))
    assert spread == pytest.approx(float(np.mean([e.bound_error for e in again])), rel=0.5)


def test_bounds_of_items_that_were_not_counted_are_refused() -> None:
    case = cnf(TINY)
    method = CVB(case.model(), prior=case.prior())
    with pytest.raises(fgg.GrammarError, match="no counts yet"):
        collapsed_bound(method, case.ready(method))
    method.sweep(case.ready(method))
    with pytest.raises(fgg.GrammarError, match="draws"):
        collapsed_bound(method, case.ready(method), draws=1)
    charts = CVB(case.model(), prior=case.prior(), forests=False)
    charts.sweep(case.ready(charts))
    with pytest.raises(fgg.GrammarError, match="forests"):
        collapsed_bound(charts, case.ready(charts))


def test_items_with_too_many_derivations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4}))
    monkeypatch.setattr("fgg.runtime.learn.collapsed.exact_cvb.MOST", 20)
    with pytest.raises(fgg.GrammarError, match="more than 20 derivations"):
        learn(program, [[0, 1, 2, 3]], method="exact-cvb", epochs=1)
    method = CVB(program.model(dtype=torch.float64))
    checked = method.ready(Items({"w": [[0, 1, 2]]}, None, (0,)))
    forests = method.forests_of(checked)
    assert forests is not None
    (forest,) = forests
    listed = derivations(forest.packed.forest, forest.tokens, 100)
    assert len(listed.counts) == 27 and (listed.counts.sum(-1) == 6).all()
    with pytest.raises(TooMany):
        derivations(forest.packed.forest, forest.tokens, 26)
