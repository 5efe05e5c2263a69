"""Charts of a plan by its emitted program: as logarithms, for what derivations are read from.

The interpreter (`fgg.runtime.interpret`) finds the same numbers in any semiring, and for grammars
without an emitted program; this is many times faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fgg.observe import MISSING
from fgg.plan import Chart, Plan
from fgg.runtime.batch import Batch
from fgg.runtime.frames import Scope
from fgg.runtime.interpret import inside as interpreted
from fgg.runtime.named import Algebra
from fgg.runtime.plan_charts import Charts, ends
from fgg.runtime.preparing import Prepared, plain
from fgg.runtime.semirings import SEMIRINGS


@dataclass(frozen=True)
class Modules:
    """The emitted programs of a plan: sums with their derivatives, and best derivations."""

    sums: ModuleType
    best: ModuleType


@torch.inference_mode()
def log_charts(
    plan: Plan, modules: Modules | None, weights: Mapping[str, Any], batch: Batch
) -> Charts:
    """The inside values in the semiring `log`, without derivatives."""
    if modules is None:
        return interpreted(plan, weights, batch, "log")
    run = _Run(plan, modules.sums, weights, batch)
    values, scales = modules.sums.inside(run.leaves, run.scales, run.batch)
    return run.charts("log", values, scales)


@torch.inference_mode()
def best_charts(
    plan: Plan,
    modules: Modules | None,
    weights: Mapping[str, Any],
    batch: Batch,
    marks: Mapping[str, Any] | None = None,
) -> Charts:
    """The inside values in the semiring `max`; `marks` are added to the cells of some families."""
    if modules is None:
        return interpreted(plan, weights, batch, "max", scores=marks)
    run = _Run(plan, modules.best, weights, batch)
    own = {chart.family: run.marks(chart, marks or {}) for chart in plan.charts}
    values, scales = modules.best.inside(run.leaves, run.scales, run.batch, own)
    return run.charts("max", values, scales)


@torch.inference_mode()
def used_cells(
    plan: Plan, modules: Modules, weights: Mapping[str, Any], batch: Batch
) -> tuple[Charts, dict[str, Tensor]]:
    """The inside values in `log`, and how often each cell is used, `[*axes, batch, *values]`.

    Requires a start symbol without external nodes. An item without derivations has 0 everywhere.
    """
    module = modules.sums
    run = _Run(plan, module, weights, batch)
    values, scales = module.inside(run.leaves, run.scales, run.batch)
    ones = torch.ones(batch.size, dtype=torch.float64)
    _, slopes = module.outside(run.leaves, run.scales, values, scales, run.batch, ones)
    found = {name: x * values[name] if name in values else x for name, x in slopes.items()}
    return run.charts("log", values, scales), found


class _Run:
    """A batch as an emitted program takes it, in double precision."""

    def __init__(
        self, plan: Plan, module: ModuleType, weights: Mapping[str, Any], batch: Batch
    ) -> None:
        self.plan = plan
        self.weights = weights
        self.own = batch
        lengths = {name: values.tolist() for name, values in batch.lengths.items()}
        tables = {name: torch.from_numpy(table) for name, table in batch.tables.items()}
        place = torch.device("cpu")
        self.batch = module.Batch(batch.size, lengths, tables, torch.float64, place)
        tokens = {name: torch.from_numpy(own) for name, own in batch.tokens.items()}
        missing = any(bool((own == MISSING).any()) for own in batch.tokens.values())
        self.leaves, self.scales = module.prepare(
            {name: torch.as_tensor(plain(w).astype(float)) for name, w in weights.items()},
            {**tokens, **tables, **batch.potentials},
            self.batch,
            missing,
        )

    def marks(self, chart: Chart, marks: Mapping[str, Any]) -> Tensor:
        """A chart's marks: to be multiplied with values, to be added to scales of scalars."""
        if chart.family in marks:
            found = torch.tensor(plain(marks[chart.family]), dtype=torch.float64)
            return found if chart.is_scalar else found.exp()
        low, high = ends(chart, Scope(self.plan, self.own))
        extents = [max(b - a + 1, 0) for a, b in zip(low, high, strict=True)]
        one = torch.tensor(0.0 if chart.is_scalar else 1.0, dtype=torch.float64)
        return one.expand((*extents, self.own.size, *chart.states))

    def charts(
        self, semiring: str, values: Mapping[str, Tensor], scales: Mapping[str, Tensor]
    ) -> Charts:
        """Values and scales as logarithms."""
        scope = Scope(self.plan, self.own)
        algebra = Algebra(SEMIRINGS[semiring]())
        arrays: dict[str, Any] = {}
        low: dict[str, tuple[int, ...]] = {}
        for chart in self.plan.charts:
            scale = scales[chart.family]
            logs = scale
            if not chart.is_scalar:
                wide = scale.reshape((*scale.shape, *(1,) * len(chart.states)))
                logs = values[chart.family].log() + wide
            arrays[chart.family] = logs if semiring == "log" else logs.numpy()
            low[chart.family] = ends(chart, scope)[0]
        prepared = Prepared(self.plan, scope, algebra, self.weights)
        return Charts(self.plan, scope, algebra, prepared, arrays, low)
