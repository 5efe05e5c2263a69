"""Passes over some items of a batch that share a type of numbers, or logarithms.

A group knows for which of its items the passes provably lost no number: the range certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, isfinite, log, log2
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.plan import Contract, Cut, Gather
from fgg.runtime.layer.precision import full_precision
from fgg.runtime.prelude.cells import NEGATIVE, spread
from fgg.runtime.prelude.certificate import (
    Lift,
    Powers,
    centre,
    least_power,
    lossless,
)
from fgg.runtime.prelude.scaled import ROOM
from fgg.runtime.program.prepared_batch import Run

Weights = Mapping[str, Tensor]
GAP = {torch.float32: 20, torch.float64: 100}
"""How many powers of two a term of a lifted sum may be below the greatest one."""


@dataclass(eq=False)
class Group:
    """Some items of a batch, and the charts that their numbers come from.

    `items` are their places in the batch, or None if it is all of them. `leaves` are those that the
    passes read: the run's own, or lifted ones.
    """

    items: Tensor | None
    run: Run
    leaves: Mapping[str, Tensor]
    charts: tuple[dict[str, Tensor], dict[str, Tensor]] | None
    log_z: Tensor
    safe: Tensor
    lifted: bool = False
    # Whether the outside pass of log Z is kept, and the gradients and values that it gave.
    keep: bool = False
    kept: tuple[Weights, Weights, Weights] | None = None
    # Whether a derivative in a weight that is 0 was too large to be a number.
    large: bool = False
    # The weights, if those of the run are raised ones.
    weights: Weights | None = None

    @classmethod
    @full_precision
    def of(
        cls, run: Run, items: Tensor | None = None, *, lifted: bool = False, keep: bool = False
    ) -> Group:
        """The inside pass of a run."""
        depth, batch = run.program.plan.greatest_depth, run.batch
        leaves = {name: leaf.detach() for name, leaf in run.leaves.items()}
        # Nothing is recorded of what a program does, not even versions: calls cost less so.
        with torch.inference_mode():
            batch.lift = None
            centre(batch, leaves, depth, {} if lifted else run.ends)
            prepared = None
            if lifted:
                # What was lost before the leaves are raised cannot be seen afterwards.
                prepared = prepared_safely(run, leaves)
                leaves = {n: raised(x, ROOM[batch.dtype].entry) for n, x in leaves.items()}
                batch.lift = _lift(run, leaves)
                centre(batch, leaves, depth, {})
            charts = cls._inside(run, leaves)
            log_z = run.engine.result(charts[1], batch)
            safe = certificate(run, leaves, charts, log_z)
            if prepared is not None:
                safe &= prepared
        return cls(items, run, leaves, charts, log_z, safe, lifted, keep)

    @staticmethod
    def _inside(run: Run, leaves: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Any]:
        run.batch.begin()
        charts: tuple[dict[str, Tensor], Any] = run.engine.inside(leaves, run.scales, run.batch)
        return charts

    def forget(self, places: Tensor) -> None:
        """Erase items that are computed again: whatever they have must not spread."""
        assert self.charts is not None
        values, scales = self.charts
        with torch.inference_mode():
            for name, scale in scales.items():
                axis = scale.dim() - 1
                scale.index_fill_(axis, places, NEGATIVE)
                if name in values:
                    values[name].index_fill_(axis, places, 0.0)
            self.log_z = self.log_z.index_fill(0, places, NEGATIVE)

    @full_precision
    def outside(self, gradient: Tensor) -> tuple[Weights, Weights, Weights]:
        """The gradients of leaves and of cells, and the values of cells.

        The charts are given up: a second outside pass has to fill them again.
        """
        charts, self.charts = self.charts, None
        run = self.run
        with torch.inference_mode():
            charts = charts or self._inside(run, self.leaves)
            slopes, adjoints = run.engine.outside(
                self.leaves, run.scales, *charts, run.batch, gradient
            )
        return slopes, adjoints, charts[0]

    def of_log_z(self) -> tuple[Weights, Weights, Weights]:
        """The outside pass of log Z, for expected counts and marginals.

        Items without derivations have gradient 0.
        """
        if self.kept is not None:
            return self.kept
        ones = torch.isfinite(self.log_z).to(self.log_z)
        passed = self.outside(ones)
        self.kept = passed if self.keep else None
        return passed

    def gradients(self, gradient: Tensor) -> dict[str, Tensor] | None:
        """The derivatives in weights and log-potentials, or None if some are not numbers."""
        return self._through_leaves(self.outside(gradient)[0])

    def _through_leaves(self, leaf_slopes: Weights) -> dict[str, Tensor] | None:
        """The gradients of weights and log-potentials, from those of leaves."""
        run = self.run
        slopes = {n: slope for n, slope in leaf_slopes.items() if n in run.passing}
        # The derivative in a weight that is 0 may be too large to be a number: that is no loss.
        for name in slopes if not all_finite(list(slopes.values())) else ():
            if not all_finite([slopes[name]]):
                if name in _hoisted(run):
                    return None
                self.large = True
                zero = run.leaves[name].detach() == 0
                slopes[name] = torch.where(zero, held(slopes[name]), slopes[name])
                if not bool(torch.isfinite(slopes[name]).all()):
                    return None
        return run.through_leaves(slopes)

    def counts(self) -> dict[str, Tensor] | None:
        """The derivatives in logarithms, 0 for unused weights; None if some are not numbers."""
        slopes = self._through_leaves(self.of_log_z()[0])
        if slopes is None:
            return None
        for name in self.run.weights:
            if name in slopes:
                given = self.weights or self.run.tensors
                positive = given[name].detach().to(slopes[name])
                slopes[name] = torch.where(positive > 0, slopes[name] * positive, 0.0)
        return slopes

    def marginals(self) -> dict[str, Tensor] | None:
        """The expected uses of each cell and state, or None if some are not numbers."""
        _, adjoints, values = self.of_log_z()
        with torch.inference_mode():
            flows = {
                name: self.run.batch.marginal(adjoint, values.get(name))
                for name, adjoint in adjoints.items()
            }
        return flows if all_finite(list(flows.values())) else None


@dataclass(eq=False)
class LogGroup:
    """Some items of a batch, computed in logarithms throughout."""

    items: Tensor | None
    run: Run
    logs: Weights | None = None

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Log-weights and log-potentials in double precision, whose derivatives are wanted."""
        with torch.inference_mode(False):
            logs = {n: w.detach().double().log() for n, w in self.run.weights.items()}
            logs |= {n: x.detach().double() for n, x in (self.logs or {}).items()}
            logs |= {
                n: self.run.tensors[n].detach().double()
                for n in self.run.tensors
                if n not in self.run.weights
            }
            return {name: x.clone().requires_grad_() for name, x in logs.items()}

    @cached_property
    def charts(self) -> Any:
        """The charts of the plan in logarithms."""
        from fgg.runtime.interpret.batch import batch_of
        from fgg.runtime.interpret.interpret import inside
        from fgg.runtime.interpret.semirings.log import LogWeights

        run = self.run
        inputs = {n: self.tensors.get(n, x).cpu() for n, x in run.collated.inputs.items()}
        plan = run.program.plan
        with torch.inference_mode(False), torch.enable_grad():
            batch = batch_of(plan, inputs, dict(run.collated.lengths) or None)
            weights = {n: self.tensors[n].cpu() for n in run.weights}
            return inside(plan, weights, batch, LogWeights())

    @cached_property
    def log_z(self) -> Tensor:
        """log Z of each item."""
        with torch.enable_grad():
            log_z: Tensor = self.charts.z
        if bool(torch.isnan(log_z).any() | torch.isposinf(log_z).any()):
            raise refused("log Z is not a number, even in logarithms")
        return log_z

    def counts(self) -> dict[str, Tensor]:
        """The derivatives of log Z in log-weights and log-potentials."""
        return self._log_gradients(torch.ones_like(self.log_z))

    def _log_gradients(self, gradient: Tensor) -> dict[str, Tensor]:
        """The derivatives in log-weights and log-potentials."""
        live = torch.isfinite(self.log_z)
        names = list(self.tensors)
        with torch.enable_grad():
            total = (self.log_z[live] * gradient.to(self.log_z)[live]).sum()
        if not total.requires_grad:
            return {}
        grads = torch.autograd.grad(
            total, [self.tensors[n] for n in names], allow_unused=True, retain_graph=True
        )
        return {n: g.nan_to_num(0.0) for n, g in zip(names, grads, strict=True) if g is not None}

    def limits(self, gradient: Tensor) -> dict[str, Tensor]:
        """The derivatives in weights, those that are 0 too, by the outside pass in logarithms."""
        from fgg.runtime.interpret.interpret import outside

        run = self.run
        names = run.passing
        slopes = {name: torch.zeros_like(run.leaves[name].detach()) for name in names}
        # Derivatives in products of weights may be larger than those in the weights.
        shift = 100.0
        with torch.no_grad():
            for sign in (1, -1):
                share = (sign * gradient.to(self.log_z)).clamp_min(0.0)
                if not bool((share > 0).any()):
                    continue
                seeds = torch.where(share > 0, share.log() - self.log_z, NEGATIVE)
                seeds = torch.where(torch.isfinite(self.log_z), seeds, NEGATIVE)
                logs: dict[str, Tensor] = {}
                outside(self.charts, seeds, logs)
                for name in names & logs.keys() & _hoisted(run):
                    large = bool((logs[name] > shift + 700.0).any())
                    if large or not bool(torch.isfinite(run.leaves[name]).all()):
                        raise refused("a derivative in a product of weights is not a number")
                for name in names & logs.keys():
                    slope = logs[name].to(slopes[name])
                    if name in run.scales:
                        slope = slope + spread(run.scales[name], slope)
                    slopes[name] += sign * held((slope - shift).exp())
        return {n: held(x * exp(shift)) for n, x in run.through_leaves(slopes).items()}

    def gradients(self, gradient: Tensor) -> dict[str, Tensor]:
        """The derivatives in weights and log-potentials."""
        slopes = self._log_gradients(gradient)
        for name, weights in self.run.weights.items():
            if name in slopes:
                real = weights.detach().double().to(slopes[name].device)
                slopes[name] = torch.where(real > 0, slopes[name] / real, 0.0)
        return slopes

    def marginals(self) -> dict[str, Tensor]:
        """How often each cell and state is used."""
        from fgg.runtime.interpret.interpret import outside

        with torch.no_grad():
            rest = outside(self.charts)
            log_z = torch.where(torch.isfinite(self.log_z), self.log_z, 0.0)
            flows = {}
            for name, array in self.charts.arrays.items():
                states = len(self.run.program.plan.chart[name].states)
                total = log_z.reshape(-1, *(1,) * states)
                flows[name] = (array + rest.arrays[name] - total).exp()
        return flows


