"""Collapsed methods: the counts of all items but one, and the weights that they stand for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Unpack

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.forest.engine import ForestWeights, machine_code
from fgg.runtime.forest.grow import ItemForest
from fgg.runtime.learn.distributions import log_beta, log_mean
from fgg.runtime.learn.flat_layout import FlatLayout, SparseCounts
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.item_forests import ItemForests
from fgg.runtime.learn.method import CountingMethod, CountingOptions, ItemBatch, alone
from fgg.runtime.learn.tied_factors import refuse_ties
from fgg.runtime.memory import require
from fgg.runtime.model.model import Model

Unit = tuple[int, ...]
"""A unit of counting: the number of an item, or the numbers of the items of a batch."""

LEAST_PRIOR = 1e-50
"""The least prior that can be added to counts."""


class CountStore:
    """The counts of each unit, and their sum `total`, `[size]`.

    `expected` is the number of units to come; their memory is estimated from the first ones.
    `changes` counts the changes of the sum that were made here, not over forests.
    """

    def __init__(self, layout: FlatLayout, expected: int | None = None) -> None:
        self.layout = layout
        self.expected = expected
        self.units: dict[Unit, SparseCounts] = {}
        self.owner: dict[int, Unit] = {}
        self.bytes = 0
        self.changes = 0
        self.total = torch.zeros(layout.size, dtype=torch.float64)

    def take_out(self, unit: Unit) -> SparseCounts | None:
        """Subtract the counts of a unit from the sum; returns them, or None if it has none yet."""
        counts = self.units.get(unit)
        if counts is not None:
            self.add(counts, -1.0)
            # Rounding must not leave negative counts.
            index = counts.index.long()
            self.total[index] = self.total[index].clamp(min=0.0)
        return counts

    def add(self, counts: SparseCounts, sign: float = 1.0) -> None:
        """Add counts to the sum."""
        self.total.index_add_(0, counts.index.long(), counts.value, alpha=sign)
        self.changes += 1

    def keep(self, unit: Unit, counts: SparseCounts) -> None:
        """Remember the counts of a unit. Raises GrammarError if memory will not suffice (F420)."""
        old = self.units.get(unit)
        if old is None:
            for item in unit:
                if item in self.owner:
                    message = f"item {item} comes in another batch than before"
                    help = "give the same batches in every sweep, or items one by one"
                    refuse("F476", message, help)
                self.owner[item] = unit
        self.bytes += counts.bytes - (0 if old is None else old.bytes)
        self.units[unit] = counts
        number = len(self.units)
        if old is None and number & (number - 1) == 0:
            wanted = max(self.expected or 0, 2 * number)
            needed = self.bytes * wanted // number - self.bytes
            require(needed, torch.device("cpu"), f"the counts of {wanted:,} items")

    def resum(self) -> Tensor:
        """The sum over all units, `[size]`, free of the rounding of additions and subtractions."""
        total = torch.zeros_like(self.total)
        for counts in self.units.values():
            total.index_add_(0, counts.index.long(), counts.value)
        return total

    def state_dict(self) -> dict[str, Tensor]:
        """The counts of all units, concatenated, and the sum."""
        units = list(self.units.items())
        empty_index = torch.zeros(0, dtype=self.layout.index_type)
        empty = torch.zeros(0, dtype=torch.float64)
        return {
            "store.total": self.total.clone(),
            "store.items": torch.tensor([i for unit, _ in units for i in unit], dtype=torch.int64),
            "store.widths": torch.tensor([len(unit) for unit, _ in units], dtype=torch.int64),
            "store.counts": torch.tensor([len(s.index) for _, s in units], dtype=torch.int64),
            "store.index": torch.cat([empty_index, *(s.index for _, s in units)]),
            "store.value": torch.cat([empty, *(s.value for _, s in units)]),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state. Raises GrammarError (F477) if it is of another model."""
        if state["store.total"].numel() != self.layout.size:
            refuse("F477", "the counts of this state belong to another model")
        self.total = state["store.total"].clone()
        self.units, self.owner, self.bytes = {}, {}, 0
        items = iter(state["store.items"].tolist())
        widths = state["store.widths"].tolist()
        lengths = state["store.counts"].tolist()
        indices = torch.split(state["store.index"], lengths)
        values = torch.split(state["store.value"], lengths)
        for width, index, value in zip(widths, indices, values, strict=True):
            unit = tuple(next(items) for _ in range(width))
            self.units[unit] = SparseCounts(index.clone(), value.clone())
            self.owner.update(dict.fromkeys(unit, unit))
            self.bytes += self.units[unit].bytes


class CollapsedOptions(CountingOptions, total=False):
    """The options of all collapsed methods; see `CollapsedMethod`."""

    items: int | None
    forests: bool | ItemForests


