"""Schedules: an order in which to fill the charts of an indexed grammar, with a proof.

For each recursive component of families we look for a *level*: an affine form of the indices that
is smaller in the body of every recursive rule than in its head (`j - i` for spans, `-i` for
chains). Such simple forms, with coefficients 1 and -1 and the same for all families, are tried
first. Where none holds, the forms come out of one linear program a component: by Farkas' lemma, an
affine form is non-negative wherever a rule's inequalities hold exactly if it is a non-negative
combination of them, and the multipliers are unknowns like the coefficients. What the program finds
in floating point is rounded to integers. Whatever a form comes from, it is proved exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, product
from math import lcm
from typing import TYPE_CHECKING

from fgg.compiler.plan.components import components
from fgg.grammar import Edge, Grammar, Rule
from fgg.grammar.domains import lengths, size_values
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, TooManyRows, implies, is_feasible, project
from fgg.grammar.ranges import Region, affine, least_value, regions, row, rule_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEVEL = "\0level"
_MOST_SIMPLE = 4
"""Up to this many indices the simple forms are tried, 3 to this power of them."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Families that are filled together, level by level.

    `level` is a form of each family's indices; on one level the families are filled in the order
    in which they are listed. A stage that is not recursive has no levels. `first` and `last`
    bound the levels, as expressions of the lengths, where such bounds are known.
    """

    families: tuple[str, ...]
    recursive: bool
    level: Mapping[str, Expr]
    first: Expr | None = None
    last: Expr | None = None


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Why a component has no schedule: rules that cannot all go down a level."""

    families: tuple[str, ...]
    rules: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The stages in order, each after those it needs, and the conflicts."""

    stages: tuple[Stage, ...]
    conflicts: tuple[Conflict, ...]

    @property
    def holds(self) -> bool:
        """Whether everything could be scheduled."""
        return not self.conflicts


@dataclass(frozen=True)
class _Call:
    """A reference from a rule's head to a family of the same component."""

    rule: Rule
    edge: Edge
    rows: tuple[Row, ...]


def schedule(grammar: Grammar) -> Schedule:
    """The schedule of an indexed grammar without queries.

    Guarantees that on every stage without conflict each reference goes to an earlier stage, to a
    lower level, or to an earlier family of the same level: proved on the rules' inequalities.
    """
    stages: list[Stage] = []
    conflicts: list[Conflict] = []
    for families in _components(grammar):
        calls = _calls(grammar, families)
        if not calls:
            stages.append(Stage(families=families, recursive=False, level={}))
            continue
        stage = _Levels(grammar, families, calls).find()
        if isinstance(stage, Conflict):
            conflicts.append(stage)
            stages.append(Stage(families=families, recursive=True, level={}))
        else:
            stages.append(stage)
    return Schedule(stages=tuple(stages), conflicts=tuple(conflicts))


def _components(grammar: Grammar) -> list[tuple[str, ...]]:
    """The strongly connected components of families, each after those it needs."""
    graph: dict[str, dict[str, None]] = {x.name: {} for x in grammar.nonterminals}
    for rule in grammar.rules:
        for edge in rule.rhs.edges:
            if edge.label in grammar.nonterminal:
                graph[rule.lhs][edge.label] = None
    return components(graph)


def _calls(grammar: Grammar, families: Sequence[str]) -> list[_Call]:
    ranges = regions(grammar)
    calls = []
    for rule in grammar.rules:
        if rule.lhs not in families or rule.lhs not in ranges:
            continue
        rows = rule_rows(grammar, rule, ranges)
        if not is_feasible(rows):
            continue
        for edge in rule.rhs.edges:
            if edge.label in families:
                calls.append(_Call(rule, edge, tuple(rows)))
    return calls


