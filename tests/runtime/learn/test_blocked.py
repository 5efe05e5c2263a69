"""Methods on factors that are normalised within blocks, against plain forward-backward."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

import fgg
from fgg.diagnostics import GrammarError
from fgg.runtime.learn import CVB, EM, VB, Hastings, Items, OnlineEM
from fgg.runtime.model.model import Model

Floats = NDArray[np.float64]
M, K, D = 3, 2, 7
BLOCK = np.arange(D) % M
SENTENCES = [[0, 1, 2], [3, 1], [5, 2, 0, 1, 3], [4], [0, 6, 3, 2], [6, 6, 5]]
ALPHA = 0.3


def model(seed: int = 3) -> Model:
    program = fgg.compile(fgg.load("hmm_blocks", sizes={"m": M, "k": K, "d": D}))
    return program.model(seed=seed, dtype=torch.float64)


def counts(weights: dict[str, Floats], sentence: list[int]) -> tuple[float, dict[str, Floats]]:
    """log Z and expected counts over all states, whatever the weights sum to."""
    init, trans = weights["init"], weights["trans"].reshape(M * K, M * K)
    whole = np.zeros((M, K, D))
    whole[BLOCK, :, np.arange(D)] = weights["emit"].T
    emit = whole.reshape(M * K, D)
    n, size = len(sentence), M * K
    alpha, beta = np.zeros((n, size)), np.ones((n, size))
    alpha[0] = init.reshape(-1) * emit[:, sentence[0]]
    for i in range(1, n):
        alpha[i] = (alpha[i - 1] @ trans) * emit[:, sentence[i]]
    for i in range(n - 2, -1, -1):
        beta[i] = trans @ (emit[:, sentence[i + 1]] * beta[i + 1])
    z = alpha[-1].sum()
    states = alpha * beta / z
    words, pairs = np.zeros((K, D)), np.zeros((size, size))
    for i, word in enumerate(sentence):
        words[:, word] += states[i].reshape(M, K).sum(0)
        if i:
            pairs += np.outer(alpha[i - 1], emit[:, word] * beta[i]) * trans / z
    shaped = {"init": states[0], "trans": pairs, "emit": words}
    return float(np.log(z)), {n: x.reshape(weights[n].shape) for n, x in shaped.items()}


def tables(weights: dict[str, Floats]) -> dict[str, Floats]:
    """Each factor as `[distributions, entries]`; entries that a distribution has not are NaN."""
    split = {"init": weights["init"].reshape(1, -1), "trans": weights["trans"].reshape(M * K, -1)}
    emit = np.full((M, K, D), np.nan)
    emit[BLOCK, :, np.arange(D)] = weights["emit"].T
    return split | {"emit": emit.reshape(M * K, D)}


def changed(
    weights: dict[str, Floats], function: Callable[[Floats, Floats], Floats]
) -> dict[str, Floats]:
    """A function of entries and the sums of their distributions."""
    after = {}
    for name, table in tables(weights).items():
        new = function(table, np.nansum(table, 1, keepdims=True))
        if name == "emit":
            new = new.reshape(M, K, D)[BLOCK, :, np.arange(D)].T
        after[name] = new.reshape(weights[name].shape)
    return after


def ratio(x: Floats, total: Floats) -> Floats:
    return x / total


def summed(parts: list[tuple[float, dict[str, Floats]]]) -> tuple[float, dict[str, Floats]]:
    names = parts[0][1]
    return sum(z for z, _ in parts), {n: sum(c[n] for _, c in parts) for n in names}  # type: ignore[misc]


def plus(counted: dict[str, Floats], alpha: float) -> dict[str, Floats]:
    return {name: x + alpha for name, x in counted.items()}


def same(blocked: Model, wanted: dict[str, Floats]) -> None:
    for name, weight in blocked.detached().items():
        if name in wanted:
            np.testing.assert_allclose(weight.numpy(), wanted[name], atol=1e-9)


def start(blocked: Model) -> dict[str, Floats]:
    return {n: blocked.weight(n).detach().numpy().copy() for n in ("init", "trans", "emit")}


def log_beta(weights: dict[str, Floats]) -> float:
    return float(
        sum(
            np.nansum(gammaln(x)) - gammaln(np.nansum(x, 1)).sum() for x in tables(weights).values()
        )
    )


def test_em_shares_counts_out_within_blocks() -> None:
    blocked = model()
    weights = start(blocked)
    em = EM(blocked)
    batch = em.ready(Items({"w": SENTENCES}))
    for _ in range(8):
        log_z, f = summed([counts(weights, s) for s in SENTENCES])
        assert em.sweep([batch]).objective == pytest.approx(log_z, abs=1e-9)
        total = {n: np.nansum(x, 1).min() for n, x in tables(f).items()}
        assert min(total.values()) > 0
        weights = changed(f, ratio)
        same(blocked, weights)


def test_a_block_without_counts_stays_as_it_was() -> None:
    blocked = model()
    before = blocked.weight("emit").detach().clone()
    EM(blocked).sweep([Items({"w": [[0, 3, 3], [1, 0]]})])  # nothing of block 2
    after = blocked.weight("emit").detach()
    other = torch.arange(D) % M == 2
    assert torch.allclose(after[:, other], before[:, other])
    assert not torch.allclose(after[:, ~other], before[:, ~other], atol=1e-2)


def test_online_em_after_one_batch_is_between_the_start_and_em() -> None:
    blocked = model()
    weights = start(blocked)
    _, f = summed([counts(weights, s) for s in SENTENCES])
    rate = 2**-0.7
    OnlineEM(blocked).sweep([Items({"w": SENTENCES})])
    wanted = changed(f, ratio)
    same(blocked, {n: (1 - rate) * weights[n] + rate * wanted[n] for n in weights})


def test_vb_has_a_prior_within_each_block() -> None:
    blocked = model()
    weights = start(blocked)
    vb = VB(blocked, prior=ALPHA)
    batch = vb.ready(Items({"w": SENTENCES}))
    f: dict[str, Floats] = {}
    for sweep in range(5):
        log_z, new = summed([counts(weights, s) for s in SENTENCES])
        wanted = log_z
        if sweep:
            mean = {n: np.log(w) for n, w in weights.items()}
            flat = {n: np.full(x.shape, ALPHA) for n, x in f.items()}
            kl = log_beta(flat) - log_beta(plus(f, ALPHA))
            wanted -= kl + sum((f[n] * mean[n]).sum() for n in f)
        assert vb.sweep([batch]).objective == pytest.approx(wanted, abs=1e-8)
        f = new
        posterior = plus(f, ALPHA)
        weights = changed(posterior, lambda x, s: np.exp(digamma(x) - digamma(s)))
        same(blocked, changed(posterior, ratio))


def test_cvb_counts_each_item_with_the_means_of_the_others() -> None:
    blocked = model()
    weights = start(blocked)
    cvb = CVB(blocked, prior=ALPHA)
    items = [cvb.ready(Items({"w": [s]}, None, (i,))) for i, s in enumerate(SENTENCES)]
    kept = [counts(weights, s)[1] for s in SENTENCES]
    cvb.sweep(items)
    for _ in range(3):
        entropy = 0.0
        for i, sentence in enumerate(SENTENCES):
            rest = [(0.0, c) for j, c in enumerate(kept) if j != i]
            means = changed(plus(summed(rest)[1], ALPHA), ratio)
            log_z, kept[i] = counts(means, sentence)
            entropy += log_z - sum((kept[i][n] * np.log(means[n])).sum() for n in means)
        report = cvb.sweep(items)
        total = plus(summed([(0.0, c) for c in kept])[1], ALPHA)
        flat = {n: np.full(x.shape, ALPHA) for n, x in total.items()}
        wanted = log_beta(total) - log_beta(flat) + entropy
        assert report.objective == pytest.approx(wanted, abs=1e-8)
        same(blocked, changed(total, ratio))


def test_the_sampler_weighs_a_derivation_by_the_blocks_it_uses() -> None:
    blocked = model()
    sampler = Hastings(blocked, prior=ALPHA, seed=1)
    items = [Items({"w": [s]}, None, (i,)) for i, s in enumerate(SENTENCES)]
    for _ in range(3):
        report = sampler.sweep(items)
        drawn = sampler.layout.tables(sampler.store.total)
        total = {
            n: drawn[n].reshape(blocked.program.shape(n)).numpy() + ALPHA for n in start(blocked)
        }
        flat = {n: np.full(x.shape, ALPHA) for n, x in total.items()}
        assert report.objective == pytest.approx(log_beta(total) - log_beta(flat), abs=1e-9)
    # The gain in the joint probability is that of adding one item's counts to those of the rest.
    old = sampler.store.take_out((4,))
    assert old is not None
    without = sampler.log_marginal()
    gain = sampler.log_target(old)
    sampler.store.add(old)
    assert sampler.log_marginal() - without == pytest.approx(gain, abs=1e-9)


def test_missing_words_are_counted_with_all_blocks() -> None:
    blocked = model()
    weights = start(blocked)
    em = EM(blocked)
    report = em.sweep([Items({"w": [[0, -1, 2]]})])
    every = [counts(weights, [0, w, 2]) for w in range(D)]
    z = np.exp([log_z for log_z, _ in every])
    assert report.objective == pytest.approx(float(np.log(z.sum())), abs=1e-9)
    trans = sum(p * c["trans"] for p, (_, c) in zip(z / z.sum(), every, strict=True))
    wanted = trans.reshape(M * K, -1)
    table = blocked.weight("trans").detach().numpy().reshape(M * K, -1)
    np.testing.assert_allclose(table[:K], (wanted / wanted.sum(1, keepdims=True))[:K], atol=1e-9)


def test_a_prior_that_is_0_for_a_whole_block_is_refused() -> None:
    prior = torch.ones(K, D)
    prior[:, BLOCK == 1] = 0
    with pytest.raises(GrammarError) as caught:
        VB(model(), prior={"emit": prior})
    assert caught.value.diagnostics[0].code == "F476"
