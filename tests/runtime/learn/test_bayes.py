"""VB, CVB and Hastings: bounds, weights too small for numbers, stationarity, memory."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch

import fgg
from fgg.runtime.learn import CVB, VB, ExpectedCounter, Hastings, Items, learn
from fgg.runtime.learn.collapsed.leave_one_out import CountStore
from fgg.runtime.learn.collapsed.sampled_counts import EntrySampler, entries_of
from fgg.runtime.learn.distributions import divergence, log_beta, log_geometric
from fgg.runtime.learn.expected_counts import log_counts
from fgg.runtime.learn.flat_layout import SparseCounts
from fgg.runtime.program.program import Program
from tests.oracles.learning_cases import cnf

SENTENCES = [[0, 1, 2], [3, 1], [2, 2, 0, 1, 3], [1], [0, 3, 3, 2]]


def hmm(**sizes: int) -> Program:
    return fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4, **sizes}))


@pytest.mark.parametrize("prior", [1.0, 0.1, 1e-5])
def test_the_free_energy_of_vb_never_falls(prior: float) -> None:
    learned = learn(hmm(), SENTENCES, method="vb", prior=prior, epochs=25)
    assert learned.history[0].kind == "log-likelihood"
    values = [p.objective for p in learned.history[1:]]
    assert {p.kind for p in learned.history[1:]} == {"free energy"}
    assert all(b >= a - 1e-9 * (1 + abs(a)) for a, b in pairwise(values))
    assert values[-1] > values[0] + 0.1


def test_the_divergence_of_dirichlet_distributions() -> None:
    counts = torch.tensor([[0.5, 2.0, 0.0], [1.0, 0.0, 3.0]], dtype=torch.float64)
    alpha = torch.tensor([[0.1, 1.0, 0.4], [2.0, 0.5, 1.0]], dtype=torch.float64)
    one = torch.distributions.Dirichlet(counts + alpha)
    two = torch.distributions.Dirichlet(alpha)
    wanted = torch.distributions.kl_divergence(one, two).sum()
    torch.testing.assert_close(divergence(counts, alpha), wanted)
    # An entry of prior 0 is not there.
    wide = torch.cat([alpha, torch.zeros(2, 1, dtype=torch.float64)], 1)
    more = torch.cat([counts, torch.zeros(2, 1, dtype=torch.float64)], 1)
    torch.testing.assert_close(divergence(more, wide), wanted)
    torch.testing.assert_close(log_beta(wide, wide), log_beta(alpha, alpha))
    assert torch.isneginf(log_geometric(more, wide)[:, -1]).all()


def extreme(program: Program, seed: int, scale: float) -> dict[str, torch.Tensor]:
    """Log-weights of which many are too small to be numbers."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: -scale * torch.rand(program.shape(name), generator=generator, dtype=torch.float64)
        for name in program.parameter_names
    }


@pytest.mark.parametrize("name", ["hmm", "cnf", "pcfg"])
@pytest.mark.parametrize("scale", [30.0, 3000.0])
def test_weights_that_are_no_numbers_are_counted_in_logarithms(name: str, scale: float) -> None:
    small = {"k": 2, "d": 3, "nt": 2, "pt": 2, "words": 3, "r": 2}
    sizes = {n: v for n, v in small.items() if n in fgg.load(name).size}
    program = fgg.compile(fgg.load(name, sizes=sizes))
    logs = extreme(program, 4, scale)
    counter = ExpectedCounter(program)
    counter.set(logs)
    words = [0, 2, 1, 1]
    batch = VB(program.model(dtype=torch.float64)).ready(Items({"w": [words]}))
    expected = counter.count(batch)
    exact = log_counts(program, logs, batch)
    torch.testing.assert_close(expected.log_z, exact.log_z, atol=1e-8, rtol=1e-10)
    for factor, counts in exact.counts.items():
        torch.testing.assert_close(expected.counts[factor], counts, atol=1e-8, rtol=1e-8)
    # By enumeration of derivations, with logarithms added up one by one.
    if name != "pcfg":
        ones = {n: torch.ones(program.shape(n)).double() for n in logs}
        (all_of_them,) = program.posterior(ones, {"w": [words]}).k_best(10**6)
        weights = []
        for derivation in all_of_them:
            weights.append(sum(float(logs[n][p]) for n, p in entries_of(derivation, program)))
        wanted = torch.tensor(weights, dtype=torch.float64).logsumexp(0)
        torch.testing.assert_close(expected.log_z[0], wanted, atol=1e-8, rtol=1e-10)


