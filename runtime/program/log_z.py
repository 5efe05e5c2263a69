"""log Z as a differentiable function of weights and log-potentials.

The first derivative is the emitted outside program. Where a derivative of a derivative is asked
for, the first one is recomputed by plain automatic differentiation of the plan, carried out in
logarithms: slower, and right to any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fgg.runtime.program.item_groups import held, refused
from fgg.runtime.program.range_certificate import Certified

if TYPE_CHECKING:
    from fgg.runtime.program.prepared_batch import Run


class LogZ(torch.autograd.Function):
    """log Z of every item, `[batch]`, of passes that are made already."""

    @staticmethod
    def forward(ctx: Any, passes: Certified, *tensors: Tensor) -> Tensor:
        """Return log Z; the passes are kept for the outside program."""
        ctx.run, ctx.passes = passes.run, passes
        ctx.save_for_backward(*tensors)
        return passes.log_z.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradients of the tensors that were given."""
        (gradient,) = gradients
        run, tensors = ctx.run, ctx.saved_tensors
        wanted = [t for t, needed in zip(tensors, ctx.needs_input_grad[1:], strict=True) if needed]
        if torch.is_grad_enabled():
            again = iter(_again(run, tensors, wanted, gradient))
            return None, *(next(again) if needed else None for needed in ctx.needs_input_grad[1:])
        slopes = ctx.passes.gradients(gradient)
        if run.limits:
            _at_zero(ctx.passes, slopes, gradient, dict(zip(run.tensors, tensors, strict=True)))
        needed = zip(run.tensors, ctx.needs_input_grad[1:], strict=True)
        return None, *(_given(run, name, slopes) if wanted else None for name, wanted in needed)


def _given(run: Run, name: str, slopes: dict[str, Tensor]) -> Tensor | None:
    """A derivative, converted to the type of its weight. Raises GrammarError (F427)."""
    if name not in slopes:
        return None
    like = run.tensors[name].detach()
    slope = slopes[name].to(like.dtype)
    if slope is slopes[name] and name not in run.joined:
        return slope
    if name in run.joined and run.loses_pieces(like.dtype):
        raise refused(f"products of pieces of `{name}` are too small for derivatives")
    large = slope >= torch.finfo(slope.dtype).max
    if bool(large.any()) or not bool(torch.isfinite(slope.sum())):
        large |= ~torch.isfinite(slope)
        if name in run.joined or bool((large & (like != 0)).any()) or name not in run.weights:
            kind = str(like.dtype).removeprefix("torch.")
            raise refused(f"the derivative with respect to `{name}` is too large for {kind}")
        slope = held(slope)
    return slope


def _at_zero(
    passes: Certified, slopes: dict[str, Tensor], gradient: Tensor, tensors: dict[str, Tensor]
) -> None:
    """Put the derivatives in weights that are 0 in place of those that may be wrong.

    `tensors` are the weights as they were given, with what they were computed from.
    """
    run = passes.run
    zeros = {
        name: weights.detach() == 0
        for name, weights in run.weights.items()
        if run.tensors[name].requires_grad
        and run.ends.get(name, (0.0, 0.0))[0] == 0
        and bool((weights == 0).any())
    }
    if passes.has_limits:
        return
    for name in [name for name in zeros if of_exponentials(tensors[name])]:
        if name in slopes:
            slopes[name] = slopes[name].masked_fill(zeros[name], 0.0)
        del zeros[name]
    if not zeros:
        return
    limits = passes.limits(gradient)
    for name, places in zeros.items():
        if name in limits:
            slope = slopes.get(name, torch.zeros_like(limits[name])).to(limits[name])
            slopes[name] = torch.where(places, limits[name], slope)


def of_exponentials(weights: Tensor) -> bool:
    """Whether weights are a softmax, or exponentials, of what is learned.

    Their derivative is a multiple of the weight itself. So where it is 0, because it has
    underflowed, the derivative of log Z in it does not matter as long as it is finite.
    """
    node = weights.grad_fn
    while node is not None and node.name() in REARRANGING:
        node = node.next_functions[0][0]
    return node is not None and node.name() in ("SoftmaxBackward0", "ExpBackward0")


REARRANGING = frozenset(
    f"{name}Backward0"
    for name in (
        "Clone",
        "Expand",
        "IndexSelect",
        "Permute",
        "Slice",
        "Squeeze",
        "T",
        "ToCopy",
        "Transpose",
        "UnsafeView",
        "Unsqueeze",
        "View",
    )
)
"""Operations of automatic differentiation that move numbers and do not change them."""


def _again(
    run: Run, tensors: tuple[Tensor, ...], wanted: list[Tensor], gradient: Tensor
) -> list[Tensor | None]:
    """By automatic differentiation of the plan in logarithms."""
    from fgg.runtime.interpret.interpret import interpret

    named = dict(zip(run.tensors, tensors, strict=True))
    weights = {n: named[n] for n in run.weights}
    inputs = {n: named.get(n, x) for n, x in run.collated.inputs.items()}
    log_z = interpret(run.program.plan, weights, inputs, dict(run.collated.lengths)).z
    live = torch.isfinite(log_z)
    total = (log_z[live] * gradient.to(log_z.dtype)[live]).sum()
    return list(torch.autograd.grad(total, wanted, create_graph=True, allow_unused=True))
