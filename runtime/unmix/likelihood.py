"""The maximum of the likelihood near an estimate: EM, then a quasi-Newton method.

EM rises at each step, but near the maximum it creeps: a gain below a threshold does not tell how
far there is to go. The end is stated by the gradient: the greatest derivative of the *mean*
log-likelihood by a log-weight, which does not depend on the number of sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from fgg.grammar import Factor
from fgg.progress import steps as progress
from fgg.runtime.identify.parameters import parameters_of
from fgg.runtime.matching.coordinates import Coordinates
from fgg.runtime.program.bind import value_of
from fgg.runtime.stationary_distribution import stationary
from fgg.runtime.unmix.mixing import Floats, stationary_roots
from fgg.runtime.unmix.moments import SampledMoments
from fgg.runtime.unmix.topology import only_input

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

ITEMS = 4096
FLOOR = 1e-2
"""The least weight that EM starts from: it never leaves a weight of 0, and small ones slowly."""
GRADIENT = 1e-7
"""The norm of the gradient at which the likelihood counts as maximised."""
EM_STEPS = 20
"""After these steps EM is near enough for a method with second derivatives."""


@dataclass(frozen=True, eq=False)
class Refined:
    """Weights, the mean log-likelihood before and after each step, and the last gradient's norm."""

    weights: Mapping[str, Tensor]
    levels: tuple[float, ...]
    gradient: float


def refine(
    program: Program,
    weights: Mapping[str, Floats | Tensor],
    data: SampledMoments,
    *,
    steps: int,
    tolerance: float = GRADIENT,
) -> Refined:
    """Weights after at most `steps` steps, or with a gradient of at most `tolerance`.

    The first `EM_STEPS` steps are of EM: a step normalises the expected counts. A factor that is
    tied to another one follows it; since the counts then do not tell the best weights exactly, a
    step is halved until it helps. L-BFGS in log-weights takes the others.
    """
    climb = _Climb(program, data)
    climb.start(
        {n: _inside(weights[n], f) for n, f in climb.factors.items() if n not in climb.ties}
    )
    for _ in range(min(steps, EM_STEPS)):
        if climb.gradient <= tolerance or not climb.em_step():
            break
    left = steps - len(climb.levels) + 1
    if left > 0 and climb.gradient > tolerance:
        climb.quasi_newton(left, tolerance)
    return Refined(climb.weights, tuple(climb.levels), climb.gradient)


