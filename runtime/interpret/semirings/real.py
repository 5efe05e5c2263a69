"""Semirings on torch tensors, through which gradients flow; and the real numbers, the simplest."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import numpy as np
import torch
from torch import Tensor

from fgg.runtime.interpret.semirings.base import Bools, Indices, Letters, Numbers


class TensorSemiring:
    """The operations that the semirings on tensors share."""

    name = "tensor"
    exactly = False
    on_tensors = True
    zero = 0.0
    one = 1.0

    def __init__(self, dtype: torch.dtype = torch.float64, device: str = "cpu") -> None:
        self.dtype = dtype
        self.device = device

    def real(self, weights: Numbers) -> Tensor:
        """Real weights as a tensor; tensors keep their gradients."""
        if isinstance(weights, Tensor):
            return weights.to(dtype=self.dtype, device=self.device)
        return torch.as_tensor(
            np.asarray(weights, dtype=float), dtype=self.dtype, device=self.device
        )

    def full(self, shape: Sequence[int], *, one: bool) -> Tensor:
        """A tensor of ones or of zeros."""
        fill = self.one if one else self.zero
        return torch.full(tuple(shape), fill, dtype=self.dtype, device=self.device)

    def stack(self, arrays: Sequence[Tensor]) -> Tensor:
        """The tensors along a new first axis."""
        return torch.stack(list(arrays))

    def concatenate(self, arrays: Sequence[Tensor]) -> Tensor:
        """The tensors along their first axis."""
        return arrays[0] if len(arrays) == 1 else torch.cat(list(arrays))

    def take(self, array: Tensor, rows: Sequence[int] | Indices, axis: int = 0) -> Tensor:
        """The given rows of a tensor."""
        places = np.asarray(rows, dtype=np.int64)
        count = len(places)
        if count and count == array.shape[axis] and np.array_equal(places, np.arange(count)):
            return array
        return array.index_select(axis, torch.as_tensor(places, device=array.device))

    def put(self, array: Tensor, rows: Indices, values: Tensor) -> Tensor:
        """A new tensor with other rows at some places of its first axis."""
        return array.index_put((torch.tensor(np.array(rows), device=array.device),), values)

    def where(self, mask: Bools, array: Tensor) -> Tensor:
        """The tensor, with zeros where a mask that broadcasts to its shape is false."""
        held = torch.tensor(np.array(mask), device=array.device)
        return torch.where(held, array, self.full((), one=False))

    def permute(self, array: Tensor, axes: Sequence[int]) -> Tensor:
        """The tensor with its axes in another order."""
        return array.permute(tuple(axes))

    def expand(self, array: Tensor, shape: Sequence[int]) -> Tensor:
        """The tensor broadcast to a shape."""
        return array.expand(tuple(shape))

    def nonzero(self, array: Tensor) -> Bools:
        """Where a tensor differs from the semiring's zero."""
        mask: Bools = (array.detach() != self.zero).cpu().numpy()
        return mask


class Real(TensorSemiring):
    """([0, inf), +, *)."""

    name = "real"

    def convert(self, weights: Numbers) -> Tensor:
        """The weights themselves."""
        return self.real(weights)

    def convert_logs(self, logs: Numbers) -> Tensor:
        """The exponentials."""
        return self.real(logs).exp()

    def contract(self, x: Tensor, xs: Letters, y: Tensor, ys: Letters, out: Letters) -> Tensor:
        """The product of two tensors, summed over the letters that `out` lacks."""
        return einsum(x, xs, y, ys, out)

    def reduce(self, array: Tensor, axes: tuple[int, ...]) -> Tensor:
        """The sum over some axes."""
        return array.sum(dim=axes) if axes else array

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int] | Indices, Tensor]], shape: Sequence[int]
    ) -> Tensor:
        """A tensor of the given shape whose row r is the sum of all entries for row r."""
        total = self.full(shape, one=False)
        for rows, values in parts:
            places = torch.as_tensor(np.asarray(rows), device=values.device)
            total = total.index_add(0, places, values)
        return total


def einsum(x: Tensor, xs: Letters, y: Tensor, ys: Letters, out: Letters) -> Tensor:
    """The real contraction of two tensors whose axes have letters."""
    names = {letter: ascii_letters[i] for i, letter in enumerate(dict.fromkeys((*xs, *ys)))}
    left, right, result = ("".join(names[a] for a in axes) for axes in (xs, ys, out))
    return torch.einsum(f"{left},{right}->{result}", x, y)
