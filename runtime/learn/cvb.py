"""Collapsed variational Bayes: each item is counted with the counts of all the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fgg.runtime.learn.collapsed import Collapsed
from fgg.runtime.learn.counting import Counted
from fgg.runtime.learn.items import Ready
from fgg.runtime.learn.method import Batch, alone
from fgg.runtime.learn.progress import Progress
from fgg.runtime.learn.store import Sparse
from fgg.runtime.model.model import Model


class CVB(Collapsed):
    """Collapsed variational Bayes [CVB §3, Fig. 3].

    The first sweep counts each item with the model's own weights. In every other one an item's
    counts are taken out, θ = (f + α) / Σ_A (f + α) is made from the rest, the item is counted with
    it, and its counts are put back. The items of a batch are treated together, so batches of one
    are the method of the paper; larger ones must be the same in every sweep.

    The objective is Σ_A [log B(f + α) - log B(α)] + Σ_i H_i, the bound to order zero (at the
    expected counts). It is not a bound in truth, and may go down.
    """

    name = "cvb"

    def __init__(self, model: Model, **options: Any) -> None:
        super().__init__(model, **options)
        self.entropy = 0.0

    def begin(self) -> None:
        """Begin a sweep, with the sum of counts made anew."""
        super().begin()
        self.entropy = 0.0
        if self.sweeps:
            self.store.total = self.reduce(self.store.resum())

    def step(self, batch: Batch | None) -> None:
        """Take the batch's counts out, count it with the rest, put the counts back."""
        own = None if batch is None else self.ready(batch)
        together = self.reduce is not alone
        if not self.sweeps:
            if own is not None:
                self.first(own)
            return
        if together:
            means = self.means(self.without(own))
        else:
            if own is None:
                return
            self.store.take_out(own.ids)
            means = self.means(self.store.total)
        new: Sparse | None = None
        if own is not None:
            counter = self.counter(own.program)
            counter.set_weights(self.weights(means))
            found = self.count(own)
            new = self.kept(own, found)
            logs = means[new.index.long()].log()
            self.entropy += float(found.log_z.sum()) - float(new.value @ logs)
        if together:
            self.restore(new)
        elif new is not None:
            self.store.add(new)

    def first(self, batch: Ready) -> None:
        """Count a batch with the model's own weights."""
        found = self.count(batch)
        new = self.kept(batch, found)
        logs = self.layout.flat({n: g.table(self.logs[n]) for n, g in self.groups.items()})
        self.entropy += float(found.log_z.sum()) - float(new.value @ logs[new.index.long()])
        self.store.add(new)

    def kept(self, batch: Ready, found: Counted) -> Sparse:
        """Remember the counts of a batch."""
        new = self.layout.sparse(self.layout.flat(self.tables(found.counts)))
        self.store.keep(batch.ids, new)
        self.total += float(found.log_z.sum())
        self.items += len(found.log_z)
        return new

    def without(self, batch: Ready | None) -> Tensor:
        """The counts of all items but those that the processes are at."""
        old = torch.zeros_like(self.store.total)
        if batch is not None and (found := self.store.units.get(batch.ids)) is not None:
            old.index_add_(0, found.index.long(), found.value)
        self.store.total = (self.store.total - self.reduce(old)).clamp(min=0.0)
        return self.store.total

    def restore(self, new: Sparse | None) -> None:
        """Add the new counts of all processes."""
        more = torch.zeros_like(self.store.total)
        if new is not None:
            more.index_add_(0, new.index.long(), new.value)
        self.store.total = self.store.total + self.reduce(more)

    def end(self) -> Progress:
        """What the sweep found."""
        if not self.sweeps:
            self.store.total = self.reduce(self.store.total)
        self.total, items, self.entropy = self.summed(self.total, float(self.items), self.entropy)
        self.items = int(items)
        objective = self.log_marginal() + self.entropy
        self.publish_means(self.store.total)
        self.sweeps += 1
        details = {"entropy": self.entropy}
        return Progress(
            self.sweeps - 1, "collapsed bound", objective, self.items, self.total, details
        )

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | {"entropy": torch.tensor(self.entropy, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.entropy = float(state["entropy"])
