"""Whether a derivation can read one position of an input in several rule applications.

Each of them sums a missing token separately, so Z is then not the sum over the token. The positions
that the derivations of a family read are inferred like its range: bounds on the differences between
the position and the family's indices, lengths and zero, as the least fixed point of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from fgg.diagnostics import Diagnostic, Report
from fgg.grammar import Edge, Grammar, Rule
from fgg.grammar.domains import lengths, size_values
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, is_feasible
from fgg.grammar.ranges import NARROWINGS, ROUNDS_BEFORE_WIDENING, least_value, row
from fgg.inputs.readings import Path, are_related, rows_of
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.trim import trim

MAX_ROUNDS = 60


def check_readings(grammar: Grammar) -> list[Diagnostic]:
    """A warning (F209) for each query whose derivations may read a position twice.

    A grammar without queries is checked itself. There is one warning for each input.
    """
    report = Report()
    named: set[str] = set()
    sources = [conjoin(grammar, query) for query in grammar.queries] or [grammar]
    for source in sources:
        first_rule: dict[str, Rule] = {}
        for rule, name in _Reader(trim(source)).repeated():
            if name not in named:
                first_rule.setdefault(name, rule)
        if first_rule:
            named |= set(first_rule)
            shown = " and of ".join(f"`{name}`" for name in first_rule)
            report.add(
                "F209",
                f"a derivation may read one position of {shown} in several rule applications",
                next(iter(first_rule.values())).span,
                "each of them sums a missing value separately",
                help="Z is right if all values are known; with missing values (-1) it is not the "
                "sum over them",
            )
    return report.diagnostics


@dataclass(frozen=True)
class Reading:
    """A part of a token that a rule reads: an input, and the path into the token."""

    input: str
    path: Path


Bounds = Mapping[Expr, int]
"""The least values of differences between a position, indices, lengths and zero."""


class _Reader:
    """Finds out which positions the derivations of each family can read."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.sizes = size_values(grammar)
        self.rows = {rule.name: rows_of(grammar, rule) for rule in grammar.rules}
        self.rules = [rule for rule in grammar.rules if is_feasible(self.rows[rule.name])]
        self.read: dict[str, dict[Reading, Bounds]] = {x.name: {} for x in grammar.nonterminals}

    def repeated(self) -> Iterator[tuple[Rule, str]]:
        """Rules below which a position may be read twice, and of which input."""
        if not any(rule.rhs.clamps for rule in self.rules):
            return
        self.solve()
        for rule in self.rules:
            sources = list(self.sources(rule))
            children = range(len(sources) - len(self.children(rule)), len(sources))
            for one, two in combinations(range(len(sources)), 2):
                if two not in children:
                    continue  # two clamps of one rule are one application
                for first, here in sources[one].items():
                    for second, there in sources[two].items():
                        rows = [*self.rows[rule.name], *here, *there]
                        if self.same(first, second) and is_feasible(rows):
                            yield rule, first.input

    def same(self, one: Reading, two: Reading) -> bool:
        """Whether two readings of one position would depend on each other."""
        if one.input != two.input:
            return False
        return are_related(self.grammar, self.grammar.input[one.input].domain, one.path, two.path)

    def children(self, rule: Rule) -> list[Edge]:
        return [edge for edge in rule.rhs.edges if edge.label in self.grammar.nonterminal]

    def sources(self, rule: Rule) -> Iterator[dict[Reading, list[Row]]]:
        """The readings of each clamp, then each nonterminal of a rule, as inequalities."""
        for clamp in rule.rhs.clamps:
            gaps = [Expr.of(f"@{i}") - index for i, index in enumerate(clamp.indices)]
            rows = [row(expr, self.sizes) for gap in gaps for expr in (gap, -gap)]
            yield {Reading(clamp.input, clamp.path): rows}
        for edge in self.children(rule):
            names = self.grammar.nonterminal[edge.label].indices
            values = dict(zip(names, edge.indices, strict=True))
            yield {
                reading: [row(t.substitute(values) - n, self.sizes) for t, n in bounds.items()]
                for reading, bounds in self.read[edge.label].items()
            }

    def solve(self) -> None:
        """Find the readings of families as a fixed point: widen until stable, then narrow."""
        for number in range(MAX_ROUNDS):
            if not self.enlarge(widen=number >= ROUNDS_BEFORE_WIDENING):
                break
        for _ in range(NARROWINGS):
            read: dict[str, dict[Reading, Bounds]] = {name: {} for name in self.read}
            for rule in self.rules:
                for reading, bounds in self.of_rule(rule):
                    _join(read[rule.lhs], reading, bounds, widen=False)
            self.read = read

    def enlarge(self, *, widen: bool) -> bool:
        """Add the readings of rules to those of their families; return whether any were new."""
        changed = False
        for rule in self.rules:
            for reading, bounds in self.of_rule(rule):
                changed |= _join(self.read[rule.lhs], reading, bounds, widen=widen)
        return changed

    def of_rule(self, rule: Rule) -> Iterator[tuple[Reading, Bounds]]:
        """The readings of the derivations of a rule, in terms of the indices of its family."""
        names = self.grammar.nonterminal[rule.lhs].indices
        head = dict(zip(names, rule.indices, strict=True))
        for source in self.sources(rule):
            for reading, rows in source.items():
                known = [*self.rows[rule.name], *rows]
                if not is_feasible(known):
                    continue
                bounds = {}
                for template in self.templates(rule.lhs, reading):
                    least = least_value(template.substitute(head), known, self.sizes)
                    if least is not None:
                        bounds[template] = least
                yield reading, bounds

    def templates(self, family: str, reading: Reading) -> Iterator[Expr]:
        """The differences that are bounded: position - index, position - length, position."""
        indices = self.grammar.nonterminal[family].indices
        others = [Expr(), *map(Expr.of, (*sorted(lengths(self.grammar)), *indices))]
        for axis in range(len(self.grammar.input[reading.input].shape)):
            for other in others:
                yield Expr.of(f"@{axis}") - other
                yield other - Expr.of(f"@{axis}")


def _join(known: dict[Reading, Bounds], reading: Reading, bounds: Bounds, *, widen: bool) -> bool:
    """Widen a reading of a family by bounds of the same reading; return whether it grew."""
    if reading not in known:
        known[reading] = dict(bounds)
        return True
    before = known[reading]
    joined = {
        template: min(least, bounds[template])
        for template, least in before.items()
        if template in bounds and (bounds[template] >= least or not widen)
    }
    known[reading] = joined
    return joined != before
