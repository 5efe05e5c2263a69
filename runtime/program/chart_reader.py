"""The charts that derivations are read from, computed by emitted programs and kept as logarithms.

The interpreter (`fgg.runtime.interpret.interpret`) computes the same numbers in any semiring, many
times slower. It takes over where there is no emitted program, and where states of one cell differ
by more than the range of numbers: logarithms can tell these apart, scaled numbers cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.inputs.tokens import MISSING
from fgg.plan import Chart, Plan
from fgg.plan.sizes import chart_bytes, environment
from fgg.progress import levels
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.charts import AnyCharts, Charts
from fgg.runtime.interpret.charts import ends as ends_of
from fgg.runtime.interpret.frame import Scope
from fgg.runtime.interpret.interpret import inside as interpreted
from fgg.runtime.interpret.prepare import Prepared, checked_weights
from fgg.runtime.interpret.semirings import SEMIRINGS
from fgg.runtime.interpret.semirings.base import Numbers, NumpyArray, to_numpy
from fgg.runtime.memory import require
from fgg.runtime.prelude.batch import Batch as TensorBatch
from fgg.runtime.prelude.certificate import Powers, centre, least_power, lossless
from fgg.runtime.program.emitted import Engine, ScaledCharts
from fgg.runtime.program.inputs import Lengths

if TYPE_CHECKING:
    from fgg.runtime.native.engines import Engines


@dataclass(frozen=True, eq=False)
class DerivationModules:
    """The emitted programs of a plan that derivations are read from, loaded when first used.

    The plan has the charts of the one that derivations are read from, and may have more.
    """

    plan: Plan
    load: Callable[[bool], ModuleType]
    # Makes the engines of the module with sums, if there are others than the module itself.
    engines_of: Callable[[ModuleType], Engines] | None = None

    @cached_property
    def engines(self) -> Engines | None:
        """What can carry out the passes of `sums`, if there is a choice."""
        return None if self.engines_of is None else self.engines_of(self.sums)

    @cached_property
    def sums(self) -> ModuleType:
        """The module that computes inside values and their derivatives."""
        return self.load(False)

    @cached_property
    def best(self) -> ModuleType:
        """The module that computes inside values with maxima in place of sums."""
        return self.load(True)

    @property
    def has_scalar_start(self) -> bool:
        """Whether the start symbol has a chart, and no external nodes."""
        start = self.plan.chart.get(self.plan.start.name)
        return start is not None and not start.states


def covers(plan: Plan, trees: Plan) -> bool:
    """Whether a plan has all charts of another one, in the same storage."""
    return plan.parameters == trees.parameters and all(
        tree.family in plan.chart
        and replace(plan.chart[tree.family], scale_of=tree.scale_of) == tree
        for tree in trees.charts
    )


@dataclass(frozen=True, eq=False)
class DerivationCharts:
    """The charts of a batch that derivations are read from. Each set of charts is computed once.

    `weights` are checked. Without `modules`, the interpreter computes the charts.
    """

    plan: Plan
    weights: Mapping[str, Numbers]
    batch: Batch
    modules: DerivationModules | None = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        weights: Mapping[str, object],
        inputs: Mapping[str, object],
        lengths: Lengths = None,
        *,
        modules: DerivationModules | None = None,
    ) -> DerivationCharts:
        """Check weights and inputs; nothing is computed yet. Raises GrammarError."""
        batch = batch_of(plan, inputs, lengths)
        return cls(plan, checked_weights(plan, weights), batch, modules)

    @cached_property
    def best(self) -> AnyCharts:
        """The inside values in the semiring `max`: the best derivation below each cell."""
        return best_charts(self.plan, self.modules, self.weights, self.batch)

    @cached_property
    def log(self) -> AnyCharts:
        """The inside values in the semiring `log`, without derivatives."""
        return _log_charts(self.plan, self._sums, self.weights, self.batch)

    @cached_property
    def uses(self) -> dict[str, Tensor] | None:
        """How often a derivation is expected to use each cell, `[*axes, batch, *values]`.

        An item without derivations has 0 everywhere. None if there is no emitted program, its
        start symbol has external nodes, or the range of its numbers is too small.
        """
        modules = self.modules
        if modules is None or not modules.has_scalar_start or self._sums is None:
            return None
        return self._sums.uses(self.plan)

    @cached_property
    def _sums(self) -> _SumPass | None:
        return _sum_pass(self.modules, self.weights, self.batch)


def log_charts(
    plan: Plan,
    modules: DerivationModules | None,
    weights: Mapping[str, Numbers],
    batch: Batch,
) -> AnyCharts:
    """The inside values in the semiring `log`, without derivatives."""
    return DerivationCharts(plan, weights, batch, modules).log


@torch.inference_mode()
def _log_charts(
    plan: Plan, sums: _SumPass | None, weights: Mapping[str, Numbers], batch: Batch
) -> AnyCharts:
    if sums is None:
        return interpreted(plan, weights, batch, "log")
    return sums.prepared.charts(plan, "log", sums.values, sums.scales)


@torch.inference_mode()
def best_charts(
    plan: Plan,
    modules: DerivationModules | None,
    weights: Mapping[str, Numbers],
    batch: Batch,
    marks: Mapping[str, NumpyArray] | None = None,
) -> AnyCharts:
    """The inside values in the semiring `max`; `marks` are added to the cells of some families."""
    if modules is None:
        return interpreted(plan, weights, batch, "max", scores=marks)
    prepared = _PreparedItems(modules.plan, modules.best, weights, batch)
    all_marks = {chart.family: prepared.marks(chart, marks or {}) for chart in modules.plan.charts}
    charts = prepared.inside(modules.best, all_marks)
    if charts is None:
        return interpreted(plan, weights, batch, "max", scores=marks)
    return prepared.charts(plan, "max", *charts)


def slopes(
    modules: DerivationModules, weights: Mapping[str, Tensor], batch: Batch
) -> tuple[Tensor, dict[str, Tensor]] | None:
    """log Z of one item, `[1]`, and its derivatives in weights and log-potentials.

    Requires that the start symbol of the modules' plan has no external nodes. None if the numbers'
    range is too small for the item's charts.
    """
    with torch.enable_grad():
        leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
        logs = {name: x.detach().requires_grad_() for name, x in batch.potentials.items()}
        with_logs = replace(batch, potentials=logs)
        prepared = _PreparedItems(modules.plan, modules.sums, leaves, with_logs)
    engine = prepared.engine(modules, derivatives=True)
    with torch.inference_mode():
        charts = prepared.inside(engine)
        if charts is None:
            return None
        z = engine.result(charts[1], prepared.batch)
        one = torch.ones(1, dtype=torch.float64)
        leaf_slopes, _ = engine.outside(
            prepared.leaves, prepared.scales, *charts, prepared.batch, one
        )
        if any(not bool(torch.isfinite(slope.sum())) for slope in leaf_slopes.values()):
            return None
    names = [name for name in leaf_slopes if prepared.leaves[name].requires_grad]
    sources = {**leaves, **logs}
    grads = torch.autograd.grad(
        [prepared.leaves[name] for name in names],
        list(sources.values()),
        [leaf_slopes[name].clone() for name in names],
        allow_unused=True,
    )
    return z.clone(), {
        name: torch.zeros_like(x) if grad is None else grad
        for (name, x), grad in zip(sources.items(), grads, strict=True)
    }


class _PreparedItems:
    """A batch as an emitted program takes it, in double precision on the CPU."""

    def __init__(
        self, plan: Plan, module: ModuleType, weights: Mapping[str, Numbers], items: Batch
    ) -> None:
        self.plan = plan
        self.module = module
        self.weights = weights
        self.items = items
        lengths = {name: values.tolist() for name, values in items.lengths.items()}
        tables = {name: torch.from_numpy(table) for name, table in items.tables.items()}
        cpu = torch.device("cpu")
        # Values and scales, and both together as logarithms.
        needed = 2 * chart_bytes(plan, environment(lengths), items.size, 8)
        require(needed, cpu, "this batch")
        self.batch = TensorBatch(items.size, lengths, tables, torch.float64, cpu)
        self.batch.levels = levels
        tokens = {name: torch.from_numpy(array) for name, array in items.tokens.items()}
        missing = any(bool((array == MISSING).any()) for array in items.tokens.values())
        self.leaves, self.scales = module.prepare(
            {name: _double(w) for name, w in weights.items()},
            {**tokens, **tables, **items.potentials},
            self.batch,
            missing,
        )

    def engine(self, modules: DerivationModules, *, derivatives: bool) -> Engine:
        """What carries out all passes with sums over these items."""
        if modules.engines is None:
            return self.module
        return modules.engines.of(self.batch, derivatives=derivatives)

    def inside(
        self, engine: Engine, marks: Mapping[str, Tensor] | None = None
    ) -> ScaledCharts | None:
        """The inside pass of an engine, or None if a product may have been too small for it.

        Only modules of best derivations take `marks`.
        """
        module, batch = self.module, self.batch
        leaves = {name: leaf.detach() for name, leaf in self.leaves.items()}
        batch.begin()
        centre(batch, leaves, self.plan.greatest_depth, {})
        if marks is None:
            values, scales = engine.inside(leaves, self.scales, batch)
        else:
            values, scales = module.inside(leaves, self.scales, batch, marks)
            least = [least_power(m, None) for n, m in marks.items() if n in values and m.numel()]
            if least:
                # A mark is one more factor of every product.
                gap = torch.stack(least).amin().clamp_max(0.0) * log(2)
                batch.note_gap(gap.expand(batch.size))
        powers = Powers(self.plan.item_axes, leaves, values, scales, batch)
        safe = lossless(self.plan.products, powers, batch)
        return (values, scales) if bool(safe.all()) else None

    def marks(self, chart: Chart, marks: Mapping[str, NumpyArray]) -> Tensor:
        """A chart's marks: to be multiplied with values, to be added to scales of scalars."""
        if chart.family in marks:
            logs = torch.tensor(marks[chart.family], dtype=torch.float64)
            return logs if chart.is_scalar else logs.exp()
        low, high = ends_of(chart, Scope(self.plan, self.items))
        extents = [max(b - a + 1, 0) for a, b in zip(low, high, strict=True)]
        one = torch.tensor(0.0 if chart.is_scalar else 1.0, dtype=torch.float64)
        return one.expand((*extents, self.items.size, *chart.states))

    def charts(
        self, plan: Plan, semiring: str, values: Mapping[str, Tensor], scales: Mapping[str, Tensor]
    ) -> AnyCharts:
        """Values and scales as logarithms, in the charts of a plan that has some of them."""
        scope = Scope(plan, self.items)
        algebra = Algebra(SEMIRINGS[semiring]())
        arrays: dict[str, Numbers] = {}
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


