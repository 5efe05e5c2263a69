"""Merging: the factors of a fragment that share nodes become one factor, their product."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fgg.factors.product_factors import given_axes
from fgg.grammar import Attachment, Edge, Factor, Fragment, Grammar, Rule
from fgg.grammar.definitions import InputEvidence, ProductOf, ProductPart
from fgg.grammar.names import fresh

Touch = tuple[str, tuple[str, ...]]


def merge(grammar: Grammar, rules: Collection[str] | None = None) -> Grammar:
    """The grammar with one factor in place of factors of a rule that share nodes.

        emit(t, o) trans(t, u)   becomes   emit_trans(t, o, u)                  [RS §4.1 (1)]

    All nodes stay, so queries still find them. The joint factor is called by the names of its
    parts, in the order of the rule; its definition says that it follows from them. It
    has an arrow where `fgg.factors.product_factors.given_axes` proves that the product is a
    distribution, and then its given nodes stand first. The same product in two rules is one factor.

    Left alone are edges of input factors, of factors of declared rank, and edges that touch a rank
    node (merging would undo the decomposition), an observed node's evidence, or a node twice.
    `rules` names the rules to merge in; by default, all. Guarantees the same value Z, with the
    same seed. A grammar without factors to merge is returned as it is.
    """
    work = _Merger(grammar)
    merged = tuple(
        work.rule(rule) if rules is None or rule.name in rules else rule for rule in grammar.rules
    )
    if not work.joints:
        return grammar
    factors: list[Factor] = []
    waiting = list(work.joints.values())
    known: set[str] = set()
    for factor in grammar.factors:
        factors.append(factor)
        known.add(factor.name)
        ready = [item for item in waiting if _sources(item) <= known]
        waiting = [item for item in waiting if item not in ready]
        factors += ready
    return replace(grammar, factors=tuple(factors), rules=merged)


def _sources(factor: Factor) -> set[str]:
    return set(factor.sources)


class _Merger:
    """Makes joint factors, equal ones once, and rewrites rules."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.taken = {*grammar.factor, *grammar.nonterminal, *grammar.input_factor}
        for query in grammar.queries:
            self.taken |= {item.name for item in query.input_factors}
        self.joints: dict[tuple[ProductOf, int | None], Factor] = {}

    def rule(self, rule: Rule) -> Rule:
        """A rule with joint factors; each stands where its first part stood."""
        groups = self.groups(rule.rhs)
        if not groups:
            return rule
        edges: list[Edge] = []
        for number, edge in enumerate(rule.rhs.edges):
            group = next((g for g in groups if number in g), None)
            if group is None:
                edges.append(edge)
            elif number == group[0]:
                edges.append(self.edge([rule.rhs.edges[i] for i in group], rule.rhs))
        return replace(
            rule,
            rhs=Fragment.make(rule.rhs.nodes, tuple(edges), rule.rhs.clamps, rule.rhs.externals),
            origin=rule.origin_or_self,
        )

    def groups(self, fragment: Fragment) -> list[list[int]]:
        """The numbers of edges that are joined: connected by nodes, two or more."""
        groups: list[tuple[set[str], list[int]]] = []
        for number, edge in enumerate(fragment.edges):
            if not self.is_joined(edge, fragment):
                continue
            nodes = {a.node for a in edge.attachments}
            numbers = [number]
            for group in [g for g in groups if g[0] & nodes]:
                groups.remove(group)
                nodes |= group[0]
                numbers += group[1]
            groups.append((nodes, sorted(numbers)))
        return sorted(numbers for _, numbers in groups if len(numbers) > 1)

    def is_joined(self, edge: Edge, fragment: Fragment) -> bool:
        """Whether an edge may become part of a joint factor."""
        factor = self.grammar.factor.get(edge.label)
        if factor is None or factor.rank is not None or isinstance(factor.definition, ProductOf):
            return False
        if isinstance(factor.definition, InputEvidence) or not edge.attachments:
            return False
        touched = [(a.node, a.path) for a in edge.attachments]
        domains = [*factor.domains, *(fragment.by_name[node].domain for node, _ in touched)]
        ranks = any(self.grammar.domain[domain].rank for domain in domains)
        return not ranks and len(set(touched)) == len(touched)

    def edge(self, edges: Sequence[Edge], fragment: Fragment) -> Edge:
        """The edge of the joint factor of edges."""
        touched: dict[Touch, Attachment] = {}
        for edge in edges:
            for attachment in edge.attachments:
                touched.setdefault((attachment.node, attachment.path), attachment)
        order = list(touched)
        given = given_axes(self.grammar.factor, _parts(edges, order))
        if given is not None:
            first = [touch for axis, touch in enumerate(order) if axis in given]
            order = [*first, *(touch for touch in order if touch not in first)]
        joint = ProductOf(_parts(edges, order))
        factor = self.factor(joint, None if given is None else len(given))
        return replace(
            edges[0], label=factor.name, attachments=tuple(touched[touch] for touch in order)
        )

    def factor(self, joint: ProductOf, given: int | None) -> Factor:
        """The joint factor of parts."""
        key = (joint, given)
        if key not in self.joints:
            domains: dict[int, str] = {}
            for part in joint.parts:
                source = self.grammar.factor[part.source]
                domains.update(zip(part.axes, source.domains, strict=True))
            name = fresh("_".join(part.source for part in joint.parts), self.taken)
            self.taken.add(name)
            self.joints[key] = Factor(
                name=name,
                domains=tuple(domains[axis] for axis in sorted(domains)),
                given=given,
                definition=joint,
                span=self.grammar.factor[joint.parts[0].source].span,
            )
        return self.joints[key]


def _parts(edges: Sequence[Edge], order: Sequence[Touch]) -> tuple[ProductPart, ...]:
    place = {touch: number for number, touch in enumerate(order)}
    return tuple(
        ProductPart(edge.label, tuple(place[a.node, a.path] for a in edge.attachments))
        for edge in edges
    )
