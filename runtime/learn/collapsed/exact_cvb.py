"""The exact collapsed update of small data [CVB, Fig. 2]: derivations one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.forest.enumerate import Derivations, TooMany, derivations
from fgg.runtime.learn.collapsed.leave_one_out import CollapsedOptions, ItemByItem
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.method import SweepReport, check_no_decrease
from fgg.runtime.model.model import Model

MOST = 10_000
"""The most derivations of an item."""

Floats = NDArray[np.float64]


class Item(NamedTuple):
    """An item: its derivations, the distributions they use, `totals[d, a]` of `groups[a]`."""

    derivations: Derivations
    groups: NDArray[np.int64]
    totals: Floats


class ExactCVB(ItemByItem):
    """Mean field over derivations in collapsed space, without approximations [CVB Fig. 2].

    Q(t_i) ∝ exp E[log P(w_i, t_i | t_¬i, α)]: counts change within a derivation, and expectations
    are over the distribution of each count, the convolution of those of all other items. An item's
    derivations are listed, so this is for small items and few of them. The first sweep sets Q to
    the posteriors under the model's weights. The objective is the collapsed bound on log P(w | α),
    up to factors that are not learned; it never decreases.
    """

    name = "exact-cvb"

    def __init__(self, model: Model, **options: Unpack[CollapsedOptions]) -> None:
        super().__init__(model, **options)
        if not self.uses_forests:
            message = f"`{self.name}` lists derivations over forests, which need a C++ compiler"
            refuse("F476", message, "it does not run on several processes either")
        self.known: dict[int, Item] = {}
        self.q: dict[int, Floats] = {}
        self.before = -np.inf

    def visit(self, item: CheckedItems) -> None:
        """Update Q of an item."""
        (number,) = item.ids
        if number not in self.known:
            self.known[number] = self.item_of(item)
        known = self.known[number]
        listed = known.derivations
        scores = listed.log_coefficient.copy()
        if number not in self.q:
            given = self.item_forests.flat_logs(self.logs)[torch.from_numpy(listed.entries)].numpy()
            used = listed.counts > 0
            scores += np.where(used, listed.counts * np.where(used, given, 0.0), 0.0).sum(-1)
        else:
            scores += self.learned_scores(number, known)
        log_z = float(logsumexp(scores)) if len(scores) else -np.inf
        if not bool(self.derivable(item, torch.tensor([log_z])).all()):
            del self.known[number]
            return
        self.q[number] = np.exp(scores - log_z)
        self.total += log_z
        self.items += 1

    def item_of(self, checked: CheckedItems) -> Item:
        """The derivations of an item."""
        forests = self.forests_of(checked)
        try:
            if forests is None:
                raise TooMany
            listed = derivations(forests[0].packed.forest, forests[0].tokens, MOST)
        except TooMany:
            message = f"item {checked.ids[0]} has more than {MOST:,} derivations"
            refuse("F476", message, "`cvb` does not list them")
        return _item(listed, self.distribution_of.numpy(), self.layout.size)

    def learned_scores(self, number: int, item: Item) -> Floats:
        """E log of the learned part of P(w_i, t | t_¬i, α), for each derivation t."""
        scores = np.zeros(len(item.derivations.log_coefficient))
        alpha = self.alpha.numpy()
        for column, entry in enumerate(item.derivations.entries):
            if entry < self.layout.size:
                chances = self.spread(entry, leave=number)
                scores += _rising(item.derivations.counts[:, column], alpha[entry], chances)
        prior = self.prior_totals
        for column, group in enumerate(item.groups):
            chances = self.spread_of_group(group, leave=number)
            scores -= _rising(item.totals[:, column], prior[group], chances)
        return scores

    @property
    def prior_totals(self) -> Floats:
        """Σ_A α of each distribution."""
        return _weighted_counts(self.distribution_of.numpy(), self.alpha.numpy())

    def spread(self, entry: int, leave: int | None = None) -> Floats:
        """How probable each count of an entry is, over all items but one."""
        parts = []
        for number, q in self.q.items():
            listed = self.known[number].derivations
            place = int(np.searchsorted(listed.entries, entry))
            if number != leave and place < len(listed.entries) and listed.entries[place] == entry:
                parts.append(_weighted_counts(listed.counts[:, place].astype(int), q))
        return _convolved(parts)

    def spread_of_group(self, group: int, leave: int | None = None) -> Floats:
        """How probable each count of a distribution is, over all items but one."""
        parts = []
        for number, q in self.q.items():
            item = self.known[number]
            place = int(np.searchsorted(item.groups, group))
            if number != leave and place < len(item.groups) and item.groups[place] == group:
                parts.append(_weighted_counts(item.totals[:, place].astype(int), q))
        return _convolved(parts)

    def bound(self) -> float:
        """E_Q[log P(w, t | α) - log Q(t)]."""
        entropy = 0.0
        for number, q in self.q.items():
            live = q > 0
            coefficients = self.known[number].derivations.log_coefficient
            entropy += float((q[live] * (coefficients[live] - np.log(q[live]))).sum())
        alpha, prior = self.alpha.numpy(), self.prior_totals
        entries = {e for i in self.known.values() for e in i.derivations.entries.tolist()}
        gain = 0.0
        for entry in entries:
            if entry < self.layout.size:
                gain += _expected_rise(alpha[entry], self.spread(entry))
        for group in {g for i in self.known.values() for g in i.groups.tolist()}:
            gain -= _expected_rise(prior[group], self.spread_of_group(group))
        return entropy + gain

    def expected(self) -> Tensor:
        """The expected counts of all items, `[size]`."""
        total = torch.zeros_like(self.store.total)
        for number, q in self.q.items():
            listed = self.known[number].derivations
            learned = listed.entries < self.layout.size
            total[torch.from_numpy(listed.entries[learned])] += torch.from_numpy(
                (q @ listed.counts)[learned]
            )
        return total

    def end(self) -> SweepReport:
        """End a sweep and report the bound, after a check that it did not decrease."""
        objective = self.bound()
        check_no_decrease(self.name, self.before, objective, self.dtype)
        self.before = objective
        self.store.total = self.expected()
        self.publish_means(self.store.total)
        self.sweeps += 1
        kind = "collapsed bound"
        return SweepReport(self.sweeps - 1, kind, objective, self.items, self.total)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        numbers, empty = list(self.known), np.zeros(0)
        items = [self.known[n] for n in numbers]
        return super().state_dict() | {
            "before": torch.tensor(self.before, dtype=torch.float64),
            "exact.items": torch.tensor(numbers, dtype=torch.int64),
            "exact.derivations": torch.tensor([len(self.q[n]) for n in numbers]).long(),
            "exact.entries": torch.tensor([len(i.derivations.entries) for i in items]).long(),
            "exact.q": _joined([self.q[n] for n in numbers], empty),
            "exact.coefficients": _joined([i.derivations.log_coefficient for i in items], empty),
            "exact.index": _joined([i.derivations.entries for i in items], empty).long(),
            "exact.counts": _joined([i.derivations.counts.reshape(-1) for i in items], empty),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.before = float(state["before"])
        self.known, self.q = {}, {}
        rows, columns = state["exact.derivations"].tolist(), state["exact.entries"].tolist()
        sizes = [a * b for a, b in zip(rows, columns, strict=True)]
        parts = zip(
            state["exact.items"].tolist(),
            rows,
            torch.split(state["exact.q"], rows),
            torch.split(state["exact.coefficients"], rows),
            torch.split(state["exact.index"], columns),
            torch.split(state["exact.counts"], sizes),
            strict=True,
        )
        groups = self.distribution_of.numpy()
        for number, height, q, coefficients, index, counts in parts:
            table = counts.clone().numpy().reshape(height, -1)
            listed = Derivations(index.clone().numpy(), table, coefficients.clone().numpy())
            self.known[number] = _item(listed, groups, self.layout.size)
            self.q[number] = q.clone().numpy()


def _item(listed: Derivations, groups: NDArray[np.int32], size: int) -> Item:
    learned = listed.entries < size
    used, place = np.unique(groups[listed.entries[learned]], return_inverse=True)
    totals = np.zeros((len(listed.counts), len(used)))
    np.add.at(totals.T, place, listed.counts[:, learned].T)
    return Item(listed, used.astype(np.int64), totals)


def _weighted_counts(numbers: NDArray[np.integer[Any]], weights: Floats) -> Floats:
    """The sum of the weights of each number, from 0 up."""
    sums: Floats = np.bincount(numbers, weights=weights).astype(np.float64)
    return sums


def _convolved(parts: Sequence[Floats]) -> Floats:
    """The distribution of a sum of independent counts."""
    chances = np.ones(1)
    for part in parts:
        chances = np.convolve(chances, part)
    return chances


def _rising(counts: Floats, alpha: float, chances: Floats) -> Floats:
    """E Σ_{j < c} log(f + α + j) for each of the counts c, f distributed by `chances`."""
    most = int(counts.max()) if counts.size else 0
    f = np.arange(len(chances))
    steps = [float(chances @ np.log(f + alpha + j)) for j in range(most)]
    sums: Floats = np.concatenate([np.zeros(1), np.cumsum(steps)])
    of_each: Floats = sums[counts.astype(int)]
    return of_each


def _expected_rise(alpha: float, chances: Floats) -> float:
    """E log Γ(f + α) - log Γ(α)."""
    f = np.arange(len(chances))
    return float(chances @ (gammaln(f + alpha) - gammaln(alpha)))


def _joined(arrays: Sequence[NDArray[np.generic]], empty: Floats) -> Tensor:
    return torch.from_numpy(np.concatenate([empty, *arrays]))
