"""Sizes of a plan's tensors for given lengths and a batch, and large numbers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from fgg.grammar.index import Expr
from fgg.plan import HIGH, LOW, Bound, Chart, Plan, PositionTable


def environment(lengths: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The least and the greatest lengths of a batch, by the names plans use."""
    values: dict[str, int] = {}
    for name, numbers in lengths.items():
        values[name + LOW] = min(numbers)
        values[name + HIGH] = max(numbers)
    return values


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The value of an index expression without look-ups."""
    value = expr.evaluate(values)
    assert value is not None
    return value


def low_end(bound: Bound, values: Mapping[str, int]) -> int:
    """The value of a lower bound."""
    return max(-(-evaluate(e, values) // d) for e, d in bound.terms)


def high_end(bound: Bound, values: Mapping[str, int]) -> int:
    """The value of an upper bound."""
    return min(evaluate(e, values) // d for e, d in bound.terms)


def extents(item: Chart | PositionTable, values: Mapping[str, int]) -> tuple[int, ...]:
    """The number of cells along each axis of a chart or a table."""
    return tuple(max(high_end(a.high, values) - low_end(a.low, values) + 1, 0) for a in item.axes)


def chart_bytes(plan: Plan, values: Mapping[str, int], batch: int, width: int = 4) -> int:
    """The bytes of all charts and their scales."""
    total = 0
    for chart in plan.charts:
        cells = prod(extents(chart, values)) * batch
        total += cells * prod(chart.states) * width if chart.states else 0
        total += cells * 8 if chart.scale_of == chart.family else 0
    return total


def adjoint_bytes(plan: Plan, values: Mapping[str, int], batch: int, width: int = 4) -> int:
    """The bytes of the adjoints of all charts; half charts store theirs in their empty halves."""
    total = 0
    for chart in plan.charts:
        cells = prod(extents(chart, values)) * batch
        total += 0 if chart.half else cells * prod(chart.states) * width
        total += cells * 8 if chart.scale_of == chart.family else 0
    return total


def table_bytes(plan: Plan, values: Mapping[str, int], batch: int, width: int = 4) -> int:
    """The bytes of all tables over positions."""
    return sum(
        prod(extents(table, values)) * batch * (prod(table.states) * width + 8 * table.scaled)
        for table in plan.tables
    )


def in_units(count: float) -> str:
    """A number of bytes with a unit, `1.5 GB`."""
    for unit in ("bytes", "KB", "MB", "GB", "TB", "PB"):
        if count < 1000 or unit == "PB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def short(count: int) -> str:
    """A count in full up to seven digits, then with three significant digits."""
    return f"{count:,}" if count < 10**7 else f"{count:.2e}".replace("e+0", "e").replace("e+", "e")
