"""What the collapsed methods share: counts of all items but one, and the weights they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.groups import log_beta, log_mean
from fgg.runtime.learn.method import CountingMethod
from fgg.runtime.learn.store import Layout, Store
from fgg.runtime.learn.ties import refuse_ties
from fgg.runtime.model.model import Model

LEAST_PRIOR = 1e-50
"""Priors are added to counts as numbers: smaller ones are refused."""


class Collapsed(CountingMethod):
    """A method that integrates the weights out: θ = (f + α) / Σ_A (f + α), f without the item."""

    def __init__(self, model: Model, *, items: int | None = None, **options: Any) -> None:
        super().__init__(model, **options)
        refuse_ties(model, self.name)
        self.layout = Layout(self.groups)
        self.store = Store(self.layout, items)
        self.alpha = self.layout.flat({name: g.prior for name, g in self.groups.items()})
        self.alphas = self.layout.tables(self.alpha)
        positive = self.alpha[self.alpha > 0]
        self.impossible = None if len(positive) == len(self.alpha) else self.alpha == 0
        self.least = float(positive.min()) if positive.numel() else 1.0
        if self.least < LEAST_PRIOR:
            message = f"a prior of {self.least} is too small"
            refuse("F476", message)
        # The frozen factors are what they are.
        self.constant = {n: x.exp() for n, x in self.logs.items() if n not in self.groups}

    def means(self, total: Tensor) -> Tensor:
        """(f + α) / Σ_A (f + α) of all groups, as one vector; 0 where α is 0."""
        found = total + self.alpha
        if self.impossible is not None:
            found[self.impossible] = 0.0
        for name, table in self.layout.tables(found).items():
            table /= self.groups[name].totals(table)
        return found

    def weights(self, means: Tensor) -> dict[str, Tensor]:
        """The weights of all factors by name."""
        own = self.layout.tables(means)
        shaped = {name: own[name].view(group.shape) for name, group in self.groups.items()}
        return {**self.constant, **shaped}

    def log_marginal(self) -> float:
        """Σ_A log B(f + α) - log B(α)."""
        tables = self.layout.tables(self.store.total)
        total = 0.0
        for name, group in self.groups.items():
            alpha, blocks = self.alphas[name], group.blocks
            gained = log_beta(tables[name] + alpha, alpha, blocks) - log_beta(alpha, alpha, blocks)
            total += float(gained.sum())
        return total

    def publish_means(self, total: Tensor) -> None:
        """Give the model the posterior means."""
        tables = self.layout.tables(total)
        self.publish(
            {n: log_mean(tables[n], a, self.groups[n].blocks) for n, a in self.alphas.items()}
        )

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | self.store.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.store.load_state_dict(state)