class _Levels:
    """Finds the level forms of one recursive component."""

    def __init__(self, grammar: Grammar, families: tuple[str, ...], calls: Sequence[_Call]) -> None:
        self.grammar = grammar
        self.families = families
        self.calls = calls
        self.sizes = size_values(grammar)
        self.regions: Mapping[str, Region] = regions(grammar)

    def find(self) -> Stage | Conflict:
        """The stage, or the reason why it cannot be scheduled."""
        simple = self.simple()
        if simple is not None:
            return simple
        if not any(self.grammar.nonterminal[name].indices for name in self.families):
            # Levels are constants, and nothing can go down on the way round a cycle.
            return self.prove(dict.fromkeys(self.families, Expr()))
        # The simplest forms first: they make the most even levels.
        for largest, constants in ((1, False), (1, True), (8, True)):
            forms = self.solve(largest, constants)
            proved = self.prove(forms) if forms is not None else None
            if isinstance(proved, Stage):
                return proved
        if proved is None:
            names = [call.rule.name for call in self.calls]
            return self.conflict(names, "no affine form of the indices goes down in these rules")
        return proved

    def simple(self) -> Stage | None:
        """The stage with the simple form that goes down in the most calls, if any holds.

        It is found without loading the solver of linear programs, which takes longer than all
        the rest of compiling.
        """
        for shared in self.shared_indices():
            best: tuple[tuple[float, ...], Mapping[str, Expr]] | None = None
            for forms in self.simple_forms(shared):
                if not isinstance(self.prove(forms, bounds=False), Stage):
                    continue
                score = self.score(forms)
                if best is None or score < best[0]:
                    best = (score, forms)
            if best is not None:
                stage = self.prove(best[1])
                assert isinstance(stage, Stage)
                return stage
        return None

    def score(self, forms: Mapping[str, Expr]) -> tuple[float, ...]:
        """How good forms are that hold, the least first: what the linear program minimises.

        Many calls that go down; then small coefficients, for the size of the steps that they go
        down in; and then two indices: levels by `j - i` have more even boxes than those by `i`, and
        with more indices than two the cells of a level are no box.
        """
        least = [
            least_value(self.drop(call, forms), call.rows, self.sizes) or 0 for call in self.calls
        ]
        down = [step for step in least if step > 0]
        used = len(next(iter(forms.values())).terms)
        return (-len(down), used / min(down, default=1), abs(used - 2))

    def shared_indices(self) -> Iterator[Mapping[str, tuple[str, ...]]]:
        """The indices that all families have: those in the same places, then those so named."""
        indices = {name: self.grammar.nonterminal[name].indices for name in self.families}
        least = min(indices.values(), key=len)
        yield {name: its_indices[: len(least)] for name, its_indices in indices.items()}
        named = tuple(i for i in least if all(i in others for others in indices.values()))
        yield dict.fromkeys(indices, named)

    def simple_forms(self, shared: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, Expr]]:
        """Sums and differences of the indices that all families share, those of fewest first."""
        rank = len(next(iter(shared.values())))
        if not 1 <= rank <= _MOST_SIMPLE:
            return
        signs = sorted(product((-1, 1, 0), repeat=rank), key=lambda s: sum(map(abs, s)))
        for coefficients in signs[1:]:
            yield {
                name: sum(
                    (Expr.of(i) * c for i, c in zip(its_indices, coefficients, strict=True)),
                    Expr(),
                )
                for name, its_indices in shared.items()
            }

    def prove(self, forms: Mapping[str, Expr], *, bounds: bool = True) -> Stage | Conflict:
        """The stage with these levels, every drop proved exactly, or the drop that fails."""
        # Not sets: the order of families on a level must be the same on every run.
        flat: dict[str, dict[str, None]] = {name: {} for name in self.families}
        stuck: dict[tuple[str, str], str] = {}
        for call in self.calls:
            if self.goes_down(call, forms):
                continue
            if not implies(call.rows, row(self.drop(call, forms), self.sizes)):
                return self.conflict([call.rule.name], "its level does not go down")
            flat[call.rule.lhs][call.edge.label] = None
            stuck[call.rule.lhs, call.edge.label] = call.rule.name
        try:
            order = tuple(TopologicalSorter(flat).static_order())
        except CycleError as error:
            cycle = list(error.args[1])
            rules = [stuck[head, tail] for tail, head in pairwise(cycle) if (head, tail) in stuck]
            return self.conflict(rules, "these rules form a cycle on one level")
        first, last = self.bounds(forms) if bounds else (None, None)
        return Stage(families=order, recursive=True, level=forms, first=first, last=last)

    def conflict(self, rules: Sequence[str], reason: str) -> Conflict:
        return Conflict(families=self.families, rules=tuple(dict.fromkeys(rules)), reason=reason)

    def goes_down(self, call: _Call, forms: Mapping[str, Expr]) -> bool:
        """Whether a call provably goes down a level."""
        return implies(call.rows, row(self.drop(call, forms) - 1, self.sizes))

    def drop(self, call: _Call, forms: Mapping[str, Expr]) -> Expr:
        """How far a call goes down: the head's level minus the body's."""
        return self.at(forms, call.rule.lhs, call.rule.indices) - self.at(
            forms, call.edge.label, call.edge.indices
        )

    def at(self, forms: Mapping[str, Expr], name: str, indices: Sequence[Expr]) -> Expr:
        """The level of a family at given indices."""
        names = self.grammar.nonterminal[name].indices
        return forms[name].substitute(dict(zip(names, indices, strict=True)))

    def solve(self, largest: int, constants: bool) -> dict[str, Expr] | None:
        """Coefficients such that as many calls as possible go down, the others staying level."""
        import numpy as np
        from scipy.optimize import linprog

        columns: list[tuple[str, str]] = []  # (family, index) or (family, "") for its constant
        for name in self.families:
            columns += [(name, i) for i in self.grammar.nonterminal[name].indices]
            columns.append((name, ""))
        place = {column: i for i, column in enumerate(columns)}
        free = len(columns)
        total = 2 * free + sum(2 + len(call.rows) for call in self.calls)
        equalities: list[NDArray[np.float64]] = []
        cost = np.zeros(total)
        cost[: 2 * free] = 1e-3  # small coefficients, where there is a choice
        bounds: list[tuple[int, int | None]] = []
        for _, index in columns * 2:
            bounds.append((0, largest if index or constants else 0))
        offset = 2 * free
        for call in self.calls:
            variables = dict.fromkeys(n for r in call.rows for n, _ in r.coefficients)
            parts = self.pieces(call)
            for _, piece in parts:
                variables.update(dict.fromkeys(n for n, _ in piece.coefficients))
            for variable in (*variables, None):
                line = np.zeros(total)
                for (family, index), piece in parts:
                    value = piece.constant if variable is None else piece.coefficient(variable)
                    line[place[family, index]] += value
                    line[free + place[family, index]] -= value
                for i, r in enumerate(call.rows):
                    value = r.constant if variable is None else r.coefficient(variable)
                    line[offset + 2 + i] -= value
                if variable is None:
                    line[offset] -= 1.0  # the drop, at most 1
                    line[offset + 1] -= 1.0  # slack
                equalities.append(line)
            cost[offset] = -1.0
            bounds += [(0, 1), (0, None)] + [(0, None)] * len(call.rows)
            offset += 2 + len(call.rows)
        result = linprog(
            cost, A_eq=np.array(equalities), b_eq=np.zeros(len(equalities)), bounds=bounds
        )
        if result.status != 0:
            return None
        values = result.x[:free] - result.x[free : 2 * free]
        return self.forms(dict(zip(columns, map(float, values), strict=True)))

    def pieces(self, call: _Call) -> list[tuple[tuple[str, str], Row]]:
        """The head's level minus the body's, coefficient by coefficient, as rows.

        Sizes have been put in; a row's inequality is not meant, only its affine form, so it must
        not be divided or rounded.
        """
        rows: list[tuple[tuple[str, str], Row]] = []
        ends = ((call.rule.lhs, call.rule.indices, 1), (call.edge.label, call.edge.indices, -1))
        for name, indices, sign in ends:
            for index, expr in zip(self.grammar.nonterminal[name].indices, indices, strict=True):
                coefficients, constant = affine(expr * sign, self.sizes)
                rows.append(((name, index), Row(tuple(sorted(coefficients.items())), constant)))
            rows.append(((name, ""), Row((), sign)))
        return rows

    def forms(self, values: Mapping[tuple[str, str], float]) -> dict[str, Expr]:
        """The forms with whole coefficients: the values times their common denominator."""
        from fractions import Fraction

        fractions = {key: Fraction(value).limit_denominator(12) for key, value in values.items()}
        scale = lcm(*(f.denominator for f in fractions.values())) if fractions else 1
        forms: dict[str, Expr] = {}
        for name in self.families:
            form = Expr.of(int(fractions[name, ""] * scale))
            for index in self.grammar.nonterminal[name].indices:
                form = form + Expr.of(index) * int(fractions[name, index] * scale)
            forms[name] = form
        return forms

    def bounds(self, forms: Mapping[str, Expr]) -> tuple[Expr | None, Expr | None]:
        """The first and the last level of a component, if one bound serves all its families."""
        lows: set[Expr] = set()
        highs: set[Expr] = set()
        known = sorted(lengths(self.grammar))
        for name in self.families:
            if name not in self.regions:
                continue  # nothing refers to it
            region = self.regions[name]
            target = Expr.of(_LEVEL) - forms[name]
            rows = [row(c, self.sizes) for c in region.conditions]
            rows += [row(target, self.sizes), row(-target, self.sizes)]
            rows += [Row.make({length: 1}, 0) for length in known]
            try:
                system = project(rows, {_LEVEL, *known})
            except TooManyRows:
                return None, None
            low = [r for r in system if r.coefficient(_LEVEL) == 1]
            high = [r for r in system if r.coefficient(_LEVEL) == -1]
            lows.add(_bound(low[0], -1) if len(low) == 1 else Expr.of("?"))
            highs.add(_bound(high[0], 1) if len(high) == 1 else Expr.of("?"))
        first = lows.pop() if len(lows) == 1 else None
        last = highs.pop() if len(highs) == 1 else None
        unknown = Expr.of("?")
        return None if first == unknown else first, None if last == unknown else last


