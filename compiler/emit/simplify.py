"""Simplification of kernels: what people would not write is not there.

Bounds, guards and levels follow from each other by linear arithmetic (`fgg.grammar.linear`):

- of the bounds of a level loop, only the one that counts is left;
- guards that follow from the levels, or from each other, go;
- what happens on the first level only comes before the loop;
- a level that is minus an index becomes that index, and the loop runs backwards;
- loop variables are shifted so that indices have no constants (`k`, not `k' + 1`).

The kernel computes the same numbers as before, in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from fgg.compiler.plan.affine import batch_rows, box_rows, coefficient_of, row_of
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, implies, is_feasible
from fgg.plan import LEVEL, Bound, Loop, Mask, Operand, Plan
from fgg.plan.adjoint import adjoint
from fgg.plan.kernel import Block, Kernel, Levels, Operation, Stage
from fgg.plan.kernelise import kernelise


def passes(plan: Plan, *, scaled: bool = True) -> tuple[Kernel, Kernel]:
    """The kernels of a plan's inside and outside pass, simplified."""
    inside = simplify(kernelise(plan, scaled=scaled))
    return inside, adjoint(inside)


def simplify(kernel: Kernel) -> Kernel:
    """The same kernel of an inside pass with fewer bounds, guards and levels."""
    batch = tuple(batch_rows(kernel.plan.lengths))
    stages = [part for stage in kernel.stages for part in _stage(stage, batch)]
    return replace(kernel, stages=tuple(_joined(stages)))


def _joined(stages: Iterable[Stage]) -> Iterator[Stage]:
    """Stages of which no two without levels follow each other."""
    for has_levels, members in groupby(stages, key=lambda stage: stage.levels is not None):
        if has_levels:
            yield from members
        else:
            yield Stage(groups=tuple(group for stage in members for group in stage.groups))


def _stage(stage: Stage, batch: tuple[Row, ...]) -> Iterator[Stage]:
    """A stage, as one or two."""
    stage = with_blocks(stage, _shifted)
    if stage.levels is None:
        yield with_blocks(stage, partial(_guarded, known=batch))
        return
    peeled, stage = _peeled(_bounded(stage, batch), batch)
    if peeled is not None:
        yield with_blocks(peeled, partial(_guarded, known=batch))
    if stage.groups:
        assert stage.levels is not None
        known = (*batch, *_level_rows(stage.levels))
        yield _turned(with_blocks(stage, partial(_guarded, known=known)))


def with_blocks(stage: Stage, change: Callable[[Block], Block]) -> Stage:
    """A stage with every block changed."""
    return replace(stage, groups=tuple(tuple(map(change, group)) for group in stage.groups))


# ------------------------------------------------------------------------------------ expressions


def map_exprs(block: Block, change: Callable[[Expr], Expr]) -> Block:
    """A block with all index expressions changed."""

    def bound(item: Bound) -> Bound:
        return Bound(tuple((change(expr), divisor) for expr, divisor in item.terms))

    def loop(item: Loop) -> Loop:
        return Loop(item.name, bound(item.low), bound(item.high))

    def cells(item: Operand) -> Operand:
        return replace(item, index=tuple(map(change, item.index)))

    def mask(item: Mask) -> Mask:
        return replace(item, expr=change(item.expr))

    def operation(op: Operation) -> Operation:
        changed: dict[str, object] = {}
        for name in ("cells", "head", "source"):
            value = getattr(op, name, None)
            if isinstance(value, Operand):
                changed[name] = cells(value)
            elif name == "cells" and isinstance(value, tuple):
                changed[name] = tuple(map(cells, value))
        if hasattr(op, "masks"):
            changed["masks"] = tuple(map(mask, op.masks))
        return replace(op, **changed) if changed else op  # type: ignore[arg-type]

    return replace(
        block,
        positions=tuple(map(loop, block.positions)),
        splits=tuple(map(loop, block.splits)),
        guards=tuple(map(change, block.guards)),
        body=tuple(map(operation, block.body)),
        operands=tuple(map(cells, block.operands)),
        variables={name: change(expr) for name, expr in block.variables.items()},
    )


