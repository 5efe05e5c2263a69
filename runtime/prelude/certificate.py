"""The range certificate: whether any number of a pass became too small for its type.

States of one cell can differ by more than the range of the numbers. So every pass keeps what shows
whether that happened (`Batch.tops`, `Batch.gaps`), and `lossless` reads it: for each item, whether
all products of positive numbers were normal numbers. An item of which that is not known has to be
computed with more range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, log, log2, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from fgg.runtime.prelude.cells import NEGATIVE, alive
from fgg.runtime.prelude.scaled import ROOM, TINY

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch


class Lift:
    """Makes a pass an upper bound: no positive number in it is too small for its products.

    Values of cells that are positive are at least `floor`. A term that is too small for its sum is
    counted as `rest` in all states, as zeros of that sum may come from it.
    """

    def __init__(self, floor: float, rest: float, gap: float) -> None:
        self.floor = floor
        self.least = rest
        self.gap = gap
        self.lost: Tensor | None = None

    def raise_(self, values: Tensor) -> None:
        """Raise what is positive to the floor."""
        values.copy_(torch.where(values > 0, values.clamp_min(self.floor), values))

    def rest(self, new: Tensor, states: int, batch: Batch, depth: int) -> Tensor:
        """New values, `[*cells, batch, *states]`, with the rest in items that lost terms."""
        lost, self.lost = self.lost, None
        if lost is None or not alive(torch.where(lost, 0.0, NEGATIVE)):
            return new
        rest = lost.to(new.dtype) * (self.least * batch.up ** max(depth - 1, 0))
        return new + rest.reshape(-1, *(1,) * states)


def least_power(values: Tensor, axis: int | None) -> Tensor:
    """The logarithm to base 2 of the least positive value; of each item, if an axis is theirs."""
    positive = values.masked_fill(values == 0, inf)
    if axis is None:
        return positive.amin().double().log2()
    return positive.movedim(axis, 0).flatten(1).amin(1).double().log2()


def cell_least(values: Tensor, scales: Tensor) -> Tensor:
    """The least positive value of each cell, `[*axes, batch]`; infinite where there is none."""
    rank = scales.dim()
    least = values.flatten(rank).amin(-1)
    least = least.masked_fill_(scales == NEGATIVE, inf)
    zero = least == 0
    if zero.device.type != "cpu" or bool(zero.any()):
        some = values.flatten(rank)[zero]
        least[zero] = some.masked_fill_(some == 0, inf).amin(-1)
    return least


class Powers:
    """The least positive entries of all that is multiplied in a pass, as powers of 2.

    Of charts and tables each item has its own; `stored` is the axis of the items.
    """

    def __init__(
        self,
        stored: Mapping[str, int],
        leaves: Mapping[str, Tensor],
        values: Mapping[str, Tensor],
        scales: Mapping[str, Tensor],
        batch: Batch,
    ) -> None:
        self.stored = stored
        self.batch = batch
        self.tensors = {**batch.parts, **leaves}
        self.values = values
        self.scales = scales

    def of_all(self) -> dict[str, float]:
        """For all items together."""
        found = {name: 0.0 for name in (*self.tensors, *self.values)}
        asked: dict[str, Tensor] = {}
        for name, values in self.values.items():
            if name in self.batch.told:
                low = self.batch.told[name]
                found[name] = log2(low) if low > 0 else nan
            elif values.numel():
                asked[name] = cell_least(values, self.scales[name]).amin()
        for name, tensor in self.tensors.items():
            low, _ = self.batch.ends.get(name, (0.0, 0.0))
            if low > 0:
                found[name] = log2(low)
            elif tensor.numel():
                tensor = tensor.detach()
                asked[name] = tensor.masked_fill(tensor == 0, inf).amin()
        lows = torch.stack([low.double() for low in asked.values()]).tolist() if asked else []
        for name, low in zip(asked, lows, strict=True):
            found[name] = log2(low) if low > 0 else nan
        return found

    def of_each(self) -> dict[str, Tensor]:
        """For every item, `[batch]`."""
        zero = torch.zeros(self.batch.size, dtype=torch.float64, device=self.batch.device)
        found = {name: zero for name in (*self.tensors, *self.values)}
        for name, values in self.values.items():
            if values.numel():
                cells = cell_least(values, self.scales[name])
                cells = cells.flatten(0, -2).amin(0) if cells.dim() > 1 else cells
                found[name] = cells.double().log2()
        for name, tensor in self.tensors.items():
            if tensor.numel():
                power = least_power(tensor.detach(), self.stored.get(name))
                found[name] = power.expand(self.batch.size)
        return found


def centre(
    batch: Batch, leaves: Mapping[str, Tensor], depth: int, ends: Mapping[str, tuple[float, float]]
) -> None:
    """Choose how great the values of cells are: so that products have room above and below.

    `depth` is the greatest number of charts with states in one product; `ends` are the least and
    greatest entries of leaves, as far as they are known.
    """
    room = ROOM[batch.dtype]
    names = [name for name, leaf in leaves.items() if leaf.numel() and name not in ends]
    asked = [end for name in names for end in torch.aminmax(leaves[name].detach())]
    answers = torch.stack(asked).tolist() if asked else []
    batch.ends = {n: ends[n] for n in leaves if n in ends}
    batch.ends |= zip(names, zip(answers[::2], answers[1::2], strict=True), strict=True)
    above = sum(max(log2(high), 0.0) for _, high in batch.ends.values() if 0 < high < inf)
    power = max(int(room.values - above) // max(depth, 2), 0)
    batch.up = 2.0**power
    batch.slope = 2.0 ** (power + room.slopes)
    # Where no factor has a zero, every term reaches every state, and a small one does not matter.
    batch.watched = batch.lift is not None or any(low == 0 for low, _ in batch.ends.values())


class Bounds(NamedTuple):
    """How to take the least and the greatest of two numbers, or of numbers for every item."""

    least: Callable[..., Any]
    most: Callable[..., Any]


def lossless(
    products: Sequence[tuple[tuple[str, ...], int]], powers: Powers, batch: Batch
) -> Tensor:
    """Whether all products of positive numbers in a pass were normal numbers, for each item.

    `products` names the factors, tables and charts that are multiplied, and how many charts there
    are at most in a sum of such products that is divided by its greatest value (-1: it is not).
    If nothing was lost in the inside pass and no cell fell too far below what it is computed from,
    gradients are accurate too, unless they are no numbers.
    """
    safe = torch.ones(batch.size, dtype=torch.bool, device=batch.device)
    if not all(high < inf for _, high in batch.ends.values()):
        return ~safe  # a product of weights is too large
    for lost in batch.lost:
        safe &= ~lost
    gaps = batch.gaps if batch.lift is None else []
    # First with one number for all items, which is quick, and mostly enough.
    gap, ends = told_ends(batch, gaps)
    falls = {
        depth: (log2(low) if low > 0 else nan, log2(high) if 0 < high < inf else nan)
        for depth, (low, high) in ends.items()
    }
    if holds(products, powers.of_all(), gap, falls, batch, Bounds(min, max)):
        return safe
    tops = _by_depth(batch)
    joined = {d: torch.cat([t.reshape(-1, batch.size) for t in some]) for d, some in tops.items()}
    each = torch.zeros(batch.size, dtype=torch.float64, device=batch.device)
    if gaps:
        each = torch.stack(gaps).amin(0).to(each) * (1 / log(2))
    apart = {
        depth: (least_power(top, 1), top.amax(0).double().clamp_min(TINY[batch.dtype]).log2())
        for depth, top in joined.items()
    }
    bounds = Bounds(torch.minimum, torch.maximum)
    held: Tensor = holds(products, powers.of_each(), each, apart, batch, bounds)
    return safe & held


def told_ends(
    batch: Batch, gaps: Sequence[Tensor]
) -> tuple[float, Mapping[int, tuple[float, float]]]:
    """The least gap, in powers of 2, and by depth the ends of the greatest values of cells."""
    if batch.told_gap is not None:
        return (batch.told_gap / log(2) if gaps else 0.0), batch.told_falls
    tops = _by_depth(batch)
    ends = []
    for some in tops.values():
        every = torch.cat([top if top.dim() == 1 else top.flatten() for top in some])
        ends += [every.masked_fill(every == 0, inf).amin(), every.amax()]
    ends += [torch.stack(list(gaps)).amin()] if gaps else []
    known = torch.stack([end.double() for end in ends]).tolist() if ends else []
    gap = known.pop() / log(2) if gaps else 0.0
    return gap, dict(zip(tops, zip(known[::2], known[1::2], strict=True), strict=True))


def _by_depth(batch: Batch) -> dict[int, list[Tensor]]:
    """The greatest values of all cells, by the number of charts in a product."""
    tops: dict[int, list[Tensor]] = {}
    for depth, top, _ in batch.all_tops():
        tops.setdefault(depth, []).append(top if top.dim() < 3 else top.flatten(0, -2))
    return tops


def is_lower_bound(batch: Batch) -> Tensor:
    """Whether a pass can only have lost, so that its log Z is a lower bound, for each item.

    A sum of which the greatest value is too small to be divided by is not what it seems.
    """
    least = ROOM[batch.dtype].least + log2(batch.up) + 4
    bound = torch.ones(batch.size, dtype=torch.bool, device=batch.device)
    for _, top, _ in batch.all_tops():
        bound &= least_power(top.reshape(-1, batch.size), 1) >= least
    return bound


def holds(
    products: Sequence[tuple[tuple[str, ...], int]],
    powers: Mapping[str, Any],
    gap: Any,
    falls: Mapping[int, tuple[Any, Any]],
    batch: Batch,
    bounds: Bounds,
) -> Any:
    """Whether no product was too small; for all items together or for every item.

    `powers` are the least entries of what is multiplied, `gap` how far terms of a sum are apart,
    `falls` the least and the greatest of the greatest values of cells: all as powers of 2.
    """
    room, power = ROOM[batch.dtype], log2(batch.up)
    zero = gap * 0.0
    safe = gap == gap
    # What sums are divided by at most.
    units = {-1: zero}
    for depth in sorted(falls):
        low, high = falls[depth]
        safe = safe & (low - depth * power >= -room.fall) & (low >= room.least + power + 4)
        units[depth] = bounds.most(units[max(units)], high - power)
    for names, depth in products:
        whole = part = gap
        for name in names:
            whole = whole + powers[name]
            part = part + bounds.least(powers[name], zero)
        unit = units[max(d for d in units if d <= depth)]
        safe = safe & (part >= room.least + 2) & (whole - unit >= room.least + 2)
    return safe
