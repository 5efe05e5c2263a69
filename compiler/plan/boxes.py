"""Boxes: the index points of a rule on one level, as ranges of loop variables.

The head's indices are fixed by the level up to *positions*; what is left of the body's variables
are *splits*. Each gets a range that depends on the level and the lengths only, if need be after a
shift (`k = i + 1 + s`), so that body references are strided views. A condition that ranges cannot
express becomes a mask, unless an operand of the rule is zero wherever it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from fgg.compiler.plan.affine import (
    batch_rows,
    bounds,
    box_rows,
    coefficient_of,
    expr_of,
    implicit_equalities,
    irredundant,
    loosen,
    moved,
    row_of,
    solve_equalities,
    uniform,
)
from fgg.compiler.plan.contraction import rank_of
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, implies, project
from fgg.plan import HIGH, LEVEL, LOW, Bound, Loop, Mask

MAX_SHIFTS = 48
PRIME = "'"


@dataclass(frozen=True)
class LoopBox:
    """Loops over the index points of a rule, and what its variables are in terms of them."""

    positions: tuple[Loop, ...]
    splits: tuple[Loop, ...]
    values: Mapping[str, Expr]
    guards: tuple[Expr, ...]
    masks: tuple[Mask, ...]
    system: tuple[Row, ...]
    loose: int

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops, positions first."""
        return self.positions + self.splits


class Unbounded(Exception):
    """A variable of a rule has no bounds."""


@dataclass(frozen=True)
class BoxShape:
    """The variables of a rule that are left to loop over after all equalities are solved.

    Positions are indices of the head, or *steps*: a variable of the rule which the head has with a
    coefficient, as `X[2*i]` does, runs over the cells that the rule fills and no others.
    """

    positions: tuple[str, ...]
    steps: tuple[str, ...]
    splits: tuple[str, ...]
    values: Mapping[str, Expr]
    lengths: Mapping[str, Expr]
    rows: tuple[Row, ...]
    core: tuple[Row, ...]


def shape_of(
    rows: Sequence[Row],
    region: Sequence[Row],
    head: Mapping[str, Expr],
    level: Expr | None,
    variables: Sequence[str],
    lengths: Sequence[str],
    *,
    stepped: bool,
) -> BoxShape:
    """Solve for the body's variables in terms of the head's, and for one of those by the level.

    `head` gives for each index of the family its expression in the rule, `region` what holds of
    the indices. Variables of the rule are primed, so that the head's own names stay free. Where a
    head's index is a multiple of a variable, the variable becomes a position if `stepped`;
    otherwise it is summed over, and a mask keeps the one value that belongs to the cell.
    """
    primed = {name: Expr.of(name + PRIME) for name in variables}
    system = moved(rows, primed) + list(region)
    definitions = [Expr.of(name) - expr.substitute(primed) for name, expr in head.items()]
    if level is not None:
        definitions.append(level - Expr.of(LEVEL))
    names = [name + PRIME for name in variables]
    # What is looked up in a table has a value at run time only: nothing is solved for it.
    known = {*names, *head, *lengths, LEVEL}
    looked_up = {n for r in system for n, _ in r.coefficients if n not in known}
    values: dict[str, Expr] = {}

    def solve(equalities: Sequence[Expr], preferred: Sequence[str], without: Iterable[str]) -> None:
        nonlocal system, values
        solved, rest = solve_equalities(equalities, preferred, {*without, *looked_up})
        values = {n: e.substitute(solved) for n, e in values.items()} | solved
        system = moved(system, solved)
        for equality in rest:
            system += [row_of(equality), row_of(-equality)]
        system = list(dict.fromkeys(system))

    # First the body's variables, then the head's from the last one on. A head's index that
    # follows from lengths differs from item to item: it stays a variable. So does one that follows
    # only from what is summed over: a cell's place does not depend on that.
    solve(definitions + implicit_equalities(system), names, ())
    solve(implicit_equalities(system), names, ())
    steps: list[str] = []
    backwards = list(reversed(list(head)))
    while True:
        summed = [n for n in names if n not in values and n not in steps]
        new = steps_in(implicit_equalities(system), head, summed, {*lengths, *looked_up})
        if not stepped or not new:
            break
        steps += new[:1]
        without = {*lengths, *summed} - {*steps}
        solve(implicit_equalities(system), backwards, without)
    for _ in range(2):
        solve(implicit_equalities(system), backwards, {*lengths, *summed})
    equal, _ = solve_equalities(implicit_equalities(system), lengths, looked_up)
    positions = (*(name for name in head if name not in values), *steps)
    return BoxShape(
        positions=positions,
        steps=tuple(steps),
        splits=tuple(name for name in summed if name not in positions),
        values={**values, **{name: Expr.of(name) for name in positions}},
        lengths={n: e for n, e in equal.items() if not set(e.names()) & set(lengths)},
        rows=tuple(system),
        core=tuple(irredundant(system)),
    )


