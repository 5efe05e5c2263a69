"""How much room the loops and charts of an exported program need, whatever the level.

An exported program has one shape for all levels, so a loop whose ends depend on the level is given
the most points it ever has. Items may have any lengths from 0 to those of the input's axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from fgg.grammar.index import Expr
from fgg.plan import HIGH, LEVEL, LOW, Bound, Loop, Plan, PlanStage

MANY = 1000
LEAST = 2
"""No axis is shorter: torch would take the extents 0 and 1 for constants."""
MAX_LEAST = 256

Ratio = tuple[Expr, int]

_greater: Callable[[int, int], int] = torch.sym_max  # of numbers that may be symbolic


def coefficient(expr: Expr, name: str) -> int:
    """The coefficient of a name in an affine form."""
    return next((c for monomial, c in expr.terms if monomial == (name,)), 0)


def any_lengths(expr: Expr, lengths: Iterable[str]) -> Expr:
    """A form of the lengths' greatest values, by the lengths' own names; the least are 0."""
    values: dict[str, int | Expr] = {}
    for name in lengths:
        values[name + LOW] = 0
        values[name + HIGH] = Expr.of(name)
    return expr.substitute(values)


@dataclass(frozen=True)
class Extent:
    """The greatest of floor(e / d) + 1 over its terms: a bound on a number of points."""

    terms: tuple[Ratio, ...]

    def value(self, lengths: Mapping[str, int]) -> int:
        """The bound for given lengths, which may be symbolic; at least `LEAST`."""
        found = [_evaluate(e, lengths) // d + 1 for e, d in self.terms]
        total = found[0]
        for other in found[1:]:
            total = _greater(total, other)
        return total if self.grows else _greater(total, LEAST)

    @property
    def grows(self) -> bool:
        """Whether the bound is one form that no longer length makes smaller."""
        return len(self.terms) == 1 and all(c >= 0 for m, c in self.terms[0][0].terms if m)


def _evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """An affine form of numbers that may be symbolic."""
    total = 0
    for monomial, c in expr.terms:
        term = c
        for atom in monomial:
            assert isinstance(atom, str)
            term = term * values[atom]
        total = total + term
    return total


def loop_extent(loop: Loop, lengths: Sequence[str], stage: PlanStage | None = None) -> Extent:
    """The most points that a loop has on any level of a stage.

    floor(h) - ceil(l) + 1 is no more than floor(h - l) + 1, for any lower and any upper end; the
    pair is taken that gives least for long inputs.
    """
    choices: list[Extent] = []
    for low, below in loop.low.terms:
        for high, above in loop.high.terms:
            form = any_lengths(high * below - low * above, lengths)
            choices.append(Extent(_over_levels(form, below * above, lengths, stage)))
    many = dict.fromkeys(lengths, MANY)
    return min(choices, key=lambda extent: extent.value(many))


def _over_levels(
    form: Expr, divisor: int, lengths: Sequence[str], stage: PlanStage | None
) -> tuple[Ratio, ...]:
    """The greatest values of form / divisor over the levels of a stage."""
    slope = coefficient(form, LEVEL)
    if not slope:
        return ((form, divisor),)
    assert stage is not None
    rest = form - Expr.of(LEVEL) * slope
    found = []
    for level, below in level_end(stage, lengths, last=slope > 0):
        found.append((rest * below + level * slope, divisor * below))
    return _undominated(found, greatest=True)


def level_end(stage: PlanStage, lengths: Sequence[str], *, last: bool) -> tuple[Ratio, ...]:
    """Bounds on the last (or first) level: the greatest (or least) of them."""
    many = dict.fromkeys(lengths, MANY)

    def size(term: Ratio) -> float:
        return _evaluate(term[0], many) / term[1]

    found = []
    for bound in stage.last if last else stage.first:
        terms = [(any_lengths(e, lengths), d) for e, d in bound.terms]
        found.append(min(terms, key=size) if last else max(terms, key=size))
    return _undominated(found, greatest=last)


def _undominated(terms: Sequence[Ratio], *, greatest: bool) -> tuple[Ratio, ...]:
    """The terms without those that another is never below (or never above)."""
    kept = list(dict.fromkeys(terms))
    for term in list(kept):
        for other in kept:
            gap = other[0] * term[1] - term[0] * other[1]
            if other != term and all(c >= 0 for _, c in (gap if greatest else -gap).terms):
                kept.remove(term)
                break
    return tuple(kept)


def least_length(extents: Iterable[Extent], lengths: Sequence[str]) -> int | None:
    """The least length of inputs for which every axis has `LEAST` points; None without one."""
    forms = [extent for extent in extents if extent.grows]
    for length in range(LEAST, MAX_LEAST):
        values = dict.fromkeys(lengths, length)
        if all(extent.value(values) >= LEAST or _fixed(extent) for extent in forms):
            return length
    return None


def _fixed(extent: Extent) -> bool:
    return all(expr.constant is not None for expr, _ in extent.terms)


def plan_extents(plan: Plan) -> list[Extent]:
    """The extents of every chart and loop of a plan."""
    found = [loop_extent(axis, plan.lengths) for chart in plan.charts for axis in chart.axes]
    for stage in plan.stages:
        for step in stage.steps:
            loops = (*step.positions, *step.splits)
            found += [loop_extent(loop, plan.lengths, stage) for loop in loops]
    return found


def bound_terms(
    bound: Bound, evaluate: Callable[[Expr], torch.Tensor], *, low: bool
) -> torch.Tensor:
    """A bound as a tensor: the greatest of its terms if it is a lower one, else the least."""
    total: torch.Tensor | None = None
    for expr, divisor in bound.terms:
        value = evaluate(expr)
        if divisor != 1:
            if low:
                value = -torch.div(-value, divisor, rounding_mode="floor")
            else:
                value = torch.div(value, divisor, rounding_mode="floor")
        if total is None:
            total = value
        else:
            total = torch.maximum(total, value) if low else torch.minimum(total, value)
    assert total is not None
    return total
