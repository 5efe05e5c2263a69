"""Logarithms of real numbers: the same sums without under- or overflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fgg.runtime.interpret.semirings.base import (
    Indices,
    Letters,
    Numbers,
    Semiring,
    align,
    blockwise,
)
from fgg.runtime.interpret.semirings.real import Real, TensorSemiring, einsum

INFINITY = float("inf")
BATCH = -1
MAX_PRODUCT = 2**24
"""The largest product of arrays, in entries, that is made at a time."""
SAFE_RANGE = 600.0
"""How far, in nats, products may lie below the greatest one before real numbers lose them."""


Operands = list[tuple[Tensor, Letters]]
Pairwise = Callable[[Semiring[Tensor], Operands, Letters, Mapping[int, int]], Tensor]
"""A contraction of many arrays in a semiring, pair by pair: see `reference.contract`."""


class Log(TensorSemiring):
    """(R with -inf, log-sum-exp, +)."""

    name = "log"
    zero = -INFINITY
    one = 0.0

    def convert(self, weights: Numbers) -> Tensor:
        """The logarithms of the weights; the gradient of log 0 is 0."""
        real = self.real(weights)
        positive = real > 0
        return torch.where(positive, torch.where(positive, real, 1.0).log(), self.zero)

    def convert_logs(self, logs: Numbers) -> Tensor:
        """The logarithms themselves."""
        return self.real(logs)

    def contract(self, x: Tensor, xs: Letters, y: Tensor, ys: Letters, out: Letters) -> Tensor:
        """The log of the real contraction.

        Each operand is scaled by its maxima over the summed letters and contracted as real
        numbers; where that loses too much, the sum is done again in logarithms.
        """
        gone = tuple(letter for letter in (*xs, *ys) if letter not in out)
        x_scale, y_scale = _maxima(x, xs, gone), _maxima(y, ys, gone)
        real = einsum((x - x_scale).exp(), xs, (y - y_scale).exp(), ys, out)
        lost = real < 1e-200
        scale = self.kept(x_scale, xs, out) + self.kept(y_scale, ys, out)
        if gone and bool((lost & torch.isfinite(scale)).any()):
            # What is really zero is not lost.
            live = [(a.detach() != self.zero).to(real.dtype) for a in (x, y)]
            if bool((lost & (einsum(live[0], xs, live[1], ys, out) > 0)).any()):
                return blockwise(self, x, xs, y, ys, out, MAX_PRODUCT)
        return torch.where(lost, self.zero, torch.where(lost, 1.0, real).log() + scale)

    def kept(self, scale: Tensor, letters: Letters, out: Letters) -> Tensor:
        """Maxima over the axes of a result; the others have extent 1."""
        gone = tuple(i for i, letter in enumerate(letters) if letter not in out)
        return align(self, scale.squeeze(gone), tuple(a for a in letters if a in out), out)

    def contract_all(
        self,
        operands: Sequence[tuple[Tensor, Letters]],
        out: Letters,
        sizes: Mapping[int, int],
        pairwise: Pairwise,
    ) -> Tensor | None:
        """The contraction of many arrays as real numbers, one scale an array and batch entry.

        None where the arrays' ranges are so large that numbers which count could be lost.
        """
        total_range = 0.0
        real: Operands = []
        scale: Tensor | float = 0.0
        for array, letters in operands:
            batched = bool(letters) and letters[0] == BATCH and BATCH in out
            axes = tuple(range(1 if batched else 0, array.ndim))
            values = array.detach()
            top = values.amax(dim=axes) if axes else values
            top = torch.where(torch.isfinite(top), top, 0.0)
            shaped = top.reshape(-1, *(1,) * (array.ndim - 1)) if batched else top
            # The least finite entry, relative to the greatest.
            low = torch.where(values == self.zero, 0.0, values - shaped)
            total_range += float(low.min()) if low.numel() else 0.0
            if total_range < -SAFE_RANGE:
                return None
            real.append(((array - shaped).exp(), letters))
            if batched:
                top = top.reshape(-1, *(1,) * (len(out) - 1))
            scale = scale + top
        value = pairwise(Real(self.dtype, self.device), real, out, sizes)
        empty = value == 0
        return torch.where(empty, self.zero, torch.where(empty, 1.0, value).log() + scale)

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """The product, entry by entry, with broadcasting."""
        return x + y

    def reduce(self, array: Tensor, axes: tuple[int, ...]) -> Tensor:
        """The log-sum-exp over some axes."""
        if not axes:
            return array
        scale = array.detach().amax(dim=axes, keepdim=True)
        scale = torch.where(torch.isfinite(scale), scale, 0.0)
        real = (array - scale).exp().sum(dim=axes)
        empty = real == 0
        logs = torch.where(empty, 1.0, real).log() + scale.reshape(real.shape)
        return torch.where(empty, self.zero, logs)

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int] | Indices, Tensor]], shape: Sequence[int]
    ) -> Tensor:
        """An array of the given shape whose row r is the log-sum-exp of all entries for row r."""
        scale = self.full(shape, one=False)
        indices = [torch.as_tensor(np.asarray(rows), device=self.device) for rows, _ in parts]
        for rows, (_, values) in zip(indices, parts, strict=True):
            places = rows.reshape(-1, *(1,) * (values.ndim - 1)).expand(values.shape)
            scale = scale.scatter_reduce(0, places, values.detach(), "amax")
        scale = torch.where(torch.isfinite(scale), scale, 0.0)
        total = torch.zeros_like(scale)
        for rows, (_, values) in zip(indices, parts, strict=True):
            total = total.index_add(0, rows, (values - scale[rows]).exp())
        empty = total == 0
        return torch.where(empty, self.zero, torch.where(empty, 1.0, total).log() + scale)


def _maxima(array: Tensor, letters: Letters, gone: Sequence[int]) -> Tensor:
    """The maxima over the summed axes, kept as axes of extent 1; -inf counts as 0."""
    axes = tuple(i for i, letter in enumerate(letters) if letter in gone)
    scale = array.detach()
    if axes:
        scale = scale.amax(dim=axes, keepdim=True)
    return torch.where(torch.isfinite(scale), scale, 0.0)


class LogWeights(Log):
    """The semiring `log`, for weights that are logarithms already."""

    def convert(self, weights: Numbers) -> Tensor:
        """The weights as they are."""
        return self.real(weights)
