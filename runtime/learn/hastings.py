"""The collapsed Metropolis-Hastings sampler of derivations, one item at a time."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Unpack

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.forest.grow import ItemForest
from fgg.runtime.learn.flat_layout import SparseCounts
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.leave_one_out import CollapsedMethod, CollapsedOptions
from fgg.runtime.learn.method import ItemBatch, SweepReport, alone
from fgg.runtime.learn.sampled_counts import EntrySampler
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program


class Hastings(CollapsedMethod):
    """The collapsed Metropolis-Hastings sampler (Johnson, Griffiths and Goldwater 2007).

    A derivation t' of an item is drawn with θ_H = (f + α) / Σ_A (f + α), f the counts of all other
    items' derivations, and accepted with probability min(1, r(t') / r(t)),

        r(t) = Π_A B(f + f(t) + α) / B(f + α)  /  Π θ_H^f(t).

    The first sweep draws with the model's weights and accepts everything. The objective is the
    logarithm of the joint probability of data and derivations, log P(w, t | α), up to factors that
    are not learned. The model gets the posterior means under the counts averaged over the sweeps
    after the first `burn_in`.
    """

    name = "hastings"

    def __init__(
        self,
        model: Model,
        *,
        seed: int = 0,
        burn_in: int = 0,
        **options: Unpack[CollapsedOptions],
    ) -> None:
        super().__init__(model, **options)
        if self.reduce is not alone:
            message = "`hastings` takes items one by one and cannot run on several processes"
            refuse("F476", message)
        self.generator = torch.Generator().manual_seed(seed)
        self.burn_in = burn_in
        self.accepted = 0
        self.averaged = 0
        self.average = torch.zeros_like(self.store.total)
        self.samplers: dict[Program, EntrySampler] = {}

    def sampler(self, program: Program) -> EntrySampler:
        """The sampler of a program's derivations."""
        if program not in self.samplers:
            self.samplers[program] = EntrySampler(program, self.generator)
        return self.samplers[program]

    def begin(self) -> None:
        """Begin a sweep."""
        super().begin()
        self.accepted = 0

    def step(self, batch: ItemBatch | None) -> None:
        """Propose a derivation for each item of a batch, one after the other."""
        if batch is None:
            return
        checked = self.ready(batch)
        for place in range(checked.size):
            self.visit(checked.item(place))

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
        seed = int(torch.randint(2**62, (), generator=self.generator))
        log_z, _, new = weights.count(forest.packed, forest.tokens, seed)
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

    def drawn(self, item: CheckedItems, weights: Mapping[str, Tensor]) -> SparseCounts:
        """The counts of a derivation drawn from the item's posterior."""
        counts = self.sampler(item.program).draw(weights, item)
        index, value = [], []
        for (name, place), count in counts.items():
            dists = self.distributions.get(name)
            if dists is not None:
                flat = 0
                for i, size in zip(place, dists.shape, strict=True):
                    flat = flat * size + i
                index.append(self.layout.first[name] + flat)
                value.append(float(count))
        order = sorted(range(len(index)), key=index.__getitem__)
        return SparseCounts(
            torch.tensor([index[i] for i in order], dtype=self.layout.index_type),
            torch.tensor([value[i] for i in order], dtype=torch.float64),
        )

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
        if self.sweeps >= self.burn_in:
            self.averaged += 1
            self.average += (self.store.total - self.average) / self.averaged
        self.publish_means(self.average if self.averaged else self.store.total)
        objective = self.log_marginal()
        self.sweeps += 1
        details = {"acceptance": self.accepted / max(self.items, 1)}
        return SweepReport(self.sweeps - 1, "log-joint", objective, self.items, objective, details)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | {
            "generator": self.generator.get_state(),
            "accepted": torch.tensor(self.accepted),
            "averaged": torch.tensor(self.averaged),
            "average": self.average.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.generator.set_state(state["generator"])
        self.accepted = int(state["accepted"])
        self.averaged = int(state["averaged"])
        self.average = state["average"].clone()
