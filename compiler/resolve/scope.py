"""The names a grammar file declares, and expressions over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fgg.compiler.syntax import tree
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import Label, Report, did_you_mean
from fgg.grammar import (
    Domain,
    Factor,
    Grammar,
    Input,
    InputFactor,
    InputTable,
    Nonterminal,
    Reference,
    Rule,
    Size,
)
from fgg.grammar.index import (
    MAX_DEGREE,
    MAX_TERMS,
    Condition,
    Expr,
    ExpressionTooLarge,
    Lookup,
    quote_name,
)
from fgg.grammar.spans import Span
from fgg.grammar.unequal import MAX_UNEQUAL


@dataclass
class Scope:
    """The names declared so far. A query has an inner scope on top of its model's."""

    report: Report
    folder: str
    sizes: dict[str, Size] = field(default_factory=dict)
    size_values: dict[str, int] = field(default_factory=dict)
    domains: dict[str, Domain] = field(default_factory=dict)
    factors: dict[str, Factor] = field(default_factory=dict)
    nonterminals: dict[str, Nonterminal] = field(default_factory=dict)
    inputs: dict[str, Input] = field(default_factory=dict)
    input_factors: dict[str, InputFactor] = field(default_factory=dict)
    tables: dict[str, InputTable] = field(default_factory=dict)
    lengths: set[str] = field(default_factory=set)
    rules: dict[str, Rule] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    _domains: Grammar | None = None

    @property
    def of_domains(self) -> Grammar:
        """A grammar of the sizes and domains, which are complete when this is asked for first."""
        if self._domains is None:
            sizes, domains = tuple(self.sizes.values()), tuple(self.domains.values())
            self._domains = Grammar(start=Reference(label=""), sizes=sizes, domains=domains)
        return self._domains

    def inner(self) -> Scope:
        """Return a scope for a query: it has all of this one, and takes the query's inputs."""
        return Scope(
            report=self.report,
            folder=self.folder,
            sizes=self.sizes,
            size_values=self.size_values,
            domains=self.domains,
            factors=self.factors,
            nonterminals=self.nonterminals,
            inputs=dict(self.inputs),
            input_factors=dict(self.input_factors),
            tables=dict(self.tables),
            lengths=set(self.lengths),
            rules=self.rules,
            broken=set(self.broken),
            _domains=self._domains,
        )

    def copied(self) -> Scope:
        """Return a scope with the same names, which does not change with this one."""
        copy = self.inner()
        copy.factors, copy.nonterminals = dict(self.factors), dict(self.nonterminals)
        copy.rules = dict(self.rules)
        return copy

    def label(self, name: str) -> Factor | Nonterminal | InputFactor | None:
        """Return the declaration of an edge label; None if there is none."""
        return self.factors.get(name) or self.nonterminals.get(name) or self.input_factors.get(name)

    def all_labels(self) -> Iterable[str]:
        """Return all edge labels."""
        return [*self.factors, *self.nonterminals, *self.input_factors]

    def domain_name(self, name: Name) -> str | None:
        """Return the name of a domain; None, and a report, if there is no such domain."""
        if name.text in self.domains:
            return name.text
        if name.text not in self.broken:
            self.report.add(
                "F102",
                f"there is no domain `{name.text}`",
                name.span,
                help=(
                    f"`{name.text}` is a size; declare `domain {name.text.upper()} = {name.text}`"
                    if name.text in self.sizes
                    else did_you_mean(name.text, self.domains)
                ),
            )
        return None

    def domain_names(self, names: Iterable[Name]) -> tuple[str, ...] | None:
        """Return the domains of a signature; None if one of them is unknown."""
        domains = [self.domain_name(name) for name in names]
        return None if None in domains else tuple(name for name in domains if name is not None)

    def expr(self, node: tree.Arithmetic, variables: set[str] | None = None) -> Expr | None:
        """Return an expression in normal form; None, and a report, if it is wrong.

        A name that is neither a size nor a length is an index variable. It is added to
        `variables`; without them, it is an error.
        """
        try:
            return self._expr(node, variables)
        except ExpressionTooLarge:
            self.report.add(
                "F014",
                "this expression is too large",
                node.span,
                f"multiplied out, it may have {MAX_TERMS} terms of {MAX_DEGREE} names each",
                help="give parts of it names: `size m = k * k`",
            )
        except _Wrong:
            pass
        return None

    def _expr(self, node: tree.Arithmetic, variables: set[str] | None) -> Expr:
        if isinstance(node, tree.Integer):
            result = Expr.of(node.value)
        elif isinstance(node, tree.NameRef):
            result = self._name(node.name, variables)
        elif isinstance(node, tree.TableEntry):
            result = self._lookup(node, variables)
        elif isinstance(node, tree.Negated):
            result = -self._expr(node.operand, variables)
        elif isinstance(node, tree.Sum):
            result = Expr()
            for sign, term in node.terms:
                value = self._expr(term, variables)
                result = result + value if sign > 0 else result - value
        else:
            result = Expr.of(1)
            for part in node.factors:
                result = result * self._expr(part, variables)
        return result.at(node.span)

    def _name(self, name: Name, variables: set[str] | None) -> Expr:
        if name.text in self.sizes or name.text in self.lengths:
            return Expr.of(name.text)
        if name.text in self.broken:
            raise _Wrong
        if variables is not None:
            variables.add(name.text)
            return Expr.of(name.text)
        known = [*self.sizes, *self.lengths]
        self.report.add(
            "F101",
            f"there is no size `{name.text}`"
            + (": it is a domain" if name.text in self.domains else ""),
            name.span,
            help=did_you_mean(name.text, known),
        )
        raise _Wrong

    def _lookup(self, node: tree.TableEntry, variables: set[str] | None) -> Expr:
        table = self.tables.get(node.table.text)
        if table is None:
            if node.table.text not in self.broken:
                self.report.add(
                    "F108",
                    f"there is no table `{node.table.text}`",
                    node.table.span,
                    help=did_you_mean(node.table.text, self.tables)
                    or f"declare `input table {node.table.text}[…]`",
                )
            raise _Wrong
        indices = tuple(self._expr(i, variables) for i in node.indices)
        names = usual_indices(len(table.shape))
        self.check_count(node.table, len(indices), names, table.span)
        return Expr.of(Lookup(node.table.text, indices))

    def check_count(
        self, name: Name, given: int, indices: Sequence[str], declared: Span | None
    ) -> bool:
        """Return whether a name has as many indices as there are in `indices`; report if not."""
        wanted = len(indices)
        if given == wanted:
            return True
        written = quote_name(name.text)
        self.report.add(
            "F114",
            f"`{name.text}` has {count(given, 'index', 'indices')} here, "
            f"but it takes {wanted or 'none'}",
            name.span,
            labels=[Label(declared, "declared here")] if declared else [],
            help=f"write `{written}[{', '.join(map(quote_name, indices))}]`"
            if wanted
            else f"write `{written}` without indices",
        )
        return False

    def affine(self, node: tree.Arithmetic, variables: set[str]) -> Expr | None:
        """Return an index, affine in variables and lengths; None, and a report, if it is not."""
        expr = self.expr(node, variables)
        if expr is None:
            return None
        if not is_affine(expr, self.size_values):
            self.report.add(
                "F115",
                f"the index `{expr}` is not affine",
                node.span,
                "a product of two indices, lengths or table entries",
                help="an index is a sum of variables and lengths, times numbers or sizes",
            )
            return None
        return expr

    def affines(
        self, nodes: Iterable[tree.Arithmetic], variables: set[str]
    ) -> tuple[Expr, ...] | None:
        """Return index expressions; None if one of them is wrong."""
        exprs = [self.affine(node, variables) for node in nodes]
        return None if None in exprs else tuple(expr for expr in exprs if expr is not None)

    def conditions(
        self, nodes: Iterable[tree.Comparison], variables: set[str]
    ) -> tuple[Condition, ...]:
        """Return the conditions after `for`; names in them must be known already."""
        conditions = []
        for node in nodes:
            used: set[str] = set()
            terms = self.affines(node.terms, used)
            if terms is None:
                continue
            unknown = sorted(used - variables)
            for name in unknown:
                known = sorted(variables | self.lengths | set(self.sizes))
                self.report.add(
                    "F101",
                    f"`{name}` in this condition is neither a size, a length nor an index",
                    place_of(name, node.terms) or node.span,
                    help=did_you_mean(name, known)
                    or "an index variable must occur in the head or the body of its rule",
                )
            if not unknown:
                conditions.append(Condition(terms, node.operators, node.span))
        return tuple(conditions)

    def range_conditions(
        self, nodes: Iterable[tree.Comparison], variables: set[str]
    ) -> tuple[Condition, ...]:
        """Return the conditions of the range of a family, which has no gaps: `!=` is reported."""
        for node in nodes:
            if "!=" in node.operators:
                self.report.add(
                    "F150",
                    "a family's range has no gaps, but `!=` makes one",
                    node.span,
                    help="write the condition in the rules of the family",
                )
        return self.conditions(nodes, variables)

    def rule_conditions(
        self, nodes: Sequence[tree.Comparison], variables: set[str]
    ) -> tuple[Condition, ...]:
        """Return the conditions of a rule; many `!=` are reported."""
        number = sum(node.operators.count("!=") for node in nodes)
        if number > MAX_UNEQUAL:
            self.report.add(
                "F150",
                f"this rule has {number} `!=`, but a rule can have {MAX_UNEQUAL}",
                nodes[-1].span,
                help="each doubles the cases that are told apart: say more with `<` and `>`",
            )
        return self.conditions(nodes, variables)


