"""What programs in Triton are built on: cells by index, scaled numbers, the range certificate.

Stored tensors are handed to a kernel as tuples: the pointer, where the cell with indices zero would
be, the strides of the indices and of the items, and the ends of the indices.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fgg.runtime.prelude.scaled import FLOOR

NOTHING: tl.constexpr = tl.constexpr(float("-inf"))
LEAST: tl.constexpr = tl.constexpr(FLOOR)


def at(cells):
    """The cells of a chart or a table, as kernels take them."""
    tensor, low = cells.all, cells.low
    rank = len(low)
    if tensor.numel() and not tensor[(0,) * rank].is_contiguous():
        tensor = tensor.contiguous()  # a table, whose states are in another order
    strides = tensor.stride()[: rank + 1]
    origin = -sum(first * stride for first, stride in zip(low, strides[:rank], strict=True))
    high = [first + extent - 1 for first, extent in zip(low, tensor.shape[:rank], strict=True)]
    return (tensor, origin, *strides, *low, *high)


def whole(leaf):
    """A parameter, its entries one behind the other."""
    return leaf.detach().contiguous()


def zeros_of(leaf):
    """The gradient of a parameter, zero at first, its entries one behind the other."""
    return torch.zeros_like(leaf, memory_format=torch.contiguous_format)


def blocks(points, each, columns=1, of=1):
    """The grid of a launch: programs with so many points each, and with so many columns."""
    return (triton.cdiv(points, each), triton.cdiv(columns, of))


def room(batch, points, *sizes):
    """A buffer for what one launch computes for another."""
    return torch.empty((points, *sizes), dtype=batch.dtype, device=batch.device)


def element(batch):
    """The type of numbers of a batch."""
    return tl.float64 if batch.dtype == torch.float64 else tl.float32


class Range:
    """What the launches of an inside pass keep for the range certificate, item by item.

    `low` and `high` are the least and the greatest of the greatest values of cells, a row for each
    number of charts in a product; `dead`: a cell is zero; `gap`: how far terms are apart.
    """

    def __init__(self, batch, depths):
        def filled(number, *shape, dtype=batch.dtype):
            return torch.full((*shape, batch.size), number, dtype=dtype, device=batch.device)

        self.batch = batch
        self.low, self.high = filled(float("inf"), depths), filled(0.0, depths)
        self.dead = filled(0, dtype=torch.int32)
        self.gap = filled(0.0, dtype=torch.float64)
        self.up = torch.full((1,), batch.up, dtype=torch.float64, device=batch.device)
        self.all = (self.low, self.high, self.dead, self.gap, self.up)

    def tell(self):
        """Hand everything over to the batch."""
        batch = self.batch
        # Where nothing was computed, the least is infinite and the greatest 0.
        low = self.low.masked_fill_(self.high == 0, 1.0)
        ends = torch.stack([low, torch.maximum(low, self.high)], 1)
        batch.tops += [(depth, both, None) for depth, both in enumerate(ends.unbind())]
        batch.tops.append((0, (self.dead == 0).to(batch.dtype)[None], None))
        if batch.watched:
            batch.note_gap(self.gap)


# ------------------------------------------------------------------------------------ cells


@triton.jit
def step(i, stride):
    """How far an index leads; in 64 bits, as a chart may have more than 2**31 numbers."""
    return tl.cast(i, tl.int64) * stride


@triton.jit
def cell0(X, b):
    """Where the cell of an item is."""
    return X[0] + (X[1] + step(b, X[2]))


@triton.jit
def cell1(X, i, b):
    """Where the cells at one index are."""
    return X[0] + (X[1] + step(i, X[2]) + step(b, X[3]))


@triton.jit
def cell2(X, i, j, b):
    """Where the cells at two indices are."""
    return X[0] + (X[1] + step(i, X[2]) + step(j, X[3]) + step(b, X[4]))


@triton.jit
def cell3(X, i, j, k, b):
    """Where the cells at three indices are."""
    return X[0] + (X[1] + step(i, X[2]) + step(j, X[3]) + step(k, X[4]) + step(b, X[5]))


@triton.jit
def cell4(X, i, j, k, m, b):
    """Where the cells at four indices are."""
    here = X[1] + step(i, X[2]) + step(j, X[3]) + step(k, X[4])
    return X[0] + (here + step(m, X[5]) + step(b, X[6]))


@triton.jit
def add(place, value, mask):
    """Add to what is stored; no other program does so."""
    tl.store(place, tl.load(place, mask, 0.0) + value, mask)


@triton.jit
def within(i, low, high):
    """Whether an index is between two ends; it may be one number for all points."""
    return ((i >= low) & (i <= high)).to(tl.int1)


@triton.jit
def has1(X, i):
    """Whether there are such cells."""
    return within(i, X[4], X[5])


@triton.jit
def has2(X, i, j):
    """Whether there are such cells."""
    return within(i, X[5], X[7]) & within(j, X[6], X[8])


@triton.jit
def has3(X, i, j, k):
    """Whether there are such cells."""
    return within(i, X[6], X[9]) & within(j, X[7], X[10]) & within(k, X[8], X[11])


@triton.jit
def has4(X, i, j, k, m):
    """Whether there are such cells."""
    return has4_first(X, i, j) & within(k, X[9], X[13]) & within(m, X[10], X[14])


@triton.jit
def has4_first(X, i, j):
    """The same of the first two indices."""
    return within(i, X[7], X[11]) & within(j, X[8], X[12])


# ------------------------------------------------------------------------------------ numbers


@triton.jit
def worth(scale, top, T: tl.constexpr):
    """What a scale is worth beside the greatest one."""
    return tl.exp((scale - tl.maximum(top, LEAST)).to(T))


@triton.jit
def relative(scale, head, T: tl.constexpr):
    """What a term's scale is worth beside its cell's; a cell of zeros passes nothing on."""
    limit = 85.0
    if T == tl.float64:
        limit = 706.0
    gap = tl.where(head > NOTHING, tl.minimum(scale - head, limit), NOTHING)
    return tl.exp(gap.to(T))


@triton.jit
def log_add(one, two):
    """The logarithm of a sum, of logarithms."""
    top = tl.maximum(tl.maximum(one, two), LEAST)
    return tl.log(tl.exp(one - top) + tl.exp(two - top)) + top


@triton.jit
def number(value):
    """A value; what is none, or too large, is infinite."""
    return tl.where(value < float("inf"), value, float("inf"))


# -------------------------------------------------------------------------- range certificate


@triton.jit
def apart(gap, scale, top):
    """How far terms are apart, with one more."""
    return tl.minimum(gap, tl.where(scale > NOTHING, scale - top, 0.0))


@triton.jit
def note(R, depth, B, b, top, scale, there):
    """Keep the greatest value of each cell."""
    place = depth * B + b
    tl.atomic_min(R[0] + place, top, there & (top > 0))
    tl.atomic_max(R[1] + place, top, there)
    tl.atomic_max(R[2] + b, 1, there & (top == 0) & (scale > NOTHING))


@triton.jit
def scale_of(R, top, scale):
    """The scale of cells whose greatest value becomes `up`."""
    unit = top.to(tl.float64) / tl.load(R[4])
    return tl.where((top > 0) & (scale > NOTHING), tl.log(unit) + scale, NOTHING)


@triton.jit
def unit_of(R, top, scale, T: tl.constexpr):
    """What to divide values by, so that the greatest becomes `up`; infinite where it is zero."""
    unit = top.to(tl.float64) / tl.load(R[4])
    if T == tl.float32:
        unit = tl.maximum(unit, 1.1754944e-38)
    return tl.where((top > 0) & (scale > NOTHING), unit, float("inf")).to(T)