def steps_in(
    equalities: Sequence[Expr], head: Iterable[str], summed: Sequence[str], without: Iterable[str]
) -> list[str]:
    """The variables that an index of the head is a multiple of, up to the other indices.

    For each of them there is an equality that determines an index of the head, contains no other
    summed variable, and contains nothing that differs between items (`without`).
    """
    excluded = set(without)
    steps: dict[str, None] = {}
    for equality in equalities:
        names = set(equality.names())
        inside = [name for name in summed if name in names]
        if len(inside) == 1 and not names & excluded:
            if any(abs(coefficient_of(equality, index)) == 1 for index in head):
                steps[inside[0]] = None
    return list(steps)


def shifts(shape: BoxShape) -> Iterable[dict[str, Expr]]:
    """Ways to write loop variables as new ones plus a bound; the first way shifts nothing.

    Positions are shifted by positions only: the head's cells do not depend on what is summed.
    """
    names = [*shape.positions, *shape.splits]
    choices: list[list[Expr]] = []
    for name in names:
        variable = Expr.of(name)
        ways = [variable, -variable] if name in shape.steps else [variable]
        for r in shape.core:
            c = r.coefficient(name)
            if any("[" in n for n, _ in r.coefficients):
                continue  # what is looked up differs from item to item: no view begins there
            others = {n for n, _ in r.coefficients if n != name and n in names}
            if name in shape.positions and others & set(shape.splits):
                continue
            rest = expr_of(r) - variable * c
            if c == 1 and others:
                ways.append(variable - rest)
            elif c == -1 and (others or name in shape.splits):
                ways.append(rest - variable)
        choices.append(list(dict.fromkeys(ways)))
    for chosen in islice(product(*choices), MAX_SHIFTS):
        change = dict(zip(names, chosen, strict=True))
        if _is_triangular(change, names):
            yield change


def _is_triangular(change: Mapping[str, Expr], names: Sequence[str]) -> bool:
    """Whether no variable is shifted, directly or through others, by itself."""
    order: list[str] = []
    pending = list(names)
    while pending:
        ready = [
            n for n in pending if all(o == n or o in order for o in change[n].names() if o in names)
        ]
        if not ready:
            return False
        order += ready
        pending = [n for n in pending if n not in ready]
    return True


def resolve_shift(change: Mapping[str, Expr]) -> dict[str, Expr]:
    """A shift in terms of new variables only: what it refers to is itself shifted."""
    done: dict[str, Expr] = {}
    pending = dict(change)
    while pending:
        for name, expr in list(pending.items()):
            others = [o for o in expr.names() if o != name and o in change]
            if all(o in done for o in others):
                done[name] = expr.substitute({o: done[o] for o in others})
                del pending[name]
    return done


