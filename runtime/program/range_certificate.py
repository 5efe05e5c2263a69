"""Inside and outside passes with a range certificate: a number is right, or it is refused.

A pass of an emitted program records, for each item, whether any product of positive numbers may
have fallen below the smallest normal number (`fgg.runtime.prelude.certificate.lossless`). Only
items that may have lost a product are computed again, in these ways, one after the other:

1. the same type, *lifted*: every positive number that is too small is raised, so nothing can be
   lost. The first pass is a lower bound of Z and this one an upper bound. If both agree, the loss
   did not matter, however peaked the model is;
2. float64, as it is and lifted;
3. logarithms throughout, which have no range to leave.

Gradients, marginals and expected counts of an item come from the same pass as its log Z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, inf, isfinite, log, log2, nan
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar.provenance import pins_of
from fgg.plan import Contract, Cut, Gather
from fgg.plan.sizes import environment
from fgg.runtime.layer.precision import full_precision
from fgg.runtime.prelude.cells import NEGATIVE, spread
from fgg.runtime.prelude.certificate import (
    Lift,
    Powers,
    centre,
    is_lower_bound,
    least_power,
    lossless,
)
from fgg.runtime.prelude.scaled import ROOM
from fgg.runtime.program.chart_views import unpinned
from fgg.runtime.program.prepared_batch import Run, prepared

Weights = Mapping[str, Tensor]
TOLERANCE = {torch.float32: 4e-6, torch.float64: 1e-12}
"""How far, in nats, a lower and an upper bound of log Z may be apart."""
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
                leaves = {n: _raised(x, ROOM[batch.dtype].entry) for n, x in leaves.items()}
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


def _raised(leaf: Tensor, powers: int) -> Tensor:
    """A leaf whose positive entries are not too far below 1, or below its greatest one."""
    if not leaf.numel():
        return leaf
    floor = leaf.amax().clamp_min(1.0) * 2.0**-powers
    return torch.where(leaf > 0, leaf.maximum(floor), leaf)


def _raised_weights(run: Run, weights: Weights) -> Weights:
    """Weights of which products are made before the charts, raised so that these are numbers."""
    if not run.program.plan.prepared_products:
        return weights
    powers = ROOM[run.batch.dtype].entry
    return {name: _raised(weight.detach(), powers) for name, weight in weights.items()}


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


@dataclass(eq=False)
class Certified:
    """The passes of a batch: every item is in one group, and has its numbers from there.

    `weights` gives the weights in a type, and others in which what is too small for it is raised,
    if anything is; without it, they are those of the run. `logs` are their logarithms.
    """

    run: Run
    weights: Callable[[torch.dtype], tuple[Weights, Weights | None]] | None = None
    logs: Weights | None = None
    # Whether outside passes are kept, for both expected counts and marginals.
    keep: bool = False
    groups: list[Group | LogGroup] = field(init=False)
    # Whether a gradient needed more range than log Z.
    widened: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.run.program.ranges.items += self.run.collated.size
        self.groups = list(self._passes(self.run, None))

    @cached_property
    def log_z(self) -> Tensor:
        """log Z of every item, `[batch]`, in the type of the run."""
        first = self.groups[0]
        if len(self.groups) == 1 and first.items is None:
            return first.log_z.clone()
        batch = self.run.batch
        result = torch.full((batch.size,), NEGATIVE, dtype=batch.dtype, device=batch.device)
        for group in self.groups:
            places = self._places(group)
            log_z = group.log_z.detach().to(result).clone()
            if bool((torch.isfinite(group.log_z) & ~torch.isfinite(log_z)).any()):
                raise refused(f"log Z is too large for {str(batch.dtype).removeprefix('torch.')}")
            kept = log_z > NEGATIVE
            result[places[kept]] = log_z[kept]
        return result

    def _places(self, group: Group | LogGroup) -> Tensor:
        """The places of a group's items in the batch."""
        if group.items is not None:
            return group.items
        return torch.arange(self.run.batch.size, device=self.run.batch.device)

    def _passes(self, run: Run, items: Tensor | None) -> Iterator[Group | LogGroup]:
        """The groups of a run, each with as much range as its items need."""
        plain = Group.of(run, items, keep=self.keep)
        if self.run.loses_pieces(run.batch.dtype):
            yield from self._wider(run.batch.dtype, self._places(plain).clone())
            return
        _, raised = self._weights(run.batch.dtype)
        safe = plain.safe if raised is None else torch.zeros_like(plain.safe)
        if bool(safe.all()):
            yield plain
            return
        unsafe = torch.nonzero(~safe).flatten()
        lower = torch.where(is_lower_bound(run.batch), plain.log_z, nan)[unsafe].clone()
        if bool(safe.any()):
            plain.forget(unsafe)
            yield plain
        places = self._places(plain)[unsafe].clone()
        weights, _ = self._weights(run.batch.dtype)
        again = self._run(places, run.batch.dtype, _raised_weights(run, raised or weights))
        lifted = Group.of(again, places, lifted=True, keep=self.keep)
        lifted.weights = weights
        near = (lifted.log_z - lower).abs() <= TOLERANCE[run.batch.dtype]
        sure = lifted.safe & (near | torch.isneginf(lifted.log_z))
        run.program.ranges.lifted += int(sure.sum())
        if bool(sure.all()):
            yield lifted
            return
        left = torch.nonzero(~sure).flatten()
        if bool(sure.any()):
            lifted.forget(left)
            yield lifted
        yield from self._wider(run.batch.dtype, places[left].clone())

    def _weights(self, dtype: torch.dtype) -> tuple[Weights, Weights | None]:
        """The weights in a type, and raised ones if some are too small for it."""
        return (self.run.in_type(dtype), None) if self.weights is None else self.weights(dtype)

    def _run(
        self, places: Tensor, dtype: torch.dtype, new: Weights | None = None, *, passes: bool = True
    ) -> Run:
        """The run of some items of the batch, in numbers of a type."""
        source = self._weights(dtype)[0] if new is None else new
        given = {n: w.detach().to(dtype) for n, w in source.items()}
        for name, weight in self.run.tensors.items():
            if name in given:
                given[name].requires_grad_(weight.requires_grad)
        program, device = self.run.program, self.run.batch.device
        inputs, lengths = self.run.collated.items(places.tolist())
        with torch.inference_mode(False), torch.enable_grad():
            collated = program.collate(inputs, lengths or None, dtype=dtype, device=device)
            for name in self.run.tensors.keys() - given.keys():
                collated.inputs[name].requires_grad_(self.run.tensors[name].requires_grad)
            return prepared(program, given, collated, dtype, device, passes=passes)

    def limits(self, gradient: Tensor) -> dict[str, Tensor]:
        """The derivatives in weights, those that are 0 too."""
        places = torch.arange(self.run.batch.size)
        run = self._run(places, torch.float64, passes=False)
        return LogGroup(None, run, self.logs).limits(gradient)

    @property
    def has_limits(self) -> bool:
        """Whether gradients are right in weights that are 0, too.

        Nothing goes through cells that are zero, and lifted passes are bounds of what is used.
        """
        return not self.widened and all(
            isinstance(g, Group) and not (g.lifted or g.large or g.run.batch.has_dead_cells())
            for g in self.groups
        )

    def gradients(self, gradient: Tensor) -> dict[str, Tensor]:
        """The derivatives in weights and log-potentials, by name, in the type of the run."""
        return self._summed(lambda group: group.gradients(self._share(group, gradient)))

    def _share(self, group: Group | LogGroup, gradient: Tensor) -> Tensor:
        """The gradient of the items of a group, 0 for those without derivations."""
        share = gradient if group.items is None else gradient[group.items]
        return torch.where(torch.isfinite(group.log_z), share.to(group.log_z), 0.0)

    def _summed(
        self, ask: Callable[[Group | LogGroup], dict[str, Tensor] | None]
    ) -> dict[str, Tensor]:
        """The answers of all groups, added up."""
        result: dict[str, Tensor] = {}
        for group, answer in self._answers(self.groups, ask):
            for name, slope in answer.items():
                self._add(result, name, slope, group.items)
        return result

    def _answers(
        self,
        groups: Iterable[Group | LogGroup],
        ask: Callable[[Group | LogGroup], dict[str, Tensor] | None],
    ) -> Iterator[tuple[Group | LogGroup, dict[str, Tensor]]]:
        """The answers of groups; one that has no answer in numbers is computed with more range."""
        for group in groups:
            answer = ask(group)
            if answer is not None:
                yield group, answer
                continue
            places = self._places(group)[torch.isfinite(group.log_z)]
            self.widened = True
            yield from self._answers(self._wider(group.run.batch.dtype, places), ask)

    def counts(self) -> dict[str, Tensor]:
        """How often each entry of weights and log-potentials is used, over the whole batch.

        The derivatives in logarithms, in double precision; log-potentials item by item.
        """
        counts = self._summed(lambda group: group.counts())
        return {name: count.double() for name, count in counts.items()}

    def _wider(self, dtype: torch.dtype, places: Tensor) -> Iterator[Group | LogGroup]:
        """Some items with more range than a type has."""
        report = self.run.program.ranges
        if dtype == torch.float32 and self.run.batch.device.type in ("cpu", "cuda"):
            report.float64 += len(places)
            yield from self._passes(self._run(places, torch.float64), places)
            return
        report.logarithms += len(places)
        report.float64 -= len(places) if self.run.batch.dtype == torch.float32 else 0
        logs = self.run.piece_logs() if self.logs is None else self.logs
        group = LogGroup(places, self._run(places, torch.float64, passes=False), logs)
        _ = group.log_z  # refused here, not later
        yield group

    def _add(
        self, result: dict[str, Tensor], name: str, slope: Tensor, items: Tensor | None
    ) -> None:
        """Add the gradients of a group; those of log-potentials are its items' own."""
        like = self.run.tensors[name]
        slope = slope.to(like.device)
        if name in self.run.weights or items is None:
            # A gradient that was handed through as it is would not be the user's to change.
            slope = slope.clone() if slope.is_inference() else slope
            result[name] = result[name] + slope if name in result else slope
            return
        if name not in result:
            result[name] = torch.zeros_like(like, dtype=slope.dtype)
        # Items of a group may be shorter than others of the batch.
        target = result[name][(slice(None), *(slice(n) for n in slope.shape[1:]))]
        target.index_add_(0, items, slope.to(target.dtype))

    def marginals(self) -> dict[str, Tensor]:
        """For every family, how often each cell and state is used, `[batch, *indices, *states]`."""
        program = self.run.program
        tables: list[tuple[Group | LogGroup, dict[str, Tensor]]] = []
        for group, flows in self._answers(self.groups, lambda group: group.marginals()):
            ends = environment(group.run.collated.lengths)
            families: dict[str, Tensor] = {}
            pinned = pins_of(program.plan.grammar)
            for part in program.refinements:
                chart, pins = flows[part.family], pinned.get(part.family)
                if pins is not None:
                    collated = group.run.collated
                    chart = unpinned(chart, part.family, pins, program.plan, collated, ends)
                part.add_to(families, chart, program.plan, ends)
            tables.append((group, families))
        first, families = tables[0]
        if len(tables) == 1 and first.items is None:
            return {name: table.clone() for name, table in families.items()}
        return {name: self._joined(name, tables) for name in families}

    def _joined(
        self, name: str, tables: list[tuple[Group | LogGroup, dict[str, Tensor]]]
    ) -> Tensor:
        """The marginals of a family for all items; groups of short items have fewer indices."""
        batch = self.run.batch
        shapes = [families[name].shape[1:] for _, families in tables]
        shape = (batch.size, *(max(extents) for extents in zip(*shapes, strict=True)))
        result = torch.zeros(shape, dtype=batch.dtype, device=batch.device)
        for group, families in tables:
            live = torch.isfinite(group.log_z)
            place = result[(slice(None), *(slice(n) for n in families[name].shape[1:]))]
            place[self._places(group)[live]] = families[name].to(result)[live]
        return result