def substituted(block: Block, values: Mapping[str, Expr]) -> Block:
    """A block with variables replaced in all index expressions."""
    return map_exprs(block, lambda expr: expr.substitute(values))


def _is_linear(expr: Expr) -> bool:
    """Whether linear arithmetic can speak of an expression."""
    return all(len(monomial) < 2 for monomial, _ in expr.terms)


def _holds(rows: Sequence[Row], expr: Expr) -> bool:
    """Whether `expr >= 0` follows."""
    return _is_linear(expr) and implies(rows, row_of(expr))


def _active_rows(block: Block, known: Iterable[Row]) -> tuple[Row, ...]:
    """What is known where a block does something."""
    rows = [*known, *(row_of(guard) for guard in block.guards if _is_linear(guard))]
    for loop in block.loops:
        rows += box_rows(loop)
    return tuple(rows)


def _level_rows(levels: Levels) -> list[Row]:
    """The inequalities that a single first and a single last level stand for."""
    level, rows = Expr.of(LEVEL), list[Row]()
    if len(levels.first) == 1:
        rows += [row_of(level * d - e) for e, d in levels.first[0].terms]
    if len(levels.last) == 1:
        rows += [row_of(e - level * d) for e, d in levels.last[0].terms]
    return rows


# ----------------------------------------------------------------------------------------- levels


def _bounded(stage: Stage, batch: tuple[Row, ...]) -> Stage:
    """A stage whose first and last level are one expression each, if that can be."""
    levels = stage.levels
    assert levels is not None
    rows = [_active_rows(block, batch) for block in stage.blocks]
    rows = [system for system in rows if is_feasible(system)]
    level = Expr.of(LEVEL)
    first = _extreme(rows, levels.first, lambda expr: level - expr)
    last = _extreme(rows, levels.last, lambda expr: expr - level)
    new = replace(
        levels,
        first=levels.first if first is None else (first,),
        last=levels.last if last is None else (last,),
    )
    return replace(stage, levels=new)


def _extreme(
    rows: Sequence[tuple[Row, ...]], bounds: Sequence[Bound], slack: Callable[[Expr], Expr]
) -> Bound | None:
    """The tightest single expression among bounds that no block goes beyond."""
    terms = dict.fromkeys(e for bound in bounds for e, divisor in bound.terms if divisor == 1)
    valid = [expr for expr in terms if all(_holds(system, slack(expr)) for system in rows)]
    for expr in sorted(valid, key=lambda e: e.constant is None):
        # It is the tightest if nothing that is active lies between it and another one.
        tighter = [slack(other) - slack(expr) for other in valid if other != expr]
        if all(_holds(system, gap) for gap in tighter for system in rows):
            return Bound(((expr, 1),))
    return None


def _peeled(stage: Stage, batch: tuple[Row, ...]) -> tuple[Stage | None, Stage]:
    """What a stage does on its first level alone, and the rest of it."""
    levels = stage.levels
    assert levels is not None
    first = _single(levels.first)
    if first is None:
        return None, stage
    level = Expr.of(LEVEL)
    known = (*batch, row_of(level - first))
    early, late = [], []
    for group in stage.groups:
        rows = [_active_rows(block, known) for block in group]
        if all(_holds(system, first - level) for system in rows):
            early.append(group)
        elif all(_holds(system, level - first - 1) for system in rows):
            late.append(group)
        else:
            return None, stage
    if not early:
        return None, stage
    at_first = with_blocks(
        Stage(groups=tuple(early)), lambda block: substituted(block, {LEVEL: first})
    )
    later = replace(levels, first=(Bound(((first + 1, 1),)),))
    return at_first, replace(stage, groups=tuple(late), levels=later)


def _single(bounds: Sequence[Bound]) -> Expr | None:
    """Bounds that are one expression."""
    if len(bounds) == 1 and len(bounds[0].terms) == 1 and bounds[0].terms[0][1] == 1:
        return bounds[0].terms[0][0]
    return None


