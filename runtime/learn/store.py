"""Counts of each item, kept sparsely, and their sum over all items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.groups import Group
from fgg.runtime.memory import require

Unit = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Sparse:
    """Entries of all groups, one after the other, that are not zero."""

    index: Tensor
    value: Tensor

    @property
    def bytes(self) -> int:
        """How much memory they take."""
        return int(
            self.index.numel() * self.index.element_size()
            + self.value.numel() * self.value.element_size()
        )


class Layout:
    """The tables of all groups as one long vector."""

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self.groups = groups
        self.first: dict[str, int] = {}
        self.size = 0
        for name, group in groups.items():
            self.first[name] = self.size
            self.size += group.rows * group.entries
        self.index_type = torch.int32 if self.size < 2**31 else torch.int64

    def tables(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of a vector as `[rows, entries]` by factor."""
        return {
            name: flat[first : first + g.rows * g.entries].view(g.rows, g.entries)
            for (name, first), g in zip(self.first.items(), self.groups.values(), strict=True)
        }

    def flat(self, tables: Mapping[str, Tensor]) -> Tensor:
        """Tables as one vector."""
        return torch.cat([tables[name].reshape(-1) for name in self.groups])

    def sparse(self, flat: Tensor) -> Sparse:
        """The entries of a vector that are not zero."""
        (index,) = torch.nonzero(flat, as_tuple=True)
        return Sparse(index.to(self.index_type), flat[index])


class Store:
    """The counts of units (an item, or the items of a batch), and their sum.

    `expected` is how many units there will be: their memory is estimated from the first ones.
    """

    def __init__(self, layout: Layout, expected: int | None = None) -> None:
        self.layout = layout
        self.expected = expected
        self.units: dict[Unit, Sparse] = {}
        self.owner: dict[int, Unit] = {}
        self.bytes = 0
        self.total = torch.zeros(layout.size, dtype=torch.float64)

    def take_out(self, unit: Unit) -> Sparse | None:
        """A unit's counts, taken out of the sum; None if it has none yet."""
        found = self.units.get(unit)
        if found is not None:
            self.add(found, -1.0)
            # Rounding must not leave less than nothing.
            index = found.index.long()
            self.total[index] = self.total[index].clamp(min=0.0)
        return found

    def add(self, found: Sparse, sign: float = 1.0) -> None:
        """Add counts to the sum."""
        self.total.index_add_(0, found.index.long(), found.value, alpha=sign)

    def keep(self, unit: Unit, found: Sparse) -> None:
        """Remember a unit's counts. Raises GrammarError if memory will not do (F420)."""
        old = self.units.get(unit)
        if old is None:
            for item in unit:
                if item in self.owner:
                    message = f"item {item} comes in another batch than before"
                    help = "give the same batches in every sweep, or items one by one"
                    refuse("F476", message, help)
                self.owner[item] = unit
        self.bytes += found.bytes - (0 if old is None else old.bytes)
        self.units[unit] = found
        count = len(self.units)
        if old is None and count & (count - 1) == 0:
            wanted = max(self.expected or 0, 2 * count)
            needed = self.bytes * wanted // count - self.bytes
            require(needed, torch.device("cpu"), f"the counts of {wanted:,} items")

    def resum(self) -> Tensor:
        """The sum anew from all units, without the rounding of what went in and out."""
        found = torch.zeros_like(self.total)
        for unit in self.units.values():
            found.index_add_(0, unit.index.long(), unit.value)
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """The counts of all units one after the other, and the sum."""
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
        """Go on from a state. Raises GrammarError (F477) if it is of another model."""
        if state["store.total"].numel() != self.layout.size:
            message = "the counts of this state belong to another model"
            refuse("F477", message)
        self.total = state["store.total"].clone()
        self.units, self.owner, self.bytes = {}, {}, 0
        items = iter(state["store.items"].tolist())
        widths = state["store.widths"].tolist()
        counts = state["store.counts"].tolist()
        indices = torch.split(state["store.index"], counts)
        values = torch.split(state["store.value"], counts)
        for width, index, value in zip(widths, indices, values, strict=True):
            unit = tuple(next(items) for _ in range(width))
            self.units[unit] = Sparse(index.clone(), value.clone())
            self.owner.update(dict.fromkeys(unit, unit))
            self.bytes += self.units[unit].bytes
