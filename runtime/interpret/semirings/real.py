"""The real numbers: sums of products as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fgg.runtime.interpret.semirings.base import Letters
from fgg.runtime.interpret.semirings.torch_base import TensorSemiring, einsum


class Real(TensorSemiring):
    """([0, inf), +, *)."""

    name = "real"

    def convert(self, weights: Any) -> Tensor:
        """The weights themselves."""
        return self.real(weights)

    def convert_logs(self, logs: Any) -> Tensor:
        """The exponentials."""
        return self.real(logs).exp()

    def contract(self, x: Tensor, xs: Letters, y: Tensor, ys: Letters, out: Letters) -> Tensor:
        """The product of two arrays, summed over the letters that `out` does not have."""
        return einsum(x, xs, y, ys, out)

    def reduce(self, array: Tensor, axes: tuple[int, ...]) -> Tensor:
        """The sum over some axes."""
        return array.sum(dim=axes) if axes else array

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int], Tensor]], shape: Sequence[int]
    ) -> Tensor:
        """An array of the given shape whose row r is the sum of all entries for row r."""
        total = self.full(shape, one=False)
        for rows, values in parts:
            places = torch.as_tensor(np.asarray(rows), device=values.device)
            total = total.index_add(0, places, values)
        return total
