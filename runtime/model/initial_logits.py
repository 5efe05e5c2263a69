"""Initial logits of parameters, drawn as an initialiser says."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from fgg.grammar.options import Init


def start_logits(
    init: Init, shape: tuple[int, ...], given: int | None, generator: torch.Generator
) -> Tensor:
    """Initial logits of a factor's shape, in float64.

    They are zero, normal, or logarithms of draws from Dirichlet distributions over the axes from
    `given` on.
    """
    if init.kind == "uniform":
        return torch.zeros(shape, dtype=torch.float64)
    if init.kind == "normal":
        return init.scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    rows = prod(shape[: given or 0])
    alpha = torch.full((rows, prod(shape) // max(rows, 1)), init.scale, dtype=torch.float64)
    # Gamma(a) is Gamma(a + 1) times U^(1/a): logarithms do not underflow for small a.
    logs = torch._standard_gamma(alpha + 1, generator=generator).log()
    uniform = torch.rand(alpha.shape, generator=generator, dtype=torch.float64)
    logs = logs + (1 - uniform).log() / alpha
    return (logs - logs.logsumexp(-1, keepdim=True)).reshape(shape)


BYTES = {"uniform": 12, "normal": 20}
OTHER_BYTES = 40
"""Bytes for each number while logits are made: intermediate results, and float32 of the model."""


def bytes_to_start(init: Init, shape: tuple[int, ...]) -> int:
    """The bytes that it takes to make initial logits."""
    return BYTES.get(init.kind, OTHER_BYTES) * prod(shape)
