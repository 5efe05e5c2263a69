"""Outline: the shapes of derivations without their states."""

from __future__ import annotations

from dataclasses import replace

from fgg.grammar import Edge, Fragment, Grammar, Nonterminal, Rule


def outline(grammar: Grammar) -> Grammar:
    """The grammar without state nodes: nonterminals have indices only, and no factor is left.

    Clamps stay, with their nodes: they determine which indices exist. The value changes, but the
    derivations are those of the source with their states forgotten. So a derivation whose cells are
    best by themselves can be found without any factor (minimum Bayes risk).

    Requires a grammar without queries.
    """
    assert not grammar.queries, "conjoin the grammar with a query first"
    return replace(
        grammar,
        nonterminals=tuple(map(_without_nodes, grammar.nonterminals)),
        rules=tuple(_without_states(grammar, rule) for rule in grammar.rules),
    )


def _without_nodes(item: Nonterminal) -> Nonterminal:
    return replace(item, domains=(), source=item.source and replace(item.source, variants=()))


def _without_states(grammar: Grammar, rule: Rule) -> Rule:
    edges: list[Edge] = []
    for edge in rule.rhs.edges:
        if edge.label in grammar.nonterminal:
            edges.append(replace(edge, attachments=()))
        elif edge.label in grammar.input_factor:
            edges.append(edge)
    touched = {a.node for edge in edges for a in edge.attachments}
    touched |= {clamp.attachment.node for clamp in rule.rhs.clamps}
    nodes = tuple(node for node in rule.rhs.nodes if node.name in touched)
    rhs = Fragment.make(nodes, tuple(edges), rule.rhs.clamps, ())
    return replace(rule, rhs=rhs, source=rule.source and rule.source.only(rhs.by_name))
