"""Derivations of a model alone, seen as a query sees them: with indices, lengths and inputs.

A query gives each nonterminal of a model indices, and fixes nodes to positions of inputs. So a
derivation of the model alone, which knows of no indices, has a place in the query as soon as all
index variables have values. They follow from linear equations: a cell has the indices that the rule
above gives it, and those of the head of the rule below. From the leaves up, the equations of each
subtree are reduced to those between the indices of its root and the lengths; from the root down,
the indices are then known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgg.check.indices import rule_variables
from fgg.diagnostics import refuse
from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import lengths as length_names
from fgg.grammar.domains import size_values
from fgg.grammar.index import Expr
from fgg.runtime.derive.assemble import PlanAssembler, Source
from fgg.runtime.derive.choices import Cell, Choice
from fgg.runtime.derive.completed import Observed
from fgg.runtime.derive.derivation import Derivation, Reading, Step
from fgg.runtime.derive.search import Applied

MAX_RELATIONS = 32
"""The most ways in which a query can see a subtree."""

Row = tuple[tuple[str, Fraction], ...]
"""An equation: the sum of coefficients times names is 0; the name "" stands for 1."""

Relation = tuple[Row, ...]
"""Equations in reduced form between the indices of a cell, called `#0`, `#1`, …, and lengths."""


class _Way(NamedTuple):
    """One way to see a subtree: the query's rule at its root, and relations of those below it."""

    rule: Rule
    relation: Relation
    below: tuple[Relation, ...]


@dataclass(frozen=True)
class KnownIndices:
    """The lengths and index variables of a derivation's item, as an assembler asks for them."""

    grammar: Grammar
    lengths: Mapping[str, int]

    def evaluate(self, choice: Choice, expr: Expr) -> int:
        """An index expression of a chosen rule."""
        known = {**size_values(self.grammar), **self.lengths, **choice.variables}
        value = expr.evaluate(known)
        assert value is not None
        return value

    @property
    def given(self) -> dict[str, NDArray[np.int64]]:
        """No tokens are given."""
        return {}


