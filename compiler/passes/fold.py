"""Fold: what a rule needs of one nonterminal and parameters becomes a *message*.

Where the cheapest order of contraction multiplies a nonterminal with parameters first, the product
depends on that nonterminal's cell alone. It becomes a nonterminal of its own, computed once a cell
and not at every use (the caching of Cohen et al. 2013; the messages of Yang et al. 2022, §4.2).
A product of several nonterminals that two rules have in common becomes one too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fgg.compiler.contraction import Tree
from fgg.compiler.parts import RuleParts, rule_parts
from fgg.grammar import Attachment, Edge, Fragment, Grammar, Nonterminal, Origin, Rule
from fgg.index import Condition, Expr
from fgg.names import fresh


@dataclass(frozen=True)
class Product:
    """Some edges of a rule, and the nodes that the rest of the rule needs of them."""

    edges: tuple[Edge, ...]
    free: tuple[str, ...]


def fold(grammar: Grammar, *, length: int = 32, batch: int = 16, hoist: bool = False) -> Grammar:
    """The grammar with messages; its value is the same.

    With `hoist`, products of parameters between rank nodes are not taken apart for messages.
    """
    return share(_Folder(grammar, length, batch, hoist).run(), length=length, batch=batch)


class _Folder:
    def __init__(self, grammar: Grammar, length: int, batch: int, hoist: bool) -> None:
        self.grammar = grammar
        self.length = length
        self.batch = batch
        self.hoist = hoist
        self.taken = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
        self.rule_names = {rule.name for rule in grammar.rules}
        self.known: dict[object, Nonterminal] = {}
        self.rules: list[Rule] = []

    def run(self) -> Grammar:
        changed = [self.fold_rule(rule) for rule in self.grammar.rules]
        if not self.known:
            return self.grammar
        return replace(
            self.grammar,
            nonterminals=(*self.grammar.nonterminals, *self.known.values()),
            rules=(*changed, *self.rules),
        )

    def fold_rule(self, rule: Rule) -> Rule:
        parts = rule_parts(self.grammar, rule)
        if sum(part.kind == "chart" for part in parts.parts) == 0 or len(parts.parts) < 3:
            return rule
        for tree in _messages(parts.tree(self.length, self.batch, hoist=self.hoist), parts):
            rule = self.replace(rule, self.product(tree, parts))
        return rule

    def product(self, tree: Tree, parts: RuleParts) -> Product:
        found = [parts.sources[i] for i in sorted(tree.parts)]
        edges = tuple(edge for edge in found if isinstance(edge, Edge))
        return Product(edges, tree.keep)

    def replace(self, rule: Rule, product: Product) -> Rule:
        """The rule with a message in place of the product."""
        chart = next(e for e in product.edges if e.label in self.grammar.nonterminal)
        key, order = canonical(product, chart)
        if key not in self.known:
            self.known[key] = self.message(rule, product, chart, order)
        message = self.known[key]
        edge = Edge(
            label=message.name,
            attachments=tuple(Attachment(node=node) for node in order),
            indices=chart.indices,
            span=chart.span,
        )
        return with_product(rule, product, edge)

    def message(
        self, rule: Rule, product: Product, chart: Edge, order: Sequence[str]
    ) -> Nonterminal:
        family = self.grammar.nonterminal[chart.label]
        labels = [e.label for e in product.edges if e is not chart]
        name = fresh("_".join([chart.label, *labels]), self.taken)
        self.taken.add(name)
        nodes = rule.rhs.by_name
        message = Nonterminal(
            name=name,
            domains=tuple(nodes[node].domain for node in order),
            indices=family.indices,
            conditions=family.conditions,
            span=rule.span,
        )
        indices = tuple(Expr.of(i) for i in family.indices)
        edges = tuple(replace(e, indices=indices) if e is chart else e for e in product.edges)
        self.rules.append(new_rule(self.rule_names, rule, message, indices, edges, tuple(order)))
        return message


def new_rule(
    taken: set[str],
    rule: Rule,
    message: Nonterminal,
    indices: tuple[Expr, ...],
    edges: tuple[Edge, ...],
    externals: tuple[str, ...],
    conditions: tuple[Condition, ...] = (),
) -> Rule:
    """The one rule of a message."""
    name = fresh(message.name, taken)
    taken.add(name)
    touched = {a.node for e in edges for a in e.attachments}
    return Rule(
        name=name,
        lhs=message.name,
        indices=indices,
        conditions=conditions,
        rhs=Fragment.make(
            tuple(node for node in rule.rhs.nodes if node.name in touched),
            edges,
            (),
            externals,
        ),
        origin=Origin(rule=rule.origin.rule if rule.origin else rule.name),
        span=rule.span,
    )


def with_product(rule: Rule, product: Product, edge: Edge) -> Rule:
    """The rule with one edge in place of a product, at the place of its first edge."""
    gone = set(map(id, product.edges))
    edges: list[Edge] = []
    for old in rule.rhs.edges:
        if id(old) not in gone:
            edges.append(old)
        elif edge not in edges:
            edges.append(edge)
    touched = {a.node for e in edges for a in e.attachments}
    touched |= {c.attachment.node for c in rule.rhs.clamps}
    touched |= set(rule.rhs.externals)
    # A node that nothing touches is summed: it stays unless it went into the product.
    inside = {a.node for e in product.edges for a in e.attachments}
    nodes = tuple(n for n in rule.rhs.nodes if n.name in touched or n.name not in inside)
    rhs = Fragment.make(nodes, tuple(edges), rule.rhs.clamps, rule.rhs.externals)
    return replace(rule, rhs=rhs)


def canonical(product: Product, chart: Edge) -> tuple[object, tuple[str, ...]]:
    """What tells messages apart, and the order of their external nodes."""
    numbers: dict[str, int] = {}
    ordered = [chart, *sorted((e for e in product.edges if e is not chart), key=_edge_key)]
    for edge in ordered:
        for attachment in edge.attachments:
            numbers.setdefault(attachment.node, len(numbers))
    wiring = tuple((e.label, tuple(numbers[a.node] for a in e.attachments)) for e in ordered)
    order = tuple(sorted(product.free, key=numbers.__getitem__))
    return (wiring, tuple(numbers[node] for node in order)), order


def _edge_key(edge: Edge) -> tuple[str, int]:
    return (edge.label, len(edge.attachments))


def _messages(tree: Tree, parts: RuleParts) -> Iterator[Tree]:
    """The largest proper subtrees with one nonterminal and otherwise parameters."""
    for child in tree.children:
        kinds = [parts.parts[i].kind for i in child.parts]
        if kinds.count("chart") == 1 and kinds.count("parameter") == len(kinds) - 1 >= 1:
            yield child
        else:
            yield from _messages(child, parts)


def share(grammar: Grammar, *, length: int = 32, batch: int = 16) -> Grammar:
    """Products of nonterminals that several rules have in common, computed once."""
    groups: dict[object, list[tuple[Rule, Product, tuple[str, ...]]]] = {}
    for rule in grammar.rules:
        found = _shareable(grammar, rule)
        if found is not None and _is_multiplied(grammar, rule, found[1], length, batch):
            key, product, order = found
            groups.setdefault(key, []).append((rule, product, order))
    taken = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
    rule_names = {rule.name for rule in grammar.rules}
    changed: dict[str, Rule] = {}
    new: list[Nonterminal] = []
    rules: list[Rule] = []
    for members in groups.values():
        if len(members) < 2:
            continue
        first, product, order = members[0]
        indices = tuple(str(i) for i in first.indices)
        nodes = first.rhs.by_name
        name = fresh("_".join(e.label for e in product.edges), taken)
        taken.add(name)
        family = Nonterminal(
            name=name,
            domains=tuple(nodes[node].domain for node in order),
            indices=indices,
            span=first.span,
        )
        new.append(family)
        rules.append(
            new_rule(
                rule_names, first, family, first.indices, product.edges, order, first.conditions
            )
        )
        for rule, own, externals in members:
            edge = Edge(
                label=name,
                attachments=tuple(Attachment(node=node) for node in externals),
                indices=rule.indices,
            )
            folded = with_product(rule, own, edge)
            conditions = tuple(c for c in rule.conditions if _holds_of(c, rule))
            changed[rule.name] = replace(folded, conditions=conditions)
    if not new:
        return grammar
    return replace(
        grammar,
        nonterminals=(*grammar.nonterminals, *new),
        rules=(*(changed.get(rule.name, rule) for rule in grammar.rules), *rules),
    )


def _is_multiplied(grammar: Grammar, rule: Rule, product: Product, length: int, batch: int) -> bool:
    """Whether the cheapest order of contraction multiplies these edges with each other first."""
    parts = rule_parts(grammar, rule)
    wanted = frozenset(i for i, s in enumerate(parts.sources) if s in product.edges)
    trees = [parts.tree(length, batch)]
    while trees:
        tree = trees.pop()
        if tree.parts == wanted:
            return True
        trees += tree.children
    return False


def _holds_of(condition: Condition, rule: Rule) -> bool:
    """Whether a condition speaks of the head's indices only."""
    own = {name for index in rule.indices for name in index.names()}
    body = {
        name for edge in rule.rhs.edges for index in edge.indices for name in index.names()
    } - own
    return not any(name in body for term in condition.terms for name in term.names())


