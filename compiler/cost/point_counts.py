"""How many index points a step has: exactly, for given lengths, or as a polynomial in names.

Over all levels of a stage, a product over some loop variables runs once for every level and every
value of these. To leading order the number of such points is the product of the ranges of as many
independent index forms: `i` and `j` of a pair of strings give `n*m`, although the level alone
runs from 0 to `n + m`.

Such counts are polynomials in sizes and lengths, `n^3*nt^2 + n^2*nt^3`. A coefficient stands for
sizes without a name, such as the number of values of an enumeration. Polynomials say which terms
there are; they do not count how often a term is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fgg.compiler.plan.affine import box_rows, coefficient_of, row_of, uniform
from fgg.compiler.plan.contraction import rank_of
from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import size_values
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, TooManyRows, project
from fgg.plan import LEVEL, Bound, Loop, Plan, PlanStage, Step
from fgg.plan.kernel import Block, Stage
from fgg.plan.sizes import evaluate, high_end, low_end

Levels = NDArray[np.int64]
_FORM = "\0form"
Powers = tuple[tuple[str, int], ...]
"""Names with their exponents, in order of the names."""


@dataclass(frozen=True)
class CostPolynomial:
    """Products of powers of names, each with a coefficient."""

    terms: Mapping[Powers, int]

    @staticmethod
    def number(value: int) -> CostPolynomial:
        """A constant."""
        return CostPolynomial({(): value})

    @staticmethod
    def name(name: str) -> CostPolynomial:
        """A size or a length."""
        return CostPolynomial({((name, 1),): 1})

    @staticmethod
    def of(expr: Expr) -> CostPolynomial:
        """The leading order of a size expression: `2*m - 1` is of order `m`."""
        terms: dict[Powers, int] = {}
        for monomial, coefficient in expr.terms:
            if monomial and coefficient > 0:
                counts: dict[str, int] = {}
                for atom in monomial:
                    counts[str(atom)] = counts.get(str(atom), 0) + 1
                terms[tuple(sorted(counts.items()))] = 1
        constant = sum(c for monomial, c in expr.terms if not monomial)
        return CostPolynomial(terms or {(): max(constant, 1)})

    def __mul__(self, other: CostPolynomial) -> CostPolynomial:
        terms: dict[Powers, int] = {}
        for one, a in self.terms.items():
            for two, b in other.terms.items():
                powers = dict(one)
                for name, exponent in two:
                    powers[name] = powers.get(name, 0) + exponent
                key = tuple(sorted(powers.items()))
                terms[key] = max(terms.get(key, 0), a * b)
        return CostPolynomial(terms)

    def __or__(self, other: CostPolynomial) -> CostPolynomial:
        """All terms of both."""
        terms = dict(self.terms)
        for powers, coefficient in other.terms.items():
            terms[powers] = max(terms.get(powers, 0), coefficient)
        return CostPolynomial(terms)

    def dominant(self) -> CostPolynomial:
        """The terms that no other one outgrows in every name."""
        kept = {
            powers: coefficient
            for powers, coefficient in self.terms.items()
            if not any(other != powers and _below(powers, other) for other in self.terms)
        }
        return CostPolynomial(kept)

    @property
    def degree(self) -> int:
        """The greatest number of names in a term, counted with their exponents."""
        return max((sum(e for _, e in powers) for powers in self.terms), default=0)

    def text(self, order: Sequence[str]) -> str:
        """The terms, those with most of the first names first; names in the given order."""
        place = {name: i for i, name in enumerate(order)}

        def key(item: tuple[Powers, int]) -> tuple[list[int], tuple[Powers, int]]:
            powers = dict(item[0])
            return [-powers.get(name, 0) for name in order], item

        return " + ".join(
            _term(sorted(powers, key=lambda p: place.get(p[0], len(place))), coefficient)
            for powers, coefficient in sorted(self.terms.items(), key=key)
        )


ONE = CostPolynomial.number(1)
ZERO = CostPolynomial({})


def product(factors: Iterable[CostPolynomial]) -> CostPolynomial:
    """The product of polynomials."""
    result = ONE
    for factor in factors:
        result = result * factor
    return result


def _below(one: Powers, two: Powers) -> bool:
    limits = dict(two)
    return all(exponent <= limits.get(name, 0) for name, exponent in one)


def _term(powers: Sequence[tuple[str, int]], coefficient: int) -> str:
    factors = [name if exponent == 1 else f"{name}^{exponent}" for name, exponent in powers]
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors)


class Boxes:
    """A box of loops on every level on which it has any points.

    All levels at once: a sequence of a million positions has as many.
    """

    def __init__(
        self,
        levels: Levels,
        guards: Iterable[Expr],
        loops: Iterable[Loop],
        values: Mapping[str, int],
    ) -> None:
        live = np.ones(len(levels), dtype=bool)
        for guard in guards:
            live &= _at(guard, values, levels) >= 0
        extents: dict[str, Levels] = {}
        for loop in loops:
            low = [-(-_at(e, values, levels) // d) for e, d in loop.low.terms]
            high = [_at(e, values, levels) // d for e, d in loop.high.terms]
            extent = np.minimum.reduce(high) - np.maximum.reduce(low) + 1
            live &= extent > 0
            extents[loop.name] = extent
        self.levels = levels[live]
        self.extents = {name: extent[live] for name, extent in extents.items()}
        self.count = int(live.sum())

    @staticmethod
    def of_step(stage: PlanStage, step: Step, values: Mapping[str, int]) -> Boxes:
        """The box of a step on the levels of its stage."""
        levels = np.arange(1)
        if stage.has_levels:
            levels = all_levels(stage.first, stage.last, values)
        return Boxes(levels, step.guards, step.positions + step.splits, values)

    @staticmethod
    def of_block(stage: Stage, block: Block, values: Mapping[str, int]) -> Boxes:
        """The box of a kernel's block on the levels of its stage."""
        levels = np.arange(1)
        if stage.levels is not None:
            levels = all_levels(stage.levels.first, stage.levels.last, values)
        return Boxes(levels, block.guards, block.loops, values)

    def sum(self, loops: Iterable[str]) -> int:
        """The number of points of some loops, over all levels."""
        return int(self.points(loops).sum())

    def largest(self, loops: Iterable[str]) -> int:
        """The greatest number of points that some loops have on a level."""
        return int(self.points(loops).max(initial=0))

    def points(self, loops: Iterable[str]) -> Levels:
        """The number of points of some loops on each level."""
        points = np.ones(self.count, dtype=np.int64)
        for name in loops:
            points = points * self.extents[name]
        return points


