"""`learning.json`, number for number: EM, VB, CVB, the exact posterior, the Hastings kernel."""

from __future__ import annotations

import math
from collections import Counter as Multiset
from typing import Any

import pytest
import torch
from torch import Tensor

import fgg
from fgg.runtime.forest.engine import ForestWeights
from fgg.runtime.learn import CVB, EM, VB, CheckedItems, ExpectedCounter, Hastings, Items
from fgg.runtime.learn.collapsed.sampled_counts import entries_of
from fgg.runtime.learn.distributions import log_beta
from fgg.runtime.learn.flat_layout import SparseCounts
from tests.oracles.learning_cases import (
    FILE,
    KINDS,
    Case,
    cnf,
    load_cases,
    substring_table,
    templates,
)

pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason="there is no learning.json in FGG_CASES or beside the checkout"
)
CNF = [pytest.param(cnf, d, id=d["name"]) for d in load_cases("cnf")]
TEMPLATES = [pytest.param(templates, d, id=d["name"]) for d in load_cases("templates")]
ALL = CNF + TEMPLATES
Make = Any


def close(computed: list[float], wanted: list[float], tolerance: float = 1e-8) -> None:
    assert computed == pytest.approx(wanted, rel=tolerance, abs=tolerance)


def agrees(case: Case, tables: Any, wanted: Any, tolerance: float = 1e-8) -> None:
    """Numbers by factor against those of a case: a list, or by the names of rules."""
    computed = case.read(tables)
    if isinstance(wanted, dict):
        for rule, number in wanted.items():
            assert computed[rule] == pytest.approx(number, rel=tolerance, abs=tolerance), rule
    else:
        close(list(computed.values()), wanted, tolerance)


