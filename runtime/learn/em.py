"""Expectation maximisation: θ = f / Σ_A f, with f the expected counts of the whole data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.groups import log_ratio
from fgg.runtime.learn.method import Batch, CountingMethod
from fgg.runtime.learn.progress import Progress, never_down
from fgg.runtime.learn.ties import Ties
from fgg.runtime.model.model import Model


class Accumulating(CountingMethod):
    """A method that adds the counts of all batches up before it does anything."""

    def __init__(self, model: Model, **options: Any) -> None:
        super().__init__(model, **options)
        self.sums = self.empty()
        self.before = -torch.inf

    def begin(self) -> None:
        """Begin a sweep with no counts."""
        super().begin()
        self.sums = self.empty()

    def step(self, batch: Batch | None) -> None:
        """Add the expected counts of a batch."""
        if batch is None:
            return
        found = self.count(self.ready(batch))
        self.total += float(found.log_z.sum())
        self.items += len(found.log_z)
        for name, table in self.tables(found.counts).items():
            self.sums[name] += table
        self.more(found.counts)

    def more(self, counts: Mapping[str, Tensor]) -> None:
        """Note counts of factors that are not learned by themselves."""

    def gather(self) -> None:
        """Sum counts, log Z and items over processes."""
        self.total, items = self.summed(self.total, float(self.items))
        self.items = int(items)
        self.sums = {name: self.reduce(table) for name, table in self.sums.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        found = super().state_dict()
        found["before"] = torch.tensor(self.before, dtype=torch.float64)
        found.update({f"sums.{name}": table.clone() for name, table in self.sums.items()})
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.before = float(state["before"])
        self.sums = {name: state[f"sums.{name}"].clone() for name in self.sums}


class EM(Accumulating):
    """Expectation maximisation [CVB §2.2]; the log-likelihood never goes down.

    `pseudo` counts are added to each entry: the maximum is then that of the posterior under a
    Dirichlet(1 + pseudo) prior. A distribution without counts stays as it was. Factors that are
    tied to stationary distributions take part in a numerical M step.
    """

    name = "em"
    uses_priors = False

    def __init__(self, model: Model, *, pseudo: float = 0.0, **options: Any) -> None:
        super().__init__(model, **options)
        if not 0 <= pseudo < torch.inf:
            message = "`pseudo` is a number from 0 up"
            refuse("F476", message)
        self.pseudo = pseudo
        self.ties = Ties(model, self.groups)

    def begin(self) -> None:
        """Begin a sweep with no counts."""
        super().begin()
        self.ties.begin()

    def more(self, counts: Mapping[str, Tensor]) -> None:
        """Note the counts of tied factors."""
        self.ties.add(counts)

    def end(self) -> Progress:
        """The M step, after a check that the objective did not go down."""
        self.gather()
        self.ties.gather(self.reduce)
        objective = self.total + self.prior_term()
        never_down(self.name, self.before, objective, self.dtype)
        self.before = objective
        tables = {}
        for name, group in self.groups.items():
            old = group.table(self.logs[name])
            counts = self.sums[name]
            if self.pseudo:
                counts = counts + self.pseudo * (old > -torch.inf)
            tables[name] = log_ratio(counts, old, group.blocks)
        tables.update(self.ties.maximise(self.sums, self.logs, tables, self.pseudo))
        self.logs.update(self.ties.follow(tables))
        self.set_logs(tables)
        self.publish(tables)
        self.sweeps += 1
        kind = "log-posterior" if self.pseudo else "log-likelihood"
        return Progress(self.sweeps - 1, kind, objective, self.items, self.total)

    def prior_term(self) -> float:
        """The log-density of the prior, up to a constant."""
        if not self.pseudo:
            return 0.0
        logs = [self.logs[name] for name in self.groups]
        return self.pseudo * sum(float(x[x > -torch.inf].sum()) for x in logs)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | self.ties.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.ties.load_state_dict(state)
