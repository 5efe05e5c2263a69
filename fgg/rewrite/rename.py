"""New names for what a grammar is made of, put in consistently everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fgg.grammar import (
    Attachment,
    Attribute,
    Clamp,
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Input,
    InputFactor,
    InputTable,
    Nonterminal,
    Product,
    Query,
    QueryRule,
    Reference,
    Rule,
    Shape,
    Sized,
    Union,
)
from fgg.grammar.index import Condition, Expr
from fgg.grammar.values import Word

Names = Mapping[str, str]


def variables(grammar: Grammar) -> set[str]:
    """The index variables and lengths of a grammar and its queries."""
    found: set[str] = set()
    # A renaming that changes nothing visits every expression there is.
    Renaming({}, {}, {}, {}, found).grammar(grammar)
    return found - set(grammar.size)


@dataclass(frozen=True)
class Renaming:
    """New names by namespace; `seen`, if given, collects the names in index expressions."""

    sizes: Names
    domains: Names
    labels: Names
    rules: Names
    seen: set[str] | None = None

    def grammar(self, grammar: Grammar) -> Grammar:
        """The grammar with new names."""
        return replace(
            grammar,
            start=self.reference(grammar.start),
            sizes=tuple(
                replace(
                    size, name=self.sizes.get(size.name, size.name), value=self.expr(size.value)
                )
                for size in grammar.sizes
            ),
            domains=tuple(map(self.domain, grammar.domains)),
            factors=tuple(map(self.factor, grammar.factors)),
            nonterminals=tuple(map(self.family, grammar.nonterminals)),
            rules=tuple(map(self.rule, grammar.rules)),
            queries=tuple(map(self.query, grammar.queries)),
            inputs=tuple(map(self.input, grammar.inputs)),
            tables=tuple(map(self.table, grammar.tables)),
            input_factors=tuple(map(self.input_factor, grammar.input_factors)),
        )

    def watch(self, names: Iterable[str]) -> None:
        """Take note of names in index expressions."""
        if self.seen is not None:
            self.seen.update(names)

    def expr(self, expr: Expr) -> Expr:
        """An index expression with new names of sizes."""
        self.watch(expr.names())
        return expr.substitute({old: Expr.of(new) for old, new in self.sizes.items()})

    def exprs(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        """Index expressions with new names of sizes."""
        return tuple(map(self.expr, exprs))

    def conditions(self, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
        """Conditions with new names of sizes."""
        return tuple(replace(c, terms=self.exprs(c.terms)) for c in conditions)

    def signature(self, domains: Iterable[str]) -> tuple[str, ...]:
        """New names of domains."""
        return tuple(self.domains.get(name, name) for name in domains)

    def domain(self, domain: Domain) -> Domain:
        """A domain with new names, those of its parts too."""
        shape: Shape = domain.shape
        if isinstance(shape, Sized):
            shape = Sized(self.expr(shape.size))
        elif isinstance(shape, Union | Product):
            shape = replace(shape, parts=self.signature(shape.parts))
        return replace(domain, name=self.domains.get(domain.name, domain.name), shape=shape)

    def factor(self, factor: Factor) -> Factor:
        """A factor with new names, those in its definition and attributes too."""
        definition = factor.definition
        return replace(
            factor,
            name=self.labels.get(factor.name, factor.name),
            domains=self.signature(factor.domains),
            rank=None if factor.rank is None else self.expr(factor.rank),
            definition=definition and definition.renamed(self.labels, self.domains),
            attributes=tuple(map(self.attribute, factor.attributes)),
        )

    def attribute(self, attribute: Attribute) -> Attribute:
        """An attribute; `blocks` names a factor."""
        value = attribute.value
        if attribute.key != "blocks" or not isinstance(value, Word):
            return attribute
        return replace(attribute, value=Word(self.labels.get(value.name, value.name)))

    def family(self, item: Nonterminal) -> Nonterminal:
        """A nonterminal with new names."""
        self.watch(item.indices)
        return replace(
            item,
            name=self.labels.get(item.name, item.name),
            domains=self.signature(item.domains),
            conditions=self.conditions(item.conditions),
        )

    def input_factor(self, item: InputFactor) -> InputFactor:
        """An input factor with new names."""
        self.watch(item.indices)
        return replace(
            item,
            name=self.labels.get(item.name, item.name),
            domains=self.signature(item.domains),
            conditions=self.conditions(item.conditions),
            definition=item.definition and item.definition.renamed(self.labels, self.domains),
        )

    def input(self, item: Input) -> Input:
        """An input, whose name stays, with new names."""
        domain = self.domains.get(item.domain, item.domain)
        return replace(item, domain=domain, shape=self.exprs(item.shape))

    def table(self, item: InputTable) -> InputTable:
        """A table, whose name stays, with new names."""
        return replace(item, shape=self.exprs(item.shape))

    def reference(self, reference: Reference) -> Reference:
        """A reference with new names."""
        label = self.labels.get(reference.label, reference.label)
        return replace(reference, label=label, indices=self.exprs(reference.indices))

    def attachment(self, attachment: Attachment) -> Attachment:
        """An attachment; its path consists of names of domains."""
        return replace(attachment, path=self.signature(attachment.path))

    def edge(self, edge: Edge) -> Edge:
        """An edge with new names."""
        return replace(
            edge,
            label=self.labels.get(edge.label, edge.label),
            attachments=tuple(map(self.attachment, edge.attachments)),
            indices=self.exprs(edge.indices),
        )

    def clamp(self, clamp: Clamp) -> Clamp:
        """A clamp with new names."""
        attachment = self.attachment(clamp.attachment)
        path = tuple(self.domains.get(n, self.labels.get(n, n)) for n in clamp.path)
        return replace(clamp, attachment=attachment, indices=self.exprs(clamp.indices), path=path)

    def rule(self, rule: Rule) -> Rule:
        """A rule with new names."""
        rhs = Fragment(
            nodes=tuple(
                replace(node, domain=self.domains.get(node.domain, node.domain))
                for node in rule.rhs.nodes
            ),
            edges=tuple(map(self.edge, rule.rhs.edges)),
            clamps=tuple(map(self.clamp, rule.rhs.clamps)),
            externals=rule.rhs.externals,
        )
        return replace(
            rule,
            name=self.rules.get(rule.name, rule.name),
            lhs=self.labels.get(rule.lhs, rule.lhs),
            rhs=rhs,
            indices=self.exprs(rule.indices),
            conditions=self.conditions(rule.conditions),
        )

    def query(self, query: Query) -> Query:
        """A query with new names."""
        return replace(
            query,
            families=tuple(map(self.family, query.families)),
            start=None if query.start is None else self.reference(query.start),
            rules=tuple(map(self.query_rule, query.rules)),
            inputs=tuple(map(self.input, query.inputs)),
            tables=tuple(map(self.table, query.tables)),
            input_factors=tuple(map(self.input_factor, query.input_factors)),
        )

    def query_rule(self, rule: QueryRule) -> QueryRule:
        """A query rule with new names."""
        return replace(
            rule,
            name=self.rules.get(rule.name, rule.name),
            head=self.reference(rule.head),
            body=tuple(map(self.reference, rule.body)),
            edges=tuple(map(self.edge, rule.edges)),
            clamps=tuple(map(self.clamp, rule.clamps)),
            conditions=self.conditions(rule.conditions),
        )
