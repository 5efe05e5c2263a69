"""Variational Bayes under Dirichlet priors: mean field (VB) and collapsed (CVB)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import torch
from torch import Tensor

from fgg.runtime.forest.engine import joined
from fgg.runtime.forest.grow import ItemForest
from fgg.runtime.learn.collapsed.leave_one_out import CollapsedMethod, CollapsedOptions
from fgg.runtime.learn.distributions import divergence, log_geometric, log_mean
from fgg.runtime.learn.em import AccumulatingMethod, AccumulatingOptions
from fgg.runtime.learn.expected_counts import ExpectedCounts
from fgg.runtime.learn.flat_layout import SparseCounts
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.method import (
    ItemBatch,
    SweepReport,
    alone,
    check_no_decrease,
)
from fgg.runtime.learn.tied_factors import refuse_ties
from fgg.runtime.model.model import Model


class VB(AccumulatingMethod):
    """Mean-field variational Bayes under Dirichlet priors [CVB §2.2].

    Items are counted with θ̃ = exp(ψ(f + α) - ψ(Σ_A (f + α))), not a distribution. The first
    sweep counts with the model's weights and reports their log-likelihood. From then on the
    objective is minus the free energy,

        Σ log Z(θ̃) - Σ_A KL(Dir(f + α) ‖ Dir(α)),    with the f that θ̃ was computed from,

    which never decreases. The model gets the posterior mean, (f + α) / Σ_A (f + α).
    """

    name = "vb"

    def __init__(self, model: Model, **options: Unpack[AccumulatingOptions]) -> None:
        super().__init__(model, **options)
        refuse_ties(model, self.name)
        self.counts = self.empty()

    def end(self) -> SweepReport:
        """The M step, after a check that the bound did not decrease."""
        self.gather()
        kind, objective, kl = "log-likelihood", self.total, 0.0
        if self.sweeps:
            kl = float(
                sum(
                    divergence(self.counts[name], dists.prior, dists.blocks)
                    for name, dists in self.distributions.items()
                )
            )
            kind, objective = "free energy", self.total - kl
            check_no_decrease(self.name, self.before, objective, self.dtype)
            self.before = objective
        self.counts = self.sums
        self.sums = self.empty()
        posteriors = {n: (self.counts[n], d.prior, d.blocks) for n, d in self.distributions.items()}
        self.set_logs({name: log_geometric(*tables) for name, tables in posteriors.items()})
        self.publish({name: log_mean(*tables) for name, tables in posteriors.items()})
        self.sweeps += 1
        return SweepReport(self.sweeps - 1, kind, objective, self.items, self.total, {"kl": kl})

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        counts = {f"counts.{name}": table.clone() for name, table in self.counts.items()}
        return super().state_dict() | counts

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.counts = {
            name: state[f"counts.{name}"].to(torch.float64).clone() for name in self.counts
        }


class CVB(CollapsedMethod):
    """Collapsed variational Bayes [CVB §3, Fig. 3].

    The first sweep counts each item with the model's weights. In every other sweep, the counts of
    an item are subtracted, θ = (f + α) / Σ_A (f + α) is computed from the rest, the item is counted
    with θ, and its counts are added. The items of a batch are treated together: batches of one item
    are the method of the paper, and larger ones must be the same in every sweep.

    The objective is Σ_A [log B(f + α) - log B(α)] + Σ_i H_i, the bound to order zero (at the
    expected counts). It is not truly a bound, and may decrease.
    """

    name = "cvb"

    def __init__(self, model: Model, **options: Unpack[CollapsedOptions]) -> None:
        super().__init__(model, **options)
        self.entropy = 0.0

    def begin(self) -> None:
        """Begin a sweep, with the sum of counts computed afresh."""
        super().begin()
        self.entropy = 0.0
        if self.sweeps:
            self.store.total = self.reduce(self.store.resum())

    def step(self, batch: ItemBatch | None) -> None:
        """Subtract the counts of a batch, count it with the rest, and add the new counts."""
        checked = None if batch is None else self.ready(batch)
        forests = None if checked is None else self.forests_of(checked)
        if checked is not None and forests is not None:
            self.step_forests(checked, forests)
            return
        together = self.reduce is not alone
        if not self.sweeps:
            if checked is not None:
                self.first(checked)
            return
        if together:
            means = self.means(self.without(checked))
        else:
            if checked is None:
                return
            self.store.take_out(checked.ids)
            means = self.means(self.store.total)
        new: SparseCounts | None = None
        if checked is not None:
            self.counter(checked.program).set_weights(self.weights(means))
            expected = self.count(checked)
            new = self.kept(checked, expected)
            logs = means[new.index.long()].log()
            self.entropy += float(expected.log_z.sum()) - float(new.value @ logs)
        if together:
            self.restore(new)
        elif new is not None:
            self.store.add(new)

    def step_forests(self, batch: CheckedItems, forests: Sequence[ItemForest]) -> None:
        """The same over the forests of a batch's items."""
        weights = self.weights_without(batch.ids)
        counted = [weights.count(forest.packed, forest.tokens) for forest in forests]
        log_z = torch.tensor([z for z, _, _ in counted], dtype=torch.float64)
        good = self.derivable(batch, log_z).tolist()
        known = [counts for counts, fine in zip(counted, good, strict=True) if fine]
        new = joined([counts for _, _, counts in known])
        self.store.keep(batch.ids, self.layout.packed(new))
        weights.add(new)
        self.total += sum(z for z, _, _ in known)
        self.entropy += sum(z - logs for z, logs, _ in known)
        self.items += len(known)

    def first(self, batch: CheckedItems) -> None:
        """Count a batch with the model's weights."""
        expected = self.count(batch)
        new = self.kept(batch, expected)
        tables = {name: d.table(self.logs[name]) for name, d in self.distributions.items()}
        logs = self.layout.flat(tables)[new.index.long()]
        self.entropy += float(expected.log_z.sum()) - float(new.value @ logs)
        self.store.add(new)

    def kept(self, batch: CheckedItems, expected: ExpectedCounts) -> SparseCounts:
        """The counts of a batch, which the store remembers."""
        counts = self.layout.sparse(self.layout.flat(self.tables(expected.counts)))
        self.store.keep(batch.ids, counts)
        self.total += float(expected.log_z.sum())
        self.items += len(expected.log_z)
        return counts

    def without(self, batch: CheckedItems | None) -> Tensor:
        """The sum of counts without the present batches of all processes, `[size]`."""
        old = torch.zeros_like(self.store.total)
        if batch is not None and (counts := self.store.units.get(batch.ids)) is not None:
            old.index_add_(0, counts.index.long(), counts.value)
        self.store.total = (self.store.total - self.reduce(old)).clamp(min=0.0)
        return self.store.total

    def restore(self, new: SparseCounts | None) -> None:
        """Add the new counts of all processes."""
        more = torch.zeros_like(self.store.total)
        if new is not None:
            more.index_add_(0, new.index.long(), new.value)
        self.store.total = self.store.total + self.reduce(more)

    def end(self) -> SweepReport:
        """End a sweep and report the collapsed bound."""
        if not self.sweeps:
            self.store.total = self.reduce(self.store.total)
        self.total, items, self.entropy = self.summed(self.total, float(self.items), self.entropy)
        self.items = int(items)
        objective = self.log_marginal() + self.entropy
        self.publish_means(self.store.total)
        self.sweeps += 1
        details = {"entropy": max(self.entropy, 0.0)}
        return SweepReport(
            self.sweeps - 1, "collapsed bound", objective, self.items, self.total, details
        )

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | {"entropy": torch.tensor(self.entropy, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.entropy = float(state["entropy"])
