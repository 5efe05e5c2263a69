"""Charts with cells that stay empty: half of a square, or cells that no step fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgg.compiler.plan.affine import box_rows, coefficient_of, moved, row_of
from fgg.compiler.plan.boxes import LoopBox, goes_on
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, implies, variables
from fgg.plan import LEVEL, Bound, Chart, Loop, Step

_CELL = "@cell"


def halves(charts: Mapping[str, Chart], work: Sequence[tuple[Step, LoopBox]]) -> frozenset[str]:
    """The charts over two axes of which no step reads or writes a cell below the diagonal.

    A chart of spans, i <= j, leaves half of its square empty. Cells are counted as they are stored,
    from the least index of each axis on. The adjoint has its axes the other way round, so views
    must not go backwards there either: along i + j = level one of the two would.
    """
    diagonals = {
        name: diagonal
        for name, chart in charts.items()
        if chart.states and (diagonal := _diagonal(chart)) is not None
    }
    for step, box in work:
        uses = [(step.head, step.head_index, True)]
        uses += [(o.name, o.index, o.view) for o in step.operands if o.kind == "chart"]
        for name, index, view in uses:
            if name not in diagonals:
                continue
            above = _above(charts[name], diagonals[name], index, box, view=view)
            if not above or (view and not goes_on(index[::-1], box.loops)):
                del diagonals[name]
    return frozenset(diagonals)


def _diagonal(chart: Chart) -> Expr | None:
    """Second index minus first of the chart's first cell; None if the chart is no square."""
    if len(chart.axes) != 2:
        return None
    lows = [_single(axis.low) for axis in chart.axes]
    return None if lows[0] is None or lows[1] is None else lows[1] - lows[0]


def _single(bound: Bound) -> Expr | None:
    """The expression of a bound that consists of one only, else None."""
    if len(bound.terms) != 1 or bound.terms[0][1] != 1:
        return None
    return bound.terms[0][0]


def _above(
    chart: Chart, diagonal: Expr, index: Sequence[Expr], box: LoopBox, *, view: bool
) -> bool:
    """Whether all cells that a box uses lie on the diagonal or above it.

    A gather clips its indices to the chart, and is zero where they lie outside.
    """
    system = list(box.system)
    if not view:
        for expr, axis in zip(index, chart.axes, strict=True):
            system += [row_of(expr * d - e) for e, d in axis.low.terms]
            system += [row_of(e - expr * d) for e, d in axis.high.terms]
    return implies(system, row_of(index[1] - index[0] - diagonal))


def partly_filled(
    charts: Mapping[str, Chart], work: Sequence[tuple[Step, LoopBox]]
) -> frozenset[str]:
    """The charts, of those that share another's scales, with cells that are read but never filled.

    The gradient of such a step's parameters is a product over whole charts, which is right only
    where an empty cell has the adjoint zero. (With several axes it is not done at once.)
    """
    heads = set()
    for step, box in work:
        chart = charts[step.head]
        if chart.scale_of == step.head or len(chart.axes) > 1:
            continue
        filled = _filled(step, box)
        reads = [
            (other, reader, operand.index, operand.view)
            for other, reader in work
            for operand in other.operands
            if operand.kind == "chart" and operand.name == step.head
        ]
        for other, reader, index, view in reads:
            known = [*reader.system, *(row_of(mask.expr) for mask in other.masks)]
            if not view:  # what lies outside the chart is not read
                known += [
                    r
                    for axis, expr in zip(chart.axes, index, strict=True)
                    for r in moved(box_rows(Loop(_CELL, axis.low, axis.high)), {_CELL: expr})
                ]
            at = dict(zip([_CELL], index, strict=False))
            if filled is None or not all(implies(known, r) for r in moved(filled, at)):
                heads.add(step.head)
    return frozenset(heads)


def _filled(step: Step, box: LoopBox) -> list[Row] | None:
    """What holds of a cell, along the one axis if there is one, exactly where a step fills it.

    None if no such condition is known.
    """
    rows = list(box.system)
    loops = {LEVEL, *(loop.name for loop in box.loops)}
    for expr in step.head_index:
        used = [name for name in expr.names() if name in loops]
        if len(used) > 1 or any(abs(coefficient_of(expr, name)) != 1 for name in used):
            return None
        gap = Expr.of(_CELL) - expr
        rows += [row_of(gap), row_of(-gap)]
        for name in used:
            sign = coefficient_of(expr, name)
            rows = moved(rows, {name: Expr.of(name) + gap * sign})
    return None if loops & set(variables(rows)) else rows
