"""Checks of families and indices: bounds, emptiness, references outside a range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fgg.diagnostics import Diagnostic, Label, Report
from fgg.grammar import Edge, Grammar, InputFactor, Nonterminal, Reference, Rule
from fgg.grammar.domains import size_values
from fgg.grammar.index import Condition, Expr
from fgg.grammar.linear import Row, implies, is_bounded, is_feasible
from fgg.grammar.ranges import (
    Region,
    condition_rows,
    length_rows,
    regions,
    row,
    rule_rows,
)
from fgg.grammar.spans import Span
from fgg.grammar.unequal import possible_alternatives


def check_indices(grammar: Grammar) -> list[Diagnostic]:
    """Errors in the indices of a grammar (of a conjunction, if it has queries)."""
    report = Report()
    if not grammar.is_indexed and not any(rule.conditions for rule in grammar.rules):
        return []
    ranges = regions(grammar)
    checker = _Checker(grammar, ranges, report)
    checker.families()
    checker.reference(grammar.start, length_rows(grammar, least=1))
    for rule in grammar.rules:
        checker.rule(rule)
    return report.diagnostics


class _Checker:
    def __init__(self, grammar: Grammar, ranges: Mapping[str, Region], report: Report) -> None:
        self.grammar = grammar
        self.regions = ranges
        self.report = report
        self.sizes = size_values(grammar)
        self.lengths = {name for r in length_rows(grammar) for name, _ in r.coefficients}
        self.unbounded: set[str] = set()

    def families(self) -> None:
        """Report families whose range is not bounded, declared or inferred."""
        labels: list[Nonterminal | InputFactor] = [*self.grammar.nonterminals]
        labels += self.grammar.input_factors
        for family in labels:
            region = self.region(family)
            if region is None or not family.indices:
                continue
            rows = [row(c, self.sizes) for c in region.conditions] + length_rows(self.grammar)
            if region.declared and not is_feasible(rows):
                self.report.add(
                    "F117", f"the range of `{family.name}` has no indices in it", family.span
                )
                self.unbounded.add(family.name)
                continue
            for index in family.indices:
                if is_bounded(rows, index, self.lengths) != (True, True):
                    self.unbounded.add(family.name)
                    self.report_unbounded(family, index, declared=region.declared)
                    break

    def region(self, family: Nonterminal | InputFactor) -> Region | None:
        if isinstance(family, Nonterminal):
            return self.regions.get(family.name)
        conditions = tuple(e for c in family.conditions for e in c.inequalities())
        return Region(family.indices, conditions, declared=True)

    def report_unbounded(
        self, family: Nonterminal | InputFactor, index: str, *, declared: bool
    ) -> None:
        shown = f"{family.name}[{', '.join(family.indices)}]"
        if declared:
            self.report.add(
                "F116",
                f"index `{index}` of `{shown}` is not bounded on both sides",
                family.span,
                help=f"give its range: `for 0 <= {index} < …`",
            )
        else:
            self.report.add(
                "F119",
                f"the range of `{shown}` cannot be inferred: index `{index}` has no bounds",
                family.span,
                help=f"declare it: `nonterminal {shown} … for 0 <= {index} <= …`",
            )

    def rule(self, rule: Rule) -> None:
        """Check the conditions and references of a rule."""
        cases = possible_alternatives(self.grammar, rule)
        rows = condition_rows(rule.conditions, self.sizes) + length_rows(self.grammar)
        if not cases or not is_feasible(rows):
            names = {n for c in rule.conditions for term in c.terms for n in term.names()}
            if names and names <= set(self.sizes):
                return  # for these sizes the rule is not there
            self.report.add(
                "F117",
                f"the conditions of rule `{rule.name}` never hold",
                _cover([c.span for c in rule.conditions]) or rule.span,
                "no values satisfy them",
            )
            return
        if rule.lhs in self.unbounded or rule.lhs not in self.regions:
            return
        rows = rule_rows(self.grammar, rule, self.regions)
        if not is_feasible(rows):
            self.report.add(
                "F117",
                f"rule `{rule.name}` never applies: its indices lie outside the range of "
                f"`{rule.lhs}` or of an input",
                rule.head_span or rule.span,
                help=self.range_text(rule.lhs),
            )
            return
        if self.variables_are_bounded(rule, rows):
            self.references(rule, cases)
        self.suspicious_sizes(rule)

    def references(self, rule: Rule, cases: Iterable[tuple[Condition, ...]]) -> None:
        """Report each edge of a rule that can lie outside a declared range, in any case of `!=`."""
        least = length_rows(self.grammar, least=1)
        systems = [
            rule_rows(self.grammar, replace(rule, conditions=case), self.regions) + least
            for case in cases
        ]
        for edge in rule.rhs.edges:
            before = len(self.report.diagnostics)
            for rows in systems:
                if len(self.report.diagnostics) == before:
                    self.reference(edge, rows)

    def variables_are_bounded(self, rule: Rule, rows: list[Row]) -> bool:
        good = True
        for name in rule_variables(rule, self.grammar, self.lengths):
            low, high = is_bounded(rows, name, self.lengths)
            if low and high:
                continue
            good = False
            side = "on either side" if not low and not high else "below" if not low else "above"
            self.report.add(
                "F116",
                f"index `{name}` of rule `{rule.name}` has no bound {side}",
                _place(rule, name) or rule.span,
                help=f"add a condition, `for … <= {name} < …`, or, if `{name}` is meant to be a "
                f"length, an input of that length, `input w: W[{name}]`",
            )
        return good

    def reference(self, reference: Edge | Reference, rows: list[Row]) -> None:
        """Report a reference that can lie outside a declared range."""
        label = self.grammar.nonterminal.get(reference.label) or self.grammar.input_factor.get(
            reference.label
        )
        if label is None or not label.indices or label.name in self.unbounded:
            return
        region = self.region(label)
        if region is None or not region.declared:
            return
        if any(True for index in reference.indices for _ in index.lookups()):
            return  # known at run time only
        values: dict[str, int | Expr] = dict(zip(label.indices, reference.indices, strict=True))
        for condition in label.conditions:
            needed = condition.substitute(values)
            for inequality in needed.inequalities():
                if not implies(rows, row(inequality, self.sizes)):
                    self.report_outside(reference, label, needed)
                    return

    def report_outside(
        self, reference: Edge | Reference, label: Nonterminal | InputFactor, needed: Condition
    ) -> None:
        shown = f"{label.name}[{', '.join(map(str, reference.indices))}]"
        fixed = all(index.constant is not None for index in reference.indices)
        help_text = f"add the condition `for {needed}`"
        if fixed or isinstance(reference, Reference):
            help_text = "refer to an index in the range"
        self.report.add(
            "F118",
            f"`{shown}` {'lies' if fixed else 'can lie'} outside the range of `{label.name}`",
            reference.span,
            f"nothing ensures `{needed}`",
            labels=[Label(label.span, "its range is declared here")] if label.span else [],
            help=help_text,
        )

    def range_text(self, name: str) -> str:
        """The declared range of a family, in words."""
        conditions = self.grammar.nonterminal[name].conditions
        return f"its range is `{', '.join(map(str, conditions))}`" if conditions else ""

    def suspicious_sizes(self, rule: Rule) -> None:
        """Warn about a size in the place of an index variable: `i < k < j`."""
        bare = {
            name
            for edge in rule.rhs.edges
            for index in edge.indices
            for name in self.sizes
            if index == Expr.of(name)
        }
        for condition in rule.conditions:
            for left, middle, right in zip(
                condition.terms, condition.terms[1:], condition.terms[2:], strict=False
            ):
                for name in bare:
                    moving = {n for e in (left, right) for n in e.names()} - set(self.sizes)
                    if middle == Expr.of(name) and moving - self.lengths:
                        self.report.add(
                            "F207",
                            f"`{name}` is a size (= {self.sizes[name]}), not an index variable",
                            condition.span,
                            help="choose another name for the index",
                        )


def rule_variables(rule: Rule, grammar: Grammar, known: set[str]) -> list[str]:
    """The index variables of a rule, in order: of the head, then of the body."""
    names = dict.fromkeys(name for expr in _exprs(rule) for name in expr.names())
    return [name for name in names if name not in known and name not in grammar.size]


def _exprs(rule: Rule) -> list[Expr]:
    exprs = [*rule.indices]
    exprs += [index for edge in rule.rhs.edges for index in edge.indices]
    exprs += [index for clamp in rule.rhs.clamps for index in clamp.indices]
    return exprs + [term for condition in rule.conditions for term in condition.terms]


def _place(rule: Rule, name: str) -> Span | None:
    """The place where a rule first names an index variable."""
    return next((e.span for e in _exprs(rule) if e.span and name in e.names()), None)


def _cover(spans: Iterable[Span | None]) -> Span | None:
    """The smallest span that covers all of them, or None if there are none."""
    known = [span for span in spans if span is not None]
    return Span(min(s.start for s in known), max(s.end for s in known)) if known else None
