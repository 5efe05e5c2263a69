"""A batch ready for its charts, and what is read off them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fgg.plan_sizes import environment
from fgg.runtime.batching import Collated
from fgg.runtime.pins import unpinned

if TYPE_CHECKING:
    from fgg.runtime.program import Program


@dataclass(frozen=True, eq=False)
class Run:
    """A batch ready for its charts."""

    program: Program
    weights: Mapping[str, Tensor]
    collated: Collated
    batch: Any
    tensors: Mapping[str, Tensor]
    sources: tuple[Tensor, ...]
    leaves: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]

    def marginals(self) -> dict[str, Tensor]:
        """Value times gradient, cell by cell, put together by the user's families."""
        engine, plan = self.program.engine, self.program.plan
        values, charts = engine.inside(self.leaves, self.scales, self.batch)
        log_z = engine.result(charts, self.batch)
        _, gradients = engine.outside(
            self.leaves, self.scales, values, charts, self.batch, torch.ones_like(log_z)
        )
        found = {
            name: gradients[name] * values[name] if name in values else gradients[name]
            for name in gradients
        }
        ends = environment(self.collated.lengths)
        result: dict[str, Tensor] = {}
        for part in self.program.refinements:
            chart, pins = found[part.family], self.program.pins.get(part.family)
            if pins is not None:
                chart = unpinned(chart, part.family, pins, plan, self.collated, ends)
            part.add_to(result, chart, plan, ends)
        return result
