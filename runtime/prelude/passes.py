"""An emitted program as one value, and log Z as a differentiable function of its leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from fgg.runtime.prelude.batch import Batch
from fgg.runtime.prelude.certificate import Powers, centre, lossless
from fgg.runtime.prelude.evidence import known

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Passes:
    """The functions of a program, and what its inputs are.

    `inputs` has the shape of each input after the batch, `tables` are inputs of integers that
    indices look up, and no token of the `complete` ones may be missing. `products` names what is
    multiplied, with the most charts in the sum (-1: the sum is not divided by its greatest value);
    `stored` is the axis of the items; `depth` the most charts with states in one product. The range
    certificate looks at these.
    """

    prepare: Callable[..., tuple[Tensors, Tensors]]
    inside: Callable[..., tuple[Tensors, Tensors]]
    result: Callable[..., Tensor]
    outside: Callable[..., tuple[Tensors, Tensors]]
    lengths: tuple[str, ...]
    inputs: Mapping[str, tuple[str, ...]]
    tables: tuple[str, ...]
    complete: tuple[str, ...]
    products: Sequence[tuple[tuple[str, ...], int]]
    stored: Mapping[str, int]
    depth: int

    def batch(
        self, weights: Mapping[str, Tensor], inputs: Mapping[str, Tensor], lengths: Any = None
    ) -> Batch:
        """The batch that inputs make; lengths are those of the inputs unless they are given."""
        own: dict[str, list[int]] = {}
        for name, value in (lengths or {}).items():
            own[name] = value.tolist() if isinstance(value, Tensor) else list(value)
        size = next((len(v) for v in own.values()), 1)
        for name, value in inputs.items():
            size = value.shape[0]
            for extent, axis in zip(self.inputs.get(name, ()), value.shape[1:], strict=False):
                if extent in self.lengths:
                    own.setdefault(extent, [axis] * size)
        sample = next(v for v in (*weights.values(), *inputs.values()) if v.is_floating_point())
        tables = {name: value for name, value in inputs.items() if name in self.tables}
        return Batch(size, own, tables, sample.dtype, sample.device)

    def log_z(
        self,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        lengths: Any = None,
        missing: bool | None = None,
    ) -> Tensor:
        """log Z of every item, `[batch]`, differentiable in weights and log-potentials.

        A batch in which numbers may have become too small for float32 is computed in float64.
        Raises ArithmeticError if that may not do either.
        """
        batch = self.batch(weights, inputs, lengths)
        if missing is None:
            tokens = [v for n, v in inputs.items() if n in self.inputs and n not in self.tables]
            missing = any(bool((v == -1).any()) for v in tokens)
        for name in self.complete if missing else ():
            known(name, inputs.get(name))
        leaves, scales = self.prepare(weights, inputs, batch, missing)
        result: Tensor = Inside.apply(  # type: ignore[no-untyped-call]
            self, tuple(leaves), scales, batch, *leaves.values()
        )
        if bool(batch.safe.all()):
            return result
        if batch.dtype == torch.float64:
            items = torch.nonzero(~batch.safe).flatten().tolist()
            raise ArithmeticError(f"items {items[:5]} need more range than float64 has")
        wide = {name: weight.double() for name, weight in weights.items()}
        given = {n: x.double() if x.is_floating_point() else x for n, x in inputs.items()}
        return self.log_z(wide, given, lengths, missing).to(batch.dtype)


class Inside(torch.autograd.Function):
    """log Z as a function of the leaves of a program; its derivative is the outside program."""

    @staticmethod
    def forward(ctx, program, names, scales, batch, *leaves):  # type: ignore[no-untyped-def]
        """Run the inside program; its charts are kept for the outside."""
        named = dict(zip(names, leaves, strict=True))
        batch.spare = any(leaf.requires_grad for leaf in leaves)
        centre(batch, named, program.depth, {})
        values, charts = program.inside(named, scales, batch)
        result = program.result(charts, batch)
        powers = Powers(program.stored, named, values, charts, batch)
        batch.safe = lossless(program.products, powers, batch) & (result < inf)
        ctx.program, ctx.names, ctx.scales, ctx.batch = program, names, scales, batch
        ctx.charts = charts
        ctx.values = values
        ctx.save_for_backward(*leaves)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        """Run the outside program."""
        leaves = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        slopes, _ = ctx.program.outside(
            leaves, ctx.scales, ctx.values, ctx.charts, ctx.batch, gradient
        )
        if not all(bool(torch.isfinite(slope.sum())) for slope in slopes.values()):
            raise ArithmeticError(f"a derivative is too large for {ctx.batch.dtype}")
        return None, None, None, None, *(slopes.get(name) for name in ctx.names)
