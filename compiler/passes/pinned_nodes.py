"""Nodes of one rule whose value an observed value and a map fix: their clamps, and copies."""

from __future__ import annotations

from dataclasses import replace

from fgg.factors.maps import is_map
from fgg.grammar import Clamp, Edge, Fragment, Grammar, Node, Rule
from fgg.grammar.domains import domain_size
from fgg.grammar.names import fresh
from fgg.grammar.values import Map
from fgg.inputs.clamps import clamp_domain, is_pinned


def local(grammar: Grammar, rule: Rule) -> Rule:
    """The rule with a clamp in place of each map of a clamped node.

    A map to a single block is 1 everywhere, and goes without one: tables of copies over positions
    would be made for nothing.
    """
    fragment = rule.rhs
    clamps = list(fragment.clamps)
    edges: list[Edge] = []
    for edge in fragment.edges:
        if _says_nothing(grammar, edge):
            continue
        found = _clamp(grammar, fragment, edge)
        if found is None:
            edges.append(edge)
        else:
            clamps.append(found)
    if len(edges) == len(fragment.edges):
        return rule
    own = tuple(dict.fromkeys(clamps))
    return replace(rule, rhs=Fragment.make(fragment.nodes, tuple(edges), own, fragment.externals))


def _says_nothing(grammar: Grammar, edge: Edge) -> bool:
    """Whether an edge is a map to a domain of one value."""
    factor = grammar.factor.get(edge.label)
    if factor is None or not is_map(factor) or any(a.path for a in edge.attachments):
        return False  # a path may lead nowhere, and the edge then says that
    return domain_size(grammar, factor.domains[1]) == 1


def _clamp(grammar: Grammar, fragment: Fragment, edge: Edge) -> Clamp | None:
    """What a map says of its second node, if its first is clamped."""
    factor = grammar.factor.get(edge.label)
    if factor is None or not is_map(factor):
        return None
    if isinstance(factor.value, Map) and factor.value.pattern == "part":
        return None  # to where the node is anyway: there is nothing to be gained
    source, target = edge.attachments
    if source.path or target.path or source.node == target.node:
        return None
    for clamp in fragment.clamps:
        if clamp.attachment.node == source.node and not clamp.attachment.path:
            if clamp_domain(grammar, clamp) == factor.domains[0]:
                path = (*clamp.path, factor.name)
                return replace(clamp, attachment=target, path=path, span=edge.span)
    return None


def separated(grammar: Grammar, rule: Rule, *, whole: bool = False) -> Rule:
    """The rule with a node of its own for each parameter that touches a node fixed by a map.

    What is fixed to one value is equal to its copies, so each parameter is read at its own tokens,
    as a table over positions, and none meets another in a sum over blocks. Nodes that say nothing
    are left out, unless the rule is to stay `whole`: then all nodes that it had are there.
    """
    for node in rule.rhs.nodes:
        rule = _separated(grammar, rule, node)
    return rule if whole else _without_idle(grammar, rule)


def _without_idle(grammar: Grammar, rule: Rule) -> Rule:
    """The rule without nodes that only a map fixes, where another clamp needs the same token.

    The sum over such a node is 1 wherever the token is possible, which the other clamp says.
    """
    fragment = rule.rhs
    touched = {a.node for edge in fragment.edges for a in edge.attachments}
    clamps = list(fragment.clamps)
    for clamp in fragment.clamps:
        node = clamp.attachment.node
        alone = node not in touched and node not in fragment.externals
        if not alone or not clamp.path or not is_pinned(grammar, clamp):
            continue
        same = [
            c
            for c in clamps
            if (c.input, c.indices) == (clamp.input, clamp.indices)
            and c.path == clamp.path[: len(c.path)]
            and c.attachment.node != node
        ]
        if same and sum(c.attachment.node == node for c in clamps) == 1:
            clamps.remove(clamp)
    gone = {c.attachment.node for c in fragment.clamps} - {c.attachment.node for c in clamps}
    if not gone:
        return rule
    nodes = tuple(n for n in fragment.nodes if n.name not in gone)
    return replace(
        rule, rhs=Fragment.make(nodes, fragment.edges, tuple(clamps), fragment.externals)
    )


def _separated(grammar: Grammar, rule: Rule, node: Node) -> Rule:
    fragment = rule.rhs
    own = [c for c in fragment.clamps if c.attachment.node == node.name]
    first = next((c for c in own if c.path and is_pinned(grammar, c)), None)
    touching = [e for e in fragment.edges if any(a.node == node.name for a in e.attachments)]
    read = [
        edge
        for edge in touching
        if edge.label in grammar.factor and sum(a.node == node.name for a in edge.attachments) == 1
    ]
    if first is None or not read:
        return rule
    if len(own) == 1 and len(read) == len(touching) and node.name not in fragment.externals:
        read = read[1:]  # one of them keeps the node
    taken = {n.name for n in fragment.nodes}
    copies: list[Node] = []
    clamps = list(fragment.clamps)
    edges: list[Edge] = []
    for edge in fragment.edges:
        if edge in read:
            copy = replace(node, name=fresh(node.name, taken))
            taken.add(copy.name)
            copies.append(copy)
            clamps.append(replace(first, attachment=replace(first.attachment, node=copy.name)))
            attachments = tuple(
                replace(a, node=copy.name) if a.node == node.name else a for a in edge.attachments
            )
            edge = replace(edge, attachments=attachments)
        edges.append(edge)
    nodes = (*fragment.nodes, *copies)
    rhs = Fragment.make(nodes, tuple(edges), tuple(clamps), fragment.externals)
    return replace(rule, rhs=rhs)
