"""Sharing: a product of several nonterminals that two rules have in common is computed once."""

from __future__ import annotations

from dataclasses import replace

from fgg.compiler.messages import Product, new_rule, with_product
from fgg.compiler.parts import rule_parts
from fgg.grammar import Attachment, Edge, Grammar, Nonterminal, Rule
from fgg.index import Condition, Expr
from fgg.names import fresh


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
                rule_names,
                first,
                family,
                first.indices,
                replace(product, conditions=first.conditions),
                order,
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
