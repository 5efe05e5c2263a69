"""Ranges of families: as declared, or inferred from the rules beginning at the start symbol.

An inferred range is a conjunction of difference bounds between indices, lengths and zero, found as
the least fixed point of the rules over that shape of region (with widening, so that it ends). It
contains every index that a derivation can reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from fgg.grammar import Edge, Grammar, Rule
from fgg.grammar.domains import lengths, size_values
from fgg.grammar.index import Condition, Expr
from fgg.grammar.linear import Row, TooManyRows, is_feasible, project
from fgg.grammar.memo import per_grammar

ROUNDS_BEFORE_WIDENING = 4
NARROWINGS = 2
_TARGET = "\0target"


def affine(expr: Expr, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """The coefficients and the constant of an affine expression, with sizes put in.

    A look-up is a variable of its own.
    """
    coefficients: dict[str, int] = {}
    constant = 0
    for monomial, coefficient in expr.terms:
        name: str | None = None
        for atom in monomial:
            if isinstance(atom, str) and atom in sizes:
                coefficient *= sizes[atom]
            else:
                name = str(atom)
        if name is None:
            constant += coefficient
        else:
            coefficients[name] = coefficients.get(name, 0) + coefficient
    return coefficients, constant


def row(expr: Expr, sizes: Mapping[str, int]) -> Row:
    """The inequality `expr >= 0`, with sizes put in."""
    return Row.make(*affine(expr, sizes))


def condition_rows(conditions: Iterable[Condition], sizes: Mapping[str, int]) -> list[Row]:
    """The inequalities that conditions stand for."""
    return [row(e, sizes) for c in conditions for e in c.inequalities()]


@dataclass(frozen=True)
class Region:
    """The indices that a family may have: inequalities over its index names and lengths."""

    indices: tuple[str, ...]
    conditions: tuple[Expr, ...]
    declared: bool

    def rows(self, indices: Sequence[Expr], sizes: Mapping[str, int]) -> list[Row]:
        """The inequalities for a reference with the given index expressions."""
        values = dict(zip(self.indices, indices, strict=True))
        return [row(c.substitute(values), sizes) for c in self.conditions]


def length_rows(grammar: Grammar, least: int = 0) -> list[Row]:
    """The inequalities that every length is at least `least`."""
    return [Row.make({name: 1}, -least) for name in sorted(lengths(grammar))]


def input_rows(grammar: Grammar, rule: Rule) -> list[Row]:
    """The inequalities that keep a rule's positions inside its inputs: others never match."""
    sizes = size_values(grammar)
    rows: list[Row] = []
    for clamp in rule.rhs.clamps:
        for index, extent in zip(clamp.indices, grammar.input[clamp.input].shape, strict=True):
            rows += [row(index, sizes), row(extent - index - 1, sizes)]
    return rows


def rule_rows(grammar: Grammar, rule: Rule, regions: Mapping[str, Region]) -> list[Row]:
    """The inequalities of a rule's index variables: head's range, conditions, positions."""
    sizes = size_values(grammar)
    rows = condition_rows(rule.conditions, sizes) + input_rows(grammar, rule)
    if rule.lhs in regions:
        rows += regions[rule.lhs].rows(rule.indices, sizes)
    return rows + length_rows(grammar)


def declared_region(grammar: Grammar, name: str) -> Region | None:
    """The range that a family's declaration gives, or None if it gives none."""
    family = grammar.nonterminal[name]
    if family.indices and not family.conditions:
        return None
    conditions = tuple(e for c in family.conditions for e in c.inequalities())
    return Region(family.indices, conditions, declared=True)