def all_levels(first: Iterable[Bound], last: Iterable[Bound], values: Mapping[str, int]) -> Levels:
    """The levels from the least first one to the greatest last one."""
    start = min(low_end(bound, values) for bound in first)
    return np.arange(start, max(high_end(bound, values) for bound in last) + 1)


def _at(expr: Expr, values: Mapping[str, int], levels: Levels) -> Levels:
    """The value of an index expression on every level."""
    slope = coefficient_of(expr, LEVEL)
    return evaluate(expr - Expr.of(LEVEL) * slope, values) + slope * levels


class Order:
    """The number of points of one step's products, to leading order."""

    def __init__(self, plan: Plan, stage: PlanStage, step: Step) -> None:
        self.plan = plan
        self.stage = stage
        self.step = step
        rows = [r for loop in step.positions + step.splits for r in box_rows(loop)]
        rows += [row_of(guard) for guard in step.guards]
        if len(stage.first) == len(stage.last) == 1 and stage.has_levels:
            rows += box_rows(Loop(LEVEL, stage.first[0], stage.last[0]))
        elif stage.has_levels:
            rows += _outermost(stage)
        self.system = uniform(rows, plan.lengths)
        self.system += [Row.make({length: 1}, 0) for length in plan.lengths]

    def points(self, loops: Iterable[str]) -> CostPolynomial:
        """The number of points of some loops, over all levels."""
        free = set(loops)
        forms = [Expr.of(name) for name in sorted(free)]
        if self.stage.has_levels:
            free.add(LEVEL)
            forms.append(Expr.of(LEVEL))
        rank = rank_of(forms)
        # A segment of bounded length, `j - i <= lmax`, is short although its ends are not.
        forms += [form for a, b in combinations(forms, 2) for form in (a - b, a + b)]
        operands = (expr for o in self.step.operands for expr in o.index)
        for expr in (*self.step.head_index, *operands):
            if any(expr.names()) and set(expr.names()) <= free:
                forms.append(expr)
        ranges = [(extent_of(self.plan, self.step.rule, self.system, f), f) for f in forms]
        # The forms are a matroid: taking the shortest range first is best.
        ranges.sort(key=lambda item: (*_growth(self.plan, item[0]), str(item[1])))
        chosen: list[Expr] = []
        count = ONE
        for extent, form in ranges:
            if len(chosen) < rank and rank_of([*chosen, form]) > len(chosen):
                chosen.append(form)
                count = count * extent
        return count


