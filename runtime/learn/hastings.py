"""The collapsed sampler: derivations of items one by one, proposed with the rest's weights."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.collapsed import Collapsed
from fgg.runtime.learn.draws import Drawer
from fgg.runtime.learn.items import Items, Ready, ready
from fgg.runtime.learn.method import Batch, alone
from fgg.runtime.learn.progress import Progress
from fgg.runtime.learn.store import Sparse
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program


class Hastings(Collapsed):
    """The collapsed Metropolis-Hastings sampler (Johnson, Griffiths and Goldwater 2007).

    A derivation t' of item i is drawn with θ_H = (f + α) / Σ_A (f + α), f the counts of all other
    derivations, and accepted with probability min(1, r(t') / r(t)),

        r(t) = Π_A B(f + f(t) + α) / B(f + α)  /  Π θ_H^f(t).

    The first sweep draws with the model's own weights, and takes all. The objective is the log of
    the joint probability of data and derivations, log P(w, t | α), up to factors that are not
    learned. After `burn_in` sweeps the model gets the posterior means of the counts' average.
    """

    name = "hastings"

    def __init__(self, model: Model, *, seed: int = 0, burn_in: int = 0, **options: Any) -> None:
        super().__init__(model, **options)
        if self.reduce is not alone:
            message = "`hastings` goes item by item: it cannot be shared out among processes"
            refuse("F476", message)
        self.generator = torch.Generator().manual_seed(seed)
        self.burn_in = burn_in
        self.accepted = 0
        self.averaged = 0
        self.average = torch.zeros_like(self.store.total)
        self.row_of = self.layout.flat({name: g.places() for name, g in self.groups.items()})
        first = 0
        for name, group in self.groups.items():
            self.layout.tables(self.row_of)[name].add_(first)
            first += group.rows * group.distributions
        self.drawers: dict[Program, Drawer] = {}

    def drawer(self, program: Program) -> Drawer:
        """What draws from a program."""
        if program not in self.drawers:
            self.drawers[program] = Drawer(program, self.generator)
        return self.drawers[program]

    def begin(self) -> None:
        """Begin a sweep."""
        super().begin()
        self.accepted = 0

    def step(self, batch: Batch | None) -> None:
        """A proposal for each item of a batch, one after the other."""
        if batch is None:
            return
        own = self.ready(batch)
        for place in range(own.size):
            self.visit(own if own.size == 1 else item_of(own, place))

    def visit(self, item: Ready) -> None:
        """A proposal for an item's derivation, taken or not."""
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

    def put(self, item: Ready, found: Sparse) -> None:
        """Remember an item's derivation."""
        self.store.keep(item.ids, found)
        self.store.add(found)
        self.items += 1

    def drawn(self, item: Ready, weights: Mapping[str, Tensor]) -> Sparse:
        """The counts of a derivation drawn from the item's posterior."""
        counts = self.drawer(item.program).draw(weights, item)
        index, value = [], []
        for (name, place), count in counts.items():
            group = self.groups.get(name)
            if group is not None:
                flat = 0
                for i, size in zip(place, group.shape, strict=True):
                    flat = flat * size + i
                index.append(self.layout.first[name] + flat)
                value.append(float(count))
        order = sorted(range(len(index)), key=index.__getitem__)
        return Sparse(
            torch.tensor([index[i] for i in order], dtype=self.layout.index_type),
            torch.tensor([value[i] for i in order], dtype=torch.float64),
        )

    def log_target(self, found: Sparse) -> float:
        """Σ_A log B(f + f(t) + α) - log B(f + α), f the counts of the other items."""
        index = found.index.long()
        base = self.store.total[index] + self.alpha[index]
        gained = torch.lgamma(base + found.value) - torch.lgamma(base)
        rows, places = torch.unique(self.row_of[index], return_inverse=True)
        more = torch.zeros(len(rows), dtype=torch.float64).index_add_(0, places, found.value)
        totals = self.row_totals()[rows]
        lost = torch.lgamma(totals + more) - torch.lgamma(totals)
        return float(gained.sum() - lost.sum())

    def row_totals(self) -> Tensor:
        """Σ_A (f + α) of all distributions, numbered through all groups."""
        tables = self.layout.tables(self.store.total)
        return torch.cat(
            [self.groups[n].sums(tables[n] + alpha).flatten() for n, alpha in self.alphas.items()]
        )

    def log_proposal(self, found: Sparse, means: Tensor) -> float:
        """Σ f(t) log θ_H, up to log Z."""
        return float(found.value @ means[found.index.long()].log())

    def log_ratio(self, found: Sparse, means: Tensor) -> float:
        """log r(t)."""
        return self.log_target(found) - self.log_proposal(found, means)

    def end(self) -> Progress:
        """What the sweep found: the joint probability, and how many proposals were taken."""
        if self.sweeps >= self.burn_in:
            self.averaged += 1
            self.average += (self.store.total - self.average) / self.averaged
        self.publish_means(self.average if self.averaged else self.store.total)
        objective = self.log_marginal()
        self.sweeps += 1
        details = {"acceptance": self.accepted / max(self.items, 1)}
        return Progress(self.sweeps - 1, "log-joint", objective, self.items, objective, details)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | {
            "generator": self.generator.get_state(),
            "accepted": torch.tensor(self.accepted),
            "averaged": torch.tensor(self.averaged),
            "average": self.average.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.generator.set_state(state["generator"])
        self.accepted = int(state["accepted"])
        self.averaged = int(state["averaged"])
        self.average = state["average"].clone()


def item_of(batch: Ready, place: int) -> Ready:
    """One item of a batch, as a batch of its own, cut to its own lengths."""
    own = batch.collated
    lengths = {name: [values[place]] for name, values in own.lengths.items()}
    inputs = {name: tensor[place : place + 1] for name, tensor in own.inputs.items()}
    return ready(batch.program, Items(inputs, lengths or None, (batch.ids[place],)))
