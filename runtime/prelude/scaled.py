"""Scaled numbers: `values · exp(scale)`, one scale for each cell.

The greatest value of a cell is `batch.up`, a power of two; its scale is in float64. Sums and
products of values are plain linear algebra. Only scales are added, compared and exponentiated, one
a cell. A cell of zeros has the scale -inf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from fgg.runtime.prelude.cells import NEGATIVE, Cells, spread

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch

FLOOR = -1e300
"""Below every scale but that of zero; finite, so that differences are numbers."""


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


LIMIT = {torch.float32: 85.0, torch.float64: 706.0}


def weigh(batch: Batch, scale: Tensor, top: Tensor) -> Tensor:
    """What scales are worth relative to a greatest one, in the type of the batch."""
    gaps = scale - top.clamp_min(FLOOR)
    if batch.watched:
        # Of what is not zero, how far the least is below the greatest; the batch is the last axis.
        least = gaps.masked_fill(gaps < FLOOR / 2, 0.0).flatten(0, -2).amin(0)
        batch.note_gap(least.expand(batch.size))
    return gaps.exp_().to(batch.dtype)


def tops(new: Tensor, rank: int) -> Tensor:
    """The greatest value of each cell."""
    if new.dim() == rank:
        return new
    return new.flatten(rank).amax(-1) if new.dim() > rank + 1 else new.amax(-1)


Term = tuple[Tensor, "Tensor | None"]


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
    found = weigh(batch, scales, top)
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


def inverse(scales: Tensor) -> Tensor:
    """Scales to divide by: a cell of zeros passes nothing on."""
    return scales.masked_fill(scales == NEGATIVE, float("inf"))


def ratio(scale: Tensor | None, head: Tensor, dtype: torch.dtype) -> Tensor:
    """What a term's scale is worth relative to its cell's.

    It is great only where the term's own factors are zero or nearly so: a number it must be, or
    nothing times it is none.
    """
    found = -head if scale is None else scale - head
    return found.clamp_max_(LIMIT[dtype]).exp_().to(dtype)


def ratios(scales: Cells, heads: Cells, shift: int) -> Cells:
    """What a chain's scales are worth relative to the heads `shift` cells before them, at once."""
    batch = heads.batch
    low = max(heads.low[0], scales.low[0] - shift)
    high = min(heads.low[0] + heads.all.shape[0], scales.low[0] + scales.all.shape[0] - shift)
    count = max(high - low, 0)
    terms = scales.all.narrow(0, low + shift - scales.low[0] if count else 0, count)
    tops = heads.all.narrow(0, low - heads.low[0] if count else 0, count)
    return Cells(ratio(terms, tops, batch.dtype), (low,), batch)


def shares(batch: Batch, scale: Tensor, axes: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """What scales are worth beside the greatest along some axes, and that one."""
    top = scale.amax(axes, keepdim=True)
    return weigh(batch, scale, top), top.squeeze(axes)


def dot(left: Tensor, right: Tensor, axes: int | tuple[int, ...]) -> Tensor:
    """The product entry by entry, summed over some axes."""
    return (left * right).sum(axes)


def dot_(left: Tensor, right: Tensor, axes: int | tuple[int, ...]) -> Tensor:
    """The same; `left` is used up."""
    return left.mul_(right).sum(axes)


def flat(rows: Tensor) -> Tensor:
    """The vectors of all cells as the rows of a matrix."""
    return rows.reshape(-1, rows.shape[-1])


def times(rows: Tensor, matrix: Tensor) -> Tensor:
    """The vector of each cell times a matrix."""
    found = flat(rows) @ matrix
    return found.view(*rows.shape[:-1], matrix.shape[-1])
