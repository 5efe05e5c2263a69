"""Charts that use one half of their square only, so that their adjoints can have the other one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgg.compiler.boxes import Box, goes_on
from fgg.compiler.forms import row_of
from fgg.index import Expr
from fgg.linear import implies
from fgg.plan import Bound, Chart, Step


def halves(charts: Mapping[str, Chart], work: Sequence[tuple[Step, Box]]) -> frozenset[str]:
    """The charts over two axes of which no step reads or writes a cell below the diagonal.

    A chart of spans, i <= j, leaves half of its square empty. Cells are counted as they are stored,
    from the least index of each axis on. The adjoint has its axes the other way round, so views
    must not go backwards there either: along i + j = level one of the two would.
    """
    found = {
        name: diagonal
        for name, chart in charts.items()
        if chart.states and (diagonal := _diagonal(chart)) is not None
    }
    for step, box in work:
        uses = [(step.head, step.head_index, True)]
        uses += [(o.name, o.index, o.view) for o in step.operands if o.kind == "chart"]
        for name, index, view in uses:
            if name not in found:
                continue
            above = _above(charts[name], found[name], index, box, view=view)
            if not above or (view and not goes_on(index[::-1], box.loops)):
                del found[name]
    return frozenset(found)


def _diagonal(chart: Chart) -> Expr | None:
    """By how much the second index of the first cell is greater than the first; None: no square."""
    if len(chart.axes) != 2:
        return None
    lows = [_single(axis.low) for axis in chart.axes]
    return None if lows[0] is None or lows[1] is None else lows[1] - lows[0]


def _single(bound: Bound) -> Expr | None:
    """The expression that a bound is, if it is one."""
    if len(bound.terms) != 1 or bound.terms[0][1] != 1:
        return None
    return bound.terms[0][0]


def _above(chart: Chart, diagonal: Expr, index: Sequence[Expr], box: Box, *, view: bool) -> bool:
    """Whether all cells that a box uses lie on the diagonal or above it.

    What is gathered is held inside the chart, and is zero where it would lie outside.
    """
    system = list(box.system)
    if not view:
        for expr, axis in zip(index, chart.axes, strict=True):
            system += [row_of(expr * d - e) for e, d in axis.low.terms]
            system += [row_of(e - expr * d) for e, d in axis.high.terms]
    return implies(system, row_of(index[1] - index[0] - diagonal))
