"""Expectations over derivations, item by item: counts, entropy, divergence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.plan import Plan
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.interpret import inside
from fgg.runtime.interpret.prepare import checked_weights
from fgg.runtime.interpret.semirings.base import to_numpy
from fgg.runtime.program.chart_reader import DerivationModules, log_charts, slopes
from fgg.runtime.program.inputs import Lengths


def entropy(
    plan: Plan,
    weights: Mapping[str, Any],
    inputs: Mapping[str, Any],
    lengths: Lengths = None,
    *,
    modules: DerivationModules | None = None,
) -> Tensor:
    """The entropy of the derivations of each item, in nats: log Z - E[log weight]."""
    batch = batch_of(plan, inputs, lengths)
    real = _tensors(checked_weights(plan, weights))
    logs = {name: _logs(w) for name, w in real.items()}
    z, mean = _directed(plan, modules, real, batch, logs, dict(batch.potentials))
    return not_negative(z - mean)


def kl(
    plan: Plan,
    p: Mapping[str, Any],
    q: Mapping[str, Any],
    inputs: Mapping[str, Any],
    lengths: Lengths = None,
    *,
    q_inputs: Mapping[str, Any] | None = None,
    modules: DerivationModules | None = None,
) -> Tensor:
    """The divergence KL(p || q) of the derivations of each item, in nats.

    It is log Z_q - log Z_p + E_p[log p - log q], where p and q are weights; infinite where p has
    derivations that q does not have. `q_inputs` are q's log-potentials, if they differ.
    """
    batch = batch_of(plan, inputs, lengths)
    other = batch if q_inputs is None else batch_of(plan, q_inputs, lengths)
    real_p = _tensors(checked_weights(plan, p))
    real_q = _tensors(checked_weights(plan, q))
    gaps = {name: _gap(_logs(w), _logs(real_q[name])) for name, w in real_p.items()}
    potentials = {
        name: _gap(logs, other.potentials[name]) for name, logs in batch.potentials.items()
    }
    # Where q alone is zero, p must not go: an infinite gap is counted apart from finite ones.
    finite = {name: torch.where(torch.isfinite(g), g, 0.0) for name, g in gaps.items()}
    level = {name: torch.where(torch.isfinite(g), g, 0.0) for name, g in potentials.items()}
    z_p, mean = _directed(plan, modules, real_p, batch, finite, level)
    fast = modules is not None and not _wanted(real_q, other)
    z_q: Tensor = (
        log_charts(plan, modules, real_q, other) if fast else inside(plan, real_q, other, "log")
    ).z
    divergence = z_q - z_p + mean
    if any(bool(torch.isinf(g).any()) for g in (*gaps.values(), *potentials.values())):
        beyond = {name: torch.isinf(g).to(torch.float64) for name, g in gaps.items()}
        beyond_here = {name: torch.isinf(g).to(torch.float64) for name, g in potentials.items()}
        _, uses = _directed(plan, modules, real_p, batch, beyond, beyond_here)
        divergence = torch.where(uses > 0, float("inf"), divergence)
    return not_negative(divergence)


def not_negative(values: Tensor) -> Tensor:
    """Numbers that cannot be negative, 0 where rounding made them so; derivatives stay."""
    return values - values.detach().clamp_max(0.0) + 0.0  # and no -0.0


def expected_counts(
    plan: Plan,
    weights: Mapping[str, Any],
    inputs: Mapping[str, Any],
    lengths: Lengths = None,
) -> dict[str, Tensor]:
    """How often each entry of each factor is expected to be used by each item, `[batch, …]`.

    Items without derivations have 0.
    """
    batch = batch_of(plan, inputs, lengths)
    real = _tensors(checked_weights(plan, weights))
    leaves = {name: w.detach().requires_grad_() for name, w in real.items()}
    rows: dict[str, list[Tensor]] = {name: [] for name in leaves}
    for number in range(batch.size):
        z: Tensor = inside(plan, leaves, batch.item(number), "log").z.sum()
        slopes: tuple[Tensor | None, ...] = (None,) * len(leaves)
        if bool(torch.isfinite(z)) and z.requires_grad:
            slopes = torch.autograd.grad(z, list(leaves.values()), allow_unused=True)
        for (name, leaf), slope in zip(leaves.items(), slopes, strict=True):
            counts = torch.zeros_like(leaf) if slope is None else slope * leaf
            rows[name].append(counts.detach())
    return {name: torch.stack(counts) for name, counts in rows.items()}


def _tensors(weights: Mapping[str, Any]) -> dict[str, Tensor]:
    return {
        name: (w if isinstance(w, Tensor) else torch.as_tensor(to_numpy(w).astype(float))).to(
            torch.float64
        )
        for name, w in weights.items()
    }


def _logs(weights: Tensor) -> Tensor:
    """Logarithms; those of 0 are -inf, with gradient 0."""
    positive = weights > 0
    return torch.where(positive, torch.where(positive, weights, 1.0).log(), -float("inf"))


def _gap(p: Tensor, q: Tensor) -> Tensor:
    """The difference of logarithms; 0 where p is 0, which derivations never use."""
    return torch.where(p == -float("inf"), 0.0, p - q)


def _directed(
    plan: Plan,
    modules: DerivationModules | None,
    weights: Mapping[str, Tensor],
    batch: Batch,
    logs: Mapping[str, Tensor],
    potentials: Mapping[str, Tensor],
) -> tuple[Tensor, Tensor]:
    """log Z, and the expected sum over a derivation of numbers given for log-weights.

    It is the derivative of log Z in the direction of the numbers. Items share their weights, so
    this takes two backward passes: the first is linear in its seeds, one number for each item, and
    the second differentiates the result by these seeds. If no gradients are needed and there are
    few items, the emitted program computes the derivative of each item directly.
    Raises GrammarError if an item has no derivation.
    """
    wanted = _wanted(weights, batch)
    if modules is not None and not wanted and _few(plan, modules, batch):
        means = _one_by_one(modules, weights, batch, logs, potentials)
        if means is not None:
            return means
    real = {name: _leaf(w) for name, w in weights.items()}
    given = {name: _leaf(logs) for name, logs in batch.potentials.items()}
    with torch.enable_grad():
        z: Tensor = inside(plan, real, replace(batch, potentials=given), "log").z
        _check(z)
        each = torch.ones_like(z, requires_grad=True)
        leaves = [*real.values(), *given.values()]
        slopes = torch.autograd.grad(z, leaves, each, create_graph=True, allow_unused=True)
        total = (each * 0.0).sum()
        directions = [(w, logs[name], w) for name, w in real.items()]
        directions += [(x, potentials[name], torch.ones_like(x)) for name, x in given.items()]
        for slope, (value, numbers, factor) in zip(slopes, directions, strict=True):
            if slope is not None:
                used = torch.isfinite(value) & torch.isfinite(numbers)
                total = total + (slope * factor * torch.where(used, numbers, 0.0)).sum()
        (mean,) = torch.autograd.grad(total, each, create_graph=wanted)
    return (z, mean) if wanted else (z.detach(), mean)


def _wanted(weights: Mapping[str, Tensor], batch: Batch) -> bool:
    """Whether weights or log-potentials require gradients."""
    leaves = (*weights.values(), *batch.potentials.values())
    return torch.is_grad_enabled() and any(x.requires_grad for x in leaves)


def _few(plan: Plan, modules: DerivationModules, batch: Batch) -> bool:
    """Whether it is cheaper to take items one by one than all at once on the interpreter.

    A level costs about as much as 30 levels of the emitted program, and a call as 20.
    """
    starts = (plan.chart.get(plan.start.name), modules.plan.chart.get(modules.plan.start.name))
    if any(chart is None or chart.states for chart in starts):
        return False
    levels = sum(int(values.max()) for values in batch.lengths.values())
    return batch.size * (20 + levels) <= 30 * levels


def _one_by_one(
    modules: DerivationModules,
    weights: Mapping[str, Tensor],
    batch: Batch,
    logs: Mapping[str, Tensor],
    potentials: Mapping[str, Tensor],
) -> tuple[Tensor, Tensor] | None:
    """log Z and the expected sums, each item by itself; None if numbers become too small."""
    values, means = [], []
    for number in range(batch.size):
        item = batch.item(number)
        passes = slopes(modules, weights, item)
        if passes is None:
            return None
        z, gradients = passes
        total = torch.zeros((), dtype=torch.float64)
        for name, w in weights.items():
            used = (w > 0) & torch.isfinite(logs[name])
            total = total + (gradients[name] * w * torch.where(used, logs[name], 0.0)).sum()
        for name, x in item.potentials.items():
            numbers = potentials[name][number : number + 1]
            used = torch.isfinite(x) & torch.isfinite(numbers)
            total = total + (gradients[name] * torch.where(used, numbers, 0.0)).sum()
        values.append(z)
        means.append(total)
    z = torch.cat(values)
    _check(z)
    return z, torch.stack(means)


def _leaf(value: Tensor) -> Tensor:
    """A tensor with a gradient: one that depends on the user's own where that has one.

    It is never the user's own: that may be a view, which autograd does not always know by itself.
    """
    if not value.requires_grad:
        return value.detach().requires_grad_()
    with torch.enable_grad():
        return value.view_as(value)


def _check(z: Tensor) -> None:
    if z.dim() != 1:
        refuse("F415", "the start symbol has external nodes")
    if not bool(torch.isfinite(z).all()):
        item = int(torch.nonzero(~torch.isfinite(z))[0])
        message = f"item {item} has no derivation of weight other than 0"
        refuse("F421", message)
