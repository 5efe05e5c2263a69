"""The collapsed Metropolis-Hastings sampler of derivations, one item at a time."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Unpack

import torch
from torch import Tensor

from fgg.runtime.forest.grow import ItemForest
from fgg.runtime.learn.collapsed.leave_one_out import CollapsedOptions, ItemByItem
from fgg.runtime.learn.collapsed.sampler import Sampler
from fgg.runtime.learn.flat_layout import SparseCounts
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.method import SweepReport
from fgg.runtime.model.model import Model


class Hastings(ItemByItem, Sampler):
    """The collapsed Metropolis-Hastings sampler (Johnson, Griffiths and Goldwater 2007).

    A derivation t' of an item is drawn with θ_H = (f + α) / Σ_A (f + α), f the counts of all other
    items' derivations, and accepted with probability min(1, r(t') / r(t)),

        r(t) = Π_A B(f + f(t) + α) / B(f + α)  /  Π θ_H^f(t).

    The first sweep draws with the model's weights and accepts everything.
    """

    name = "hastings"

    def __init__(
        self, model: Model, *, seed: int = 0, burn_in: int = 0, **options: Unpack[CollapsedOptions]
    ) -> None:
        super().__init__(model, seed=seed, burn_in=burn_in, **options)
        self.accepted = 0

    def begin(self) -> None:
        """Begin a sweep."""
        super().begin()
        self.accepted = 0

    def visit(self, item: CheckedItems) -> None:
        """Propose a derivation for an item, and accept it or keep the old one."""
        forests = self.forests_of(item)
        if forests is not None:
            self.visit_forest(item, *forests)
            return
        old = self.store.take_out(item.ids)
        if old is None:
            weights = {name: x.exp() for name, x in self.logs.items()}
            self.put(item, self.drawn(item, weights))
            self.accepted += 1
            return
        means = self.means(self.store.total)
        new = self.drawn(item, self.weights(means))
        gain = self.log_ratio(new, means) - self.log_ratio(old, means)
        chance = float(torch.rand((), dtype=torch.float64, generator=self.generator))
        if gain >= 0 or chance < exp(gain):
            self.put(item, new)
            self.accepted += 1
        else:
            self.put(item, old)

    def visit_forest(self, item: CheckedItems, forest: ItemForest) -> None:
        """The same over the forest of an item."""
        old = self.store.units.get(item.ids)
        weights = self.weights_without(item.ids)
        log_z, _, new = weights.count(forest.packed, forest.tokens, self.new_seed())
        if not bool(self.derivable(item, torch.tensor([log_z])).all()):
            return
        chosen, accepted = self.layout.packed(new), True
        if old is not None:
            gain = weights.log_ratio(new) - weights.log_ratio(old.plain())
            chance = float(torch.rand((), dtype=torch.float64, generator=self.generator))
            if gain < 0 and chance >= exp(gain):
                chosen, accepted = old, False
        self.accepted += accepted
        self.store.keep(item.ids, chosen)
        weights.add(chosen.plain())
        self.items += 1

    def put(self, item: CheckedItems, counts: SparseCounts) -> None:
        """Remember the counts of an item's derivation."""
        self.store.keep(item.ids, counts)
        self.store.add(counts)
        self.items += 1

    def log_target(self, counts: SparseCounts) -> float:
        """Σ_A log B(f + f(t) + α) - log B(f + α), f the counts of the other items."""
        index = counts.index.long()
        base = self.store.total[index] + self.alpha[index]
        gained = torch.lgamma(base + counts.value) - torch.lgamma(base)
        used, places = torch.unique(self.distribution_of[index], return_inverse=True)
        more = torch.zeros(len(used), dtype=torch.float64).index_add_(0, places, counts.value)
        totals = self.distribution_totals()[used]
        lost = torch.lgamma(totals + more) - torch.lgamma(totals)
        return float(gained.sum() - lost.sum())

    def distribution_totals(self) -> Tensor:
        """Σ_A (f + α) of the distributions of all factors, `[distributions]`."""
        tables = self.layout.tables(self.store.total)
        return torch.cat(
            [
                self.distributions[name].sums(tables[name] + alpha).flatten()
                for name, alpha in self.alphas.items()
            ]
        )

    def log_proposal(self, counts: SparseCounts, means: Tensor) -> float:
        """Σ f(t) log θ_H, up to log Z; `means` is θ_H as a flat vector."""
        return float(counts.value @ means[counts.index.long()].log())

    def log_ratio(self, counts: SparseCounts, means: Tensor) -> float:
        """log r(t)."""
        return self.log_target(counts) - self.log_proposal(counts, means)

    def end(self) -> SweepReport:
        """End a sweep and report the joint probability and the share of accepted proposals."""
        return self.ended({"acceptance": self.accepted / max(self.items, 1)})

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | {"accepted": torch.tensor(self.accepted)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.accepted = int(state["accepted"])
