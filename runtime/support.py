"""Which items have derivations at all, whatever the numbers: the emitted program on zero and one.

A program runs on weights that are 1 where there is a weight, and each cell that it writes is 1
where it is not zero. So nothing grows or vanishes: an item that comes out as zero has no
derivation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fgg.prelude import NEGATIVE, Term, spread

if TYPE_CHECKING:
    from fgg.runtime.run import Run


@dataclass(frozen=True)
class Support:
    """Leaves and charts of zero and one, and the charts' scales: 0, or -inf where all is zero."""

    leaves: Mapping[str, Tensor]
    values: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]


@torch.no_grad()
def support(
    module: ModuleType,
    weights: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    batch: Any,
    missing: bool,
) -> Support:
    """Where leaves and charts are not zero; inputs that are no whole numbers are logarithms."""
    ones = {n: (w.detach() > 0).to(batch.dtype) for n, w in weights.items()}
    flat = dict(inputs)
    for name, logs in inputs.items():
        if logs.is_floating_point():
            flat[name] = torch.zeros_like(logs).masked_fill(logs.detach() == NEGATIVE, NEGATIVE)
    leaves, scales = module.prepare(ones, flat, batch, missing)
    leaves = {n: (x > 0).to(batch.dtype) for n, x in leaves.items()}
    return Support(leaves, *_inside(module)(leaves, scales, batch))


def has_derivations(run: Run) -> Tensor:
    """For every item whether it has a derivation of weight other than 0, `[batch]`."""
    module, found = run.program.module, run.collated
    scales = support(module, run.weights, found.inputs, run.batch, found.missing).scales
    result: Tensor = module.result(scales, run.batch)
    return result > NEGATIVE


@lru_cache(maxsize=256)
def _inside(module: ModuleType) -> Callable[..., Any]:
    """The inside program with sums that know only zero and more."""
    names = {**module.__dict__, "put": put, "put_more": put_more, "total": total}
    return FunctionType(module.inside.__code__, {**names, "weights": weights})


def weights(scale: Tensor, top: Tensor, dtype: torch.dtype) -> Tensor:
    """One where a scale is not that of zero."""
    return (scale > NEGATIVE).to(dtype)


def put(values: Tensor, scales: Tensor, new: Tensor, scale: Tensor | None) -> None:
    """Write cells of zero and one."""
    alive = new > 0
    if scale is not None:
        alive = alive & spread(scale > NEGATIVE, new)
    values.copy_(alive)
    here = alive.flatten(scales.dim()).any(-1)
    scales.copy_(torch.zeros_like(scales).masked_fill(~here, NEGATIVE))


def put_more(values: Tensor, scales: Tensor, new: Tensor, scale: Tensor | None) -> None:
    """Add to cells that other rules may have filled."""
    if scale is not None:
        new = new * spread(weights(scale, scale, new.dtype), new)
    put(values, scales, values + new, None)


def total(terms: list[Term], rank: int) -> Term:
    """The sum of several values; its scale is that of one."""
    parts = [v if e is None else v * spread(weights(e, e, v.dtype), v) for v, e in terms]
    new = parts[0]
    for part in parts[1:]:
        new = new + part
    return new, None
