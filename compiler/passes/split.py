"""Splitting: a grammar whose nodes have atomic domains only, for engines that know no others.

A union of a few values stays whole: summing over its parts one by one would take longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from fgg.grammar import (
    Attachment,
    Edge,
    Factor,
    Fragment,
    Grammar,
    InputFactor,
    Node,
    Nonterminal,
    Product,
    Rule,
    Union,
)
from fgg.grammar.definitions import Path, Slice, Variant
from fgg.grammar.domains import domain_size
from fgg.grammar.names import fresh
from fgg.grammar.provenance import NodeSource
from fgg.grammar.slices import extent, variants
from fgg.grammar.values import Map
from fgg.rewrite.trim import trim

MAX_VARIANTS = 256
"""How many rules one rule may become, and how many nodes one node."""
MAX_WHOLE = 8
"""The most values that a union left whole may have."""
MANY_RULES = 4
"""Small unions are left whole if splitting them would make more rules than this of each."""


class SplitImpossible(Exception):
    """The grammar cannot be split, for the reason given; the reference engine takes it whole."""


def split(grammar: Grammar) -> Grammar:
    """The grammar with atomic nodes: a variant of a rule for each choice of parts of its nodes.

    A node of a union lies in one of the parts, so the sum over its values is a sum over parts of
    sums over their values: with `C = N + P`,

        Σ_{b ∈ C} f(a, b) X(b)  =  Σ_{b ∈ N} f_N(a, b) X_N(b)  +  Σ_{b ∈ P} f_P(a, b) X_P(b),

    and a node of a product is a node for each of its components. A nonterminal becomes one for
    each choice of parts of its external nodes; a factor becomes one with the attribute `slice`;
    a clamp says which part of the input's value it means. A variant in which an edge or a clamp
    touches another part than the chosen one has weight 0 and is left out.

    A small union stays one domain (`whole_unions`). An edge on a part of it, `f(b.N)`, becomes
    an edge on a node of the part, and a map says which value of the whole each of its values is:

        f(b.N)  =  Σ_{a ∈ N} part(a, b) f(a).

    Requires a grammar without queries. Guarantees the same value Z, with the weights of the source
    factors (which stay, for their slices to follow from); that no rule has a node of a product or
    of a union that is not left whole, or a path; no useless nonterminals. A grammar whose nodes are
    all atomic is returned as it is. Raises SplitImpossible if the start symbol has an external node
    that would become several, or a rule would become more than `MAX_VARIANTS`.
    """
    assert not grammar.queries, "conjoin the grammar with a query first"
    for domain in grammar.nonterminal[grammar.start.label].domains:
        if extent(grammar, domain) != (1, 1):
            raise SplitImpossible(
                f"the start symbol `{grammar.start.label}` has an external node of `{domain}`, "
                "which is not atomic"
            )
    whole = whole_unions(grammar)
    if not any(_divided(grammar, rule, whole) for rule in grammar.rules):
        return grammar
    return _Splitter(grammar, whole).run()


def whole_unions(grammar: Grammar) -> frozenset[str]:
    """The unions that are left whole.

    They are small and contain no products. The grammar has no rank nodes, which need split
    neighbours. Splitting would make many rules of one, and each step costs time, however little
    there is to multiply.
    """
    if any(domain.rank for domain in grammar.domains) or any(
        factor.rank is not None for factor in grammar.factors
    ):
        return frozenset()
    small = frozenset(
        name
        for name, domain in grammar.domain.items()
        if isinstance(domain.shape, Union)
        and domain_size(grammar, name) <= MAX_WHOLE
        and extent(grammar, name)[1] == 1
        and _distinct(grammar, name)
    )
    apart, together = (_rules(grammar, whole) for whole in (frozenset[str](), small))
    return small if apart > MANY_RULES * together else frozenset()


def _rules(grammar: Grammar, whole: frozenset[str]) -> int:
    """How many rules splitting makes if some unions are left whole."""
    return sum(
        prod(extent(grammar, node.domain, whole)[0] for node in rule.rhs.nodes)
        for rule in grammar.rules
    )


def _distinct(grammar: Grammar, union: str) -> bool:
    """Whether a union has no part twice, so that a part says where it is."""
    inner = [union]
    for name in inner:
        shape = grammar.domain[name].shape
        inner += shape.parts if isinstance(shape, Union) else ()
    return len(set(inner)) == len(inner)


def _divided(grammar: Grammar, rule: Rule, whole: frozenset[str]) -> bool:
    """Whether a rule has a node of several parts, or touches one of them."""
    shapes = [grammar.domain[n.domain].shape for n in rule.rhs.nodes if n.domain not in whole]
    paths = any(a.path for a in _touched(rule))
    return paths or any(isinstance(shape, Union | Product) for shape in shapes)


def _touched(rule: Rule) -> list[Attachment]:
    """Where edges and clamps of a rule touch nodes."""
    attachments = [a for edge in rule.rhs.edges for a in edge.attachments]
    return attachments + [clamp.attachment for clamp in rule.rhs.clamps]


class _Splitter:
    """Writes out the variants of one grammar's rules, and names what they refer to."""

    def __init__(self, grammar: Grammar, whole: frozenset[str]) -> None:
        self.grammar = grammar
        self.whole = whole
        self.labels = {*grammar.factor, *grammar.nonterminal, *grammar.input_factor}
        self.rule_names = {rule.name for rule in grammar.rules}
        self.names: dict[tuple[str, tuple[Variant, ...]], str] = {}
        self.maps: dict[tuple[str, Path], str] = {}
        self.nonterminals: dict[str, list[Nonterminal]] = {}
        self.factors: list[Factor] = []
        self.input_factors: list[InputFactor] = []
        self.rules: list[Rule] = []

    def run(self) -> Grammar:
        grammar = self.grammar
        start = grammar.nonterminal[grammar.start.label]
        self.label(start.name, [variants(grammar, domain)[0] for domain in start.domains])
        for rule in grammar.rules:
            self.split_rule(rule)
        result = trim(
            replace(
                grammar,
                nonterminals=tuple(
                    item for x in grammar.nonterminals for item in self.nonterminals.get(x.name, ())
                ),
                rules=tuple(self.rules),
            )
        )
        used = {edge.label for rule in result.rules for edge in rule.rhs.edges}
        return replace(
            result,
            factors=grammar.factors + tuple(f for f in self.factors if f.name in used),
            input_factors=grammar.input_factors
            + tuple(f for f in self.input_factors if f.name in used),
        )

    def split_rule(self, rule: Rule) -> None:
        """Add the variants of a rule."""
        choices = {node.name: self.choices(rule, node) for node in rule.rhs.nodes}
        count = prod(map(len, choices.values()))
        if count > MAX_VARIANTS:
            raise SplitImpossible(f"rule `{rule.name}` would become {count:,} rules")
        for chosen in product(*choices.values()):
            decided = dict(zip(choices, chosen, strict=True))
            open_nodes = [name for name in choices if len(choices[name]) > 1]
            name = rule.name
            if open_nodes:
                parts = [part for n in open_nodes for part in self.chosen(decided[n])]
                name = fresh("_".join((name, *parts)), self.rule_names)
                self.rule_names.add(name)
            self.variant(rule, name, decided)

    def choices(self, rule: Rule, node: Node) -> list[Variant]:
        """The variants of a node in which every part that the rule touches exists."""
        count, leaves = extent(self.grammar, node.domain)
        if max(count, leaves) > MAX_VARIANTS:
            raise SplitImpossible(
                f"a node of `{node.domain}` in rule `{rule.name}` has {count:,} "
                f"variants of up to {leaves:,} components"
            )
        paths = {a.path for a in _touched(rule) if a.node == node.name}
        return [
            variant
            for variant in variants(self.grammar, node.domain, self.whole)
            if all(self.at(variant, path) is not None for path in paths)
        ]

    def at(self, variant: Variant, path: Path) -> tuple[Variant, Path] | None:
        """Where a path leads in a variant: to a variant, and from there into a union that is whole.

        None where another part is chosen.
        """
        for place in range(len(path) + 1):
            reached = variant.at(path[:place])
            if reached is None:
                return None
            if reached.domain in self.whole or place == len(path):
                return reached, path[place:]
        raise AssertionError("a path ends")

    def variant(self, rule: Rule, name: str, decided: Mapping[str, Variant]) -> None:
        """Add one variant of a rule."""
        nodes = self.nodes(rule.rhs, decided)
        rhs, inner = self.into_wholes(rule.rhs, decided, nodes)
        decided_too = {**decided, **{name: Variant(node.domain) for name, node in inner.items()}}
        nodes |= {(name, ()): node for name, node in inner.items()}
        edges = []
        for edge in rhs.edges:
            touched = [(a, _at(decided_too, a)) for a in edge.attachments]
            edges.append(
                replace(
                    edge,
                    label=self.label(edge.label, [variant for _, variant in touched]),
                    attachments=tuple(b for a, v in touched for b, _ in _spread(a, v, nodes)),
                )
            )
        clamps = tuple(
            replace(clamp, attachment=attachment, path=clamp.path + path)
            for clamp in rhs.clamps
            for attachment, path in _spread(
                clamp.attachment, _at(decided_too, clamp.attachment), nodes
            )
        )
        externals = rule.rhs.externals
        parts = {
            x: NodeSource(variant, tuple(nodes[x, path].name for path, _ in variant.leaves()))
            for x, variant in decided.items()
        }
        family = self.label(rule.lhs, [decided[x] for x in externals])
        self.rules.append(
            replace(
                rule,
                name=name,
                lhs=family,
                rhs=Fragment.make(
                    tuple(nodes.values()),
                    tuple(edges),
                    clamps,
                    tuple(new for x in externals for new in parts[x].nodes),
                ),
                origin=rule.origin_or_self,
                source=rule.source and rule.source.refined(parts),
            )
        )

    def into_wholes(
        self,
        fragment: Fragment,
        decided: Mapping[str, Variant],
        nodes: Mapping[tuple[str, Path], Node],
    ) -> tuple[Fragment, dict[str, Node]]:
        """The fragment with a node for each part of a whole union that it touches, and these."""
        taken = {node.name for node in (*fragment.nodes, *nodes.values())}
        inner: dict[tuple[str, Path], Node] = {}
        maps: list[Edge] = []

        def led(attachment: Attachment) -> Attachment:
            reached = self.at(decided[attachment.node], attachment.path)
            assert reached is not None, "variants without the part are left out"
            union, rest = reached
            if not rest:
                return attachment
            key = attachment.node, attachment.path
            if key not in inner:
                name = fresh("_".join((attachment.node, rest[-1])), taken)
                taken.add(name)
                inner[key] = Node(name=name, domain=rest[-1])
                above = attachment.path[: len(attachment.path) - len(rest)]
                ends = Attachment(node=name), replace(attachment, path=above)
                maps.append(Edge(label=self.part(union.domain, rest), attachments=ends))
            return replace(attachment, node=inner[key].name, path=())

        edges = [
            replace(edge, attachments=tuple(map(led, edge.attachments))) for edge in fragment.edges
        ]
        clamps = [replace(clamp, attachment=led(clamp.attachment)) for clamp in fragment.clamps]
        result = replace(fragment, nodes=(*fragment.nodes, *inner.values()))
        result = replace(result, edges=(*edges, *maps), clamps=tuple(clamps))
        return result, {node.name: node for node in inner.values()}

    def part(self, union: str, path: Path) -> str:
        """The map from the values of a part to those of a whole union."""
        key = (union, path)
        if key not in self.maps:
            name = self.fresh_label(union, path)
            domains = (path[-1], union)
            self.factors.append(
                Factor(name=name, domains=domains, given=1, value=Map(pattern="part"))
            )
            self.maps[key] = name
        return self.maps[key]

    def nodes(
        self, fragment: Fragment, decided: Mapping[str, Variant]
    ) -> dict[tuple[str, Path], Node]:
        """The nodes of a variant, by source node and path; a node that stays one keeps its name."""
        taken = {node.name for node in fragment.nodes}
        nodes: dict[tuple[str, Path], Node] = {}
        for node in fragment.nodes:
            leaves = decided[node.name].leaves()
            for path, domain in leaves:
                name = node.name
                if len(leaves) > 1:
                    name = fresh("_".join((name, *self.components(node.domain, path))), taken)
                    taken.add(name)
                nodes[node.name, path] = replace(node, name=name, domain=domain)
        return nodes

    def components(self, domain: str, path: Path) -> list[str]:
        """The components of products that a path leads to, without the parts of unions."""
        components = []
        for name in path:
            if isinstance(self.grammar.domain[domain].shape, Product):
                components.append(name)
            domain = name
        return components

    def chosen(self, variant: Variant) -> list[str]:
        """The innermost parts that a variant chooses where it has a choice."""
        parts = [part for item in variant.inner for part in self.chosen(item)]
        shape = self.grammar.domain[variant.domain].shape
        if variant.inner and not parts and isinstance(shape, Union) and len(shape.parts) > 1:
            return [variant.inner[0].domain]
        return parts

    def label(self, source: str, axes: Sequence[Variant]) -> str:
        """The label of an edge whose nodes have the given variants."""
        key = (source, tuple(axes))
        if key not in self.names:
            if source in self.grammar.nonterminal:
                self.names[key] = self.nonterminal(*key)
            elif any(axis.inner for axis in axes):
                self.names[key] = self.derived(*key)
            else:
                self.names[key] = source
        return self.names[key]

    def nonterminal(self, source: str, axes: tuple[Variant, ...]) -> str:
        """Declare a nonterminal for one choice of parts."""
        parts = [part for axis in axes for part in self.chosen(axis)]
        name = self.fresh_label(source, parts) if parts else source
        domains = tuple(domain for axis in axes for _, domain in axis.leaves())
        family = self.grammar.nonterminal[source]
        part = family.source and family.source.refined(axes)
        item = replace(family, name=name, domains=domains, source=part)
        self.nonterminals.setdefault(source, []).append(item)
        return name

    def derived(self, source: str, axes: tuple[Variant, ...]) -> str:
        """Declare a factor, or an input factor, that is a slice."""
        parts = [part for axis in axes for part in self.chosen(axis) or [axis.domain]]
        name = self.fresh_label(source, parts)
        cut = Slice(source, axes)
        if source in self.grammar.input_factor:
            family = self.grammar.input_factor[source]
            self.input_factors.append(
                replace(family, name=name, domains=cut.domains, definition=cut)
            )
            return name
        factor = self.grammar.factor[source]
        given = factor.given
        if given is not None:
            # What is a part of a distribution does not sum to one.
            whole = all(extent(self.grammar, axis.domain)[0] == 1 for axis in axes[given:])
            given = sum(len(axis.leaves()) for axis in axes[:given]) if whole else None
        self.factors.append(
            Factor(
                name=name,
                domains=cut.domains,
                given=given,
                definition=cut,
                span=factor.span,
            )
        )
        return name

    def fresh_label(self, source: str, parts: Sequence[str]) -> str:
        name = fresh("_".join((source, *parts)), self.labels)
        self.labels.add(name)
        return name


def _at(decided: Mapping[str, Variant], attachment: Attachment) -> Variant:
    variant = decided[attachment.node].at(attachment.path)
    assert variant is not None, "variants without the part are left out"
    return variant


def _spread(
    attachment: Attachment, variant: Variant, nodes: Mapping[tuple[str, Path], Node]
) -> list[tuple[Attachment, Path]]:
    """The attachments that replace one, each with the path from its node to theirs."""
    return [
        (
            replace(attachment, node=nodes[attachment.node, attachment.path + path].name, path=()),
            path,
        )
        for path, _ in variant.leaves()
    ]
