"""Grammars without unions, products and paths: parts of nodes become nodes of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import (
    Attachment,
    Clamp,
    Domain,
    Edge,
    Enumerated,
    Factor,
    Fragment,
    Grammar,
    InputFactor,
    Node,
    Product,
    Query,
    QueryRule,
    Rule,
    Sized,
    Union,
)
from fgg.grammar.definitions import Slice
from fgg.grammar.domains import domain_size, domain_values, parts, path_domain
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh
from fgg.grammar.values import Sparse

MAX_VALUES = 10_000
MAX_SELECTED = 2**22

Path = tuple[str, ...]


def plain(grammar: Grammar) -> Grammar:
    """The grammar without unions, products and paths.

    A union or product becomes a domain of its values by name, or of numbers if all it is made of
    is sized or there are more than `MAX_VALUES`; a copy becomes what it copies. Every part `a.N`
    that a rule touches becomes an internal node x of the part's domain, one for each node and
    path, with an edge to a factor

        C_N(a, x) = 1 if the N part of a is x, else 0,

    so that the sum over x selects the part. Clamps of parts move to x.

    Requires that a query touches a part of a union only where the model's rule touches it too
    (GrammarError F303 otherwise: a query cannot add nodes, so conjoin it first); and that a
    domain with parts that are touched has no more than `MAX_SELECTED` values (F302). Slices of
    factors and parts of inputs, which splitting makes, are refused too (F303).
    Guarantees the same value Z, the same parameters, derivations and queries, and no paths.
    Sizes are fixed where unions and products were made of them. A grammar that is plain already
    is returned as it is.
    """
    return plain_with_parts(grammar)[0]


def plain_with_parts(grammar: Grammar) -> tuple[Grammar, Mapping[str, tuple[str, Path]]]:
    """The plain grammar, and for each new factor the domain and the path that it selects."""
    work = _Plain(grammar)
    work.check()
    rules = tuple(work.rule(rule) for rule in grammar.rules)
    queries = tuple(work.query(query) for query in grammar.queries)
    if work.problems:
        raise GrammarError(dict.fromkeys(work.problems))
    domains = tuple(_plain_domain(grammar, domain) for domain in grammar.domains)
    if not work.factors and all(a is b for a, b in zip(domains, grammar.domains, strict=True)):
        return grammar, {}
    result = replace(
        grammar,
        domains=domains,
        factors=grammar.factors + tuple(work.factors.values()),
        rules=rules,
        queries=queries,
    )
    return result, {factor.name: key for key, factor in work.factors.items()}


def _plain_domain(grammar: Grammar, domain: Domain) -> Domain:
    if not isinstance(domain.shape, Union | Product):
        return domain
    if len(domain.shape.parts) == 1:  # a copy
        original = _plain_domain(grammar, grammar.domain[domain.shape.parts[0]])
        return replace(domain, shape=original.shape)
    size = domain_size(grammar, domain.name)
    if size <= MAX_VALUES and not _is_numbered(grammar, domain.name):
        values = tuple(domain_values(grammar, domain.name))
        if len(set(values)) == size:  # names of pairs may coincide: `a*b` with `c`, `a` with `b*c`
            return replace(domain, shape=Enumerated(values))
    return replace(domain, shape=Sized(Expr.of(size)))


def _is_numbered(grammar: Grammar, name: str) -> bool:
    """Whether a domain is made of sized domains only."""
    shape = grammar.domain[name].shape
    if isinstance(shape, Union | Product):
        return all(_is_numbered(grammar, part) for part in shape.parts)
    return isinstance(shape, Sized)


@dataclass
class _Plain:
    """Collects the selecting factors, and the part nodes of each rule."""

    grammar: Grammar
    factors: dict[tuple[str, Path], Factor] = field(default_factory=dict)
    nodes: dict[str, dict[tuple[str, Path], Node]] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)

    def check(self) -> None:
        """Report uses of parts of domains other than by nodes."""
        items: list[Factor | InputFactor] = [*self.grammar.factors, *self.grammar.input_factors]
        for item in items:
            if isinstance(item.definition, Slice):
                self.problems.append(
                    Diagnostic(
                        code="F303",
                        message=f"factor `{item.name}` is a slice by parts of domains",
                        span=item.span,
                        help="take the grammar that it was made from",
                    )
                )
        clamps = [(rule.name, c) for rule in self.grammar.rules for c in rule.rhs.clamps]
        queries = self.grammar.queries
        clamps += [(rule.name, c) for query in queries for rule in query.rules for c in rule.clamps]
        for name, clamp in clamps:
            if clamp.path:
                self.problems.append(
                    Diagnostic(
                        code="F303",
                        message=f"rule `{name}` looks at a part of input `{clamp.input}`",
                        span=clamp.span,
                        help="ground the grammar first",
                    )
                )

    def rule(self, rule: Rule) -> Rule:
        """The rule with a node for each part that it, or a query, touches."""
        fragment = rule.rhs
        touched = dict.fromkeys(_touched(fragment.edges, fragment.clamps))
        asked = [
            key
            for query in self.grammar.queries
            for other in query.rules
            if other.name == rule.name
            for key in _touched(other.edges, other.clamps)
        ]
        for key in asked:
            if not self.can_add(fragment, touched, key):
                self.refuse(rule, key)
        wanted = dict.fromkeys((*touched, *asked))
        if not wanted:
            return rule
        taken = set(fragment.by_name)
        part_nodes = self.nodes.setdefault(rule.name, {})
        for node, path in wanted:
            domain = path_domain(self.grammar, fragment.by_name[node].domain, path)
            assert domain is not None
            name = fresh("_".join((node, *path)), taken)
            taken.add(name)
            part_nodes[node, path] = Node(
                name=name, domain=domain, span=fragment.by_name[node].span
            )
        edges: list[Edge] = []
        selected: set[tuple[str, Path]] = set()
        for edge in (*fragment.edges, None):
            keys = _touched([edge], ()) if edge is not None else wanted
            for key in dict.fromkeys(keys):
                if key not in selected:
                    selected.add(key)
                    edges.append(self.select(fragment, key, part_nodes[key]))
            if edge is not None:
                edges.append(_move_edge(edge, part_nodes))
        rhs = Fragment.make(
            (*fragment.nodes, *part_nodes.values()),
            tuple(edges),
            tuple(_move_clamp(clamp, part_nodes) for clamp in fragment.clamps),
            fragment.externals,
        )
        return replace(rule, rhs=rhs)

    def query(self, query: Query) -> Query:
        """The query with its paths replaced by the part nodes of the model's rules."""
        return replace(query, rules=tuple(self.query_rule(rule) for rule in query.rules))

    def query_rule(self, rule: QueryRule) -> QueryRule:
        """A query rule without paths."""
        part_nodes = self.nodes.get(rule.name, {})
        return replace(
            rule,
            edges=tuple(_move_edge(edge, part_nodes) for edge in rule.edges),
            clamps=tuple(_move_clamp(clamp, part_nodes) for clamp in rule.clamps),
        )

    def can_add(
        self, fragment: Fragment, touched: Iterable[tuple[str, Path]], key: tuple[str, Path]
    ) -> bool:
        """Whether a part node keeps the rule's meaning: a path of the rule passes its unions."""
        node, path = key
        domain = fragment.by_name[node].domain
        passed = 0
        for length, part in enumerate(path, 1):
            shape = self.grammar.domain[domain].shape
            if isinstance(shape, Union) and len(shape.parts) > 1:
                passed = length
            domain = part
        return not passed or any(n == node and p[:passed] == path[:passed] for n, p in touched)

    def refuse(self, rule: Rule, key: tuple[str, Path]) -> None:
        """Report a part that only a query touches."""
        written = ".".join((key[0], *key[1]))
        self.problems.append(
            Diagnostic(
                code="F303",
                message=f"a query touches `{written}`, but rule `{rule.name}` does not",
                span=rule.span,
                help="choose a query first: a query cannot add the node that selects the part",
            )
        )

    def select(self, fragment: Fragment, key: tuple[str, Path], part: Node) -> Edge:
        """The edge that ties a part node to the part of the node it stands for."""
        node, path = key
        label = self.selection(fragment.by_name[node].domain, path, part.domain)
        attachments = (Attachment(node=node), Attachment(node=part.name))
        return Edge(label=label, attachments=attachments, span=part.span)

    def selection(self, domain: str, path: Path, part: str) -> str:
        """The name of the factor that selects a part of a domain."""
        key = (domain, path)
        if key not in self.factors:
            grammar = self.grammar
            taken = {*grammar.factor, *grammar.nonterminal, *grammar.input_factor}
            taken |= {item.name for query in grammar.queries for item in query.input_factors}
            taken |= {factor.name for factor in self.factors.values()}
            name = fresh("_".join((domain, *path)), taken)
            value = self.selected(domain, path)
            self.factors[key] = Factor(name=name, domains=(domain, part), value=value)
        return self.factors[key].name

    def selected(self, domain: str, path: Path) -> Sparse:
        """The 0/1 matrix of a domain's values and the part's."""
        size = domain_size(self.grammar, domain)
        if size > MAX_SELECTED:
            self.problems.append(
                Diagnostic(
                    code="F302",
                    message=f"domain `{domain}` has {size:,} values: too many to write "
                    f"`{'.'.join((domain, *path))}` out as a factor",
                )
            )
            return Sparse(())
        steps = []
        for name in path:
            steps.append(parts(self.grammar, domain)[name])
            domain = name
        entries = []
        for whole in range(size):
            value: int | None = whole
            for step in steps:
                value = step.select(value) if value is not None else None
            if value is not None:
                entries.append(((whole, value), 1.0))
        return Sparse(tuple(entries))


def _touched(edges: Iterable[Edge], clamps: Iterable[Clamp]) -> Iterable[tuple[str, Path]]:
    """The parts of nodes that edges and clamps touch."""
    for edge in edges:
        for attachment in edge.attachments:
            if attachment.path:
                yield attachment.node, attachment.path
    for clamp in clamps:
        if clamp.attachment.path:
            yield clamp.attachment.node, clamp.attachment.path


def _move(attachment: Attachment, part_nodes: Mapping[tuple[str, Path], Node]) -> Attachment:
    part = part_nodes.get((attachment.node, attachment.path))
    return attachment if part is None else replace(attachment, node=part.name, path=())


def _move_edge(edge: Edge, part_nodes: Mapping[tuple[str, Path], Node]) -> Edge:
    return replace(edge, attachments=tuple(_move(a, part_nodes) for a in edge.attachments))


def _move_clamp(clamp: Clamp, part_nodes: Mapping[tuple[str, Path], Node]) -> Clamp:
    return replace(clamp, attachment=_move(clamp.attachment, part_nodes))