def boxed(
    shape: BoxShape,
    change: Mapping[str, Expr],
    lengths: Sequence[str],
    zeros: Sequence[Row],
) -> LoopBox:
    """The box of a rule after a shift. `zeros` hold wherever no operand of the rule is zero."""
    full = resolve_shift(change)
    rows = moved(shape.rows, full)
    loops: dict[str, Loop] = {}
    for name in (*shape.positions, *shape.splits):
        low, high = bounds(rows, name, lengths)
        if not low.terms or not high.terms:
            raise Unbounded(name)
        loops[name] = Loop(name, low, high)
    guards = [
        row_of(loosen(expr_of(r), lengths, up=True))
        for r in project(rows, {LEVEL, *lengths})
        if r.coefficients or r.constant < 0
    ]
    batch = batch_rows(lengths)
    loops = {name: pruned(loop, [*guards, *batch]) for name, loop in loops.items()}
    system = [r for loop in loops.values() for r in box_rows(loop)]
    system += guards + batch
    nothing = moved(zeros, full)
    alone = uniform(system, lengths)
    same = uniform([*system, *nothing], lengths)
    masks = []
    loose = 0
    for r in moved(shape.core, full):
        loose += not implies(alone, r)
        if not implies(same, r):
            masks.append(Mask(expr_of(r), mixed=False))
        elif not implies([*system, *nothing], r):
            masks.append(Mask(expr_of(r), mixed=True))
    return LoopBox(
        positions=tuple(loops[name] for name in shape.positions),
        splits=tuple(loops[name] for name in shape.splits),
        values={name: expr.substitute(full) for name, expr in shape.values.items()}
        | {name: full[name] for name in shape.splits},
        guards=tuple(expr_of(r) for r in needed_guards(guards, lengths)),
        masks=tuple(masks),
        system=tuple(system),
        loose=loose,
    )


def pruned(loop: Loop, system: Sequence[Row]) -> Loop:
    """The loop without the bounds that another of its bounds implies."""

    def least(terms: Sequence[tuple[Expr, int]], sign: int) -> tuple[tuple[Expr, int], ...]:
        kept = list(terms)
        for term in terms:
            expr, divisor = term
            for other, scale in kept:
                if (other, scale) == term or divisor != 1 or scale != 1:
                    continue
                if implies(system, row_of((other - expr) * sign)):
                    kept.remove(term)
                    break
        return tuple(kept)

    return Loop(loop.name, Bound(least(loop.low.terms, 1)), Bound(least(loop.high.terms, -1)))


def needed_guards(guards: Sequence[Row], lengths: Sequence[str]) -> list[Row]:
    """The guards that neither the lengths nor the other guards imply."""
    kept = list(dict.fromkeys(guards))
    for guard in list(kept):
        others = [g for g in kept if g != guard]
        if implies([*others, *batch_rows(lengths)], guard):
            kept = others
    return kept


def is_view(
    index: Sequence[Expr], axes: Sequence[Loop], loops: Sequence[Loop], system: Sequence[Row]
) -> bool:
    """Whether cells can be read in place: affine, inside the storage, no stride below zero."""
    allowed = {*(loop.name for loop in loops), LEVEL}
    for expr, axis in zip(index, axes, strict=True):
        if any(True for _ in expr.lookups()):
            return False
        for name in expr.names():
            if name not in allowed and not name.endswith((LOW, HIGH)):
                return False
        needed = [row_of(expr * d - e) for e, d in axis.low.terms]
        needed += [row_of(e - expr * d) for e, d in axis.high.terms]
        if not all(implies(system, r) for r in needed):
            return False
    return goes_on(index, loops)


def goes_on(index: Sequence[Expr], loops: Sequence[Loop]) -> bool:
    """Whether no loop goes backwards along any axis of a chart that is read at `index`."""
    for column in _columns(index, loops):
        nonzero = [c for c in column if c]
        # Axes are stored in order, so the first coefficient decides, unless later ones could
        # outweigh it: a stride is a multiple of the next axis's, and at least as great.
        if nonzero[0] < sum(-c for c in nonzero if c < 0):
            return False
    return True


def is_distinct(index: Sequence[Expr], loops: Sequence[Loop]) -> bool:
    """Whether an index maps points that differ in one of its variables to different cells.

    What a table has at different points may be the same: such an axis tells nothing.
    """
    names = {name for expr in index for name in expr.names()}
    used = [loop for loop in loops if loop.name in names]
    known = [expr for expr in index if not any(True for _ in expr.lookups())]
    columns = [[coefficient_of(expr, loop.name) for expr in known] for loop in used]
    forms = [
        sum((Expr.of(f"x{i}") * c for i, c in enumerate(column)), Expr()) for column in columns
    ]
    return rank_of(forms) == len(used)


def _columns(index: Sequence[Expr], loops: Sequence[Loop]) -> list[list[int]]:
    """The coefficients of each loop variable that occurs in an index."""
    columns = [[coefficient_of(expr, loop.name) for expr in index] for loop in loops]
    return [column for column in columns if any(column)]
