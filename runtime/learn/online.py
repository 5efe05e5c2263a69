"""Online EM: statistics that follow the batches, and an M step after each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.groups import log_ratio
from fgg.runtime.learn.method import Batch, CountingMethod
from fgg.runtime.learn.progress import Progress
from fgg.runtime.learn.ties import refuse_ties
from fgg.runtime.model.model import Model


class OnlineEM(CountingMethod):
    """Stepwise EM (Cappé and Moulines 2009; Liang and Klein 2009).

    After batch k of m items with counts f, μ ← (1 - η) μ + η f / m with η = (k + 2)^-power, and
    θ = μ / Σ_A μ. The first μ has the totals of the first batch, shared out as the model's own
    weights are, so that nothing is lost that a later batch needs. The log-likelihood reported is
    that of each batch before its step; it may go down.
    """

    name = "online-em"
    uses_priors = False

    def __init__(
        self, model: Model, *, power: float = 0.7, pseudo: float = 0.0, **options: Any
    ) -> None:
        super().__init__(model, **options)
        refuse_ties(model, self.name)
        if not 0.5 < power <= 1 or not 0 <= pseudo < torch.inf:
            message = "`power` is a number above 0.5 and up to 1, `pseudo` one from 0 up"
            refuse("F476", message)
        self.power, self.pseudo = power, pseudo
        self.steps = 0
        self.means = self.empty()

    def step(self, batch: Batch | None) -> None:
        """Count a batch, move the statistics, make the weights anew."""
        log_z, items, tables = 0.0, 0, self.empty()
        if batch is not None:
            found = self.count(self.ready(batch))
            log_z, items = float(found.log_z.sum()), len(found.log_z)
            tables = self.tables(found.counts)
        log_z, count = self.summed(log_z, float(items))
        if not count:
            return
        self.total += log_z
        self.items += int(count)
        rate = (self.steps + 2) ** -self.power
        logs = {}
        for name, group in self.groups.items():
            old = group.table(self.logs[name])
            new = self.reduce(tables[name]) / count
            if not self.steps:
                self.means[name] = group.totals(new) * old.exp()
            self.means[name] = (1 - rate) * self.means[name] + rate * new
            counts = self.means[name] + self.pseudo / count * (old > -torch.inf)
            logs[name] = log_ratio(counts, old, group.blocks)
        self.set_logs(logs)
        self.publish(logs)
        self.steps += 1

    def end(self) -> Progress:
        """What the sweep found."""
        self.sweeps += 1
        return Progress(self.sweeps - 1, "log-likelihood", self.total, self.items, self.total)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        found = super().state_dict()
        found["steps"] = torch.tensor(self.steps)
        found.update({f"means.{name}": table.clone() for name, table in self.means.items()})
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.steps = int(state["steps"])
        self.means = {name: state[f"means.{name}"].clone() for name in self.means}
