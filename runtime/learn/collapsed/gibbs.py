"""The Gibbs sampler of weights and derivations, which integrates nothing out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from fgg.runtime.learn.collapsed.leave_one_out import CollapsedOptions
from fgg.runtime.learn.collapsed.sampler import Sampler
from fgg.runtime.learn.distributions import Distributions
from fgg.runtime.learn.method import ItemBatch, SweepReport
from fgg.runtime.model.model import Model


class Gibbs(Sampler):
    """The Gibbs sampler (Johnson, Griffiths and Goldwater 2007) [CVB §2.3].

    Each sweep draws the weights of every distribution from Dir(f + α), f the counts of all items'
    derivations, and then a derivation of each item with these weights. The first sweep draws with
    the model's weights. No draw is rejected; but derivations and weights hold each other fast, so
    the chain moves less far in a sweep than that of `Hastings`.
    """

    name = "gibbs"

    def __init__(
        self, model: Model, *, seed: int = 0, burn_in: int = 0, **options: Unpack[CollapsedOptions]
    ) -> None:
        super().__init__(model, seed=seed, burn_in=burn_in, **options)
        self.sums = torch.zeros_like(self.store.total)

    def begin(self) -> None:
        """Begin a sweep: draw weights."""
        super().begin()
        self.sums = torch.zeros_like(self.store.total)
        if self.sweeps:
            chance = np.random.default_rng(self.new_seed())
            counts = self.layout.tables(self.store.total + self.alpha)
            self.set_logs(
                {
                    name: log_dirichlet(d, counts[name], chance)
                    for name, d in self.distributions.items()
                }
            )
            self.follow()

    def follow(self) -> None:
        """Weigh forests as `logs` say."""
        if self.uses_forests:
            self.forest_weights.set_logs(self.item_forests.flat_logs(self.logs))

    def step(self, batch: ItemBatch | None) -> None:
        """Draw a derivation of each item of a batch."""
        if batch is None:
            return
        checked = self.ready(batch)
        forests = self.forests_of(checked)
        if forests is None:
            weights = {name: x.exp() for name, x in self.logs.items()}
            for place in range(checked.size):
                new = self.drawn(checked.item(place), weights)
                self.sums[new.index.long()] += new.value
            self.items += checked.size
            return
        own = self.forest_weights
        own.give(True)
        drawn = [own.count(f.packed, f.tokens, self.new_seed()) for f in forests]
        log_z = torch.tensor([z for z, _, _ in drawn], dtype=torch.float64)
        good = self.derivable(checked, log_z).tolist()
        sums = self.sums.numpy()
        for (_, _, counts), fine in zip(drawn, good, strict=True):
            if fine:
                sums[counts.index] += counts.value
                self.items += 1

    def end(self) -> SweepReport:
        """End a sweep and report the joint probability."""
        self.store.total = self.sums.clone()
        if self.uses_forests:
            self.forest_weights.set_counts(self.store.total)
        return self.ended({})

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | {"sums": self.sums.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.sums = state["sums"].clone()
        self.follow()


def log_dirichlet(dists: Distributions, alpha: Tensor, chance: np.random.Generator) -> Tensor:
    """The logarithm of a draw from Dir(α) for each distribution, tables `[rows, entries]`.

    With U uniform, G(α + 1) U^(1/α) is a gamma variable of shape α; in logarithms, it does not
    underflow where α is small. An entry of α = 0 is impossible.
    """
    shape = alpha.numpy()
    live = np.where(shape > 0, shape, 1.0)
    logs = np.log(chance.standard_gamma(live + 1.0)) + np.log1p(-chance.random(live.shape)) / live
    return dists.log_softmax(torch.from_numpy(logs).masked_fill(alpha == 0, -torch.inf))
