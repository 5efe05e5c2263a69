"""log Z as a differentiable function of weights and log-potentials.

The first derivative is the emitted outside program. Where a derivative of a derivative is asked
for, the first one is recomputed by plain automatic differentiation of the plan, carried out in
logarithms: slower, and right to any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

if TYPE_CHECKING:
    from fgg.runtime.run import Run


class LogZ(torch.autograd.Function):
    """log Z of every item of a run."""

    @staticmethod
    def forward(ctx: Any, run: Run, *tensors: Tensor) -> Tensor:
        """Fill the charts; they are kept for the outside program."""
        run.batch.spare = any(tensor.requires_grad for tensor in tensors)
        # Nothing is recorded of what a program does, not even versions: calls cost less so.
        with torch.inference_mode():
            found = run.program.engine.inside(run.leaves, run.scales, run.batch)
            result: Tensor = run.program.engine.result(found[1], run.batch)
        ctx.run, ctx.found = run, found
        ctx.save_for_backward(*tensors)
        return result.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradients of the tensors that were given."""
        (gradient,) = gradients
        run, tensors = ctx.run, ctx.saved_tensors
        wanted = [t for t, needed in zip(tensors, ctx.needs_input_grad[1:], strict=True) if needed]
        if torch.is_grad_enabled():
            found = iter(_again(run, tensors, wanted, gradient))
        else:
            found = iter(_outside(ctx, run, gradient))
        return None, *(next(found) if needed else None for needed in ctx.needs_input_grad[1:])


def _outside(ctx: FunctionCtx, run: Run, gradient: Tensor) -> list[Tensor | None]:
    """By the outside program for the leaves, and from there through what was prepared.

    The charts are given up in between, so that their memory is there for the gradients of what was
    prepared; if they are asked for once more, they are filled once more.
    """
    found, ctx.found = ctx.found, None  # type: ignore[attr-defined]
    engine = run.program.engine
    with torch.inference_mode():
        found = found or engine.inside(run.leaves, run.scales, run.batch)
        leaves, _ = engine.outside(run.leaves, run.scales, *found, run.batch, gradient)
    del found, _
    names = [n for n in leaves if run.leaves[n].requires_grad]
    sources = [t for t in run.tensors.values() if t.requires_grad]
    found = torch.autograd.grad(
        [run.leaves[n] for n in names],
        sources,
        [leaves[n] for n in names],
        allow_unused=True,
        retain_graph=True,
    )
    # A gradient that was handed through as it is would not be the user's to change.
    return [g.clone() if g is not None and g.is_inference() else g for g in found]


def _again(
    run: Run, tensors: tuple[Tensor, ...], wanted: list[Tensor], gradient: Tensor
) -> list[Tensor | None]:
    """By automatic differentiation of the plan in logarithms."""
    from fgg.runtime.interpret import interpret

    named = dict(zip(run.tensors, tensors, strict=True))
    weights = {n: named[n] for n in run.weights}
    inputs = {n: named.get(n, x) for n, x in run.collated.inputs.items()}
    log_z = interpret(run.program.plan, weights, inputs, dict(run.collated.lengths)).z
    live = torch.isfinite(log_z)
    total = (log_z[live] * gradient.to(log_z.dtype)[live]).sum()
    return list(torch.autograd.grad(total, wanted, create_graph=True, allow_unused=True))
