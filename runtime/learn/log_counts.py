"""Expected counts with everything in logarithms: for weights that are no numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fgg.runtime.interpret.batch import batch_of
from fgg.runtime.interpret.interpret import inside
from fgg.runtime.interpret.semirings.log import LogWeights
from fgg.runtime.learn.counting import Counted
from fgg.runtime.learn.items import Ready
from fgg.runtime.program.prepared_batch import log_product
from fgg.runtime.program.program import Program


def log_counts(program: Program, logs: Mapping[str, Tensor], batch: Ready) -> Counted:
    """log Z of each item, and the gradient of their sum in log-weights: expected counts."""
    own = batch.collated
    plan = program.compiled.plan
    found = batch_of(plan, {n: x.cpu() for n, x in own.inputs.items()}, dict(own.lengths) or None)
    with torch.inference_mode(False), torch.enable_grad():
        leaves = {n: x.detach().clone().requires_grad_() for n, x in logs.items()}
        whole = {name: _whole(program, name, leaves) for name in plan.parameters}
        log_z = inside(plan, whole, found, LogWeights()).z
        total = log_z[torch.isfinite(log_z)].sum()
        if total.requires_grad:
            torch.autograd.backward(total)
    counts = {
        name: torch.zeros_like(x) if x.grad is None else x.grad.nan_to_num(0.0)
        for name, x in leaves.items()
    }
    return Counted(log_z.detach(), counts)


def _whole(program: Program, name: str, logs: Mapping[str, Tensor]) -> Tensor:
    """The log-weights of a factor, from those of its pieces where it has some."""
    pieces = program.pieces(name)
    if name in logs or pieces == (name,):
        return logs[name]
    return log_product([logs[piece] for piece in pieces])
