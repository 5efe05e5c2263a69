"""What every emitted program begins with: views of charts, scaled sums, evidence.

A cell of a chart is a vector of values whose greatest is `batch.up`, a power of two, and one
logarithmic scale, in float64. Sums and products of values are plain linear algebra; only scales are
added, compared and exponentiated, one a cell. A cell of zeros has the scale -inf. A chart without
states is its scale alone.

States of one cell can differ by more than the range of the numbers. So every pass keeps what shows
whether that happened (`Batch.tops`, `Batch.gaps`), and `lossless` reads it: for each item, whether
all products of positive numbers were normal numbers. An item of which that is not known has to be
computed with more range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, log, log2, nan
from typing import Any, NamedTuple

import torch
from torch import Tensor

NEGATIVE = float("-inf")
FLOOR = -1e300
"""Below every scale but that of zero; finite, so that differences are numbers."""


def alive(scale: Tensor) -> bool:
    """Whether any scale is not that of zero; yes where the device would have to be waited for."""
    return scale.device.type != "cpu" or bool((scale > NEGATIVE).any())


class Place(NamedTuple):
    """Cells of a chart at index tensors: what is fixed, index tensors, and which are outside."""

    fixed: tuple[tuple[int, int], ...]
    held: tuple[Tensor, ...]
    outside: Tensor | None


def hidden(mask: Tensor) -> Tensor | None:
    """Where a mask does not hold; None where that can be told to be nowhere without waiting."""
    found = ~mask
    return found if found.device.type != "cpu" or bool(found.any()) else None


def hide(values: Tensor, found: Tensor | None, zero: float, states: int = 0) -> Tensor:
    """Values with zero in hidden cells; a mask may lack axes that come first."""
    if found is None:
        return values
    for _ in range(states):
        found = found.unsqueeze(-1)
    return values.masked_fill(found, zero)


def cells_at(chart: Tensor, index: tuple[Tensor | int, ...]) -> Place:
    """Cells of a chart: index tensors, with the batch as their last axis, held inside it."""
    inside: Tensor | None = None
    fixed: list[tuple[int, int]] = []
    held: list[Tensor] = []
    for i, x in enumerate(index):
        last = max(chart.shape[i] - 1, 0)
        if isinstance(x, int):
            # From the last axis on: what is fixed is selected one after the other.
            fixed.insert(0, (i, min(max(x, 0), last)))
            here = torch.tensor(x == fixed[0][1], device=chart.device)
            if x == fixed[0][1]:
                continue
        else:
            here = (x >= 0) & (x <= last)
            held.append(x.clamp(0, last))
        inside = here if inside is None else inside & here
    if held:
        held.append(torch.arange(chart.shape[len(index)], device=chart.device))
    return Place(tuple(fixed), tuple(held), None if inside is None else hidden(inside))


def spread(mask: Tensor, like: Tensor) -> Tensor:
    """A mask over cells with an axis for each state axis of what it is applied to."""
    for _ in range(like.dim() - mask.dim()):
        mask = mask.unsqueeze(-1)
    return mask


def take(chart: Tensor, place: Place, zero: float = 0.0) -> Tensor:
    """The cells at a place, `zero` outside the chart."""
    rank = len(place.fixed) + max(len(place.held) - 1, 0)
    if not chart.numel():
        shape = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
            (chart.shape[rank],), *(x.shape for x in place.held)
        )
        return chart.new_full(shape + chart.shape[rank + 1 :], zero)
    for axis, i in place.fixed:
        chart = chart.select(axis, i)
    found = chart[place.held] if place.held else chart
    return hide(found, place.outside, zero, chart.dim() - max(len(place.held), 1))


def give(chart: Tensor, place: Place, gradient: Tensor) -> None:
    """Add to the cells at a place; what falls outside the chart is dropped."""
    if not chart.numel():
        return
    for axis, i in place.fixed:
        chart = chart.select(axis, i)
    if not place.held:
        chart.add_(hide(gradient, place.outside, 0.0, chart.dim() - 1))
        return
    shape = torch.broadcast_shapes(*(x.shape for x in place.held))  # type: ignore[no-untyped-call]
    gradient = gradient.expand(shape + chart.shape[len(place.held) :])
    gradient = hide(gradient, place.outside, 0.0, chart.dim() - len(place.held))
    chart.index_put_(tuple(x.expand(shape) for x in place.held), gradient, accumulate=True)


def dot(left: Tensor, right: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The product entry by entry, summed over some axes."""
    return (left * right).sum(axes)


