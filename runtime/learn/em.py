"""Expectation maximisation, after a pass over all data (EM) or after each batch (OnlineEM)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Unpack

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.forest.engine import ForestWeights, machine_code
from fgg.runtime.forest.grow import ItemForest
from fgg.runtime.learn.distributions import log_ratio
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.item_forests import ItemForests
from fgg.runtime.learn.method import (
    CountingMethod,
    CountingOptions,
    ItemBatch,
    SweepReport,
    check_no_decrease,
)
from fgg.runtime.learn.tied_factors import TiedFactors, refuse_ties
from fgg.runtime.model.model import Model


class AccumulatingOptions(CountingOptions, total=False):
    """The options of methods that sum the counts of all data; see `AccumulatingMethod`."""

    forests: bool | ItemForests


class AccumulatingMethod(CountingMethod):
    """A method that sums the counts of all batches before it changes the weights.

    `sums` are tables `[rows, entries]` by factor; `before` is the objective of the last sweep. With
    `forests`, items are counted over their derivation forests, as in collapsed methods, where these
    are small enough; that pays if items are small and charts would be computed for few at a time.
    The `item_forests` of another method, given as `forests`, are not grown again.
    """

    def __init__(
        self,
        model: Model,
        *,
        forests: bool | ItemForests = False,
        **options: Unpack[CountingOptions],
    ) -> None:
        super().__init__(model, **options)
        self.uses_forests = forests is not False and machine_code() is not None
        constant = {n: x.exp() for n, x in self.logs.items() if n not in self.distributions}
        own = ItemForests(self.distributions, constant)
        self.item_forests = forests.shared(own) if isinstance(forests, ItemForests) else own
        self.sums = self.empty()
        self.before = -torch.inf

    @cached_property
    def forest_weights(self) -> ForestWeights:
        """The log-weights that forests are counted with, and the sums of their counts."""
        size = self.item_forests.layout.size
        zeros = torch.zeros(size, dtype=torch.float64)
        group = torch.zeros(size, dtype=torch.int32)
        weights = ForestWeights(zeros.clone(), zeros, group, self.item_forests.flat_logs(self.logs))
        weights.give(True)
        return weights

    def set_logs(self, tables: Mapping[str, Tensor]) -> None:
        """Count with other log-weights from now on, tables `[rows, entries]` by factor."""
        super().set_logs(tables)
        self._forests_follow()

    def _forests_follow(self) -> None:
        if self.uses_forests:
            self.forest_weights.set_logs(self.item_forests.flat_logs(self.logs))

    def begin(self) -> None:
        """Begin a sweep without counts."""
        super().begin()
        self.sums = self.empty()

    def step(self, batch: ItemBatch | None) -> None:
        """Add the expected counts of a batch."""
        if batch is None:
            return
        checked = self.ready(batch)
        forests = self.item_forests.of(checked, self.counter) if self.uses_forests else None
        if forests is not None:
            self.step_forests(checked, forests)
            return
        expected = self.count(checked)
        self.total += float(expected.log_z.sum())
        self.items += len(expected.log_z)
        for name, table in self.tables(expected.counts).items():
            self.sums[name] += table
        self.add_others(expected.counts)

    def step_forests(self, batch: CheckedItems, forests: Sequence[ItemForest]) -> None:
        """Add the expected counts of a batch, counted over its forests."""
        weights = self.forest_weights
        weights.counts.zero_()
        counted = weights.count_all([f.packed for f in forests], [f.tokens for f in forests])
        log_z = torch.from_numpy(counted)
        log_z = log_z[self.derivable(batch, log_z)]
        self.total += float(log_z.sum())
        self.items += len(log_z)
        for name, table in self.item_forests.layout.tables(weights.counts).items():
            self.sums[name] += table

    def add_others(self, counts: Mapping[str, Tensor]) -> None:
        """Add counts of factors that have no parameters of their own; none by default."""

    def gather(self) -> None:
        """Sum counts, log Z and items over processes."""
        self.total, items = self.summed(self.total, float(self.items))
        self.items = int(items)
        self.sums = {name: self.reduce(table) for name, table in self.sums.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        state = super().state_dict()
        state["before"] = torch.tensor(self.before, dtype=torch.float64)
        state.update({f"sums.{name}": table.clone() for name, table in self.sums.items()})
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.before = float(state["before"])
        self.sums = {name: state[f"sums.{name}"].clone() for name in self.sums}
        self._forests_follow()


class EM(AccumulatingMethod):
    """Expectation maximisation [CVB §2.2]: θ = f / Σ_A f. The log-likelihood never decreases.

    `pseudo` counts are added to each entry: the maximum is then that of the posterior under a
    Dirichlet(1 + pseudo) prior. A distribution without counts stays as it was. Factors tied to
    stationary distributions take part in a numerical M step.
    """

    name = "em"
    uses_priors = False

    def __init__(
        self, model: Model, *, pseudo: float = 0.0, **options: Unpack[AccumulatingOptions]
    ) -> None:
        super().__init__(model, **options)
        if not 0 <= pseudo < torch.inf:
            refuse("F476", "`pseudo` is a number from 0 up")
        self.pseudo = pseudo
        self.ties = TiedFactors(model, self.distributions)
        if self.ties.sources:
            self.uses_forests = False  # forests count factors that have parameters of their own

    def begin(self) -> None:
        """Begin a sweep without counts."""
        super().begin()
        self.ties.begin()

    def add_others(self, counts: Mapping[str, Tensor]) -> None:
        """Add the counts of tied factors."""
        self.ties.add(counts)

    def end(self) -> SweepReport:
        """The M step, after a check that the objective did not decrease."""
        self.gather()
        self.ties.gather(self.reduce)
        objective = self.total + self.prior_term()
        check_no_decrease(self.name, self.before, objective, self.dtype)
        self.before = objective
        tables = {}
        for name, dists in self.distributions.items():
            old = dists.table(self.logs[name])
            counts = self.sums[name]
            if self.pseudo:
                counts = counts + self.pseudo * (old > -torch.inf)
            tables[name] = log_ratio(counts, old, dists.blocks)
        tables.update(self.ties.maximise(self.sums, self.logs, tables, self.pseudo))
        self.logs.update(self.ties.follow(tables))
        self.set_logs(tables)
        self.publish(tables)
        self.sweeps += 1
        kind = "log-posterior" if self.pseudo else "log-likelihood"
        return SweepReport(self.sweeps - 1, kind, objective, self.items, self.total)

    def prior_term(self) -> float:
        """The log-density of the prior, up to a constant."""
        if not self.pseudo:
            return 0.0
        logs = [self.logs[name] for name in self.distributions]
        return self.pseudo * sum(float(x[x > -torch.inf].sum()) for x in logs)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | self.ties.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.ties.load_state_dict(state)


class OnlineEM(CountingMethod):
    """Stepwise EM (Cappé and Moulines 2009; Liang and Klein 2009): an M step after each batch.

    After batch k of m items with counts f, μ ← (1 - η) μ + η f / m with η = (k + 2)^-power, and
    θ = μ / Σ_A μ. The first μ has the totals of the first batch, distributed as the model's weights
    are, so that no entry that a later batch needs becomes 0. The reported log-likelihood is that of
    each batch before its step; it may decrease.
    """

    name = "online-em"
    uses_priors = False

    def __init__(
        self,
        model: Model,
        *,
        power: float = 0.7,
        pseudo: float = 0.0,
        **options: Unpack[CountingOptions],
    ) -> None:
        super().__init__(model, **options)
        refuse_ties(model, self.name)
        if not 0.5 < power <= 1 or not 0 <= pseudo < torch.inf:
            message = "`power` is a number above 0.5 and up to 1, `pseudo` one from 0 up"
            refuse("F476", message)
        self.power, self.pseudo = power, pseudo
        self.steps = 0
        self.means = self.empty()

    def step(self, batch: ItemBatch | None) -> None:
        """Count a batch, update the mean counts, and set the weights from them."""
        log_z, items, tables = 0.0, 0, self.empty()
        if batch is not None:
            expected = self.count(self.ready(batch))
            log_z, items = float(expected.log_z.sum()), len(expected.log_z)
            tables = self.tables(expected.counts)
        log_z, count = self.summed(log_z, float(items))
        if not count:
            return
        self.total += log_z
        self.items += int(count)
        rate = (self.steps + 2) ** -self.power
        logs = {}
        for name, dists in self.distributions.items():
            old = dists.table(self.logs[name])
            new = self.reduce(tables[name]) / count
            if not self.steps:
                self.means[name] = dists.totals(new) * old.exp()
            self.means[name] = (1 - rate) * self.means[name] + rate * new
            counts = self.means[name] + self.pseudo / count * (old > -torch.inf)
            logs[name] = log_ratio(counts, old, dists.blocks)
        self.set_logs(logs)
        self.publish(logs)
        self.steps += 1

    def end(self) -> SweepReport:
        """End a sweep and report the log-likelihood."""
        self.sweeps += 1
        return SweepReport(self.sweeps - 1, "log-likelihood", self.total, self.items, self.total)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        state = super().state_dict()
        state["steps"] = torch.tensor(self.steps)
        state.update({f"means.{name}": table.clone() for name, table in self.means.items()})
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.steps = int(state["steps"])
        self.means = {name: state[f"means.{name}"].clone() for name in self.means}