class Aligner:
    """Places derivations of a model in a query of it. `joined` is the model joined with the query.

    `open` says whether a query was met that leaves lengths open. Raises GrammarError (F499) for a
    query whose indices are not affine.
    """

    def __init__(self, joined: Grammar) -> None:
        self.grammar = joined
        self.sizes = size_values(joined)
        self.lengths = tuple(sorted(length_names(joined)))
        self.rules: dict[str, list[Rule]] = {}
        for rule in joined.rules:
            self.rules.setdefault(rule.origin_or_self.rule, []).append(rule)
        if joined.tables or joined.input_factors:
            name = [*(t.name for t in joined.tables), *(f.name for f in joined.input_factors)][0]
            help = "give it, and draw from the posterior: `model.posterior(…).sample(10)`"
            refuse("F499", f"what is drawn depends on `{name}`, which has to be given", help)
        self.open = False
        self.seen: dict[tuple[str, tuple[tuple[Relation, ...], ...]], tuple[_Way, ...]] = {}

    def aligned(self, derivation: Derivation) -> Derivation | None:
        """The derivation with its indices; None if the query does not admit it."""
        ways = self._ways(derivation.steps)
        start = self.grammar.start
        for root in ways[0]:
            heads = [(f"#{place}", expr) for place, expr in enumerate(start.indices)]
            rows = _reduced([*root.relation, *(self._head_row(n, e) for n, e in heads)], ())
            solved = None if rows is None else _solution(rows)
            if solved is None:
                continue
            if any(name not in solved for name in self.lengths):
                self.open = True
                continue
            lengths = {name: solved[name] for name in self.lengths}
            if min(lengths.values(), default=0) < 0:
                continue
            indices = tuple(solved[name] for name, _ in heads)
            placed = self._placed(derivation.steps, ways, lengths, indices)
            if placed is not None:
                return self._assembled(derivation, lengths, placed)
        return None

    # from the leaves up

    def _ways(self, steps: Sequence[Step]) -> list[tuple[_Way, ...]]:
        """The ways in which the query can see the subtree at each step."""
        ways: list[tuple[_Way, ...]] = [()] * len(steps)
        for number in reversed(range(len(steps))):
            step = steps[number]
            below = tuple(
                tuple(dict.fromkeys(way.relation for way in ways[child])) for child in step.children
            )
            key = (step.source_rule, below)
            if key not in self.seen:
                self.seen[key] = tuple(self._ways_of(step.source_rule, below))
            ways[number] = self.seen[key]
            if len({way.relation for way in ways[number]}) > MAX_RELATIONS:
                message = f"rule `{step.source_rule}` can be placed in the query in too many ways"
                refuse("F499", message, "draw with given lengths")
        return ways

    def _ways_of(self, name: str, below: tuple[tuple[Relation, ...], ...]) -> Iterator[_Way]:
        for rule in self.rules.get(name, ()):
            variables = rule_variables(rule, self.grammar, set(self.lengths))
            for chosen in product(*below):
                relation = _reduced(list(self._equations(rule, chosen)), variables)
                if relation is not None:
                    yield _Way(rule, relation, chosen)

    def _equations(self, rule: Rule, below: Sequence[Relation]) -> Iterator[Row]:
        """The equations of a rule, its head and the relations of the cells below it."""
        for place, expr in enumerate(rule.indices):
            yield self._head_row(f"#{place}", expr)
        for condition in rule.conditions:
            for left, operator, right in condition.pairs():
                if operator == "==":
                    yield self._row(left - right)
        edges = [e for e in rule.rhs.edges if e.label in self.grammar.nonterminal]
        for edge, relation in zip(edges, below, strict=True):
            given = {f"#{place}": self._row(expr) for place, expr in enumerate(edge.indices)}
            yield from (_substituted(row, given) for row in relation)

    def _head_row(self, name: str, expr: Expr) -> Row:
        """The equation `name = expr`."""
        return _sum([(self._row(expr), Fraction(1)), (((name, Fraction(1)),), Fraction(-1))])

    def _row(self, expr: Expr) -> Row:
        terms: dict[str, Fraction] = {}
        for monomial, coefficient in expr.substitute(dict(self.sizes)).terms:
            if len(monomial) > 1 or not all(isinstance(atom, str) for atom in monomial):
                message = f"the index `{expr}` of the query is not affine"
                refuse("F499", message, "draw with given lengths")
            name = str(monomial[0]) if monomial else ""
            terms[name] = terms.get(name, Fraction()) + coefficient
        return tuple(sorted((name, c) for name, c in terms.items() if c))

    # from the root down

    def _placed(
        self,
        steps: Sequence[Step],
        ways: Sequence[Sequence[_Way]],
        lengths: Mapping[str, int],
        indices: tuple[int, ...],
    ) -> list[tuple[Rule, dict[str, int], tuple[int, ...]]] | None:
        """For each step the query's rule, the values of its variables, and the cell's indices."""
        cells: list[tuple[int, ...]] = [indices] * len(steps)
        placed: list[tuple[Rule, dict[str, int], tuple[int, ...]]] = []
        for number, step in enumerate(steps):
            for way in ways[number]:
                variables = self._variables(way, cells[number], lengths)
                if variables is not None:
                    break
            else:
                return None
            placed.append((way.rule, variables, cells[number]))
            known = {**self.sizes, **lengths, **variables}
            edges = [e for e in way.rule.rhs.edges if e.label in self.grammar.nonterminal]
            for edge, child in zip(edges, step.children, strict=True):
                cells[child] = tuple(expr.evaluate(known) or 0 for expr in edge.indices)
        return placed

    def _variables(
        self, way: _Way, indices: tuple[int, ...], lengths: Mapping[str, int]
    ) -> dict[str, int] | None:
        """The index variables of a rule that rewrites a cell; None if it cannot."""
        given = {**lengths, **{f"#{place}": value for place, value in enumerate(indices)}}
        known = {name: ((("", Fraction(value)),) if value else ()) for name, value in given.items()}
        rows = [_substituted(row, known) for row in self._equations(way.rule, way.below)]
        reduced = _reduced(rows, ())
        solved = None if reduced is None else _solution(reduced)
        names = rule_variables(way.rule, self.grammar, set(lengths))
        if solved is None or any(name not in solved for name in names):
            return None
        variables = {name: solved[name] for name in names}
        values = {**self.sizes, **lengths, **variables}
        bounds = [e for c in way.rule.conditions for e in c.inequalities()]
        inside = all((expr.evaluate(values) or 0) >= 0 for expr in bounds)
        return variables if inside and self._reads_inside(way.rule, values) else None

    def _reads_inside(self, rule: Rule, values: Mapping[str, int]) -> bool:
        """Whether a rule reads positions inside its inputs only."""
        for clamp in rule.rhs.clamps:
            shape = self.grammar.input[clamp.input].shape
            for index, extent in zip(clamp.indices, shape, strict=True):
                place, end = index.evaluate(values), extent.evaluate(values)
                if place is None or end is None or not 0 <= place < end:
                    return False
        return True

    def _assembled(
        self,
        derivation: Derivation,
        lengths: Mapping[str, int],
        placed: Sequence[tuple[Rule, dict[str, int], tuple[int, ...]]],
    ) -> Derivation:
        path = [
            Applied(
                Cell(rule.lhs, indices, ()),
                Choice(rule, variables, step.values),
                len(step.children),
            )
            for step, (rule, variables, indices) in zip(derivation.steps, placed, strict=True)
        ]
        assembler = PlanAssembler(Source.of(self.grammar), KnownIndices(self.grammar, lengths))
        return assembler.derivation(path, derivation.log_weight)