def dot_(left: Tensor, right: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The same; `left` is used up."""
    return left.mul_(right).sum(axes)


def flat(rows: Tensor) -> Tensor:
    """The vectors of all cells as the rows of a matrix."""
    return rows.reshape(-1, rows.shape[-1])


def times(rows: Tensor, matrix: Tensor) -> Tensor:
    """The vector of each cell times a matrix."""
    found = flat(rows) @ matrix
    return found.view(*rows.shape[:-1], matrix.shape[-1])


def weights(batch: Batch, scale: Tensor, top: Tensor) -> Tensor:
    """What scales are worth relative to a greatest one, in the type of the batch."""
    gaps = scale - top.clamp_min(FLOOR)
    if batch.watched:
        # Of what is not zero, how far the least is below the greatest; the batch is the last axis.
        least = gaps.masked_fill(gaps < FLOOR / 2, 0.0).flatten(0, -2).amin(0)
        batch.note_gap(least.expand(batch.size))
    return gaps.exp_().to(batch.dtype)


TINY = {dtype: torch.finfo(dtype).tiny for dtype in (torch.float32, torch.float64)}


class Room(NamedTuple):
    """How many powers of two of a type's range are for what.

    `least` is the exponent of the smallest normal number. The greatest values of the operands of a
    product share `values`. Gradients are `slopes` powers greater than the cells' values are, and
    stay accurate if no cell is more than `fall` powers below what it is computed from. In a lifted
    pass no entry of a factor is more than `entry` powers below the factor's greatest.
    """

    least: int
    values: int
    slopes: int
    fall: int
    entry: int


ROOM = {
    torch.float32: Room(-126, 100, 20, 82, 40),
    torch.float64: Room(-1022, 800, 100, 1000, 250),
}


def tops(new: Tensor, rank: int) -> Tensor:
    """The greatest value of each cell."""
    if new.dim() == rank:
        return new
    return new.flatten(rank).amax(-1) if new.dim() > rank + 1 else new.amax(-1)


def put(
    batch: Batch, depth: int, values: Tensor, scales: Tensor, new: Tensor, scale: Tensor | None
) -> None:
    """Write cells: the greatest value of each goes into its scale.

    `depth` is how many charts with states the new values are products of. A cell of zeros has the
    scale -inf.
    """
    rank = scales.dim()
    if batch.lift is not None:
        new = batch.lift.rest(new, new.dim() - rank, batch, depth)
    top = new.amax(-1) if new.dim() == rank + 1 else new.flatten(rank).amax(-1)
    batch.tops.append((depth, top, scale))
    unit = top * (1 / batch.up)
    # Where `up` is not made up for by charts, the logarithm is large: it needs more digits.
    logs = unit.log() if depth else unit.double().log()
    if scale is None:
        scales.copy_(logs)
    else:
        torch.add(logs, scale, out=scales)
    torch.div(new, spread(unit.clamp_min(TINY[new.dtype]), new), out=values)
    if batch.lift is not None:
        batch.lift.raise_(values)


def put_more(
    batch: Batch, depth: int, values: Tensor, scales: Tensor, new: Tensor, scale: Tensor | None
) -> None:
    """Add to cells that other rules may have filled."""
    terms = [(values, scales), (new, scale)]
    put(batch, depth, values, scales, *total(batch, terms, scales.dim()))


Term = tuple[Tensor, "Tensor | None"]


def total(batch: Batch, terms: list[Term], rank: int) -> Term:
    """The sum of several values with scales."""
    if len(terms) == 1:
        return terms[0]
    shares, top = shares_of(batch, terms, rank)
    new = terms[0][0] * shares[0]
    for (values, _), share in zip(terms[1:], shares[1:], strict=True):
        new.addcmul_(values, share)
    return new, top


def shares_of(batch: Batch, terms: list[Term], rank: int) -> tuple[tuple[Tensor, ...], Tensor]:
    """What each term's scale is worth relative to the greatest of them, and that one."""
    like = terms[0][0]
    shape = like.shape[:rank]
    zero = like.new_zeros(shape, dtype=torch.float64)
    scales = torch.stack([zero if e is None else e.expand(shape) for _, e in terms])
    top = scales.amax(0)
    found = weights(batch, scales, top)
    return spread(found, like.unsqueeze(0)).unbind(), top


def log_total(terms: list[Tensor]) -> Tensor:
    """The logarithm of a sum, of logarithms."""
    found = terms[0]
    for e in terms[1:]:
        found = torch.logaddexp(found, e)
    return found


def log_of(batch: Batch, depth: int, new: Tensor, scale: Tensor | None) -> Tensor:
    """The logarithm of scaled numbers, products of the values of `depth` charts, `[…, batch]`."""
    if batch.lift is not None:
        new = batch.lift.rest(new, 0, batch, depth)
    batch.tops.append((depth, new, scale))
    found = new.to(torch.float64).log()
    return found if scale is None else found + scale


def tokens_of(tokens: Tensor, size: int, missing: bool) -> Tensor:
    """Tokens as rows of an extended table, or held inside it where none is missing."""
    return tokens.remainder(size + 2) if missing else tokens.clamp(min=0)


def extended(source: Tensor, axis: int) -> Tensor:
    """A factor with two more entries on an axis: for impossible (-2) and missing (-1) tokens."""
    total = source.sum(axis, keepdim=True)
    return torch.cat([source, torch.zeros_like(total), total], axis)


def gather(
    source: Tensor,
    tokens: list[tuple[int, Tensor]],
    missing: bool,
    groups: tuple[int, ...] = (),
) -> Tensor:
    """The entries of a factor at tokens, `[*indices of all groups, batch, *other axes]`.

    Each token tensor is `[*indices, batch]`; -1 sums over an axis, -2 gives zero. Tokens of one
    group have their indices in common; without groups, each has its own.
    """
    groups = groups or tuple(range(len(tokens)))
    ranks = {group: found.dim() - 1 for group, (_, found) in zip(groups, tokens, strict=True)}
    own: dict[int, Tensor] = {}
    impossible = None
    for group, (axis, found) in zip(groups, tokens, strict=True):
        before = sum(rank for other, rank in ranks.items() if other < group)
        after = sum(rank for other, rank in ranks.items() if other > group)
        shape = (1,) * before + tuple(found.shape[:-1]) + (1,) * after + (found.shape[-1],)
        zero = (found == -2).reshape(shape)
        impossible = zero if impossible is None else impossible | zero
        own[axis] = tokens_of(found, source.shape[axis], missing).reshape(shape)
    if missing:
        for axis in own:
            source = extended(source, axis)
    last = max(own)
    if last == source.dim() - 1:
        # Rows would be single numbers: what is gathered comes first, in a copy.
        source = source.movedim(list(own), list(range(len(own))))
        own = dict(enumerate(own.values()))
        last = len(own) - 1
    # A row is what lies behind the last gathered axis; axes before it are read value by value.
    between = [axis for axis in range(last) if axis not in own]
    rows: Tensor | None = None
    for axis in range(last + 1):
        size = source.shape[axis]
        if axis in own:
            here = own[axis].reshape(own[axis].shape + (1,) * len(between))
        else:
            inner = [size if other == axis else 1 for other in between]
            here = torch.arange(size, device=source.device).reshape(inner)
        rows = here if rows is None else rows * size + here
    assert rows is not None and impossible is not None
    states = source.shape[last + 1 :]
    flat = source.reshape(-1, max(states.numel(), 1))
    found = torch.nn.functional.embedding(rows, flat).reshape(rows.shape + states)
    return found if missing else found.masked_fill_(spread(impossible, found), 0.0)


def shifted(tokens: Tensor, shifts: tuple[int, ...]) -> Tensor:
    """Tokens some positions further, impossible where there are none."""
    for axis, shift in enumerate(shifts):
        if shift:
            size = tokens.shape[axis]
            place = torch.arange(size, device=tokens.device) + shift
            shape = [-1 if other == axis else 1 for other in range(tokens.dim())]
            beyond = ((place < 0) | (place >= size)).reshape(shape)
            moved = tokens.index_select(axis, place.clamp(min=0).clamp(max=size - 1))
            tokens = moved.masked_fill(beyond, -2)
    return tokens


def mapped(tokens: Tensor, values: Sequence[int]) -> Tensor:
    """The blocks of tokens; what is missing or impossible stays so."""
    blocks = torch.tensor(values, device=tokens.device)
    return torch.where(tokens < 0, tokens, blocks[tokens.clamp(min=0)])


def known(name: str, tokens: Tensor | None) -> None:
    """Refuse missing tokens where rules read them twice or through a map."""
    if tokens is None or bool((tokens == -1).any()):
        raise ValueError(
            f"tokens of {name!r} are missing, and this program takes them as known; "
            "compile it with `--missing` to sum them out"
        )


def indicator(
    values: Sequence[int], blocks: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A map as a factor: 1 for the block of each value."""
    found = torch.tensor(values, device=device).unsqueeze(-1)
    return (found == torch.arange(blocks, device=device)).to(dtype)


def part_of(tokens: Tensor, offset: int, size: int, stride: int, period: int) -> Tensor:
    """Tokens of a part of a union or a component of a product; impossible in another part."""
    inner = tokens // stride % period - offset
    inner = torch.where((inner >= 0) & (inner < size), inner, -2)
    return torch.where(tokens < 0, tokens, inner)


def one_hot(tokens: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Evidence as weights: one for a token, all for a missing one, none for an impossible one."""
    values = torch.arange(size, device=tokens.device)
    known = tokens.unsqueeze(-1) == values
    return (known | (tokens == -1).unsqueeze(-1)).to(dtype)


def potentials(batch: Batch, logs: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Log-potentials `[batch, *indices, *states]` as values and scales, indices first."""
    logs = logs.movedim(0, rank)
    # A copy of its own: views of it are taken from the beginning of its storage.
    scale = (
        tops(logs, rank + 1).detach().to(torch.float64).clone(memory_format=torch.contiguous_format)
    )
    safe = scale.masked_fill(scale == NEGATIVE, 0.0).to(logs.dtype)
    found = (logs - spread(safe, logs)).exp().to(batch.dtype)
    if logs.dim() > rank + 1:
        lost = (found.detach() < TINY[batch.dtype]) & (logs.detach() > NEGATIVE)
        batch.lost.append(lost.movedim(rank, -1).flatten(0, -2).any(0))
    return found, scale


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
    tops: dict[int, list[Tensor]] = {}
    for depth, top, _ in batch.tops:
        tops.setdefault(depth, []).append(top if top.dim() < 3 else top.flatten(0, -2))
    # First with one number for all items, which is quick, and mostly enough.
    ends = []
    for some in tops.values() if not batch.told_falls else ():
        every = torch.cat([top if top.dim() == 1 else top.flatten() for top in some])
        ends += [every.masked_fill(every == 0, inf).amin(), every.amax()]
    ends += [torch.stack(gaps).amin()] if gaps else []
    known = torch.stack([end.double() for end in ends]).tolist() if ends else []
    gap = known.pop() / log(2) if gaps else 0.0
    pairs = dict(zip(tops, zip(known[::2], known[1::2], strict=True), strict=False))
    falls = {
        depth: (log2(low) if low > 0 else nan, log2(high) if 0 < high < inf else nan)
        for depth, (low, high) in (batch.told_falls or pairs).items()
    }
    if holds(products, powers.of_all(), gap, falls, batch, Bounds(min, max)):
        return safe
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


def is_lower_bound(batch: Batch) -> Tensor:
    """Whether a pass can only have lost, so that its log Z is a lower bound, for each item.

    A sum of which the greatest value is too small to be divided by is not what it seems.
    """
    least = ROOM[batch.dtype].least + log2(batch.up) + 4
    bound = torch.ones(batch.size, dtype=torch.bool, device=batch.device)
    for _, top, _ in batch.tops:
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


def inverse(scales: Tensor) -> Tensor:
    """Scales to divide by: a cell of zeros passes nothing on."""
    return scales.masked_fill(scales == NEGATIVE, float("inf"))


LIMIT = {torch.float32: 85.0, torch.float64: 706.0}


def ratio(scale: Tensor | None, head: Tensor, dtype: torch.dtype) -> Tensor:
    """What a term's scale is worth relative to its cell's.

    It is great only where the term's own factors are zero or nearly so: a number it must be, or
    nothing times it is none.
    """
    found = -head if scale is None else scale - head
    return found.clamp_max_(LIMIT[dtype]).exp_().to(dtype)


def ratios(scales: Tensor, heads: Tensor, shift: int, dtype: torch.dtype) -> Tensor:
    """What scales are worth relative to the heads `shift` cells before them, for all cells."""
    first = max(0, -shift)
    count = max(0, min(heads.shape[0], scales.shape[0] - shift) - first)
    if not count:
        return heads.new_zeros((0, *heads.shape[1:]), dtype=dtype)
    return ratio(scales.narrow(0, first + shift, count), heads.narrow(0, first, count), dtype)


class Batch:
    """What a batch is like: its size, its lengths, the tables that indices look up."""

    levels: Any = range  # whoever shows progress sets it to a range that counts

    def __init__(
        self,
        size: int,
        lengths: dict[str, list[int]],
        tables: dict[str, Tensor],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.size = size
        self.lengths = lengths
        self.low = {name: min(values) for name, values in lengths.items()}
        self.high = {name: max(values) for name, values in lengths.items()}
        self.mixed = any(self.low[name] != self.high[name] for name in lengths)
        # [batch], and tables as [*indices, batch].
        self.item = {name: torch.tensor(v, device=device) for name, v in lengths.items()}
        self.tables = {name: table.movedim(0, -1) for name, table in tables.items()}
        self.dtype = dtype
        self.device = device
        self.made: dict[tuple[int, ...], Any] = {}
        self.spare = False
        self.spares: dict[str, Tensor] = {}
        # How great the greatest value of a cell is, and how much greater gradients are than they
        # would be: powers of two.
        self.up = 1.0
        self.slope = 1.0
        # What is prepared from weights, and the least and greatest entry of each leaf.
        self.parts: dict[str, Tensor] = {}
        self.ends: dict[str, tuple[float, float]] = {}
        # What tells whether numbers became too small: the greatest values of all cells that were
        # computed, how far terms of a sum are apart, which items lost log-potentials. An engine may
        # tell the least positive values of charts, and the ends of those greatest values, itself.
        self.watched = False
        self.told: dict[str, float] = {}
        self.told_falls: dict[int, tuple[float, float]] = {}
        self.tops: list[tuple[int, Tensor, Tensor | None]] = []
        self.gaps: list[Tensor] = []
        self.lost: list[Tensor] = []
        self.lift: Lift | None = None
        # Of which items it is known that nothing was lost.
        self.safe = torch.ones(size, dtype=torch.bool, device=device)

    def note_gap(self, gap: Tensor) -> None:
        """Keep how far the terms of a sum are apart, `[batch]`, in nats."""
        if self.lift is None:
            self.gaps.append(gap)
        else:
            lost = gap < self.lift.gap
            self.lift.lost = lost if self.lift.lost is None else self.lift.lost | lost

    def begin(self) -> None:
        """Forget what an earlier pass kept."""
        self.tops.clear()
        self.gaps.clear()
        self.told = {}
        self.told_falls = {}

    def has_dead_cells(self) -> bool:
        """Whether any cell that was computed is zero."""
        return any(
            bool(((top == 0) if scale is None else (top == 0) & (scale > NEGATIVE)).any())
            for _, top, scale in self.tops
        )

    def values(
        self, extents: tuple[int, ...], states: tuple[int, ...], half: str | None = None
    ) -> Tensor:
        """A chart of zeros; one that is `half` empty leaves room for its adjoint, if it is wanted.

        A cell (i, j) with i <= j has its adjoint at (j + 1, i).
        """
        sizes = tuple(max(x, 0) for x in extents)
        if half is None or not self.spare:
            shape = (*sizes, self.size, *states)
            return torch.zeros(shape, dtype=self.dtype, device=self.device)
        rows, columns = sizes
        square = (max(rows, columns + 1), max(rows, columns), self.size, *states)
        whole = torch.zeros(square, dtype=self.dtype, device=self.device)
        self.spares[half] = whole[1 : columns + 1, :rows].transpose(0, 1)
        return whole[:rows, :columns]

    def settled(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """Gradients of leaves as great as they are; they were computed greater."""
        for gradient in gradients.values():
            gradient.mul_(1 / self.slope)
        return gradients

    def marginal(self, adjoint: Tensor, values: Tensor | None = None) -> Tensor:
        """How often cells and states are used, from their adjoints; a scalar has no values."""
        flow = adjoint if values is None else adjoint * values
        return flow * (1 / self.slope)

    def adjoint(self, values: Tensor, name: str) -> Tensor:
        """Zeros like a chart: in the room that it left, the first time."""
        found = self.spares.pop(name, None)
        return torch.zeros_like(values) if found is None else found

    def scales(self, extents: tuple[int, ...]) -> Tensor:
        """The scales of a chart of zeros."""
        shape = (*(max(x, 0) for x in extents), self.size)
        return torch.full(shape, NEGATIVE, dtype=torch.float64, device=self.device)

    def arange(self, first: int, count: int, place: int, rank: int) -> Tensor:
        """The values of a loop variable, as axis `place` of index tensors with `rank` axes."""
        shape = [1] * rank
        shape[place] = count
        return torch.arange(first, first + count, device=self.device).view(shape)

    def look_up(self, name: str, index: tuple[Tensor | int, ...]) -> Tensor:
        """The entries of a table, `OUTSIDE` where there are none."""
        table = self.tables[name]
        return take(table, cells_at(table, index), OUTSIDE)

    def kept(self, key: tuple[int, ...], make: Callable[[], Any]) -> Any:
        """What a key stands for, made once: index tensors and masks serve inside and outside."""
        if key not in self.made:
            if len(self.made) >= KEPT:
                self.made.clear()
            self.made[key] = make()
        return self.made[key]


OUTSIDE = -(2**40)
KEPT = 1024
"""How many index tensors and masks are kept at most: each is as large as a level."""


class Inside(torch.autograd.Function):
    """log Z as a function of the leaves of a program; its derivative is the outside program."""

    @staticmethod
    def forward(ctx, program, names, scales, batch, *leaves):  # type: ignore[no-untyped-def]
        """Run the inside program; its charts are kept for the outside."""
        found = dict(zip(names, leaves, strict=True))
        batch.spare = any(leaf.requires_grad for leaf in leaves)
        centre(batch, found, program.DEPTH, {})
        values, charts = program.inside(found, scales, batch)
        result = program.result(charts, batch)
        powers = Powers(program.STORED, found, values, charts, batch)
        batch.safe = lossless(program.PRODUCTS, powers, batch) & (result < inf)
        ctx.program, ctx.names, ctx.scales, ctx.batch = program, names, scales, batch
        ctx.charts = charts
        ctx.values = values
        ctx.save_for_backward(*leaves)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        """Run the outside program."""
        leaves = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        found, _ = ctx.program.outside(
            leaves, ctx.scales, ctx.values, ctx.charts, ctx.batch, gradient
        )
        if not all(bool(torch.isfinite(slope.sum())) for slope in found.values()):
            raise ArithmeticError(f"a derivative is too large for {ctx.batch.dtype}")
        return None, None, None, None, *(found.get(name) for name in ctx.names)


def undiagonal(values: Tensor, rank: int, order: tuple[int, ...]) -> Tensor:
    """Values over distinct nodes as values over the places of an edge that repeats some.

    `order` names the node at each place; what is off the diagonal is zero.
    """
    shape = tuple(values.shape[:rank]) + tuple(values.shape[rank + i] for i in order)
    whole = values.new_zeros(shape)
    place = whole
    places = list(order)
    while len(set(places)) < len(places):
        first = next(i for i, a in enumerate(places) if a in places[i + 1 :])
        second = places.index(places[first], first + 1)
        place = place.diagonal(0, rank + first, rank + second)
        places = [a for i, a in enumerate(places) if i not in (first, second)] + [places[first]]
    back = [places.index(i) for i in range(len(places))]
    place.permute(*range(rank), *(rank + i for i in back)).copy_(values)
    return whole