@dataclass(frozen=True, eq=False)
class _SumPass:
    """The certified inside pass of an emitted program with sums."""

    prepared: _PreparedItems
    engine: Engine
    values: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]

    @torch.inference_mode()
    def uses(self, plan: Plan) -> dict[str, Tensor] | None:
        """The expected uses of each cell, `[*axes, batch, *values]`; None if one is NaN or inf."""
        prepared, batch = self.prepared, self.prepared.batch
        ones = torch.ones(batch.size, dtype=torch.float64)
        _, adjoints = self.engine.outside(
            prepared.leaves, prepared.scales, self.values, self.scales, batch, ones
        )
        uses = {name: batch.marginal(adjoints[name], self.values.get(name)) for name in plan.chart}
        finite = all(bool(torch.isfinite(use.sum())) for use in uses.values())
        return uses if finite else None


@torch.inference_mode()
def _sum_pass(
    modules: DerivationModules | None, weights: Mapping[str, Numbers], batch: Batch
) -> _SumPass | None:
    """The inside pass with sums; None without modules, or if their range is too small."""
    if modules is None:
        return None
    prepared = _PreparedItems(modules.plan, modules.sums, weights, batch)
    engine = prepared.engine(modules, derivatives=False)
    charts = prepared.inside(engine)
    return None if charts is None else _SumPass(prepared, engine, *charts)


def _wide(scales: Tensor, like: Tensor) -> Tensor:
    """Scales with an axis for each state axis of values."""
    return scales.reshape((*scales.shape, *(1,) * (like.dim() - scales.dim())))


def _double(weights: Numbers) -> Tensor:
    """Weights in double precision; tensors stay in the graph of derivatives."""
    if isinstance(weights, Tensor):
        return weights.to(torch.float64)
    return torch.as_tensor(to_numpy(weights).astype(float))
