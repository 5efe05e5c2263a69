"""Plans carried out in any semiring: inside values of every cell, and outside values.

Generic rather than fast: a step gathers its operands by index arrays into arrays with an axis for
each loop, the batch and each node, and sums their product in the order that the plan says. In the
semiring `log` everything is differentiable by torch, any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fgg.diagnostics import did_you_mean, refuse
from fgg.plan import Plan
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.charts import Charts, empty_charts, points
from fgg.runtime.interpret.frame import Frame, Scope
from fgg.runtime.interpret.named import Algebra
from fgg.runtime.interpret.prepare import Prepared, checked_weights
from fgg.runtime.interpret.semirings import SEMIRINGS, Semiring
from fgg.runtime.interpret.step import StepWork
from fgg.runtime.program.inputs import Lengths


def interpret(
    plan: Plan,
    weights: Mapping[str, Any],
    inputs: Mapping[str, Any],
    lengths: Lengths = None,
    semiring: str | Semiring = "log",
    *,
    scores: Mapping[str, Any] | None = None,
) -> Charts:
    """The inside values of every cell.

    `inputs` are `[batch, …]`; `scores` multiply every cell of some families, as arrays of the
    semiring with the shape of the family's chart. Raises GrammarError for what does not fit.
    """
    batch = batch_of(plan, inputs, lengths)
    return inside(plan, checked_weights(plan, weights), batch, semiring, scores=scores)


def semiring_of(semiring: str | Semiring, weights: Mapping[str, Any]) -> Semiring:
    """A semiring by name, on the device of the weights."""
    if not isinstance(semiring, str):
        return semiring
    if semiring not in SEMIRINGS:
        message = f"there is no semiring `{semiring}`"
        help = did_you_mean(semiring, SEMIRINGS)
        refuse("F415", message, help)
    found = SEMIRINGS[semiring]()
    for weight in weights.values():
        if isinstance(weight, Tensor) and hasattr(found, "device"):
            found.device = str(weight.device)
    return found


def inside(
    plan: Plan,
    weights: Mapping[str, Any],
    batch: Batch,
    semiring: str | Semiring,
    *,
    scores: Mapping[str, Any] | None = None,
) -> Charts:
    """The inside values for weights and inputs that have been checked."""
    scope = Scope(plan, batch)
    algebra = Algebra(semiring_of(semiring, weights))
    prepared = Prepared(plan, scope, algebra, weights)
    charts = empty_charts(plan, scope, algebra, prepared)
    arrays = dict(charts.arrays)
    charts = Charts(plan, scope, algebra, prepared, arrays, charts.low)
    for step, frame in points(plan, scope):
        arrays[step.head] = StepWork(charts, step, frame).inside(scores or {})
    return charts


def outside(charts: Charts, seeds: Any = None, leaves: dict[str, Any] | None = None) -> Charts:
    """The outside value of every cell: the derivative of Z in it, in the charts' semiring.

    `seeds` are the derivatives that it begins with, `[batch]`, in place of one. The derivatives in
    parameters and tables are added to `leaves`, if that is given, by name.

    Inside times outside is, in `log`, the weight of all derivations through a cell; in `max`,
    that of the best one; in `counting`, their number; in `boolean`, whether there is one.
    """
    plan, scope, algebra = charts.plan, charts.scope, charts.algebra
    empty = empty_charts(plan, scope, algebra, charts.prepared)
    arrays = dict(empty.arrays)
    found = Charts(plan, scope, algebra, charts.prepared, arrays, charts.low)
    start = plan.start
    if start.name not in arrays:
        return found
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
    return found
