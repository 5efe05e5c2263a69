"""Plans carried out in any semiring: inside values of every cell, and outside values.

The interpreter is generic rather than fast. A step gathers its operands by index arrays into arrays
with an axis for each loop, the batch and each node, and sums their product in the plan's order. In
the semiring `log`, torch can differentiate everything, any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

from torch import Tensor

from fgg.diagnostics import did_you_mean, refuse
from fgg.plan import Plan
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.charts import AnyCharts, Charts, empty_charts, points
from fgg.runtime.interpret.frame import Frame, Scope
from fgg.runtime.interpret.prepare import Prepared, checked_weights
from fgg.runtime.interpret.semirings import SEMIRINGS, AnySemiring, Semiring
from fgg.runtime.interpret.semirings.base import Array, Numbers
from fgg.runtime.interpret.semirings.real import TensorSemiring
from fgg.runtime.interpret.step import StepWork
from fgg.runtime.program.inputs import Lengths


def interpret(
    plan: Plan,
    weights: Mapping[str, object],
    inputs: Mapping[str, object],
    lengths: Lengths = None,
    semiring: str | AnySemiring = "log",
    *,
    scores: Mapping[str, Any] | None = None,
) -> AnyCharts:
    """The inside values of every cell.

    `inputs` are `[batch, …]`. `scores` multiply every cell of some families; they are arrays of
    the semiring with the shape of the family's chart. Raises GrammarError for what does not fit.
    """
    batch = batch_of(plan, inputs, lengths)
    return inside(plan, checked_weights(plan, weights), batch, semiring, scores=scores)


def semiring_of(semiring: str | AnySemiring, weights: Mapping[str, Numbers]) -> AnySemiring:
    """A semiring by name, on the device of the weights."""
    if not isinstance(semiring, str):
        return semiring
    if semiring not in SEMIRINGS:
        message = f"there is no semiring `{semiring}`"
        refuse("F415", message, did_you_mean(semiring, SEMIRINGS))
    ring = SEMIRINGS[semiring]()
    for weight in weights.values():
        if isinstance(weight, Tensor) and isinstance(ring, TensorSemiring):
            ring.device = str(weight.device)
    return ring


@overload
def inside(
    plan: Plan,
    weights: Mapping[str, Numbers],
    batch: Batch,
    semiring: Semiring[Array],
    *,
    scores: Mapping[str, Array] | None = None,
) -> Charts[Array]: ...


@overload
def inside(
    plan: Plan,
    weights: Mapping[str, Numbers],
    batch: Batch,
    semiring: str | AnySemiring,
    *,
    scores: Mapping[str, Any] | None = None,
) -> AnyCharts: ...


def inside(
    plan: Plan,
    weights: Mapping[str, Numbers],
    batch: Batch,
    semiring: str | AnySemiring,
    *,
    scores: Mapping[str, Any] | None = None,
) -> AnyCharts:
    """The inside values for weights and inputs that have been checked."""
    scope = Scope(plan, batch)
    algebra = Algebra(semiring_of(semiring, weights))
    prepared = Prepared(plan, scope, algebra, weights)
    empty = empty_charts(plan, scope, algebra, prepared)
    arrays = dict(empty.arrays)
    charts = replace(empty, arrays=arrays)
    for step, frame in points(plan, scope):
        arrays[step.head] = StepWork(charts, step, frame).inside(scores or {})
    return charts


def outside(
    charts: Charts[Array], seeds: Array | None = None, leaves: dict[str, Array] | None = None
) -> Charts[Array]:
    """The outside value of every cell: the derivative of Z in it, in the charts' semiring.

    `seeds`, `[batch]`, are the start symbol's outside values, instead of one. Derivatives in
    parameters and tables are added to `leaves`, if that is given, by name.

    Inside times outside is, in `log`, the weight of all derivations through a cell; in `max`,
    that of the best one; in `counting`, their number; in `boolean`, whether there is one.
    """
    plan, scope, algebra = charts.plan, charts.scope, charts.algebra
    empty = empty_charts(plan, scope, algebra, charts.prepared)
    arrays = dict(empty.arrays)
    above = replace(empty, arrays=arrays)
    start = plan.start
    if start.name not in arrays:
        return above
    place = Frame(scope, {}, 0).place(
        start.index, charts.low[start.name], arrays[start.name].shape[: len(start.index)]
    )
    states = plan.chart[start.name].states
    one = algebra.semiring.full((scope.batch.size, *states), one=True) if seeds is None else seeds
    arrays[start.name] = algebra.add_to(
        arrays[start.name], place.index, place.valid, one, distinct=True
    )
    for step, frame in points(plan, scope, reverse=True):
        StepWork(charts, step, frame).outside(arrays, leaves)
    return above
