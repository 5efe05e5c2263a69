"""Counts of all learned factors as one vector, whole or sparse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fgg.runtime.forest.engine import Counts
from fgg.runtime.learn.distributions import Distributions


@dataclass(frozen=True, eq=False)
class SparseCounts:
    """The counts other than 0 of a flat vector of all tables: `index` and `value`, `[counts]`."""

    index: Tensor
    value: Tensor

    def plain(self) -> Counts:
        """The same as arrays."""
        return Counts(self.index.numpy(), self.value.numpy())

    @property
    def bytes(self) -> int:
        """The memory that they take."""
        return int(
            self.index.numel() * self.index.element_size()
            + self.value.numel() * self.value.element_size()
        )


class FlatLayout:
    """The layout of the tables of all factors in one flat vector, `[size]`."""

    def __init__(self, distributions: Mapping[str, Distributions]) -> None:
        self.distributions = distributions
        self.first: dict[str, int] = {}
        self.size = 0
        for name, dists in distributions.items():
            self.first[name] = self.size
            self.size += dists.rows * dists.entries
        self.index_type = torch.int32 if self.size < 2**31 else torch.int64

    def tables(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of a flat vector as tables `[rows, entries]` by factor."""
        return {
            name: flat[first : first + d.rows * d.entries].view(d.rows, d.entries)
            for (name, first), d in zip(
                self.first.items(), self.distributions.values(), strict=True
            )
        }

    def flat(self, tables: Mapping[str, Tensor]) -> Tensor:
        """Tables by factor as a flat vector, `[size]`."""
        return torch.cat([tables[name].reshape(-1) for name in self.distributions])

    def distribution_numbers(self) -> Tensor:
        """The number of each entry's distribution among those of all factors, `[size]`."""
        flat = self.flat({name: dists.numbers() for name, dists in self.distributions.items()})
        first = 0
        for name, dists in self.distributions.items():
            self.tables(flat)[name].add_(first)
            first += dists.rows * dists.per_row
        return flat

    def packed(self, counts: Counts) -> SparseCounts:
        """Counts of forests as they are kept."""
        index = torch.from_numpy(counts.index).to(self.index_type)
        return SparseCounts(index, torch.from_numpy(counts.value))

    def sparse(self, flat: Tensor) -> SparseCounts:
        """The entries of a flat vector that are not 0."""
        (index,) = torch.nonzero(flat, as_tuple=True)
        return SparseCounts(index.to(self.index_type), flat[index])
