"""The collapsed bound and the evidence of data, estimated by draws of derivations.

CVB reports its bound to order zero: log B at the expected counts in the place of the expectation of
log B. Here derivations t of all items are drawn from Q(t) = Π_i Q(t_i), and

    E_Q[log P(w, t | α) - log Q(t)] ≤ log P(w | α) = log E_Q[P(w, t | α) / Q(t)]

are estimated by means over draws: the first is the bound [CVB §3.2], the second is importance
sampling. Factors that are not learned weigh the same in P and in Q, and cancel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log

import numpy as np
import torch

from fgg.diagnostics import refuse
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.method import ItemBatch
from fgg.runtime.learn.variational_bayes import CVB


@dataclass(frozen=True)
class BoundEstimate:
    """Estimates of the collapsed bound and of log P(w | α), each with its standard error.

    `weights` is the effective number of importance weights, (Σ w)² / Σ w². The evidence is
    estimated well only if Q draws all derivations that hold much of it. If Q hardly ever draws
    some, `log_evidence` is too low, and neither its error nor `weights` tells; `bound` is right.
    """

    draws: int
    bound: float
    bound_error: float
    log_evidence: float
    evidence_error: float
    weights: float


def collapsed_bound(
    method: CVB, items: Iterable[ItemBatch], *, draws: int = 100, seed: int = 0
) -> BoundEstimate:
    """Estimate the collapsed bound of CVB after its last sweep, over the items it learned from.

    Q(t_i) is what the next update of item i would count with: θ from the counts of all other items.
    Raises GrammarError (F476) if items are unknown, or are not counted over derivation forests.
    """
    if isinstance(draws, bool) or draws < 2:
        refuse("F476", "`draws` is a whole number from 2 up")
    ready = [method.ready(batch) for batch in items]
    for batch in ready:
        if batch.ids not in method.store.units:
            message = f"item {batch.ids[0]} has no counts yet"
            refuse("F476", message, "sweep over the same batches first")
        if method.forests_of(batch) is None:
            message = "the bound is estimated over derivation forests, and an item has none"
            refuse("F476", message, "there is no C++ compiler, or the item is too large")
    before = method.store.total.clone()
    generator = torch.Generator().manual_seed(seed)
    values = np.array([_draw(method, ready, generator) for _ in range(draws)])
    method.store.total.copy_(before)
    method.forest_weights.set_counts(method.store.total)
    top = float(values.max())
    weights = np.exp(values - top)
    mean = float(weights.mean())
    return BoundEstimate(
        draws=draws,
        bound=float(values.mean()),
        bound_error=float(values.std(ddof=1)) / draws**0.5,
        log_evidence=top + log(mean),
        evidence_error=float(weights.std(ddof=1)) / mean / draws**0.5,
        weights=float(weights.sum() ** 2 / (weights**2).sum()),
    )


def _draw(method: CVB, batches: Iterable[CheckedItems], generator: torch.Generator) -> float:
    """log P(w, t | α) - log Q(t) of a draw t."""
    drawn = torch.zeros_like(method.store.total)
    sums = drawn.numpy()
    log_q = 0.0
    for batch in batches:
        weights = method.weights_without(batch.ids)
        for forest in method.forests_of(batch) or ():
            seed = int(torch.randint(2**62, (), generator=generator))
            log_z, log_weight, counts = weights.count(forest.packed, forest.tokens, seed)
            if log_z > -np.inf:
                log_q += log_weight - log_z
                sums[counts.index] += counts.value
        weights.add(method.store.units[batch.ids].plain())
    return method.log_marginal(drawn) - log_q
