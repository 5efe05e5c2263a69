"""Renaming: new names for domains, factors, nonterminals, rules and sizes, everywhere at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
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
from fgg.grammar.constants import indicator_name, indicators
from fgg.grammar.index import Condition, Expr
from fgg.grammar.names import is_safe
from fgg.grammar.values import Word

Names = Mapping[str, str]


def rename(
    grammar: Grammar,
    *,
    domains: Names | None = None,
    factors: Names | None = None,
    nonterminals: Names | None = None,
    rules: Names | None = None,
    sizes: Names | None = None,
    prefix: str | None = None,
) -> Grammar:
    """The grammar with other names: in rules and queries, index expressions, paths, attributes.

    The mappings give new names for old ones; `factors` speaks of input factors as well. `prefix`
    is put before every domain, factor, nonterminal, rule and size that no mapping mentions; what
    is given at run time (inputs, tables, input factors) keeps its name.

    Guarantees the same meaning. Raises GrammarError (F304) where a name is not known, would stand
    for two things, or cannot be written. A grammar of which no name changes is returned as it is.
    """
    declared: dict[str, Iterable[str]] = {
        "domain": grammar.domain,
        "factor": grammar.factor,
        "nonterminal": grammar.nonterminal,
        "rule": [rule.name for rule in grammar.rules],
        "size": grammar.size,
    }
    inputs = [item.name for item in grammar.input_factors]
    inputs += [item.name for query in grammar.queries for item in query.input_factors]
    problems: list[Diagnostic] = []
    maps: dict[str, dict[str, str]] = {}
    for (kind, known), given in zip(
        declared.items(), (domains, factors, nonterminals, rules, sizes), strict=True
    ):
        maps[kind] = {name: f"{prefix}{name}" for name in known} if prefix else {}
        if kind == "factor":
            for name, value in indicators(grammar).items():
                domain = grammar.factor[name].domains[0]
                if domain in maps["domain"]:
                    maps[kind][name] = indicator_name(maps["domain"][domain], value)
        maps[kind].update(given or {})
        valid = [*known, *inputs] if kind == "factor" else [*known]
        for old, new in (given or {}).items():
            if old not in valid:
                _fail(problems, f"there is no {kind} `{old}`", did_you_mean(old, valid))
            if not is_safe(new):
                _fail(problems, f"`{old}` cannot be renamed to a text that is not a name")
    labels = {**maps["factor"], **maps["nonterminal"]}
    _injective(
        problems, [*declared["size"], *declared["domain"]], {**maps["size"], **maps["domain"]}
    )
    _injective(
        problems, [*declared["factor"], *declared["nonterminal"], *dict.fromkeys(inputs)], labels
    )
    _injective(problems, declared["rule"], maps["rule"])
    changed = {new for old, new in maps["size"].items() if new != old}
    for name in sorted(changed & variables(grammar)):
        _fail(problems, f"`{name}` cannot name a size: it is an index or a length")
    if problems:
        raise GrammarError(problems)
    if all(old == new for names in maps.values() for old, new in names.items()):
        return grammar
    return Renaming(maps["size"], maps["domain"], labels, maps["rule"]).grammar(grammar)


def _fail(problems: list[Diagnostic], message: str, help: str = "") -> None:
    problems.append(Diagnostic(code="F304", message=message, help=help))


def _injective(problems: list[Diagnostic], names: Iterable[str], new: Names) -> None:
    """Report names of one namespace that would become the same."""
    seen: dict[str, str] = {}
    for old in names:
        name = new.get(old, old)
        if name in seen:
            _fail(problems, f"`{seen[name]}` and `{old}` would both be called `{name}`")
        seen.setdefault(name, old)


def variables(grammar: Grammar) -> set[str]:
    """The index variables and lengths of a grammar and its queries."""
    names: set[str] = set()
    # A renaming that changes nothing visits every expression there is.
    Renaming({}, {}, {}, {}, names).grammar(grammar)
    return names - set(grammar.size)


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
        """An input with new names in its declaration; its own name stays."""
        domain = self.domains.get(item.domain, item.domain)
        return replace(item, domain=domain, shape=self.exprs(item.shape))

    def table(self, item: InputTable) -> InputTable:
        """A table with new names in its declaration; its own name stays."""
        return replace(item, shape=self.exprs(item.shape))

    def reference(self, reference: Reference) -> Reference:
        """A reference with new names."""
        label = self.labels.get(reference.label, reference.label)
        return replace(reference, label=label, indices=self.exprs(reference.indices))

    def attachment(self, attachment: Attachment) -> Attachment:
        """An attachment; its path consists of names of domains."""
        return replace(attachment, path=self.signature(attachment.path))

    def edge(self, edge: Edge, nodes: Names | None = None) -> Edge:
        """An edge with new names, those of some nodes too."""
        touched = map(self.attachment, edge.attachments)
        return replace(
            edge,
            label=self.labels.get(edge.label, edge.label),
            attachments=tuple(replace(a, node=(nodes or {}).get(a.node, a.node)) for a in touched),
            indices=self.exprs(edge.indices),
        )

    def clamp(self, clamp: Clamp) -> Clamp:
        """A clamp with new names."""
        attachment = self.attachment(clamp.attachment)
        path = tuple(self.domains.get(n, self.labels.get(n, n)) for n in clamp.path)
        return replace(clamp, attachment=attachment, indices=self.exprs(clamp.indices), path=path)

    def rule(self, rule: Rule) -> Rule:
        """A rule with new names."""
        # A node that is fixed to a value is called like the factor that fixes it.
        fixed = {e.label for e in rule.rhs.edges if [a.node for a in e.attachments] == [e.label]}
        nodes = {name: self.labels[name] for name in fixed if name in self.labels}
        rhs = Fragment(
            nodes=tuple(
                replace(
                    node,
                    name=nodes.get(node.name, node.name),
                    domain=self.domains.get(node.domain, node.domain),
                )
                for node in rule.rhs.nodes
            ),
            edges=tuple(self.edge(edge, nodes) for edge in rule.rhs.edges),
            clamps=tuple(map(self.clamp, rule.rhs.clamps)),
            externals=tuple(nodes.get(name, name) for name in rule.rhs.externals),
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
