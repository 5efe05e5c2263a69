"""Tensors with a name for each axis, as exported programs compute with them.

Everything here is traced with symbolic sizes, so nothing asks whether an extent is one or zero:
an answer would hold for the example's sizes only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fgg.runtime.reference.chart import diagonal as _diagonal

BATCH = "@b"


@dataclass(frozen=True)
class Named:
    """A tensor and the name of each axis."""

    tensor: Tensor
    dims: tuple[str, ...]


def aligned(value: Named, dims: Sequence[str]) -> Tensor:
    """The tensor with its axes in the order of `dims`, of length one where it has none."""
    order = [value.dims.index(d) for d in dims if d in value.dims]
    assert len(order) == len(value.dims), (value.dims, dims)
    tensor = value.tensor
    if order != sorted(order):
        tensor = tensor.permute(order)
    for place, d in enumerate(dims):
        if d not in value.dims:
            tensor = tensor.unsqueeze(place)
    return tensor


def once(value: Named) -> Named:
    """A value with each name once: where one occurs twice, the diagonal."""
    if len(set(value.dims)) == len(value.dims):
        return value
    names = list(dict.fromkeys(value.dims))
    tensor, letters = _diagonal(value.tensor, tuple(names.index(d) for d in value.dims))
    return Named(tensor, tuple(names[letter] for letter in letters))


def summed(value: Named, keep: Collection[str]) -> Named:
    """A value summed to the axes that are kept."""
    gone = [i for i, d in enumerate(value.dims) if d not in keep]
    if not gone:
        return value
    return Named(value.tensor.sum(gone), tuple(d for d in value.dims if d in keep))


def product(left: Named, right: Named, keep: Collection[str]) -> Named:
    """The product of two values, summed over the axes that are not kept."""
    left = summed(left, {*keep, *right.dims})
    right = summed(right, {*keep, *left.dims})
    inner = tuple(d for d in left.dims if d in right.dims and d not in keep)
    shared = tuple(d for d in left.dims if d in right.dims and d in keep)
    rows = tuple(d for d in left.dims if d not in right.dims)
    columns = tuple(d for d in right.dims if d not in left.dims)
    dims = (*shared, *rows, *columns)
    if inner and rows and columns:
        return _matrices(left, right, shared, rows, columns, inner)
    # What has no rows or no columns is no matrix product: it is fused with what made it.
    found = aligned(left, (*dims, *inner)) * aligned(right, (*dims, *inner))
    if inner:
        found = found.sum(tuple(range(len(dims), len(dims) + len(inner))))
    return Named(found, dims)


def _matrices(
    left: Named,
    right: Named,
    shared: tuple[str, ...],
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    inner: tuple[str, ...],
) -> Named:
    one = aligned(left, (*shared, *rows, *inner))
    two = aligned(right, (*shared, *inner, *columns))
    first, last = len(shared), len(shared) + len(rows)
    sizes = (*one.shape[:last], *two.shape[first + len(inner) :])
    one = _grouped(one, (len(shared), len(rows), len(inner)))
    two = _grouped(two, (len(shared), len(inner), len(columns)))
    found = one @ two
    return Named(found.reshape(sizes), (*shared, *rows, *columns))


def _grouped(tensor: Tensor, counts: tuple[int, int, int]) -> Tensor:
    """A tensor as a batch of matrices, or one matrix: so many axes go into each of three."""
    if max(counts) > 1:
        tensor = packed(tensor)
    place = 0
    for count in counts:
        if count:
            tensor = tensor.flatten(place, place + count - 1)
            place += 1
    return tensor


def packed(tensor: Tensor) -> Tensor:
    """A copy in the order of its axes: joining these asks nothing about strides."""
    return tensor.clone(memory_format=torch.contiguous_format)
