"""Factors whose logits are scalar products of vectors: any part of one, without the whole.

A network makes a vector for each row (a value of the left side) and each column (a value of the
right side). The weight of an entry is

    w(i, j)  =  exp(a_i · b_j - s_i),    s_i  =  log Σ_j exp(a_i · b_j),

where the sum is over all columns, or over the columns in the block of j, and then a_i depends on
the block, too. `log_normaliser` computes s_i for some rows at a time and keeps none of the
products: they are computed again for the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from fgg.grammar.slices import SliceStep, take

AT_ONCE = 2**22
"""The most scalar products that are in memory at once while a normaliser is computed."""


class _LogNormaliser(torch.autograd.Function):
    """log Σ_j exp(a_i · b_j) of each row, with the products computed again for the gradient."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        """`[rows]`, of `left` `[rows, dim]` and `right` `[columns, dim]`."""
        sums = left.new_empty(len(left))
        for rows in _pieces(len(left), len(right)):
            sums[rows] = torch.logsumexp(left[rows] @ right.T, -1)
        ctx.save_for_backward(left, right, sums)
        return sums

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of both sides."""
        (gradient,) = gradients
        left, right, sums = ctx.saved_tensors
        by_left, by_right = torch.empty_like(left), torch.zeros_like(right)
        for rows in _pieces(len(left), len(right)):
            shares = (left[rows] @ right.T).sub_(sums[rows, None]).exp_()
            shares *= gradient[rows, None]
            by_left[rows] = shares @ right
            by_right.addmm_(shares.T, left[rows])
        return by_left, by_right


def log_normaliser(left: Tensor, right: Tensor) -> Tensor:
    """log Σ_j exp(a_i · b_j) for each row, `[rows]`; never all products at once."""
    if not len(right):
        return left.new_zeros(len(left))
    sums: Tensor = _LogNormaliser.apply(left, right)  # type: ignore[no-untyped-call]
    return sums


def _pieces(rows: int, columns: int) -> list[slice]:
    step = max(AT_ONCE // max(columns, 1), 1)
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]


class _Known:
    """The normalisers that have been computed, in parts, and the place of each row's."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.parts: list[Tensor] = []
        self.place = torch.full((rows,), -1, device=device)
        self.count = 0


@dataclass(frozen=True, eq=False)
class ScalarProducts:
    """The vectors of a factor: `left`, `[rows, dim]`, and `right`, `[columns, dim]`.

    With `blocks`, the block of each column, `left` is `[blocks, rows, dim]`, and row `i` of block
    `m` has the number `m * rows + i`. A factor that is not `normalised` has weights exp(a · b).
    `known` are the normalisers computed so far, with gradients and without.
    """

    left: Tensor
    right: Tensor
    normalised: bool = True
    blocks: Tensor | None = None
    known: dict[bool, _Known] = field(default_factory=dict)

    @property
    def rows(self) -> Tensor:
        """The vectors of all rows, `[rows, dim]`, those of all blocks one after the other."""
        return self.left.flatten(0, -2)

    def weights(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The weights of some rows and columns, `[sets, rows, columns]`.

        `rows` is `[sets or 1, rows]`, `columns` `[sets or 1, columns]`; with blocks, all columns of
        a set are in the block of its rows.
        """
        products = self._products(rows, columns)
        if not self.normalised:
            return products.exp_()
        met, places = torch.unique(rows, return_inverse=True)
        return products.sub_(self.log_sums(met)[places].unsqueeze(-1)).exp_()

    def _products(self, rows: Tensor, columns: Tensor) -> Tensor:
        left = embedding(rows, self.rows)  # [sets or 1, rows, dim]
        right = embedding(columns, self.right)
        if len(rows) == 1:
            return (right @ left[0].T).transpose(1, 2)
        if len(columns) == 1:
            return left @ right[0].T
        return torch.bmm(left, right.transpose(1, 2))

    def log_sums(self, rows: Tensor) -> Tensor:
        """The normalisers of rows, by their numbers, `[rows]`: each is computed once."""
        derived = self.left.requires_grad or self.right.requires_grad
        known = self.known.setdefault(
            derived and torch.is_grad_enabled(), _Known(len(self.rows), rows.device)
        )
        new = rows[known.place[rows] < 0]
        if len(new):
            known.place[new] = known.count + torch.arange(len(new), device=new.device)
            known.parts.append(self._computed(new))
            known.count += len(new)
        return torch.cat(known.parts)[known.place[rows]]

    def _computed(self, rows: Tensor) -> Tensor:
        if self.blocks is None:
            return log_normaliser(self.left[rows], self.right)
        size = self.left.shape[1]
        met = torch.unique(rows // size)
        order = torch.argsort(self.blocks, stable=True)
        counts = torch.bincount(self.blocks, minlength=len(self.left)).tolist()
        parts = torch.split(self.right.index_select(0, order), counts)
        lefts = self.left.index_select(0, met).unbind()
        sums = [
            log_normaliser(left, parts[block])
            for left, block in zip(lefts, met.tolist(), strict=True)
        ]
        place = torch.searchsorted(met, rows // size)
        return torch.stack(sums)[place, rows % size]


def side_indices(
    shape: Sequence[int], given: int, cut: Sequence[SliceStep]
) -> tuple[Tensor, Tensor]:
    """The numbers of rows and of columns in a part of a factor, along the part's axes.

    The factor has this shape, with `given` axes of rows; `cut` are the steps that leave the part.
    """
    left = torch.arange(prod(shape[:given])).reshape(tuple(shape[:given]))
    right = torch.arange(prod(shape[given:])).reshape(tuple(shape[given:]))
    for step in cut:
        if step.axis < left.dim():
            left = take(left, [step])
        else:
            right = take(right, [replace(step, axis=step.axis - left.dim())])
    return left, right