def index_extents(
    grammar: Grammar, indices: Sequence[str], rows: Sequence[Row], lengths: Mapping[str, int]
) -> list[int | None]:
    """For each index, one more than the greatest value that inequalities allow; at least 0.

    None where they allow all.
    """
    rows = [*rows, *length_rows(grammar)]
    rows += [Row.make({n: sign}, -sign * x) for n, x in lengths.items() for sign in (1, -1)]
    extents: list[int | None] = []
    for index in indices:
        bounds = [r for r in project(rows, {index}) if r.coefficient(index) < 0]
        ends = [r.constant // -r.coefficient(index) for r in bounds]
        extents.append(max(0, 1 + min(ends)) if ends else None)
    return extents


@per_grammar
def regions(grammar: Grammar) -> Mapping[str, Region]:
    """The range of every nonterminal that can be reached from the start."""
    from fgg.grammar.unequal import split_unequal  # which asks for rows

    grammar = split_unequal(grammar)
    known: dict[str, Region] = {}
    open_names: set[str] = set()
    for nonterminal in grammar.nonterminals:
        region = declared_region(grammar, nonterminal.name)
        if region is None:
            open_names.add(nonterminal.name)
        else:
            known[nonterminal.name] = region
    if open_names:
        known.update(_Inference(grammar, known, open_names).run())
    return known


class _Inference:
    """Finds the ranges of undeclared families."""

    def __init__(
        self, grammar: Grammar, declared: Mapping[str, Region], open_names: set[str]
    ) -> None:
        self.grammar = grammar
        self.sizes = size_values(grammar)
        self.regions = dict(declared)
        self.open_names = open_names
        self.bounds: dict[str, dict[Expr, int]] = {}

    def run(self) -> Mapping[str, Region]:
        grammar = self.grammar
        start = Edge(label=grammar.start.label, indices=grammar.start.indices)
        self.join(start, length_rows(grammar), widen=False)
        known: dict[int, Region] = {}
        for number in range(60):
            changed = False
            for place, rule in enumerate(grammar.rules):
                reached = self.regions.get(rule.lhs)
                if reached is None or known.get(place) == reached:
                    continue  # what it refers to is in the ranges already
                known[place] = reached
                rows = rule_rows(grammar, rule, self.regions)
                if not is_feasible(rows):
                    continue
                for edge in rule.rhs.edges:
                    if edge.label in self.open_names:
                        changed |= self.join(edge, rows, widen=number >= ROUNDS_BEFORE_WIDENING)
            if not changed:
                for _ in range(NARROWINGS):
                    self.narrow()
                break
        return {name: self.regions[name] for name in self.open_names if name in self.regions}

    def narrow(self) -> None:
        """Work every range out anew from the ranges found so far.

        These contain every index that can be reached, so what the rules make of them does too;
        and it has bounds that widening gave up although a condition holds them: `for i < k`.
        """
        grammar = self.grammar
        systems = [
            (rule, rule_rows(grammar, rule, self.regions))
            for rule in grammar.rules
            if rule.lhs in self.regions
        ]
        self.bounds = {}
        for name in self.open_names:
            self.regions.pop(name, None)
        start = Edge(label=grammar.start.label, indices=grammar.start.indices)
        self.join(start, length_rows(grammar), widen=False)
        for rule, rows in systems:
            if is_feasible(rows):
                for edge in rule.rhs.edges:
                    self.join(edge, rows, widen=False)

    def join(self, edge: Edge, rows: list[Row], *, widen: bool) -> bool:
        """Enlarge a family's range by a reference to it. Returns whether the range grew."""
        if edge.label not in self.open_names:
            return False
        family = self.grammar.nonterminal[edge.label]
        values = dict(zip(family.indices, edge.indices, strict=True))
        first = edge.label not in self.bounds
        bounds = self.bounds.setdefault(edge.label, {})
        changed = first
        # The others are unbounded already.
        forms = [t for t in templates(self.grammar, edge.label) if first or t in bounds]
        lowest = least_values([t.substitute(values) for t in forms], rows, self.sizes)
        for template, least in zip(forms, lowest, strict=True):
            known = bounds.get(template)
            if first:
                if least is not None:
                    bounds[template] = least
            elif least is None or (known is not None and least < known):
                changed = True
                if least is None or widen:
                    del bounds[template]
                else:
                    bounds[template] = least
        if changed:
            conditions = tuple(template - least for template, least in bounds.items())
            self.regions[edge.label] = Region(family.indices, conditions, declared=False)
        return changed


@per_grammar
def templates(grammar: Grammar, name: str) -> list[Expr]:
    """The differences that ranges bound: index - index, index - length, index, negated."""
    indices = [Expr.of(i) for i in grammar.nonterminal[name].indices]
    others = [Expr()] + [Expr.of(n) for n in sorted(lengths(grammar))]
    differences: list[Expr] = []
    for position, index in enumerate(indices):
        for other in others + indices[:position]:
            differences += [index - other, other - index]
    return differences


def least_value(expr: Expr, rows: Sequence[Row], sizes: Mapping[str, int]) -> int | None:
    """The least value of an expression under a system, or None if it has none."""
    target = Expr.of(_TARGET) - expr
    try:
        system = project([*rows, row(target, sizes), row(-target, sizes)], {_TARGET})
    except TooManyRows:
        return None
    lower = [-r.constant for r in system if r.coefficient(_TARGET) > 0]
    return max(lower, default=None)


def least_values(
    exprs: Sequence[Expr], rows: Sequence[Row], sizes: Mapping[str, int]
) -> list[int | None]:
    """The least values of several expressions; variables that none has are eliminated once."""
    names = {name for expr in exprs for name in affine(expr, sizes)[0]}
    with suppress(TooManyRows):
        rows = project(rows, names)
    return [least_value(expr, rows, sizes) for expr in exprs]