def with_readings(derivation: Derivation, observed: Observed) -> Derivation:
    """A derivation of the ground grammar of an item, with what its rules read from the inputs."""
    grammar = observed.grammar
    rules: dict[str, list[Rule]] = {}
    for rule in grammar.rules:
        rules.setdefault(rule.origin_or_self.rule, []).append(rule)
    sizes = {**size_values(grammar), **observed.lengths}
    cells = [derivation.cell(step)[1] for step in derivation.steps]

    def indices(exprs: Sequence[Expr], values: Mapping[str, int]) -> tuple[int | None, ...]:
        return tuple(expr.evaluate(values, observed.look_up) for expr in exprs)

    def readings(number: int, step: Step) -> Iterator[Reading]:
        values = {**sizes, **dict(step.rule.origin_or_self.values)}
        below = [cells[child] for child in step.children]
        for rule in rules[step.source_rule]:
            names = {n for e in (*rule.indices, *_body(rule)) for n in e.names()}
            if not names <= values.keys() or indices(rule.indices, values) != cells[number]:
                continue
            edges = [e for e in rule.rhs.edges if e.label in grammar.nonterminal]
            if [indices(edge.indices, values) for edge in edges] == below:
                for clamp in rule.rhs.clamps:
                    position = tuple(place or 0 for place in indices(clamp.indices, values))
                    yield Reading(clamp.input, position, clamp.attachment, clamp.path)
                return

    steps = [
        replace(step, readings=tuple(readings(n, step))) for n, step in enumerate(derivation.steps)
    ]
    return replace(derivation, steps=tuple(steps), observed=observed)


def _body(rule: Rule) -> Iterator[Expr]:
    """The indices in the body of a rule."""
    for edge in rule.rhs.edges:
        yield from edge.indices
    for clamp in rule.rhs.clamps:
        yield from clamp.indices


def _sum(rows: Sequence[tuple[Row, Fraction]]) -> Row:
    """A linear combination of rows."""
    total: dict[str, Fraction] = {}
    for row, factor in rows:
        for name, coefficient in row:
            total[name] = total.get(name, Fraction()) + factor * coefficient
    return tuple(sorted((name, c) for name, c in total.items() if c))


def _substituted(row: Row, given: Mapping[str, Row]) -> Row:
    """A row with some names replaced by sums."""
    return _sum([(given.get(name, ((name, Fraction(1)),)), c) for name, c in row])


def _reduced(rows: Sequence[Row], gone: Sequence[str]) -> Relation | None:
    """The reduced equations between all names but those that are `gone`; None if contradictory."""
    left = [row for row in rows if row]
    pivots: list[Row] = []
    names = dict.fromkeys([*gone, *sorted({n for row in left for n, _ in row if n})])
    for name in names:
        row = next((r for r in left if any(n == name for n, _ in r)), None)
        if row is None:
            continue
        scale = dict(row)[name]
        row = tuple((n, c / scale) for n, c in row)

        def without(other: Row, name: str = name, row: Row = row) -> Row:
            coefficient = dict(other).get(name, Fraction())
            return _sum([(other, Fraction(1)), (row, -coefficient)]) if coefficient else other

        left = [new for r in left if (new := without(r))]
        pivots = [without(r) for r in pivots] + ([] if name in gone else [row])
    if left:  # all names are gone from them: they say that a number other than 0 is 0
        return None
    return tuple(sorted(pivots))


def _solution(rows: Relation) -> dict[str, int] | None:
    """The names that have one value, with it; None if one is not whole."""
    solved: dict[str, int] = {}
    for row in rows:
        names = [(name, c) for name, c in row if name]
        if len(names) != 1:
            continue
        value = -dict(row).get("", Fraction()) / names[0][1]
        if value.denominator != 1:
            return None
        solved[names[0][0]] = int(value)
    return solved
