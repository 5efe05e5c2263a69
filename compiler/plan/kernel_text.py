"""Kernels as listings for people: a line for each operation, under its rule, loops and level.

    for each level from 2 to max n
      rule binary: X[i, j](a) -> f(a, b, c) X[i, k](b) X[k, j](c)   for i < k < j
          for i = 0..max n - level; summed over k' = 1..level - 1
          v2[i, k', *](b) = X[i, i + k'](b)
          ...
          v8[i, *](b, c) = Σ_k' v7 · v3

A value has loops and the batch (`*`) in brackets, nodes in parentheses. `scale(…)` is the
logarithmic scale of cells, `∂…` their adjoint. Where a condition does not hold, values are zero and
scales minus infinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fgg.compiler.plan.text import cell_text, expr_text, extreme_text, loop_text, plain_name
from fgg.grammar.index import quote_name
from fgg.grammar.printer import print_rule
from fgg.plan import Mask, Operand
from fgg.plan.kernel import (
    BATCH,
    Block,
    Erase,
    Give,
    Greatest,
    Hide,
    Keep,
    Kernel,
    Levels,
    Load,
    LogSum,
    Multiply,
    Named,
    Operation,
    Presence,
    Put,
    Relative,
    Scale,
    Stage,
    Sum,
    Weigh,
    reads,
)

LEGEND = (
    "* is the axis of the items, scale(…) the logarithmic scale of cells, ∂ their adjoint;",
    "where a condition does not hold, values are zero and scales minus infinity",
)


def kernel_lines(*kernels: Kernel) -> list[str]:
    """The listing of one or more kernels of a plan."""
    name = quote_name(kernels[0].plan.grammar.name)
    lines = [f"kernels of {name}", *LEGEND]
    for kernel in kernels:
        lines += ["", _title(kernel)]
        for stage in kernel.stages:
            lines += ["", f"  {levels_text(stage.levels)}"]
            for group in stage.groups:
                for number, block in enumerate(group):
                    lines += [f"    {line}" for line in block_lines(kernel, block)]
                    if number:
                        lines[-1] += f", added to the result of `{group[0].rule.name}`"
    return lines


def kernel_json(*kernels: Kernel) -> dict[str, object]:
    """The listing as plain data, for JSON: a list of stages for each pass."""
    return {
        _title(kernel): [_stage_json(kernel, stage) for stage in kernel.stages]
        for kernel in kernels
    }


def _title(kernel: Kernel) -> str:
    return "outside" if kernel.outside else "inside"


def _stage_json(kernel: Kernel, stage: Stage) -> dict[str, object]:
    return {
        "levels": None if stage.levels is None else levels_text(stage.levels),
        "groups": [[_block_json(kernel, block) for block in group] for group in stage.groups],
    }


def _block_json(kernel: Kernel, block: Block) -> dict[str, object]:
    return {
        "rule": block.rule.name,
        "text": print_rule(kernel.plan.grammar, block.rule),
        "positions": [loop_text(loop) for loop in block.positions],
        "splits": [loop_text(loop) for loop in block.splits],
        "guards": [f"{expr_text(g)} >= 0" for g in block.guards],
        "operations": [operation_text(block, op) for op in block.body],
    }


def levels_text(levels: Levels | None) -> str:
    """The heading of a stage."""
    if levels is None:
        return "once"
    first, last = extreme_text(levels.first, "max", "min"), extreme_text(levels.last, "min", "max")
    ends = f"{last} down to {first}" if levels.reverse else f"{first} to {last}"
    forms = ", ".join(f"{quote_name(name)} at {form}" for name, form in levels.forms.items())
    return f"for each level from {ends}: {forms}"


def block_lines(kernel: Kernel, block: Block) -> Iterator[str]:
    """A block: its rule, its loops and guards, its operations."""
    yield print_rule(kernel.plan.grammar, block.rule)
    frame = [f"for {loop_text(loop)}" for loop in block.positions]
    frame += [f"summed over {loop_text(loop)}" for loop in block.splits]
    if block.guards:
        frame.append("if " + ", ".join(f"{expr_text(g)} >= 0" for g in block.guards))
    if frame:
        yield f"    {'; '.join(frame)}"
    for op in block.body:
        yield f"    {operation_text(block, op)}"


def operation_text(block: Block, op: Operation) -> str:
    """An operation: `v6[i, k, *](q) = v1 · w5`."""
    match op:
        case Put():
            return _put(op)
        case Keep():
            how = "shared scales" if op.source is None else _scale(op.source)
            return f"{_cells(op.cells)} <- {op.value} with {how}"
        case Give():
            return f"∂{_cells(op.cells)} += {op.value}"
        case Erase():
            return f"∂{_cells(op.cells)} <- 0{_where(op.masks, 'unless')}"
    return f"{_value(block, op.name, op.dims)} = {_given(block, op)}"


def _given(block: Block, op: Named) -> str:
    """What a value is."""
    match op:
        case Load():
            marks = (", gathered" if not op.cells.view else "") + (", copied" if op.copy else "")
            return ("∂" if op.adjoint else "") + _cells(op.cells) + marks
        case Presence():
            return f"{op.count}{_where(op.masks, 'where')}"
        case Scale():
            terms = [_scale(cells) for cells in op.cells]
            terms += [f"log {op.count}"] if op.count > 1 else []
            return f"{' + '.join(terms) or '0'}{_where(op.masks, 'where')}"
        case Greatest():
            return f"max{_over(block, op)} {op.scale}"
        case LogSum():
            return f"log Σ{_over(block, op)} exp({op.scale})"
        case Weigh():
            return f"exp({op.scale} - {op.top})"
        case Relative():
            return f"exp({f'{op.scale} - ' if op.scale else '-'}{_scale(op.head)})"
        case Hide():
            return f"{op.source}{_where(op.masks, 'where')}"
        case Multiply() | Sum():
            factors = " · ".join(reads(op))
            over = _over(block, op)
            return f"Σ{over} {factors}" if over else factors


def _put(op: Put) -> str:
    factors = [op.value or ""] + ([f"exp({op.scale})"] if op.scale is not None else [])
    arrow = {"write": "<-", "add": "+=", "mixed": "+="}[op.mode]
    late = " (added only if lengths differ)" if op.mode == "mixed" else ""
    return f"{_cells(op.cells)} {arrow} {' · '.join(filter(None, factors)) or '1'}{late}"


def _over(block: Block, op: Named) -> str:
    """The axes that are summed, as an index of Σ."""
    taken = dict.fromkeys(d for name in reads(op) for d in block.value[name].dims)
    gone = [_axis(d) for d in taken if d not in op.dims]
    if not gone:
        return ""
    return f"_{gone[0]}" if len(gone) == 1 else f"_{{{', '.join(gone)}}}"


def _value(block: Block, name: str, dims: Sequence[str]) -> str:
    """A value with its axes: `v6[i, k, *](q)`."""
    points = [_axis(d) for d in dims if d in block.point_dims]
    nodes = [quote_name(d) for d in dims if d not in block.point_dims]
    text = f"{name}[{', '.join(points)}]" if points else name
    return f"{text}({', '.join(nodes)})" if nodes else text


def _axis(dim: str) -> str:
    return "*" if dim == BATCH else plain_name(dim)


def _cells(cells: Operand) -> str:
    text = cell_text(cells.name, cells.index)
    return f"{text}({', '.join(map(quote_name, cells.axes))})" if cells.axes else text


def _scale(cells: Operand) -> str:
    return f"scale({cell_text(cells.name, cells.index)})"


def _where(masks: Iterable[Mask], word: str) -> str:
    tests = [f"{expr_text(mask.expr)} >= 0" for mask in masks]
    return f" {word} {' and '.join(tests)}" if tests else ""