def _bound(row: Row, sign: int) -> Expr:
    """The bound that a row sets to the level."""
    total = Expr.of(row.constant * sign)
    for name, coefficient in row.coefficients:
        if name != _LEVEL:
            total = total + Expr.of(name) * (coefficient * sign)
    return total


def schedule_lines(grammar: Grammar, result: Schedule) -> list[str]:
    """A schedule as text, a line a stage."""
    lines = []
    for stage in result.stages:
        if not stage.recursive:
            lines.append(f"{_family(grammar, stage.families[0])}: all at once")
            continue
        conflict = next(
            (c for c in result.conflicts if set(c.families) == set(stage.families)), None
        )
        if conflict is not None:
            names = ", ".join(conflict.families)
            rules = ", ".join(f"`{name}`" for name in conflict.rules)
            lines.append(f"{names}: no schedule: {conflict.reason} ({rules})")
            continue
        forms = [
            f"{_family(grammar, name)} at level {stage.level[name]}" for name in stage.families
        ]
        text = "; ".join(forms)
        if stage.first is not None and stage.last is not None:
            text += f"; levels {stage.first} to {stage.last}"
        lines.append(text)
    return lines


def _family(grammar: Grammar, name: str) -> str:
    indices = grammar.nonterminal[name].indices
    return f"{name}[{', '.join(indices)}]" if indices else name
