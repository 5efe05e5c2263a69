"""The charts of a plan in a semiring: their storage and their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from fgg.diagnostics import did_you_mean, refuse
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.plan import Chart, Plan
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.frame import CellIndex, Frame, Scope
from fgg.runtime.interpret.prepare import Prepared
from fgg.runtime.interpret.semirings.base import Array


@dataclass(frozen=True, repr=False)
class Charts(Generic[Array]):
    """The values of every family, `[*axes, batch, *values]`, from the least indices on."""

    plan: Plan
    scope: Scope
    algebra: Algebra[Array]
    prepared: Prepared[Array]
    arrays: Mapping[str, Array]
    low: Mapping[str, tuple[int, ...]]

    def __repr__(self) -> str:
        families = ", ".join(self.arrays)
        return f"Charts({self.plan.grammar.name!r}, {families})"

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
        return self.algebra.take(self.arrays[family], self.cell(family, index))

    def cell(self, family: str, index: Sequence[Expr]) -> CellIndex:
        """Where the cell of each item is at stored indices."""
        shape = self.arrays[family].shape[: len(index)]
        return Frame(self.scope, {}, 0).place(tuple(index), self.low[family], shape)

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


def extents_of(chart: Chart, scope: Scope) -> tuple[int, ...]:
    """How many indices each axis of a chart has."""
    return tuple(max(b - a + 1, 0) for a, b in zip(*ends(chart, scope), strict=True))


def empty_charts(
    plan: Plan, scope: Scope, algebra: Algebra[Array], prepared: Prepared[Array]
) -> Charts[Array]:
    """Charts of zeros."""
    arrays: dict[str, Array] = {}
    low: dict[str, tuple[int, ...]] = {}
    for chart in plan.charts:
        extents = (*extents_of(chart, scope), scope.batch.size)
        arrays[chart.family] = algebra.zeros(extents, chart.states)
        low[chart.family] = ends(chart, scope)[0]
    return Charts(plan, scope, algebra, prepared, arrays, low)
