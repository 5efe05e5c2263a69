"""Charts of a plan by its emitted program: as logarithms, for what derivations are read from.

The interpreter (`fgg.runtime.interpret.interpret`) finds the same numbers in any semiring; this is
many times faster. It is asked where there is no emitted program, and where states of one cell
differ by more than the range of numbers, which logarithms can tell apart and scaled numbers cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fgg.inputs.given import MISSING
from fgg.plan import Chart, Plan
from fgg.plan.sizes import chart_bytes, environment
from fgg.progress import levels
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.charts import AnyCharts, Charts
from fgg.runtime.interpret.charts import ends as ends_of
from fgg.runtime.interpret.frame import Scope
from fgg.runtime.interpret.interpret import inside as interpreted
from fgg.runtime.interpret.prepare import Prepared
from fgg.runtime.interpret.semirings import SEMIRINGS
from fgg.runtime.interpret.semirings.base import to_numpy
from fgg.runtime.memory import require
from fgg.runtime.prelude.charts import least_power


@dataclass(frozen=True, eq=False)
class Modules:
    """The emitted programs of a plan, each loaded when it is first asked for.

    The plan has the charts of the one that derivations are read from, and may have more.
    """

    plan: Plan
    load: Callable[[bool], ModuleType]
    # What carries out the passes of the module with sums, if not the module itself.
    engine_of: Callable[[ModuleType], Any] | None = None

    @cached_property
    def engine(self) -> Any:
        """What has the functions of `sums`."""
        return self.sums if self.engine_of is None else self.engine_of(self.sums)

    @cached_property
    def sums(self) -> ModuleType:
        """Inside values and their derivatives."""
        return self.load(False)

    @cached_property
    def best(self) -> ModuleType:
        """Inside values with maxima in place of sums."""
        return self.load(True)


def covers(plan: Plan, trees: Plan) -> bool:
    """Whether a plan has all charts of another one, in the same storage."""
    return plan.parameters == trees.parameters and all(
        own.family in plan.chart and replace(plan.chart[own.family], scale_of=own.scale_of) == own
        for own in trees.charts
    )


@torch.inference_mode()
def log_charts(
    plan: Plan, modules: Modules | None, weights: Mapping[str, Any], batch: Batch
) -> AnyCharts:
    """The inside values in the semiring `log`, without derivatives."""
    if modules is None:
        return interpreted(plan, weights, batch, "log")
    run = _Run(modules.plan, modules.sums, weights, batch)
    charts = run.inside(modules.engine)
    if charts is None:
        return interpreted(plan, weights, batch, "log")
    return run.charts(plan, "log", *charts)


@torch.inference_mode()
def best_charts(
    plan: Plan,
    modules: Modules | None,
    weights: Mapping[str, Any],
    batch: Batch,
    marks: Mapping[str, Any] | None = None,
) -> AnyCharts:
    """The inside values in the semiring `max`; `marks` are added to the cells of some families."""
    if modules is None:
        return interpreted(plan, weights, batch, "max", scores=marks)
    run = _Run(modules.plan, modules.best, weights, batch)
    own = {chart.family: run.marks(chart, marks or {}) for chart in modules.plan.charts}
    charts = run.inside(modules.best, own)
    if charts is None:
        return interpreted(plan, weights, batch, "max", scores=marks)
    return run.charts(plan, "max", *charts)


@torch.inference_mode()
def used_cells(
    plan: Plan, modules: Modules, weights: Mapping[str, Any], batch: Batch
) -> tuple[AnyCharts, dict[str, Tensor]] | None:
    """The inside values in `log`, and how often each cell is used, `[*axes, batch, *values]`.

    Requires that the start symbol of the modules' plan has no external nodes. An item without
    derivations has 0 everywhere. None if the numbers' range is too small for these charts.
    """
    engine = modules.engine
    run = _Run(modules.plan, modules.sums, weights, batch)
    charts = run.inside(engine)
    if charts is None:
        return None
    values, scales = charts
    ones = torch.ones(batch.size, dtype=torch.float64)
    _, slopes = engine.outside(run.leaves, run.scales, values, scales, run.batch, ones)
    uses = {name: run.batch.marginal(slopes[name], values.get(name)) for name in plan.chart}
    if any(not bool(torch.isfinite(use.sum())) for use in uses.values()):
        return None
    return run.charts(plan, "log", values, scales), uses


def slopes(
    modules: Modules, weights: Mapping[str, Tensor], batch: Batch
) -> tuple[Tensor, dict[str, Tensor]] | None:
    """log Z of one item, and its derivative in weights and log-potentials.

    Requires that the start symbol of the modules' plan has no external nodes. None if the numbers'
    range is too small for the item's charts.
    """
    engine = modules.engine
    with torch.enable_grad():
        own = {name: w.detach().requires_grad_() for name, w in weights.items()}
        logs = {name: x.detach().requires_grad_() for name, x in batch.potentials.items()}
        run = _Run(modules.plan, modules.sums, own, replace(batch, potentials=logs))
    with torch.inference_mode():
        charts = run.inside(engine)
        if charts is None:
            return None
        z = engine.result(charts[1], run.batch)
        one = torch.ones(1, dtype=torch.float64)
        found, _ = engine.outside(run.leaves, run.scales, *charts, run.batch, one)
        if any(not bool(torch.isfinite(slope.sum())) for slope in found.values()):
            return None
    names = [name for name in found if run.leaves[name].requires_grad]
    sources = {**own, **logs}
    grads = torch.autograd.grad(
        [run.leaves[name] for name in names],
        list(sources.values()),
        [found[name].clone() for name in names],
        allow_unused=True,
    )
    return z.clone(), {
        name: torch.zeros_like(x) if grad is None else grad
        for (name, x), grad in zip(sources.items(), grads, strict=True)
    }


class _Run:
    """A batch as an emitted program takes it, in double precision."""

    def __init__(
        self, plan: Plan, module: ModuleType, weights: Mapping[str, Any], batch: Batch
    ) -> None:
        self.plan = plan
        self.module = module
        self.weights = weights
        self.own = batch
        lengths = {name: values.tolist() for name, values in batch.lengths.items()}
        tables = {name: torch.from_numpy(table) for name, table in batch.tables.items()}
        place = torch.device("cpu")
        ends = environment(lengths)
        # Values and scales, and both together as logarithms.
        require(2 * chart_bytes(plan, ends, batch.size, 8), place, "this batch")
        self.size = (batch.size, lengths, tables, torch.float64, place)
        self.batch = module.Batch(*self.size)
        self.batch.levels = levels
        tokens = {name: torch.from_numpy(own) for name, own in batch.tokens.items()}
        self.missing = any(bool((own == MISSING).any()) for own in batch.tokens.values())
        self.tensors = {name: _tensor(w) for name, w in weights.items()}
        self.inputs = {**tokens, **tables, **batch.potentials}
        self.leaves, self.scales = module.prepare(
            self.tensors, self.inputs, self.batch, self.missing
        )

    def inside(
        self, engine: Any, marks: Mapping[str, Tensor] | None = None
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]] | None:
        """The inside pass of an engine, or None if a product may have been too small for it."""
        module, batch = self.module, self.batch
        leaves = {name: leaf.detach() for name, leaf in self.leaves.items()}
        batch.begin()
        module.centre(batch, leaves, module.DEPTH, {})
        if marks is None:
            values, scales = engine.inside(leaves, self.scales, batch)
        else:
            values, scales = engine.inside(leaves, self.scales, batch, marks)
            least = [least_power(m, None) for n, m in marks.items() if n in values and m.numel()]
            if least:
                # A mark is one more factor of every product.
                gap = torch.stack(least).amin().clamp_max(0.0) * log(2)
                batch.note_gap(gap.expand(batch.size))
        powers = module.Powers(module.STORED, leaves, values, scales, batch)
        safe = module.lossless(module.PRODUCTS, powers, batch)
        return (values, scales) if bool(safe.all()) else None

    def marks(self, chart: Chart, marks: Mapping[str, Any]) -> Tensor:
        """A chart's marks: to be multiplied with values, to be added to scales of scalars."""
        if chart.family in marks:
            found = torch.tensor(to_numpy(marks[chart.family]), dtype=torch.float64)
            return found if chart.is_scalar else found.exp()
        low, high = ends_of(chart, Scope(self.plan, self.own))
        extents = [max(b - a + 1, 0) for a, b in zip(low, high, strict=True)]
        one = torch.tensor(0.0 if chart.is_scalar else 1.0, dtype=torch.float64)
        return one.expand((*extents, self.own.size, *chart.states))

    def charts(
        self, plan: Plan, semiring: str, values: Mapping[str, Tensor], scales: Mapping[str, Tensor]
    ) -> AnyCharts:
        """Values and scales as logarithms, in the charts of a plan that has some of them."""
        scope = Scope(plan, self.own)
        algebra = Algebra(SEMIRINGS[semiring]())
        arrays: dict[str, Any] = {}
        low: dict[str, tuple[int, ...]] = {}
        for chart in plan.charts:
            scale = scales[chart.family]
            logs = scale
            if not chart.is_scalar:
                logs = values[chart.family].log() + _wide(scale, values[chart.family])
            arrays[chart.family] = logs if semiring == "log" else logs.numpy()
            low[chart.family] = ends_of(chart, scope)[0]
        prepared = Prepared(plan, scope, algebra, self.weights)
        return Charts(plan, scope, algebra, prepared, arrays, low)


def _wide(scales: Tensor, like: Tensor) -> Tensor:
    """Scales with an axis for each state axis of values."""
    return scales.reshape((*scales.shape, *(1,) * (like.dim() - scales.dim())))


def _tensor(weights: Any) -> Tensor:
    """Weights in double precision; tensors stay in the graph of derivatives."""
    if isinstance(weights, Tensor):
        return weights.to(torch.float64)
    return torch.as_tensor(to_numpy(weights).astype(float))
