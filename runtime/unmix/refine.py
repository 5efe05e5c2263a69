"""EM from an estimate: expected counts, normalised, as long as the likelihood rises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fgg.grammar import Factor
from fgg.progress import steps
from fgg.runtime.program.bind import stationary
from fgg.runtime.unmix.mixing import stationary_roots
from fgg.runtime.unmix.moments import Sampled
from fgg.runtime.unmix.topology import only_input

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

ITEMS = 4096
FLOOR = 1e-2
"""EM never leaves a weight of 0, and is slow to leave small ones: estimates that were projected to
the border start this far inside."""


def refine(
    program: Program,
    weights: Mapping[str, Any],
    data: Sampled,
    *,
    steps: int,
    tolerance: float = 1e-9,
) -> tuple[dict[str, Tensor], tuple[float, ...]]:
    """Weights after at most so many steps of EM, and the mean log-likelihood before each and last.

    A step normalises the expected counts. A factor that is tied to another one follows it; since
    the counts then do not tell the best weights exactly, a step is halved until it helps.
    """
    factors = {f.name: f for f in program.parameters}
    ties = {name: to for name, to in stationary_roots(program.grammar).items() if name in factors}
    now = {name: _inside(weights[name], factors[name]) for name in factors}
    now = _tied(now, ties)
    level, counts = expected(program, now, data)
    levels = [level]
    for _ in range(steps):
        whole = {n: _normalised(counts[n], now[n], factors[n]) for n in factors if n not in ties}
        size = 1.0
        while size > 1e-3:
            trial = {n: size * whole[n] + (1 - size) * now[n] for n in whole}
            trial = _tied(trial, ties)
            level, found = expected(program, trial, data)
            if level >= levels[-1]:
                break
            size /= 2
        else:
            break
        now, counts = trial, found
        levels.append(level)
        if level - levels[-2] < tolerance:
            break
    return now, tuple(levels)


def expected(
    program: Program, weights: Mapping[str, Tensor], data: Sampled
) -> tuple[float, dict[str, Tensor]]:
    """The mean log-likelihood of the sentences, and the expected counts of each factor's entries.

    Each different sentence is parsed once: counts are gradients of log Z in log-weights, times how
    often a sentence occurs.
    """
    name, _ = only_input(program.grammar)
    leaves = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}
    total, number = 0.0, 0
    for rows, times in steps(data.distinct.values(), "length"):
        number += int(times.sum())
        for start in steps(range(0, len(rows), ITEMS), "batch"):
            batch = torch.from_numpy(rows[start : start + ITEMS])
            often = torch.from_numpy(times[start : start + ITEMS]).double()
            value = (often * program.log_z(leaves, {name: batch})).sum()
            value.backward()  # type: ignore[no-untyped-call]
            total += float(value.detach())
    counts = {
        n: torch.zeros_like(w) if w.grad is None else w.grad * w.detach() for n, w in leaves.items()
    }
    return total / number, counts


def _inside(weights: Any, factor: Factor) -> Tensor:
    """Weights as a tensor, a little inside the simplex."""
    found = torch.as_tensor(weights, dtype=torch.float64).clamp_min(FLOOR)
    return found / found.sum(dim=_axes(found, factor), keepdim=True)


def _normalised(counts: Tensor, before: Tensor, factor: Factor) -> Tensor:
    """Counts as distributions; where there are none, what was before."""
    sums = counts.sum(dim=_axes(counts, factor), keepdim=True)
    return torch.where(sums > 0, counts / sums.clamp_min(1e-300), before)


def _axes(weights: Tensor, factor: Factor) -> tuple[int, ...]:
    return tuple(range(factor.given or 0, weights.dim()))


def _tied(weights: dict[str, Tensor], ties: Mapping[str, str]) -> dict[str, Tensor]:
    own = {n: torch.from_numpy(stationary(weights[to].numpy())) for n, to in ties.items()}
    return {**weights, **own}