def test_long_items_with_extreme_weights_are_right() -> None:
    program = hmm()
    logs = {n: 40 * x for n, x in extreme(program, 1, 10.0).items()}
    counter = ExpectedCounter(program)
    counter.set(logs)
    sentence = [i % 4 for i in range(40)]
    batch = VB(program.model(dtype=torch.float64)).ready(Items({"w": [sentence]}))
    expected, exact = counter.count(batch), log_counts(program, logs, batch)
    torch.testing.assert_close(expected.log_z, exact.log_z, rtol=1e-10, atol=1e-8)
    for name, counts in exact.counts.items():
        torch.testing.assert_close(expected.counts[name], counts, atol=1e-7, rtol=1e-7)


def test_cvb_in_batches_takes_their_counts_out_together() -> None:
    program = hmm()
    one = learn(program, SENTENCES, method="cvb", prior=0.1, epochs=6, seed=1)
    many = learn(program, SENTENCES, method="cvb", prior=0.1, epochs=6, seed=1, budget=100)
    assert one.history[0].objective == pytest.approx(many.history[0].objective)
    assert one.history[-1].objective != pytest.approx(many.history[-1].objective, abs=1e-6)
    assert isinstance(many.method, CVB) and len(many.method.store.units) == 1
    counts = many.method.store.total.sum()
    assert float(counts) == pytest.approx(float(sum(2 * len(s) for s in SENTENCES)))
    with pytest.raises(fgg.GrammarError, match="F476"):
        many.method.step(Items({"w": [SENTENCES[0]]}, None, (0,)))


def test_counts_of_items_that_would_not_fit_are_refused() -> None:
    class Fake:
        size = 8
        index_type = torch.int64

    store = CountStore(Fake(), expected=10**15)  # type: ignore[arg-type]
    with pytest.raises(fgg.GrammarError, match="F420"):
        store.keep((0,), SparseCounts(torch.arange(8), torch.ones(8)))


def test_an_entry_of_prior_zero_is_impossible() -> None:
    prior = {"emit": torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0]])}
    for method in ("vb", "cvb", "hastings"):
        learned = learn(hmm(), SENTENCES, method=method, prior=prior, epochs=3)
        assert float(learned.model.weight("emit")[2, 3].detach()) == 0.0


# Hastings


TINY: dict[str, Any] = {
    "nonterminals": ["S", "A"],
    "rules": [["S", ["S", "S"]], ["S", ["A", "S"]], ["S", ["a"]], ["A", ["a"]], ["A", ["A", "A"]]],
    "corpus": [["a", "a"], ["a", "a", "a"]],
    "alpha": [0.3, 0.5, 1.0, 0.2, 0.7],
    "theta0": [0.3, 0.2, 0.5, 0.6, 0.4],
}


def all_derivations(case: Any) -> list[list[SparseCounts]]:
    """The counts of every derivation of every item."""
    sampler = Hastings(case.model(), prior=case.prior())
    ones = {n: torch.ones(w.shape).double() for n, w in case.program.weights(seed=0).items()}
    ones |= {
        f.name: case.program.weights(seed=0, dtype=torch.float64)[f.name]
        for f in case.program.parameters
        if f.value is not None
    }
    derivations = []
    for item in case.items:
        (best,) = case.program.posterior(ones, item.inputs).k_best(10_000)
        rows = []
        for derivation in best:
            tables = sampler.empty()
            for name, place in entries_of(derivation, case.program):
                if name in tables:
                    tables[name].reshape(-1)[place[0]] += 1
            rows.append(sampler.layout.sparse(sampler.layout.flat(tables)))
        derivations.append(rows)
    return derivations


