"""CVB at the level of variables, for items whose derivations have one shape [CVB §3.4]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.runtime.learn.collapsed.factor_graph import FactorGraph, Use, factor_graph
from fgg.runtime.learn.collapsed.leave_one_out import CollapsedOptions, ItemByItem
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.method import SweepReport
from fgg.runtime.model.model import Model

Floats = NDArray[np.float64]

PASSES = 5
"""Passes over the variables of an item in the first sweep."""


class VariableCVB(ItemByItem):
    """Collapsed variational Bayes with independent variables in place of independent derivations.

    Every latent variable has a distribution q of its own. The counts of the factors that it touches
    are taken out, and

        q(x) ∝ Π_uses E[f_r + α_r] / E[Σ_A (f + α)],

    expectations over the other variables of the use; then the new counts are added. The derivations
    of an item must have one shape: tags of a sentence, annotations of a tree. The first sweep
    is mean field with the model's weights. The objective is log B at the expected counts plus the
    entropies of q, of order zero like that of `CVB`; it may decrease.
    """

    name = "variable-cvb"

    def __init__(self, model: Model, **options: Unpack[CollapsedOptions]) -> None:
        super().__init__(model, **options)
        self.graphs: dict[int, FactorGraph] = {}
        self.q: dict[int, list[Floats]] = {}
        self.group = self.distribution_of.numpy()
        self.counts = np.zeros(self.layout.size)
        self.sums = np.bincount(self.group, weights=self.alpha.numpy()).astype(np.float64)

    def visit(self, item: CheckedItems) -> None:
        """Update the variables of an item, one after the other."""
        (number,) = item.ids
        if number not in self.graphs:
            weights = {name: x.exp() for name, x in self.logs.items()}
            self.graphs[number] = factor_graph(item, weights, self.layout)
        graph = self.graphs[number]
        touching = [
            [use for use in graph.uses if variable in use.variables]
            for variable in range(len(graph.sizes))
        ]
        self.items += 1
        if number not in self.q:
            self.q[number] = [np.full(size, 1.0 / size) for size in graph.sizes]
            self.mean_field(self.q[number], touching)
            self.add(graph.uses, self.q[number], 1.0)
            return
        q = self.q[number]
        for variable, uses in enumerate(touching):
            self.add(uses, q, -1.0)
            scores = np.zeros(len(q[variable]))
            for use in uses:
                alpha = self.alpha.numpy()[use.entries]
                above = _over(self.counts[use.entries] + alpha, use, q, variable)
                below = _over(self.sums[self.group[use.entries]], use, q, variable)
                scores += np.log(above) - np.log(below)
            q[variable] = _normalised(scores)
            self.add(uses, q, 1.0)

    def mean_field(self, q: list[Floats], touching: list[list[Use]]) -> None:
        """Distributions of variables that fit the model's weights: q(x) ∝ exp E[log θ]."""
        tables = {name: d.table(self.logs[name]) for name, d in self.distributions.items()}
        logs = self.layout.flat(tables).numpy().clip(min=-700.0)
        for _ in range(PASSES):
            for variable, uses in enumerate(touching):
                means = [_over(logs[use.entries], use, q, variable) for use in uses]
                q[variable] = _normalised(np.sum(means, axis=0))

    def add(self, uses: Iterable[Use], q: list[Floats], sign: float) -> None:
        """Add the expected counts of uses, or subtract them."""
        for use in uses:
            share = np.array(sign)
            for variable in use.variables:
                share = share[..., None] * q[variable]
            entries = use.entries
            self.counts[entries] = np.maximum(self.counts[entries] + share, 0.0)
            np.add.at(self.sums, self.group[entries], share)

    def end(self) -> SweepReport:
        """End a sweep and report the objective."""
        self.store.total = torch.from_numpy(self.counts.copy())
        entropy = sum(_entropy(q) for own in self.q.values() for q in own)
        objective = self.log_marginal() + entropy
        self.publish_means(self.store.total)
        self.sweeps += 1
        details = {"entropy": entropy}
        return SweepReport(
            self.sweeps - 1, "collapsed bound", objective, self.items, objective, details
        )

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        numbers = list(self.q)
        every = [q for number in numbers for q in self.q[number]]
        return super().state_dict() | {
            "variables.items": torch.tensor(numbers, dtype=torch.int64),
            "variables.number": torch.tensor([len(self.q[n]) for n in numbers]).long(),
            "variables.sizes": torch.tensor([len(q) for q in every]).long(),
            "variables.q": torch.from_numpy(np.concatenate([np.zeros(0), *every])),
            "variables.counts": torch.from_numpy(self.counts.copy()),
            "variables.sums": torch.from_numpy(self.sums.copy()),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        parts = iter(torch.split(state["variables.q"], state["variables.sizes"].tolist()))
        numbers, counts = state["variables.items"].tolist(), state["variables.number"].tolist()
        self.q = {
            n: [next(parts).clone().numpy() for _ in range(c)]
            for n, c in zip(numbers, counts, strict=True)
        }
        self.counts = state["variables.counts"].clone().numpy()
        self.sums = state["variables.sums"].clone().numpy()


def _over(table: Floats, use: Use, q: list[Floats], variable: int) -> Floats:
    """The mean of a table of a use over all of its variables but one, `[values]`."""
    mean = table
    for axis in range(len(use.variables) - 1, -1, -1):
        other = use.variables[axis]
        if other != variable:
            mean = np.tensordot(mean, q[other], axes=(axis, 0))
    return mean


def _normalised(scores: Floats) -> Floats:
    shares = np.exp(scores - scores.max())
    normalised: Floats = shares / shares.sum()
    return normalised


def _entropy(q: Floats) -> float:
    live = q[q > 0]
    return float(-(live * np.log(live)).sum())