def _turned(stage: Stage) -> Stage:
    """A stage whose levels count upwards in the indices: minus an index becomes the index."""
    levels = stage.levels
    assert levels is not None
    signs = {
        max(c for monomial, c in form.terms if monomial) < 0
        for form in levels.forms.values()
        if any(monomial for monomial, _ in form.terms)
    }
    if signs != {True}:
        return stage
    stage = with_blocks(stage, lambda block: substituted(block, {LEVEL: -Expr.of(LEVEL)}))

    def negated(bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
        return tuple(Bound(tuple((-e, d) for e, d in bound.terms)) for bound in bounds)

    turned = replace(
        levels,
        first=negated(levels.last),
        last=negated(levels.first),
        forms={name: -form for name, form in levels.forms.items()},
        reverse=not levels.reverse,
    )
    return replace(stage, levels=turned)


# ----------------------------------------------------------------------------------------- blocks


def _guarded(block: Block, known: tuple[Row, ...]) -> Block:
    """A block with no more guards and bounds than it needs.

    Its guards then say that its loops are not empty, where expressions can say that.
    """
    active = _active_rows(block, known)
    block = replace(
        block,
        positions=tuple(_loop(loop, active) for loop in block.positions),
        splits=tuple(_loop(loop, active) for loop in block.splits),
    )
    sure: list[str] = []
    conditions = list(block.guards)
    for loop in block.loops:
        ends = [*loop.low.terms, *loop.high.terms]
        if all(divisor == 1 and _is_linear(expr) for expr, divisor in ends):
            sure.append(loop.name)
            conditions += [high - low for high, _ in loop.high.terms for low, _ in loop.low.terms]
    conditions = list(dict.fromkeys(conditions))
    for guard in list(conditions):
        others = [other for other in conditions if other is not guard]
        rows = [*known, *(row_of(other) for other in others if _is_linear(other))]
        if _holds(tuple(rows), guard):
            conditions = others
    return replace(block, guards=tuple(conditions), sure=tuple(sure))


def _loop(loop: Loop, active: tuple[Row, ...]) -> Loop:
    """A loop without bounds that others imply wherever the block does something."""
    others = tuple(
        row for row in active if row not in box_rows(loop) or not row.coefficient(loop.name)
    )

    def least(bound: Bound, sign: int) -> Bound:
        terms = list(bound.terms)
        for term in list(terms):
            expr, divisor = term
            rest = [t for t in terms if t is not term]
            if divisor == 1 and any(
                d == 1 and _holds(others, (other - expr) * sign) for other, d in rest
            ):
                terms = rest
        return Bound(tuple(terms))

    return Loop(loop.name, least(loop.low, 1), least(loop.high, -1))


def _shifted(block: Block) -> Block:
    """A block whose loop variables take up the constants of the indices that they occur in."""
    moves: dict[str, int] = {}
    for loop in block.splits:
        constants = Counter(
            coefficient_of(expr, loop.name) * _constant(expr)
            for cells in block.operands
            for expr in cells.index
            if abs(coefficient_of(expr, loop.name)) == 1
        )
        if constants:
            (shift, count), *_ = constants.most_common()
            if shift and count == max(constants.values()) and len(constants) == 1:
                moves[loop.name] = shift
    if not moves:
        return block
    block = substituted(block, {name: Expr.of(name) - shift for name, shift in moves.items()})

    def moved(loop: Loop) -> Loop:
        shift = moves.get(loop.name, 0)
        low = Bound(tuple((e + shift * d, d) for e, d in loop.low.terms))
        high = Bound(tuple((e + shift * d, d) for e, d in loop.high.terms))
        return Loop(loop.name, low, high)

    return replace(block, splits=tuple(map(moved, block.splits)))


def _constant(expr: Expr) -> int:
    """The constant term of an expression."""
    return sum(c for monomial, c in expr.terms if not monomial)