def certificate(
    run: Run, leaves: Weights, charts: tuple[Weights, Weights], log_z: Tensor
) -> Tensor:
    """The items for which the inside pass provably lost no number, as a mask `[batch]`."""
    plan = run.program.plan
    powers = Powers(plan.item_axes, leaves, *charts, run.batch)
    return lossless(plan.products, powers, run.batch) & (log_z < inf)


def prepared_safely(run: Run, leaves: Weights) -> Tensor:
    """The items for which the products made before the charts lost no number, `[batch]`."""
    plan, batch = run.program.plan, run.batch
    batch.begin()
    return lossless(plan.prepared_products, Powers(plan.item_axes, leaves, {}, {}, batch), batch)


def _hoisted(run: Run) -> set[str]:
    """The leaves that are products of weights, or parts of such."""
    names: set[str] = set()
    for step in run.program.plan.preparations:
        part = isinstance(step, Cut | Gather) and step.source in names
        if part or isinstance(step, Contract):
            names.add(step.name)
    return names


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether all entries are numbers; one question to the device for all tensors."""
    sums = [x.sum() for x in tensors]
    if all(total.device.type == "cpu" for total in sums):
        return all(isfinite(total.item()) for total in sums)
    return bool(torch.isfinite(torch.stack(sums)).all())


def held(slopes: Tensor) -> Tensor:
    """Derivatives, with infinities replaced by the greatest number of the type."""
    return slopes.nan_to_num(posinf=torch.finfo(slopes.dtype).max)


def refused(what: str) -> GrammarError:
    """The error (F427) for numbers that no type can hold."""
    message = f"{what}: the weights are too extreme"
    help = "use float64 or less extreme weights; derivatives in log-weights are smaller"
    return GrammarError([Diagnostic(code="F427", message=message, help=help)])


def raised(leaf: Tensor, powers: int) -> Tensor:
    """A leaf whose positive entries are not too far below 1, or below its greatest one."""
    if not leaf.numel():
        return leaf
    floor = leaf.amax().clamp_min(1.0) * 2.0**-powers
    return torch.where(leaf > 0, leaf.maximum(floor), leaf)


def _lift(run: Run, leaves: Mapping[str, Tensor]) -> Lift:
    """The floors of a lifted pass: so that the product of the least values is a number.

    A product has at most `greatest_depth` values of cells; each may be a message, in which the
    entries of leaves are multiplied already.
    """
    plan, batch = run.program.plan, run.batch
    room, gap = ROOM[batch.dtype], GAP[batch.dtype]
    least = {n: min(float(least_power(x, None)), 0.0) for n, x in leaves.items() if x.numel()}
    leaves_of = (sum(least.get(n, 0.0) for n in names) for names, _ in plan.products)
    worst = min(leaves_of, default=0.0)
    power = (room.least + gap + 4 - 2 * worst) / max(plan.greatest_depth, 1)
    floor = 2.0 ** min(power, log2(batch.up))
    return Lift(floor, 2.0 ** (room.least + 24), -gap * log(2))
