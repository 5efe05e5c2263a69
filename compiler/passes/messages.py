"""A product of some parts of a rule as a nonterminal of its own: its rule, and its use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgg.grammar import Clamp, Edge, Fragment, Nonterminal, Origin, Rule
from fgg.grammar.index import Condition, Expr
from fgg.grammar.names import fresh


@dataclass(frozen=True)
class Product:
    """Some edges and clamps of a rule, and the nodes that the rest of the rule needs of them.

    `summed` are index variables that nothing else depends on; `conditions` are those that speak of
    them, `left` what these say of other variables.
    """

    edges: tuple[Edge, ...]
    free: tuple[str, ...]
    clamps: tuple[Clamp, ...] = ()
    summed: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    left: tuple[Condition, ...] = ()


def new_rule(
    taken: set[str],
    rule: Rule,
    message: Nonterminal,
    indices: tuple[Expr, ...],
    product: Product,
    externals: tuple[str, ...],
) -> Rule:
    """The one rule of a message, `product` being in the names of its indices."""
    name = fresh(message.name, taken)
    taken.add(name)
    touched = {a.node for e in product.edges for a in e.attachments}
    touched |= {c.attachment.node for c in product.clamps}
    return Rule(
        name=name,
        lhs=message.name,
        indices=indices,
        conditions=product.conditions,
        rhs=Fragment.make(
            tuple(node for node in rule.rhs.nodes if node.name in touched),
            product.edges,
            product.clamps,
            externals,
        ),
        origin=Origin(rule=rule.origin.rule if rule.origin else rule.name),
        span=rule.span,
    )


def with_product(rule: Rule, product: Product, edge: Edge) -> Rule:
    """The rule with one edge in place of a product, at the place of its first edge."""
    gone = set(map(id, product.edges))
    numbers = [i for i, old in enumerate(rule.rhs.edges) if id(old) in gone]
    first = numbers[0] if numbers else len(rule.rhs.edges)
    edges = list(rule.rhs.edges)
    edges.insert(first, edge)
    edges = [e for e in edges if id(e) not in gone]
    observed = set(map(id, product.clamps))
    clamps = tuple(c for c in rule.rhs.clamps if id(c) not in observed)
    touched = {a.node for e in edges for a in e.attachments}
    touched |= {c.attachment.node for c in clamps}
    touched |= set(rule.rhs.externals)
    # A node that nothing touches is summed: it stays unless it went into the product.
    inside = {a.node for e in product.edges for a in e.attachments}
    inside |= {c.attachment.node for c in product.clamps}
    nodes = tuple(n for n in rule.rhs.nodes if n.name in touched or n.name not in inside)
    rhs = Fragment.make(nodes, tuple(edges), clamps, rule.rhs.externals)
    return replace(rule, rhs=rhs)