def test_the_posterior_is_stationary_under_a_sweep() -> None:
    """The transition matrix of a sweep over all states, one for each choice of derivations."""
    case = cnf(TINY)
    trees = all_derivations(case)
    states = list(product(*(range(len(choices)) for choices in trees)))
    place = {state: i for i, state in enumerate(states)}
    sampler = Hastings(case.model(), prior=case.prior())

    def joint(state: tuple[int, ...]) -> float:
        sampler.store.total.zero_()
        for options, chosen in zip(trees, state, strict=True):
            sampler.store.add(options[chosen])
        return sampler.log_marginal()

    posterior = torch.tensor([joint(s) for s in states], dtype=torch.float64).softmax(0)
    sweep = torch.eye(len(states), dtype=torch.float64)
    for item, choices in enumerate(trees):
        move = torch.zeros(len(states), len(states), dtype=torch.float64)
        for state in states:
            sampler.store.total.zero_()
            for other, chosen in enumerate(state):
                if other != item:
                    sampler.store.add(trees[other][chosen])
            means = sampler.means(sampler.store.total)
            offered = torch.tensor([sampler.log_proposal(t, means) for t in choices]).double()
            ratios = [sampler.log_ratio(t, means) for t in choices]
            for new, chance in enumerate(offered.softmax(0).tolist()):
                accept = min(1.0, math.exp(ratios[new] - ratios[state[item]]))
                target = (*state[:item], new, *state[item + 1 :])
                move[place[state], place[target]] += chance * accept
                move[place[state], place[state]] += chance * (1 - accept)
        torch.testing.assert_close(posterior @ move, posterior, atol=1e-7, rtol=1e-6)
        sweep = sweep @ move
    torch.testing.assert_close(posterior @ sweep, posterior, atol=1e-7, rtol=1e-6)
    assert not torch.allclose(sweep[0], posterior, atol=1e-3)  # and it is no trivial kernel


def test_the_sampler_visits_derivations_as_often_as_it_should() -> None:
    case = cnf(TINY)
    trees = all_derivations(case)
    sampler = Hastings(case.model(), prior=case.prior(), weights=case.start(), seed=1)
    weights, total = torch.zeros(sampler.layout.size, dtype=torch.float64), 0.0
    for state in product(*(range(len(options)) for options in trees)):
        sampler.store.total.zero_()
        for options, chosen in zip(trees, state, strict=True):
            sampler.store.add(options[chosen])
        chance = math.exp(sampler.log_marginal())
        weights += chance * sampler.store.total
        total += chance
    wanted = weights / total
    sampler = Hastings(case.model(), prior=case.prior(), weights=case.start(), seed=1, burn_in=20)
    items = case.ready(sampler)
    rates = []
    for _ in range(300):
        report = sampler.sweep(items)
        rates.append(report.details["acceptance"])
    assert report.kind == "log-joint"
    assert 0.5 < np.mean(rates) < 1
    np.testing.assert_allclose(sampler.average.numpy(), wanted.numpy(), atol=0.25)


def test_draws_of_pieces_have_the_expected_counts() -> None:
    program = fgg.compile(fgg.load("pcfg", sizes={"nt": 2, "pt": 2, "words": 3, "r": 2}))
    model = program.model(seed=2, dtype=torch.float64)
    weights, words = model.detached(), [0, 1, 2]
    generator = torch.Generator().manual_seed(0)
    drawer = EntrySampler(program, generator)
    batch = VB(model).ready(Items({"w": [words]}))
    number = 500
    sampled = {n: torch.zeros_like(w) for n, w in weights.items()}
    for _ in range(number):
        for (name, place), count in drawer.draw(weights, batch).items():
            sampled[name][place] += count / number
    wanted = program.posterior(weights, {"w": [words]}).counts
    for name, counts in wanted.items():
        torch.testing.assert_close(sampled[name], counts, atol=0.1, rtol=0)


LOOPING = """
domain T = 2 domain W = 2 domain G = {stay, go, stop}
factor init(-> T)
factor what(T -> G)
factor emit(T -> W)
factor move(T -> T)
factor is_stay(G) = {stay: 1} factor is_go(G) = {go: 1} factor is_stop(G) = {stop: 1}
nonterminal S() nonterminal X(T) start S
rule begin: S    -> init(t) X(t)
rule stay:  X(t) -> what(t, g) is_stay(g) move(t, u) X(u)
rule go:    X(t) -> what(t, g) is_go(g) emit(t, o) move(t, u) X(u)
rule stop:  X(t) -> what(t, g) is_stop(g) emit(t, o)
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule stay:  X[i]   -> X[i]                for 0 <= i < n
  rule go:    X[i]   -> o = w[i] X[i+1]     for 0 <= i < n-1
  rule stop:  X[n-1] -> o = w[n-1]
}"""


def test_a_grammar_without_a_schedule_is_learned_too() -> None:
    with pytest.warns(UserWarning, match="F434"):
        program = fgg.compile(fgg.loads(LOOPING))
    for method in ("em", "vb", "cvb", "hastings", "adam"):
        learned = learn(program, [[0, 1], [1], [0, 0]], method=method, epochs=3)
        assert learned.history[-1].items == 3
    values = [p.objective for p in learn(program, [[0, 1], [1]], epochs=5).history]
    assert values == sorted(values) and values[-1] > values[0]