def extent_of(plan: Plan, rule: Rule | None, system: Sequence[Row], form: Expr) -> CostPolynomial:
    """The length of the range of a form, to leading order in the lengths."""
    target = Expr.of(_FORM) - form
    try:
        rows = project([*system, row_of(target), row_of(-target)], {_FORM, *plan.lengths})
    except TooManyRows:
        return CostPolynomial({((length, 1),): 1 for length in plan.lengths})
    best: CostPolynomial | None = None
    for low in (r for r in rows if r.coefficient(_FORM) > 0):
        for high in (r for r in rows if r.coefficient(_FORM) < 0):
            extent = _difference(plan, rule, low, high)
            if best is None or _growth(plan, extent) < _growth(plan, best):
                best = extent
    return best or CostPolynomial({((length, 1),): 1 for length in plan.lengths})


def _growth(plan: Plan, extent: CostPolynomial) -> tuple[int, int, int]:
    """A key that orders ranges from short to long: by lengths, then by sizes."""
    names = [name for powers in extent.terms for name, _ in powers]
    return sum(name in plan.lengths for name in names), extent.degree, len(names)


def axis_extent(plan: Plan, axis: Loop) -> CostPolynomial:
    """The number of cells along an axis, to leading order."""
    system = uniform(box_rows(axis), plan.lengths)
    return extent_of(plan, None, system, Expr.of(axis.name))


def _difference(plan: Plan, rule: Rule | None, low: Row, high: Row) -> CostPolynomial:
    """The number of whole numbers between two bounds, to leading order."""
    down, up = low.coefficient(_FORM), -high.coefficient(_FORM)
    lengths = [
        name
        for name in plan.lengths
        if high.coefficient(name) * down + low.coefficient(name) * up > 0
    ]
    if lengths:
        return CostPolynomial({((name, 1),): 1 for name in lengths})
    count = max((high.constant * down + low.constant * up) // (down * up) + 1, 1)
    name = _size_name(plan.grammar, rule, count) if rule is not None and count > 1 else None
    return CostPolynomial.number(count) if name is None else CostPolynomial.name(name)


def _size_name(grammar: Grammar, rule: Rule, count: int) -> str | None:
    """The size that bounds a range of the rule, `j - i <= lmax`, if one explains the count."""
    conditions = [*rule.conditions, *grammar.nonterminal[rule.lhs].conditions]
    for edge in rule.rhs.edges:
        if edge.label in grammar.nonterminal:
            conditions += grammar.nonterminal[edge.label].conditions
        elif edge.label in grammar.input_factor:
            conditions += grammar.input_factor[edge.label].conditions
    sizes = size_values(grammar)
    named = {name for c in conditions for term in c.terms for name in term.names()}
    near = [name for name in sizes if name in named and abs(sizes[name] - count) <= 1]
    return min(near, key=lambda name: abs(sizes[name] - count), default=None)


def _outermost(stage: PlanStage) -> list[Row]:
    """The bounds of the level that all families of a stage have in common."""

    def common(bounds: Sequence[Bound]) -> Bound:
        terms = [term for term in bounds[0].terms if all(term in b.terms for b in bounds)]
        return Bound(tuple(terms))

    return box_rows(Loop(LEVEL, common(stage.first), common(stage.last)))