def _shareable(grammar: Grammar, rule: Rule) -> tuple[object, Product, tuple[str, ...]] | None:
    """The product of a rule's nonterminals, if something else is left of the rule."""
    heads = [index.names() for index in rule.indices]
    names = [name for found in heads for name in found]
    if not names or len(set(names)) != len(names):
        return None
    if any(index != Expr.of(name) for index, name in zip(rule.indices, names, strict=False)):
        return None
    charts = tuple(e for e in rule.rhs.edges if e.label in grammar.nonterminal)
    rest = [e for e in rule.rhs.edges if e.label not in grammar.nonterminal]
    if len(charts) < 2 or not (rest or rule.rhs.clamps):
        return None
    renamed: dict[str, int | Expr] = {name: Expr.of(f"#{i}") for i, name in enumerate(names)}
    for edge in charts:
        for index in edge.indices:
            for name in index.names():
                renamed.setdefault(name, Expr.of(f"#{len(renamed)}"))
    outside = {n for e in rest for i in e.indices for n in i.names()}
    outside |= {n for c in rule.rhs.clamps for i in c.indices for n in i.names()}
    if outside & (set(renamed) - set(names)):
        return None  # a split variable is needed elsewhere too
    inner = {a.node for e in charts for a in e.attachments}
    needed = {a.node for e in rest for a in e.attachments} | set(rule.rhs.externals)
    needed |= {c.attachment.node for c in rule.rhs.clamps}
    ordered = sorted(
        charts, key=lambda e: (e.label, tuple(str(i.substitute(renamed)) for i in e.indices))
    )
    numbers: dict[str, int] = {}
    for edge in ordered:
        for attachment in edge.attachments:
            numbers.setdefault(attachment.node, len(numbers))
    order = tuple(sorted(inner & needed, key=numbers.__getitem__))
    key = (
        tuple(
            (
                e.label,
                tuple(i.substitute(renamed) for i in e.indices),
                tuple(numbers[a.node] for a in e.attachments),
            )
            for e in ordered
        ),
        frozenset(c.substitute(renamed) for c in rule.conditions),
        len(names),
        tuple(numbers[node] for node in order),
    )
    return key, Product(charts, order), order
