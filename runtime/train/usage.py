"""How data use a model: entropies of its distributions, and how many of them are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fgg.factors.maps import is_map
from fgg.runtime.entries.factor_reader import Weight, as_tensor
from fgg.runtime.learn.distributions import Distributions, distributions_of
from fgg.runtime.posterior.posterior import Posterior
from fgg.runtime.program.program import Program


@dataclass
class Usage:
    """The expected counts of each distribution of a model, added up over batches.

    A distribution is what a factor `f(A -> B)` has for one value of A; with blocks, for one value
    and one block.
    """

    tables: dict[str, tuple[Distributions, Tensor]]
    counts: dict[str, Tensor]

    @staticmethod
    def of(program: Program, weights: Mapping[str, Weight]) -> Usage:
        """The distributions of a program with weights, before any data."""
        tables = {}
        for factor in program.weighted.factors:
            if factor.given is not None and factor.name in weights and not is_map(factor):
                dists = distributions_of(program, factor)
                tables[factor.name] = dists, dists.table(as_tensor(weights[factor.name]))
        counts = {name: torch.zeros_like(d.sums(table)) for name, (d, table) in tables.items()}
        return Usage(tables, counts)

    def add(self, posterior: Posterior) -> None:
        """Add the expected counts of a batch."""
        for name, count in posterior.counts.items():
            if name in self.tables:
                dists, _ = self.tables[name]
                self.counts[name] += dists.sums(dists.table(count))

    def numbers(self) -> dict[str, float]:
        """For each factor, entropies in nats, and how many distributions are used how evenly."""
        numbers: dict[str, float] = {}
        for name, (dists, table) in self.tables.items():
            entropies, used = dists.sums(torch.special.entr(table)), self.counts[name]
            total = used.sum()
            share = used / total if total > 0 else used
            numbers[f"{name} entropy"] = float(entropies.mean())
            numbers[f"{name} entropy_in_use"] = float((share * entropies).sum())
            if used.numel() > 1:
                numbers[f"{name} distributions"] = used.numel()
                numbers[f"{name} used_once_or_more"] = int((used >= 1 - 1e-9).sum())
                numbers[f"{name} occupancy"] = float(torch.special.entr(share).sum().exp())
        return numbers
