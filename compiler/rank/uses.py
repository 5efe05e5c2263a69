"""Uses of a family whose state nodes can be summed: as messages over rank nodes, or written out."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from fgg.compiler.plan.eliminate import without
from fgg.compiler.rank.cut import RuleComponent, RuleCut, is_rank
from fgg.grammar import Edge, Rule
from fgg.grammar.index import Condition, Expr


class NotRankSpace(Exception):
    """A rule and a node of it that keep a grammar out of rank space, and the reason."""

    def __init__(self, rule: str, node: str | None, reason: str) -> None:
        where = f"rule `{rule}`" + (f", node `{node}`" if node is not None else "")
        super().__init__(f"{where}: {reason}")
        self.rule = rule
        self.node = node
        self.reason = reason


@dataclass(frozen=True)
class Message:
    """A use and everything that is connected with it by state nodes, up to rank nodes.

    `summed` are index variables on which nothing else in the rule depends. `conditions` are those
    in which they occur, and `left` what these imply for the other variables.
    """

    part: RuleComponent
    summed: tuple[str, ...]
    conditions: tuple[Condition, ...]
    left: tuple[Condition, ...]


@dataclass(frozen=True)
class FamilyUse:
    """A nonterminal edge whose state nodes can be summed; without a message, it is written out.

    `dense`: parameters lead from its nodes to state nodes only.
    """

    message: Message | None
    dense: bool


def use(cut: RuleCut, number: int, hidden: Container[int] = ()) -> FamilyUse | NotRankSpace:
    """The use of a family in a rule, or why its nodes must stay.

    Indices at the places `hidden` are not summed: not all rules of the family depend on them.
    """
    rule, edge = cut.rule, cut.rule.rhs.edges[number]
    nodes = [a.node for a in edge.attachments]
    for node in nodes:
        others = [e for i, e in enumerate(rule.rhs.edges) if i != number and _touches(e, node)]
        reason = ""
        if node in rule.rhs.externals:
            reason = f"`{edge.label}` touches the external node"
        elif any(e.label in cut.grammar.nonterminal for e in others):
            reason = "two nonterminals touch it"
        elif nodes.count(node) > 1:
            reason = f"`{edge.label}` touches it twice"
        elif any(a.path for e in [edge, *others] for a in e.attachments):
            reason = "an edge touches a part of a node: split the grammar first"
        if reason:
            return NotRankSpace(rule.name, node, reason)
    part = next(c for c in cut.components if number in c.edges)
    sent = message(cut, part, edge, hidden)
    if sent is not None:
        return FamilyUse(sent, dense=False)
    if not _is_early(cut, part, edge):
        for node in nodes:
            reason = _input_at(cut, part, node)
            if reason:
                return NotRankSpace(rule.name, node, reason)
    near = [a.node for n in nodes for e in touching(rule, n) for a in e.attachments]
    others_near = [n for n in dict.fromkeys(near) if n not in nodes]
    ranks = sum(is_rank(cut.grammar, rule, node) for node in others_near)
    return FamilyUse(None, bool(others_near) and not ranks)


def message(
    cut: RuleCut, part: RuleComponent, edge: Edge, hidden: Container[int] = ()
) -> Message | None:
    """The message that a use becomes; None if it would have more rank nodes than the use nodes."""
    if len(cut.nonterminals(part)) != 1 or set(part.nodes) & set(cut.rule.rhs.externals):
        return None
    result = Message(part, (), (), ())
    for place, index in enumerate(edge.indices):
        names = [*cut.names([index] if place not in hidden else [])]
        if len(names) == 1 and index == Expr.of(names[0]) and names[0] not in cut.head:
            result = _summing(cut, result, names[0], edge) or result
    if not 1 <= len(result.part.ranks) <= len(edge.attachments):
        return None
    return result if result.summed or _is_early(cut, result.part, edge) else None


def _is_early(cut: RuleCut, part: RuleComponent, edge: Edge) -> bool:
    """Whether the input beside a use is read at fewer indices than the use has."""
    needed = cut.inputs(part)
    return not cut.has_input(part) or (
        needed <= set(cut.at(edge)) and len(needed) < len(edge.indices)
    )


def _summing(cut: RuleCut, inner: Message, name: str, edge: Edge) -> Message | None:
    """The message that also sums over a variable, with everything that depends on it, or None.

    Nothing but this use may depend on the variable, parts without nonterminals aside.
    """
    if sum(name in index.names() for index in edge.indices) > 1:
        return None
    others = [
        c
        for c in cut.components
        if name in cut.variables(c)
        and not (set(c.edges) <= {*inner.part.edges} and set(c.clamps) <= {*inner.part.clamps})
    ]
    externals = set(cut.rule.rhs.externals)
    if any(cut.nonterminals(c) or set(c.nodes) & externals for c in others):
        return None
    part = cut.merged([inner.part, *others])
    about = cut.about(name)
    left = without(about, name)
    known = set(cut.at(edge))
    if left is None or not cut.inputs(part) <= known or len(part.ranks) > len(edge.attachments):
        return None
    spoken = set().union(*(cut.names(c.terms) for c in about))
    # What two summed variables say of each other would be lost: one of them stays.
    if not spoken <= known or spoken & set(inner.summed):
        return None
    left = tuple(c for c in left if cut.names(c.terms))
    return Message(part, (*inner.summed, name), (*inner.conditions, *about), (*inner.left, *left))


def touching(rule: Rule, node: str) -> tuple[Edge, ...]:
    """The edges of a rule that touch a node."""
    return tuple(e for e in rule.rhs.edges if _touches(e, node))


def _touches(edge: Edge, node: str) -> bool:
    return any(a.node == node for a in edge.attachments)


def observed_reason(cut: RuleCut, part: RuleComponent, node: str) -> str:
    """The reason that a component depends on the input, as near to a node as possible."""
    direct = _input_at(cut, part, node)
    if direct:
        return direct
    for other in part.nodes:
        reason = _input_at(cut, part, other)
        if reason:
            return reason
    return "it depends on the input"


def _input_at(cut: RuleCut, part: RuleComponent, node: str) -> str:
    """How a node depends on the input directly; empty if it does not."""
    clamped = {c.attachment.node for c in cut.rule.rhs.clamps}
    if node in clamped:
        return "it is observed"
    for edge in touching(cut.rule, node):
        if edge.label in cut.grammar.input_factor:
            return f"the input factor `{edge.label}` touches it"
        if edge.label in cut.grammar.factor and any(a.node in clamped for a in edge.attachments):
            return f"`{edge.label}` depends on the input there: merge it into one factor first"
    return ""
