"""Plans carried out in any semiring: inside values of every cell, and outside values.

The interpreter is generic rather than fast: it carries out the plan's plain kernel and its adjoint.
In the semiring `log`, torch can differentiate everything, any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

from torch import Tensor

from fgg.diagnostics import did_you_mean, refuse
from fgg.plan import Plan
from fgg.plan.adjoint import adjoint
from fgg.plan.kernelise import kernelise
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.charts import AnyCharts, Charts, empty_charts
from fgg.runtime.interpret.frame import Scope
from fgg.runtime.interpret.prepare import Prepared, checked_weights
from fgg.runtime.interpret.semirings import SEMIRINGS, AnySemiring, Semiring
from fgg.runtime.interpret.semirings.base import Array, Numbers
from fgg.runtime.interpret.semirings.real import TensorSemiring
from fgg.runtime.interpret.walk import filled, points, slopes_of, without_leaves
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
    charts = empty_charts(plan, scope, algebra, prepared)
    return filled(charts, points(kernelise(plan, scaled=False), scope), scores)


def outside(
    charts: Charts[Array], seeds: Array | None = None, leaves: dict[str, Array] | None = None
) -> Charts[Array]:
    """The outside value of every cell: the derivative of Z in it, in the charts' semiring.

    `seeds`, `[batch]`, are the start symbol's outside values, instead of one. Derivatives in
    parameters and tables are added to `leaves`, if that is given, by name.

    Inside times outside is, in `log`, the weight of all derivations through a cell; in `max`,
    that of the best one; in `counting`, their number; in `boolean`, whether there is one.
    """
    plan = charts.plan
    kernel = adjoint(kernelise(plan, scaled=False))
    if leaves is None:
        kernel = without_leaves(kernel)
    slopes = slopes_of(charts, points(kernel, charts.scope), seeds)
    if leaves is not None:
        leaves |= {n: slope for n, slope in slopes.items() if n not in plan.chart}
    empty = empty_charts(plan, charts.scope, charts.algebra, charts.prepared)
    arrays = {name: slopes.get(name, array) for name, array in empty.arrays.items()}
    return replace(empty, arrays=arrays)
