"""Named tensors as exported programs compute with them.

Everything here is traced with symbolic sizes, so nothing asks whether an extent is one or zero:
an answer would hold for the example's sizes only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from fgg.runtime.interpret.algebra import Algebra, Named
from fgg.runtime.interpret.semirings.real import Real

Value = Named[Tensor]


class TracedAlgebra(Algebra[Tensor]):
    """Real numbers, by operations that have one form for all sizes."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(Real(dtype))

    def fit(self, x: Value, dims: tuple[str, ...], sizes: Mapping[str, int]) -> Tensor:
        """The tensor with exactly these axes, repeated along those it lacks."""
        known = x.sizes
        return aligned(x, dims).expand([known[d] if d in known else sizes[d] for d in dims])

    def product(self, x: Value, y: Value, keep: Collection[str]) -> Value:
        """The product of two tensors that both have the axes to be summed."""
        inner = tuple(d for d in x.dims if d in y.dims and d not in keep)
        shared = tuple(d for d in x.dims if d in y.dims and d in keep)
        rows = tuple(d for d in x.dims if d not in y.dims)
        columns = tuple(d for d in y.dims if d not in x.dims)
        dims = (*shared, *rows, *columns)
        if not (inner and rows and columns):
            # What has no rows or no columns is no matrix product: it is fused with what made it.
            product = aligned(x, (*dims, *inner)) * aligned(y, (*dims, *inner))
            axes = tuple(range(len(dims), len(dims) + len(inner)))
            return Named(product.sum(axes) if axes else product, dims)
        left = _grouped(aligned(x, (*shared, *rows, *inner)), (shared, rows, inner))
        right = _grouped(aligned(y, (*shared, *inner, *columns)), (shared, inner, columns))
        sizes = {**x.sizes, **y.sizes}
        return Named((left @ right).reshape([sizes[d] for d in dims]), dims)


def aligned(value: Value, dims: Sequence[str]) -> Tensor:
    """The tensor with its axes in the order of `dims`, of length one where it has none."""
    order = [value.dims.index(d) for d in dims if d in value.dims]
    assert len(order) == len(value.dims), (value.dims, dims)
    tensor = value.array
    if order != sorted(order):
        tensor = tensor.permute(order)
    for place, d in enumerate(dims):
        if d not in value.dims:
            tensor = tensor.unsqueeze(place)
    return tensor


def _grouped(tensor: Tensor, groups: tuple[tuple[str, ...], ...]) -> Tensor:
    """A tensor as a batch of matrices, or one matrix: each group of axes becomes one."""
    if max(map(len, groups)) > 1:
        tensor = packed(tensor)
    place = 0
    for group in groups:
        if group:
            tensor = tensor.flatten(place, place + len(group) - 1)
            place += 1
    return tensor


def packed(tensor: Tensor) -> Tensor:
    """A copy in the order of its axes: joining these asks nothing about strides."""
    return tensor.clone(memory_format=torch.contiguous_format)