class _Wrong(Exception):
    """An expression has been reported as wrong."""


def is_affine(expr: Expr, sizes: Mapping[str, int]) -> bool:
    """Return whether each monomial has at most one atom that is not a size."""
    return all(
        sum(not (isinstance(atom, str) and atom in sizes) for atom in monomial) <= 1
        for monomial, _ in expr.terms
    )


def usual_indices(number: int) -> tuple[str, ...]:
    """Return names for the indices of something that is declared without them: `i`, `j`, …"""
    return tuple("ijklmn"[:number]) if number <= 6 else tuple(f"i{k}" for k in range(number))


def count(number: int, one: str, many: str) -> str:
    """Return a number with its noun: `no nodes`, `1 node`, `2 nodes`."""
    return f"{number or 'no'} {one if number == 1 else many}"


def place_of(name: str, nodes: Iterable[tree.Arithmetic]) -> Span | None:
    """Return the span of the first occurrence of a name in expressions."""
    for node in nodes:
        if isinstance(node, tree.NameRef):
            span = node.span if node.name.text == name else None
        elif isinstance(node, tree.TableEntry):
            span = place_of(name, node.indices)
        elif isinstance(node, tree.Negated):
            span = place_of(name, [node.operand])
        elif isinstance(node, tree.Sum):
            span = place_of(name, [term for _, term in node.terms])
        elif isinstance(node, tree.Times):
            span = place_of(name, node.factors)
        else:
            span = None
        if span is not None:
            return span
    return None
