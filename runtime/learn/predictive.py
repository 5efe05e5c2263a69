"""Posterior predictive checks: are data like those that the learned posterior would make?

Weights θ are drawn from the posterior Π_A Dir(f + α), data of the same lengths from P(w | θ), and a
statistic of them is compared with that of the real data (Gelman, Meng and Stern 1996). A model that
cannot make the statistic's value has missed something that the statistic sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.collapsed.gibbs import log_dirichlet
from fgg.runtime.learn.collapsed.leave_one_out import CollapsedMethod
from fgg.runtime.learn.item_batches import Data, in_memory
from fgg.runtime.learn.method import CountingMethod
from fgg.runtime.learn.variational_bayes import VB
from fgg.runtime.model.generate import generate

Statistic = Callable[[Sequence[Mapping[str, Any]]], float]
"""A number of a corpus. Each item is a mapping from inputs to numbers of values."""


@dataclass(frozen=True)
class PredictiveCheck:
    """A statistic of the data, and of each corpus that was made in their place."""

    observed: float
    replicated: tuple[float, ...]

    @property
    def p_value(self) -> float:
        """The share of made corpora whose statistic is as great, ties counted by half.

        Near 0 or 1 if the model does not make corpora like the data.
        """
        made = np.array(self.replicated)
        return float(((made > self.observed) + 0.5 * (made == self.observed)).mean())


def predictive_checks(
    method: CountingMethod,
    data: Data,
    statistics: Mapping[str, Statistic],
    *,
    draws: int = 50,
    seed: int = 0,
) -> dict[str, PredictiveCheck]:
    """Check statistics, by name, of the data that a method has learned from.

    The lengths of items are those of the data: only what is in them is checked. Raises GrammarError
    (F476) for methods without a posterior, such as EM.
    """
    if isinstance(draws, bool) or draws < 1:
        refuse("F476", "`draws` is a whole number from 1 up")
    items = in_memory(method.model.program, data)
    observed = [{n: first(values) for n, values in item.inputs.items()} for item in items]
    lengths = [method.ready(item).collated.lengths for item in items]
    wanted = Counter(tuple((n, values[0]) for n, values in sizes.items()) for sizes in lengths)
    chance = np.random.default_rng(seed)
    replicated: dict[str, list[float]] = {name: [] for name in statistics}
    for _ in range(draws):
        corpus = _made(method, posterior_draw(method, chance), wanted, chance)
        for name, statistic in statistics.items():
            replicated[name].append(float(statistic(corpus)))
    return {
        name: PredictiveCheck(float(statistic(observed)), tuple(replicated[name]))
        for name, statistic in statistics.items()
    }


def first(values: object) -> object:
    """The value of an input for the only item of a batch."""
    assert isinstance(values, Iterable)
    return next(iter(values))


def posterior_draw(method: CountingMethod, chance: np.random.Generator) -> dict[str, Tensor]:
    """Weights of all factors, learned ones drawn from Dir(f + α) of the method's last counts."""
    if isinstance(method, CollapsedMethod):
        counts = method.layout.tables(method.store.total)
    elif isinstance(method, VB):
        counts = method.counts
    else:
        refuse("F476", f"`{method.name}` has no posterior", "take `vb`, `cvb`, or a sampler")
    weights = {name: logs.exp() for name, logs in method.logs.items()}
    for name, dists in method.distributions.items():
        logs = log_dirichlet(dists, counts[name] + dists.prior, chance)
        weights[name] = logs.exp().view(dists.shape)
    return weights


def _made(
    method: CountingMethod,
    weights: Mapping[str, Tensor],
    wanted: Mapping[tuple[tuple[str, int], ...], int],
    chance: np.random.Generator,
) -> list[dict[str, Any]]:
    """A corpus with so many items of each length."""
    corpus: list[dict[str, Any]] = []
    with torch.no_grad():
        for lengths, number in wanted.items():
            seed = int(chance.integers(2**31))
            drawn = generate(
                method.model.program, weights, number, lengths=dict(lengths), seed=seed
            )
            corpus += [derivation.inputs("ids") for derivation in drawn]
    return corpus