class CollapsedMethod(CountingMethod):
    """A method that integrates the weights out: θ = (f + α) / Σ_A (f + α), f without the item.

    `items` is the number of items to expect. `alpha` are the priors of all factors as a flat
    vector, `alphas` as tables. Items are counted over their derivation forests: their cost does not
    depend on the number of parameters. Without a C++ compiler, with `forests=False`, or where a
    forest would be too large, they are counted over their charts. The `item_forests` of another
    method, given as `forests`, are not grown again.
    """

    def __init__(
        self,
        model: Model,
        *,
        items: int | None = None,
        forests: bool | ItemForests = True,
        **options: Unpack[CountingOptions],
    ) -> None:
        super().__init__(model, **options)
        refuse_ties(model, self.name)
        self.layout = FlatLayout(self.distributions)
        self.store = CountStore(self.layout, items)
        self.alpha = self.layout.flat({name: d.prior for name, d in self.distributions.items()})
        self.alphas = self.layout.tables(self.alpha)
        positive = self.alpha[self.alpha > 0]
        self.impossible = None if len(positive) == len(self.alpha) else self.alpha == 0
        self.least = float(positive.min()) if positive.numel() else 1.0
        if self.least < LEAST_PRIOR:
            refuse("F476", f"a prior of {self.least} is too small")
        self.constant = {n: x.exp() for n, x in self.logs.items() if n not in self.distributions}
        wanted = forests is not False and self.reduce is alone
        self.uses_forests = wanted and machine_code() is not None
        own = ItemForests(self.distributions, self.constant, items)
        self.item_forests = forests.shared(own) if isinstance(forests, ItemForests) else own
        self.known_changes = 0

    # counting over forests

    @cached_property
    def distribution_of(self) -> Tensor:
        """The number of each entry's distribution among those of all factors, `[size]`."""
        return self.layout.distribution_numbers()

    @cached_property
    def forest_weights(self) -> ForestWeights:
        """The counts and priors as forests weigh them."""
        logs = self.item_forests.flat_logs(self.logs)
        return ForestWeights(self.store.total, self.alpha, self.distribution_of, logs)

    def weights_without(self, unit: Unit) -> ForestWeights:
        """The weights of forests, from the counts of all units but this one.

        A unit that has not been counted yet has the model's own weights.
        """
        weights = self.forest_weights
        if weights.counts is not self.store.total or self.known_changes != self.store.changes:
            weights.set_counts(self.store.total)
            self.known_changes = self.store.changes
        old = self.store.units.get(unit)
        weights.give(old is None)
        if old is not None:
            weights.add(old.plain(), -1.0)
        return weights

    def forests_of(self, batch: CheckedItems) -> list[ItemForest] | None:
        """The forest of each item of a batch, or None if they are to be counted over charts."""
        if not self.uses_forests:
            return None
        return self.item_forests.of(batch, self.counter)

    def means(self, total: Tensor) -> Tensor:
        """(f + α) / Σ_A (f + α) of flat counts f, as a flat vector; 0 where α is 0."""
        means = total + self.alpha
        if self.impossible is not None:
            means[self.impossible] = 0.0
        for name, table in self.layout.tables(means).items():
            table /= self.distributions[name].totals(table)
        return means

    def weights(self, means: Tensor) -> dict[str, Tensor]:
        """The weights of all factors, in their shapes, learned ones from a flat vector."""
        tables = self.layout.tables(means)
        shaped = {name: tables[name].view(d.shape) for name, d in self.distributions.items()}
        return {**self.constant, **shaped}

    def log_marginal(self, counts: Tensor | None = None) -> float:
        """Σ_A log B(f + α) - log B(α) of flat counts f, by default those of all items."""
        tables = self.layout.tables(self.store.total if counts is None else counts)
        total = 0.0
        for name, dists in self.distributions.items():
            alpha, blocks = self.alphas[name], dists.blocks
            gained = log_beta(tables[name] + alpha, alpha, blocks) - log_beta(alpha, alpha, blocks)
            total += float(gained.sum())
        return total

    def publish_means(self, total: Tensor) -> None:
        """Give the model the posterior means under flat counts."""
        tables = self.layout.tables(total)
        self.publish(
            {
                n: log_mean(tables[n], a, self.distributions[n].blocks)
                for n, a in self.alphas.items()
            }
        )

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        sums = self.forest_weights.totals.clone() if self.uses_forests else torch.zeros(0)
        return super().state_dict() | self.store.state_dict() | {"store.sums": sums}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.store.load_state_dict(state)
        if self.uses_forests:
            self.forest_weights.set_counts(self.store.total)
            sums = state["store.sums"]
            if sums.shape == self.forest_weights.totals.shape:
                self.forest_weights.totals.copy_(sums)


class ItemByItem(CollapsedMethod):
    """A collapsed method that visits the items of a batch one after the other."""

    def step(self, batch: ItemBatch | None) -> None:
        """Visit the items of a batch."""
        if batch is None:
            return
        checked = self.ready(batch)
        for place in range(checked.size):
            self.visit(checked.item(place))

    @abstractmethod
    def visit(self, item: CheckedItems) -> None:
        """Update what is known of an item, given all others."""
