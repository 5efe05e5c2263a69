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

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import nan

import torch
from torch import Tensor

from fgg.grammar.provenance import pins_of
from fgg.plan.sizes import environment
from fgg.runtime.prelude.cells import NEGATIVE
from fgg.runtime.prelude.certificate import (
    is_lower_bound,
)
from fgg.runtime.prelude.scaled import ROOM
from fgg.runtime.program.chart_views import unpinned
from fgg.runtime.program.item_groups import Group, LogGroup, Weights, raised, refused
from fgg.runtime.program.prepared_batch import Run, prepared

TOLERANCE = {torch.float32: 4e-6, torch.float64: 1e-12}
"""How far, in nats, a lower and an upper bound of log Z may be apart."""


def _raised_weights(run: Run, weights: Weights) -> Weights:
    """Weights of which products are made before the charts, raised so that these are numbers."""
    if not run.program.plan.prepared_products:
        return weights
    powers = ROOM[run.batch.dtype].entry
    return {name: raised(weight.detach(), powers) for name, weight in weights.items()}


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
