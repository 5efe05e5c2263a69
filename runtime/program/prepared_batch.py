"""A batch ready for its charts, and what is read off them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fgg.runtime.prelude.charts import ROOM, least_power
from fgg.runtime.program.inputs import Collated

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program


@dataclass(frozen=True, eq=False)
class Run:
    """A batch ready for its charts."""

    program: Program
    weights: Mapping[str, Tensor]
    collated: Collated
    batch: Any
    tensors: Mapping[str, Tensor]
    sources: tuple[Tensor, ...]
    leaves: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]
    # The least and the greatest entry of leaves, as far as they are known.
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # The factors whose weights are products of pieces, and these.
    joined: Mapping[str, tuple[Tensor, ...]] = field(default_factory=dict)
    # Whether derivatives in weights that are 0 are asked for.
    limits: bool = True

    def through_leaves(self, slopes: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The derivatives in weights and log-potentials, from those in leaves."""
        if not slopes:
            return {}
        sources = {name: x for name, x in self.tensors.items() if x.requires_grad}
        grads = torch.autograd.grad(
            [self.leaves[name] for name in slopes],
            list(sources.values()),
            list(slopes.values()),
            allow_unused=True,
            retain_graph=True,
        )
        return {n: grad for n, grad in zip(sources, grads, strict=True) if grad is not None}

    def in_type(self, dtype: torch.dtype) -> Mapping[str, Tensor]:
        """The weights in a type; products of pieces are made in it."""
        if dtype == self.batch.dtype or not self.joined:
            return self.weights
        pieces = {
            piece: x.detach().to(dtype)
            for name, some in self.joined.items()
            for piece, x in zip(self.program.pieces(name), some, strict=True)
        }
        return {**self.weights, **self.program.whole(pieces, self.joined)}

    def loses_pieces(self, dtype: torch.dtype) -> bool:
        """Whether products of pieces may be too small or too large for a type."""
        return any(out_of_range(some, dtype) for some in self.joined.values())

    def piece_logs(self) -> dict[str, Tensor] | None:
        """The logarithms of products of pieces, if products would lose some."""
        if not self.loses_pieces(torch.float64):
            return None
        return {
            name: log_product([x.detach().double().log() for x in some])
            for name, some in self.joined.items()
        }


def out_of_range(pieces: Sequence[Tensor], dtype: torch.dtype) -> bool:
    """Whether products of the entries of pieces may be too small or too large for a type."""
    some = [x.detach() for x in pieces if x.numel()]
    low = sum(min(float(least_power(x, None)), 0.0) for x in some)
    high = sum(max(log2(float(x.amax())), 0.0) if float(x.amax()) > 0 else 0.0 for x in some)
    room = ROOM[dtype]
    return low < room.least + 2 or high + log2(pieces[0].shape[-1] + 1) > -room.least


def log_product(pieces: Sequence[Tensor]) -> Tensor:
    """The logarithms of a factor's weights, from those of its pieces."""
    first, *rest = pieces
    rank = first.shape[-1]
    total = first.movedim(-1, 0)  # [rank, *left]
    for piece in rest:  # [rank, values]
        total = total.unsqueeze(-1) + piece.reshape(rank, *(1,) * (total.dim() - 1), -1)
    return torch.logsumexp(total, 0)
