"""Closing: a start symbol without external nodes."""

from __future__ import annotations

from dataclasses import replace

from fgg.grammar import (
    Attachment,
    Edge,
    Fragment,
    Grammar,
    Node,
    Nonterminal,
    Reference,
    Rule,
)
from fgg.grammar.names import fresh


def close(grammar: Grammar) -> Grammar:
    """The grammar with a start symbol that has no external nodes.

    Z is the sum over the values of the start symbol's external nodes: with a new start symbol
    `S -> X[...](u, ...)` they are internal nodes, which are summed. A grammar whose start symbol
    has none is returned as it is.
    """
    start = grammar.nonterminal[grammar.start.label]
    if not start.domains:
        return grammar
    labels = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
    name = fresh(f"{start.name}_all", labels)
    nodes = tuple(Node(name=f"u{i}", domain=d) for i, d in enumerate(start.domains))
    edge = Edge(
        label=start.name,
        attachments=tuple(Attachment(node=node.name) for node in nodes),
        indices=grammar.start.indices,
    )
    rule = Rule(
        name=fresh(name, {rule.name for rule in grammar.rules}),
        lhs=name,
        rhs=Fragment.make(nodes, (edge,), (), ()),
        span=start.span,
    )
    return replace(
        grammar,
        start=Reference(label=name),
        nonterminals=(*grammar.nonterminals, Nonterminal(name=name)),
        rules=(*grammar.rules, rule),
    )
