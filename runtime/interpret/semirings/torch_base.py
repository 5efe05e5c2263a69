"""Semirings on torch tensors, through which gradients flow."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.runtime.interpret.semirings.base import Letters


class TensorSemiring:
    """What the semirings on tensors share."""

    name = "tensor"
    exactly = False
    zero = 0.0
    one = 1.0

    def __init__(self, dtype: torch.dtype = torch.float64, device: str = "cpu") -> None:
        self.dtype = dtype
        self.device = device

    def real(self, weights: Any) -> Tensor:
        """Real weights as a tensor; tensors keep their gradients."""
        if isinstance(weights, Tensor):
            return weights.to(dtype=self.dtype, device=self.device)
        return torch.as_tensor(
            np.asarray(weights, dtype=float), dtype=self.dtype, device=self.device
        )

    def full(self, shape: Sequence[int], *, one: bool) -> Tensor:
        """An array of ones or of zeros."""
        fill = self.one if one else self.zero
        return torch.full(tuple(shape), fill, dtype=self.dtype, device=self.device)

    def stack(self, arrays: Sequence[Tensor]) -> Tensor:
        """The arrays along a new first axis."""
        return torch.stack(list(arrays))

    def concatenate(self, arrays: Sequence[Tensor]) -> Tensor:
        """The arrays along their first axis."""
        return arrays[0] if len(arrays) == 1 else torch.cat(list(arrays))

    def take(self, array: Tensor, rows: Sequence[int], axis: int = 0) -> Tensor:
        """The given rows of an array."""
        if len(rows) and len(rows) == array.shape[axis] and list(rows) == list(range(len(rows))):
            return array
        return array.index_select(axis, torch.as_tensor(list(rows), device=array.device))

    def permute(self, array: Tensor, axes: Sequence[int]) -> Tensor:
        """The array with its axes in another order."""
        return array.permute(tuple(axes))

    def expand(self, array: Tensor, shape: Sequence[int]) -> Tensor:
        """The array broadcast to a shape."""
        return array.expand(tuple(shape))

    def nonzero(self, array: Tensor) -> NDArray[np.bool_]:
        """Where an array is not the semiring's zero."""
        found: NDArray[np.bool_] = (array.detach() != self.zero).cpu().numpy()
        return found


def einsum(x: Tensor, xs: Letters, y: Tensor, ys: Letters, out: Letters) -> Tensor:
    """The real contraction of two tensors whose axes have letters."""
    names = {letter: ascii_letters[i] for i, letter in enumerate(dict.fromkeys((*xs, *ys)))}
    left, right, result = ("".join(names[a] for a in axes) for axes in (xs, ys, out))
    return torch.einsum(f"{left},{right}->{result}", x, y)
