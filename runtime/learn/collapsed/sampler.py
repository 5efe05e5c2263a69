"""What samplers share: draws of derivations, averages over sweeps, the trace of a chain."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Unpack

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.collapsed.leave_one_out import CollapsedMethod, CollapsedOptions
from fgg.runtime.learn.collapsed.sampled_counts import EntrySampler
from fgg.runtime.learn.convergence import LEAST_DRAWS, effective_size
from fgg.runtime.learn.flat_layout import SparseCounts
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.learn.method import SweepReport, alone
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program


class SamplerOptions(CollapsedOptions, total=False):
    """The options of all samplers; see `Sampler`."""

    seed: int
    burn_in: int


class Sampler(CollapsedMethod):
    """A Markov chain over the derivations of all items.

    The objective is log P(w, t | α), the joint probability of data and derivations, up to factors
    that are not learned. After the first `burn_in` sweeps, counts are averaged, and
    the model gets the posterior means under the average. Reports say how many independent draws of
    the objective these sweeps are worth, as `effective_draws`.
    """

    def __init__(
        self, model: Model, *, seed: int = 0, burn_in: int = 0, **options: Unpack[CollapsedOptions]
    ) -> None:
        super().__init__(model, **options)
        if self.reduce is not alone:
            message = f"`{self.name}` draws items one by one and cannot run on several processes"
            refuse("F476", message)
        self.generator = torch.Generator().manual_seed(seed)
        self.burn_in = burn_in
        self.averaged = 0
        self.average = torch.zeros_like(self.store.total)
        self.trace: list[float] = []
        self.samplers: dict[Program, EntrySampler] = {}

    def new_seed(self) -> int:
        """A seed for the draw of an item."""
        return int(torch.randint(2**62, (), generator=self.generator))

    def drawn(self, item: CheckedItems, weights: Mapping[str, Tensor]) -> SparseCounts:
        """The counts of a derivation drawn from the item's posterior, over its charts."""
        if item.program not in self.samplers:
            self.samplers[item.program] = EntrySampler(item.program, self.generator)
        counts = self.samplers[item.program].draw(weights, item)
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

    def ended(self, details: Mapping[str, float]) -> SweepReport:
        """End a sweep: average, publish, and report the joint probability."""
        objective = self.log_marginal()
        if self.sweeps >= self.burn_in:
            self.averaged += 1
            self.average += (self.store.total - self.average) / self.averaged
            self.trace.append(objective)
        self.publish_means(self.average if self.averaged else self.store.total)
        self.sweeps += 1
        more = self.effective_draws()
        known = {**details, "effective_draws": more} if isfinite(more) else dict(details)
        return SweepReport(self.sweeps - 1, "log-joint", objective, self.items, objective, known)

    def effective_draws(self) -> float:
        """The effective sample size of the objective since the burn-in; NaN if unknown."""
        known = len(self.trace) >= LEAST_DRAWS and all(map(isfinite, self.trace))
        return effective_size([self.trace]) if known else float("nan")

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | {
            "generator": self.generator.get_state(),
            "averaged": torch.tensor(self.averaged),
            "average": self.average.clone(),
            "trace": torch.tensor(self.trace, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.generator.set_state(state["generator"])
        self.averaged = int(state["averaged"])
        self.average = state["average"].clone()
        self.trace = state["trace"].tolist()
