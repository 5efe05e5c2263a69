"""The charts of a plan in a semiring: their storage, their cells, and the order they are filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from fgg.diagnostics import did_you_mean, refuse
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.plan import Chart, Plan, PlanStage, Step
from fgg.progress import steps
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.frame import Frame, Scope
from fgg.runtime.interpret.prepare import Prepared
from fgg.runtime.interpret.semirings.base import Array


@dataclass(frozen=True)
class Charts(Generic[Array]):
    """The values of every family, `[*axes, batch, *values]`, from the least indices on."""

    plan: Plan
    scope: Scope
    algebra: Algebra[Array]
    prepared: Prepared[Array]
    arrays: Mapping[str, Array]
    low: Mapping[str, tuple[int, ...]]

    @property
    def batch(self) -> Batch:
        """The batch that these are the values for."""
        return self.scope.batch

    @property
    def z(self) -> Array:
        """The value of the start symbol, `[batch]` (and an axis for each external node)."""
        return self.at(self.plan.start.name, self.plan.start.index)

    def at(self, family: str, index: Sequence[Expr]) -> Array:
        """The cell of each item at stored indices that may depend on its lengths."""
        if family not in self.plan.chart:
            nonterminal = self.plan.grammar.nonterminal[family]
            states = [domain_size(self.plan.grammar, d) for d in nonterminal.domains]
            return self.algebra.semiring.full((self.batch.size, *states), one=False)
        frame = Frame(self.scope, {}, 0)
        shape = self.arrays[family].shape[: len(index)]
        place = frame.place(index, self.low[family], shape)
        return self.algebra.take(self.arrays[family], place.index, place.valid)

    def value(self, family: str, *indices: int) -> Array:
        """The value of a family at an index, `[batch, *values]`; zero where it has none."""
        known = self.plan.grammar.nonterminal
        if family not in known:
            message = f"there is no nonterminal `{family}`"
            refuse("F415", message, did_you_mean(family, known))
        if len(indices) != len(known[family].indices):
            message = f"`{family}` has {len(known[family].indices)} indices, not {len(indices)}"
            refuse("F415", message)
        if family not in self.plan.chart:
            return self.at(family, [])
        chart = self.plan.chart[family]
        given = dict(zip(known[family].indices, map(int, indices), strict=True))
        values = self.at(family, [Expr.of(int(indices[i])) for i in chart.stored])
        # An index that is not stored follows from the others: there are no other cells.
        if any(
            e.evaluate({**self.scope.known, **given}) != given[n]
            for n, e in chart.followers.items()
        ):
            return self.algebra.semiring.full(values.shape, one=False)
        return values


AnyCharts = Charts[Any]
"""Charts in a semiring that is chosen by name, at run time."""


def ends(chart: Chart, scope: Scope) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The least and the greatest index on each axis of a chart."""
    first = tuple(scope.bound(axis.low, low=True) for axis in chart.axes)
    last = tuple(scope.bound(axis.high, low=False) for axis in chart.axes)
    return first, last


def empty_charts(
    plan: Plan, scope: Scope, algebra: Algebra[Array], prepared: Prepared[Array]
) -> Charts[Array]:
    """Charts of zeros."""
    arrays: dict[str, Array] = {}
    low: dict[str, tuple[int, ...]] = {}
    for chart in plan.charts:
        first, last = ends(chart, scope)
        extents = [max(b - a + 1, 0) for a, b in zip(first, last, strict=True)]
        shape = (*extents, scope.batch.size, *chart.states)
        arrays[chart.family] = algebra.semiring.full(shape, one=False)
        low[chart.family] = first
    return Charts(plan, scope, algebra, prepared, arrays, low)


def levels(stage: PlanStage, scope: Scope) -> range:
    """The levels of a stage; a single one if it has none."""
    if not stage.has_levels:
        return range(1)
    first = min(scope.bound(b, low=True) for b in stage.first)
    last = max(scope.bound(b, low=False) for b in stage.last)
    return range(first, last + 1)


def points(plan: Plan, scope: Scope, *, reverse: bool = False) -> Iterator[tuple[Step, Frame]]:
    """Every step on every level where it has points, in the order of the plan or backwards."""
    turn = -1 if reverse else 1
    for stage in plan.stages[::turn]:
        for level in steps(levels(stage, scope)[::turn], "level"):
            for step in stage.steps[::turn]:
                frame = scope.frame(step, level)
                if frame is not None:
                    yield step, frame
