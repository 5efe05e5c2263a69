"""Variational Bayes: θ̃ = exp(ψ(f + α) - ψ(Σ_A (f + α))), which is not a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fgg.runtime.learn.em import Accumulating
from fgg.runtime.learn.groups import divergence, log_geometric, log_mean
from fgg.runtime.learn.progress import Progress, never_down
from fgg.runtime.learn.ties import refuse_ties
from fgg.runtime.model.model import Model


class VB(Accumulating):
    """Mean-field variational Bayes under Dirichlet priors [CVB §2.2].

    The first sweep counts with the model's own weights and reports their log-likelihood; from then
    on the objective is minus the free energy,

        Σ log Z(θ̃) - Σ_A KL(Dir(f + α) ‖ Dir(α)),    with the f that θ̃ was made from,

    which never goes down. The model gets the posterior mean, (f + α) / Σ_A (f + α).
    """

    name = "vb"

    def __init__(self, model: Model, **options: Any) -> None:
        super().__init__(model, **options)
        refuse_ties(model, self.name)
        self.counts = self.empty()

    def end(self) -> Progress:
        """The M step, after a check that the bound did not go down."""
        self.gather()
        kind, objective, kl = "log-likelihood", self.total, 0.0
        if self.sweeps:
            kl = float(
                sum(divergence(self.counts[n], g.prior, g.blocks) for n, g in self.groups.items())
            )
            kind, objective = "free energy", self.total - kl
            never_down(self.name, self.before, objective, self.dtype)
            self.before = objective
        self.counts = self.sums
        self.sums = self.empty()
        own = {n: (self.counts[n], g.prior, g.blocks) for n, g in self.groups.items()}
        self.set_logs({name: log_geometric(*tables) for name, tables in own.items()})
        self.publish({name: log_mean(*tables) for name, tables in own.items()})
        self.sweeps += 1
        return Progress(self.sweeps - 1, kind, objective, self.items, self.total, {"kl": kl})

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        found = super().state_dict()
        found.update({f"counts.{name}": table.clone() for name, table in self.counts.items()})
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.counts = {
            name: state[f"counts.{name}"].to(torch.float64).clone() for name in self.counts
        }
