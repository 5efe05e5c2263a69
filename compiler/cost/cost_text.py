"""A plan's cost as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgg.compiler.cost.cost import Cost, Item
from fgg.grammar.domains import size_values
from fgg.plan.sizes import in_units, short

KINDS = {
    "weights": "once for a set of weights",
    "inputs": "once for a batch",
    "step": "inside",
}


def cost_lines(cost: Cost) -> list[str]:
    """The order of the whole, a table of what it consists of, and the memory."""
    lines = [f"{cost.plan.grammar.name}: O({cost.text(cost.order)})", *_given(cost)]
    for kind, title in KINDS.items():
        items = [item for item in cost.items if item.kind == kind]
        if items:
            lines += ["", f"{title}:", *_table(cost, items)]
    lines += [
        "",
        f"multiply-adds  {short(cost.multiply_adds)}  (the outside pass: at most twice as many)",
        f"charts         {in_units(cost.chart_bytes)}",
        f"adjoints       {in_units(cost.adjoint_bytes)}",
        f"tables         {in_units(2 * cost.table_bytes)}  (with their gradients)",
        f"intermediate   {in_units(cost.intermediate_bytes)}  (the largest of a level)",
        f"peak memory    {in_units(cost.peak_bytes)}, and {in_units(cost.parameter_bytes)} "
        "of parameters",
    ]
    return lines


def _given(cost: Cost) -> Iterator[str]:
    """What the numbers hold for."""
    used = {name for item in cost.items for powers in item.order.terms for name, _ in powers}
    sizes = size_values(cost.plan.grammar)
    values = {**cost.lengths, **{name: sizes[name] for name in sizes if name in used}}
    ordered = [f"{name} = {values[name]}" for name in cost.names() if name in values]
    yield f"  at {', '.join([*ordered, f'batch {cost.batch}', f'float{8 * cost.width}'])}"


def _table(cost: Cost, items: Sequence[Item]) -> list[str]:
    rows = [
        (item.name, cost.text(item.order), short(item.multiply_adds), _share(cost, item))
        for item in items
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        f"  {name:{widths[0]}}  {order:{widths[1]}}  {count:>{widths[2]}}  {share:>{widths[3]}}"
        for name, order, count, share in rows
    ]


def _share(cost: Cost, item: Item) -> str:
    return f"{100 * item.multiply_adds / max(cost.multiply_adds, 1):.1f}%"