def doubles(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize(("make", "data"), ALL)
def test_em(make: Make, data: dict[str, Any]) -> None:
    case: Case = make(data)
    em = EM(case.model(), weights=case.start())
    items = case.ready(em)
    for wanted in data.get("em", ()):
        agrees(case, {n: em.logs[n].exp() for n in case.learned}, wanted["theta"])
        em.begin()
        for item in items:
            em.step(item)
        agrees(case, em.sums, wanted["counts"])
        assert em.end().objective == pytest.approx(wanted["loglik"], abs=1e-8)


@pytest.mark.parametrize(("make", "data"), ALL)
def test_vb(make: Make, data: dict[str, Any]) -> None:
    case: Case = make(data)
    vb = VB(case.model(), weights=case.start(), prior=case.prior())
    items = case.ready(vb)
    vb.sweep(items)
    for wanted in data.get("vb", ()):
        agrees(case, vb.counts, wanted["counts_in"])
        agrees(case, vb.logs, wanted["log_theta_tilde"])
        report = vb.sweep(items)
        assert report.kind == "free energy"
        assert report.log_z == pytest.approx(wanted["sum_log_Z"], abs=1e-8)
        assert report.details["kl"] == pytest.approx(wanted["kl"], abs=1e-8)
        assert report.objective == pytest.approx(wanted["neg_free_energy"], abs=1e-8)
        agrees(case, vb.counts, wanted["counts"])


class Recording(CVB):
    """CVB that remembers the weights with which each item was last counted."""

    used: dict[int, Tensor]

    def step(self, batch: Any) -> None:
        self.used = getattr(self, "used", {})
        (self.at,) = batch.ids
        super().step(batch)

    def means(self, total: Tensor) -> Tensor:
        result = super().means(total)
        self.used[self.at] = result.clone()
        return result

    def weights_without(self, unit: tuple[int, ...]) -> ForestWeights:
        weights = super().weights_without(unit)
        if self.sweeps:
            self.used[self.at] = super().means(self.store.total)
        return weights


@pytest.mark.parametrize("forests", [True, False], ids=["forests", "charts"])
@pytest.mark.parametrize(("make", "data"), ALL)
def test_cvb(make: Make, data: dict[str, Any], forests: bool) -> None:
    case: Case = make(data)
    cvb = Recording(case.model(), weights=case.start(), prior=case.prior(), forests=forests)
    items = case.ready(cvb)
    trees: list[Multiset[tuple[float, ...]]] = []
    for wanted in data["cvb"]:
        report = cvb.sweep(items)
        assert report.sweep == wanted["sweep"]
        agrees(case, cvb.layout.tables(cvb.store.total), wanted["counts"])
        for item, local in enumerate(wanted.get("local", ())):
            agrees(case, local_counts(cvb, item), local)
        if "sum_log_Z" in wanted:
            assert report.log_z == pytest.approx(wanted["sum_log_Z"], abs=1e-8)
        if "entropy" in wanted:
            assert report.details["entropy"] == pytest.approx(wanted["entropy"], abs=1e-8)
            assert report.objective == pytest.approx(wanted["neg_free_energy_0"], abs=1e-8)
        if "neg_free_energy_exact" in wanted:
            trees = trees or [vectors(case, item) for item in range(len(case.items))]
            expected = expected_joint(case, cvb, trees)
            exact = expected + report.details["entropy"]
            assert exact == pytest.approx(wanted["neg_free_energy_exact"], abs=1e-8)


def local_counts(cvb: CVB, item: int) -> dict[str, Tensor]:
    sparse = cvb.store.units[(item,)]
    flat = torch.zeros(cvb.layout.size, dtype=torch.float64)
    flat[sparse.index.long()] = sparse.value
    return cvb.layout.tables(flat)


def vectors(case: Case, item: int) -> Multiset[tuple[float, ...]]:
    """The count vectors of all derivations of an item, and how many have each."""
    program = case.program
    ones = {n: torch.ones(program.shape(n)).double() for n in program.parameter_names}
    for factor in program.parameters:
        if factor.value is not None:
            ones[factor.name] = program.weights(seed=0, dtype=torch.float64)[factor.name]
    (derivations,) = program.posterior(ones, case.items[item].inputs).k_best(100_000)
    back = {place: i for i, place in enumerate(case.places.values())}
    result: Multiset[tuple[float, ...]] = Multiset()
    for derivation in derivations:
        vector = [0.0] * len(case.places)
        for name, place in entries_of(derivation, program):
            if name in case.learned:
                vector[back[(name, place[0])]] += 1
        result[tuple(vector)] += 1
    return result


def log_joint(case: Case, counts: Tensor) -> Tensor:
    """Σ_A log B(f + α) - log B(α) of count vectors, a row each."""
    alpha = doubles(list(case.named("alpha").values()))
    names = [name for name, _ in case.places.values()]
    total = torch.zeros(len(counts), dtype=torch.float64)
    for name in case.learned:
        mine = torch.tensor([n == name for n in names])
        prior = alpha[mine].unsqueeze(0)
        total += log_beta(counts[:, mine] + prior, prior) - log_beta(prior, prior)
    return total


def combined(case: Case, trees: list[Multiset[tuple[float, ...]]]) -> Tensor:
    """The count vectors of all choices of a tree's vector for each item, in order."""
    sums = torch.zeros(1, len(case.places), dtype=torch.float64)
    for vectors_of_item in trees:
        sums = (sums[:, None] + doubles(list(vectors_of_item))[None]).flatten(0, 1)
    return sums


def expected_joint(case: Case, cvb: Recording, trees: list[Multiset[tuple[float, ...]]]) -> float:
    """E_Q[log P(w, t | α)] with each item's own Q, by enumeration of count vectors."""
    chances = torch.ones(1, dtype=torch.float64)
    for item, options in enumerate(trees):
        logs = doubles(case.vector(cvb.layout.tables(cvb.used[item]))).log()
        scores = doubles(list(options)) @ logs + doubles(list(options.values())).log()
        chances = torch.outer(chances, scores.softmax(0)).flatten()
    return float(chances @ log_joint(case, combined(case, trees)))


@pytest.mark.parametrize(("make", "data"), CNF)
def test_the_exact_posterior(make: Make, data: dict[str, Any]) -> None:
    case: Case = make(data)
    trees = [vectors(case, item) for item in range(len(case.items))]
    counts, wanted = combined(case, trees), data["exact"]
    times = torch.ones(1, dtype=torch.float64)
    for options in trees:
        times = torch.outer(times, doubles(list(options.values()))).flatten()
    assert len(torch.unique(counts, dim=0)) == wanted["distinct_count_vectors"]
    logs = log_joint(case, counts) + times.log()
    marginal = torch.logsumexp(logs, 0)
    assert float(marginal) == pytest.approx(wanted["log_marginal"], abs=1e-8)
    means = (logs - marginal).exp() @ counts
    close(means.tolist(), wanted["posterior_mean_counts"])


@pytest.mark.parametrize(("make", "data"), CNF)
def test_the_hastings_kernel(make: Make, data: dict[str, Any]) -> None:
    case: Case = make(data)
    wanted = data["hastings_kernel"]
    sampler = Hastings(case.model(), weights=case.start(), prior=case.prior())
    tables = sampler.empty()
    for (name, place), count in zip(case.places.values(), wanted["base_counts"], strict=True):
        tables[name].reshape(-1)[place] = count
    sampler.store.total = sampler.layout.flat(tables)
    means = sampler.means(sampler.store.total)
    close(case.vector(sampler.layout.tables(means.log())), wanted["log_theta_H"])
    keys = [tuple(map(float, tree)) for tree in wanted["trees"]]
    (item,) = [i for i in range(len(case.items)) if set(vectors(case, i)) == set(keys)][-1:]
    options = vectors(case, item)
    assert [options[key] for key in keys] == wanted["multiplicity"]
    counter = ExpectedCounter(case.program)
    counter.set({n: w.log() for n, w in sampler.weights(means).items()})
    log_z = float(counter.count(sampler.ready(case.items[item])).log_z)
    trees = [as_sparse(case, sampler, key) for key in keys]
    target = [sampler.log_target(tree) for tree in trees]
    proposal = [sampler.log_proposal(tree, means) - log_z for tree in trees]
    close(target, wanted["log_target"])
    close(proposal, wanted["log_proposal"])
    ratios = [sampler.log_ratio(tree, means) for tree in trees]
    times = wanted["multiplicity"]
    posterior = doubles([t + math.log(m) for t, m in zip(target, times, strict=True)])
    chances = posterior.softmax(0)
    offered = doubles([m * math.exp(q) for m, q in zip(times, proposal, strict=True)])
    accept = [[min(1.0, math.exp(new - old)) for new in ratios] for old in ratios]
    table = doubles(accept)
    if sampler.uses_forests:
        weights = sampler.forest_weights
        close([weights.log_ratio(tree.plain()) for tree in trees], ratios)
    # Detailed balance: the posterior of the item's derivation given all others is stationary.
    flow = chances[:, None] * offered[None, :] * table
    torch.testing.assert_close(flow, flow.T, atol=1e-12, rtol=1e-9)
    assert float(offered.sum()) == pytest.approx(1.0, abs=1e-9)
    assert float(flow.sum()) == pytest.approx(wanted["mean_acceptance"], abs=1e-8)


def as_sparse(case: Case, sampler: Hastings, vector: tuple[float, ...]) -> SparseCounts:
    tables = sampler.empty()
    for (name, place), count in zip(case.places.values(), vector, strict=True):
        tables[name].reshape(-1)[place] = count
    return sampler.layout.sparse(sampler.layout.flat(tables))


FIVE = ["Word->V", "Word->V M", "Word->SM V M", "Word->SM T V M", "Word->SM T OM V M"]
FACTORS = {"V": "stem", "M": "mood", "SM": "subject", "T": "tense", "OM": "object"}


@pytest.mark.parametrize("data", [d for d in load_cases("templates") if d["templates"] == FIVE])
def test_the_library_has_this_morphology(data: dict[str, Any]) -> None:
    words = data["words"]
    parts = [w[i:j] for w in words for i in range(len(w)) for j in range(i + 1, len(w) + 1)]
    substrings = list(dict.fromkeys(parts))
    program = fgg.compile(fgg.load("morphology", sizes={"substrings": len(substrings)}))
    ones = {f.name: torch.ones(program.shape(f.name)) for f in program.parameters if not f.value}
    model = program.model(dtype=torch.float64)
    cvb = CVB(model, weights=ones, prior=data["alpha"])
    items: list[CheckedItems] = [
        cvb.ready(Items({"s": [substring_table(word, substrings)]}, None, (i,)))
        for i, word in enumerate(words)
    ]
    for wanted in data["cvb"]:
        cvb.sweep(items)
        tables = cvb.layout.tables(cvb.store.total)
        for rule, count in wanted["counts"].items():
            left, right = rule.split("->")
            if left == "Word":
                entry = tables["template"][0, FIVE.index(rule)]
            else:
                entry = tables[FACTORS[left]][0, substrings.index(right)]
            assert float(entry) == pytest.approx(count, abs=1e-8)


def test_every_kind_of_case_is_read() -> None:
    assert set(KINDS) == {"cnf", "templates"}
    assert CNF and TEMPLATES
