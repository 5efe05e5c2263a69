"""Heads: a product that several rules of a family end with is done once for each cell."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgg.grammar import Attachment, Edge, Fragment, Grammar, Nonterminal, Rule
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh


@dataclass(frozen=True)
class RuleHead:
    """The parameters of a rule that lead from some of its external nodes to one rank node.

    `gone` are the numbers of those external nodes.
    """

    edges: tuple[Edge, ...]
    rank: str
    gone: tuple[int, ...]


def heads(grammar: Grammar) -> Grammar:
    """The grammar with a family over rank nodes where rules share the way from there to states.

    If several rules of X lead from its external node through the same parameters U to a rank node,

        X(a) -> U(a, q) …1        X(a) -> U(a, q) …2,

    they become rules of a family over q, and X has one rule in their place [RS eq. 10],

        X(a) -> U(a, q) X_rank(q)        X_rank(q) -> …1        X_rank(q) -> …2.

    So the product with U is done once, on the sum. Requires a grammar without queries whose nodes
    are atomic. Guarantees the same value Z. A grammar without such rules is returned as it is.
    """
    labels = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
    names = {rule.name for rule in grammar.rules}
    moved: dict[str, tuple[RuleHead, str]] = {}  # a rule's name: its head, and its new family
    new: dict[str, list[Nonterminal]] = {}
    rules: list[Rule] = []
    for item in grammar.nonterminals:
        groups: dict[object, list[tuple[Rule, RuleHead]]] = {}
        for rule in grammar.rules_of.get(item.name, ()):
            head = head_of(grammar, rule)
            if head is not None:
                groups.setdefault(_key(rule, head), []).append((rule, head))
        for members in groups.values():
            if len(members) < 2:
                continue
            first, head = members[0]
            name = fresh(f"{item.name}_rank", labels)
            labels.add(name)
            inner = _externals(first, head)
            domains = tuple(first.rhs.by_name[node].domain for node in inner)
            family = replace(item, name=name, domains=domains, origin=None, source=None)
            new.setdefault(item.name, []).append(family)
            title = fresh(item.name, names)
            names.add(title)
            rules.append(_whole(item, name, first, head, title))
            moved.update({rule.name: (its_head, name) for rule, its_head in members})
    if not moved:
        return grammar
    return replace(
        grammar,
        nonterminals=tuple(x for n in grammar.nonterminals for x in (n, *new.get(n.name, ()))),
        rules=(
            *(
                _inner(rule, *moved[rule.name]) if rule.name in moved else rule
                for rule in grammar.rules
            ),
            *rules,
        ),
    )


def head_of(grammar: Grammar, rule: Rule) -> RuleHead | None:
    """The head of a rule, or None if it has none or consists of nothing else."""
    fragment = rule.rhs
    clamped = {clamp.attachment.node for clamp in fragment.clamps}
    touching: dict[str, list[Edge]] = {}
    for edge in fragment.edges:
        for attachment in edge.attachments:
            touching.setdefault(attachment.node, []).append(edge)
    ends = [node for node in dict.fromkeys(fragment.externals) if node not in clamped]
    if len(set(fragment.externals)) < len(fragment.externals):
        return None
    ends = [n for n in ends if all(e.label in grammar.factor for e in touching.get(n, ()))]
    ends = [n for n in ends if n in touching]
    edges = tuple(e for e in fragment.edges if any(a.node in ends for a in e.attachments))
    others = {a.node for e in edges for a in e.attachments} - set(ends)
    ranks = [n for n in others if grammar.domain[fragment.by_name[n].domain].rank]
    if len(others) != 1 or len(ranks) != 1 or ranks[0] in (*fragment.externals, *clamped):
        return None
    (rank,) = ranks
    if any(a.path for edge in edges for a in edge.attachments):
        return None
    if len(touching[rank]) == sum(rank in [a.node for a in e.attachments] for e in edges):
        return None  # nothing else touches it: the sum over it can be hoisted
    gone = tuple(i for i, node in enumerate(fragment.externals) if node in ends)
    return RuleHead(edges, rank, gone)


def _key(rule: Rule, head: RuleHead) -> object:
    """The key of rules that can share a head."""
    places = {node: i for i, node in enumerate(rule.rhs.externals)}
    places[head.rank] = -1
    wiring = sorted((e.label, tuple(places[a.node] for a in e.attachments)) for e in head.edges)
    return tuple(wiring), head.gone, rule.rhs.by_name[head.rank].domain


def _externals(rule: Rule, head: RuleHead) -> tuple[str, ...]:
    """The external nodes of a rule without its head: the rank node, and those that stay."""
    left = (n for i, n in enumerate(rule.rhs.externals) if i not in head.gone)
    return (head.rank, *left)


def _inner(rule: Rule, head: RuleHead, family: str) -> Rule:
    """The rule without its head."""
    gone = {rule.rhs.externals[i] for i in head.gone}
    head_edges = set(map(id, head.edges))
    rhs = Fragment.make(
        tuple(node for node in rule.rhs.nodes if node.name not in gone),
        tuple(edge for edge in rule.rhs.edges if id(edge) not in head_edges),
        rule.rhs.clamps,
        _externals(rule, head),
    )
    origin = rule.origin_or_self
    return replace(rule, lhs=family, rhs=rhs, origin=origin, source=None)


def _whole(item: Nonterminal, family: str, rule: Rule, head: RuleHead, name: str) -> Rule:
    """The rule of a family that applies the head to the new family's cell."""
    indices = tuple(Expr.of(index) for index in item.indices)
    inner = _externals(rule, head)
    cell = Edge(
        label=family,
        attachments=tuple(Attachment(node=node) for node in inner),
        indices=indices,
        span=rule.span,
    )
    needed = {*rule.rhs.externals, *inner}
    return Rule(
        name=name,
        lhs=item.name,
        indices=indices,
        rhs=Fragment.make(
            tuple(node for node in rule.rhs.nodes if node.name in needed),
            (*head.edges, cell),
            (),
            rule.rhs.externals,
        ),
        origin=rule.origin_or_self,
        span=rule.span,
    )