class _Climb:
    """Weights on their way to the maximum."""

    def __init__(self, program: Program, data: SampledMoments) -> None:
        self.program, self.data = program, data
        self.factors = {f.name: f for f in program.parameters if f.value is None}
        self.fixed = {
            f.name: torch.from_numpy(value_of(program.grammar, f.name))
            for f in program.parameters
            if f.value is not None
        }
        tied = stationary_roots(program.grammar)
        self.ties = {name: to for name, to in tied.items() if name in self.factors}
        self.coordinates = Coordinates(parameters_of(program.grammar)[0])
        self.number = sum(int(times.sum()) for _, times in data.distinct.values())
        self.levels: list[float] = []

    def start(self, weights: dict[str, Tensor]) -> None:
        """Begin at these weights, without those of tied factors."""
        self.weights, level, self.counts = self.at(weights)
        self.levels.append(level)
        self.gradient = float(np.abs(self.slopes(self.weights, self.counts)).max(initial=0.0))

    def at(self, weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], float, dict[str, Tensor]]:
        """All weights, the mean log-likelihood and the counts."""
        whole = _tied(weights, self.ties)
        level, counts = expected(self.program, {**self.fixed, **whole}, self.data)
        return whole, level, counts

    def slopes(self, weights: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> Floats:
        """The gradient of the mean log-likelihood by log-weights."""
        place = self.coordinates.point({**weights})
        by_factor = {
            name: (counts[name] / weights[name].clamp_min(1e-300) / self.number).unsqueeze(0)
            for name in self.factors
        }
        rows = self.coordinates.rows(place, by_factor)
        return np.asarray(self.coordinates.by_log_weights(place, rows)[0])

    def keep(self, weights: dict[str, Tensor], level: float, counts: dict[str, Tensor]) -> None:
        self.weights, self.counts = weights, counts
        self.levels.append(level)
        self.gradient = float(np.abs(self.slopes(weights, counts)).max(initial=0.0))

    def em_step(self) -> bool:
        """Take a step of EM; False if none helps."""
        now = self.weights
        whole = {
            n: _normalised(self.counts[n], now[n], f)
            for n, f in self.factors.items()
            if n not in self.ties
        }
        size = 1.0
        while size > 1e-3:
            trial = self.at({n: size * whole[n] + (1 - size) * now[n] for n in whole})
            if trial[1] >= self.levels[-1]:
                self.keep(*trial)
                return True
            size /= 2
        return False

    def quasi_newton(self, steps: int, tolerance: float) -> None:
        """Take at most `steps` steps of L-BFGS, which all raise the likelihood."""
        last: dict[bytes, tuple[dict[str, Tensor], float, dict[str, Tensor]]] = {}

        def objective(vector: Floats) -> tuple[float, Floats]:
            tables = self.coordinates.tables(vector)
            trial = self.at({n: tables[n] for n in self.factors if n not in self.ties})
            last[vector.tobytes()] = trial
            return -trial[1], -self.slopes(trial[0], trial[2])

        def kept(intermediate_result: OptimizeResult) -> None:
            trial = last.get(intermediate_result.x.tobytes())
            last.clear()
            if trial is not None and trial[1] >= self.levels[-1]:
                self.keep(*trial)

        options = {"maxiter": steps, "gtol": tolerance, "ftol": 0.0, "maxcor": 30}
        start = self.coordinates.vector({**self.weights})
        minimize(objective, start, jac=True, method="L-BFGS-B", callback=kept, options=options)


def expected(
    program: Program, weights: Mapping[str, Tensor], data: SampledMoments
) -> tuple[float, dict[str, Tensor]]:
    """The mean log-likelihood of the sentences, and the expected counts of each factor's entries.

    Each different sentence is parsed once: counts are gradients of log Z in log-weights, times how
    often a sentence occurs.
    """
    name, _ = only_input(program.grammar)
    leaves = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}
    total, number = 0.0, 0
    for rows, times in progress(data.distinct.values(), "length"):
        number += int(times.sum())
        for start in progress(range(0, len(rows), ITEMS), "batch"):
            batch = torch.from_numpy(rows[start : start + ITEMS])
            often = torch.from_numpy(times[start : start + ITEMS]).double()
            value = (often * program.log_z(leaves, {name: batch})).sum()
            value.backward()  # type: ignore[no-untyped-call]
            total += float(value.detach())
    counts = {
        n: torch.zeros_like(w) if w.grad is None else w.grad * w.detach() for n, w in leaves.items()
    }
    return total / number, counts


def _inside(weights: Floats | Tensor, factor: Factor) -> Tensor:
    """Weights as a tensor, a little inside the simplex."""
    inner = torch.as_tensor(weights, dtype=torch.float64).clamp_min(FLOOR)
    return inner / inner.sum(dim=_axes(inner, factor), keepdim=True)


def _normalised(counts: Tensor, before: Tensor, factor: Factor) -> Tensor:
    """Counts as distributions; the weights from `before` where there are no counts."""
    sums = counts.sum(dim=_axes(counts, factor), keepdim=True)
    return torch.where(sums > 0, counts / sums.clamp_min(1e-300), before)


def _axes(weights: Tensor, factor: Factor) -> tuple[int, ...]:
    return tuple(range(factor.given or 0, weights.dim()))


def _tied(weights: dict[str, Tensor], ties: Mapping[str, str]) -> dict[str, Tensor]:
    tied = {n: torch.from_numpy(stationary(weights[to].numpy())) for n, to in ties.items()}
    return {**weights, **tied}
