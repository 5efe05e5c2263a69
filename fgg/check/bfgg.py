"""The B-FGG conditions [RS Def. 6]: which rules meet them, and what breaks the others."""

from __future__ import annotations

from dataclasses import dataclass

from fgg.grammar import Grammar, Rule
from fgg.grammar.spans import Span


@dataclass(frozen=True)
class BStatus:
    """Whether a rule's right-hand side is a B-fragment; if not, why and where."""

    rule: str
    reason: str = ""
    node: str | None = None
    edge: str | None = None
    span: Span | None = None

    @property
    def holds(self) -> bool:
        """Whether the rule meets the conditions."""
        return not self.reason


def b_status(grammar: Grammar) -> tuple[BStatus, ...]:
    """The status of each rule.

    A B-fragment has exactly one external node and no nonterminal edge touches it. The start
    symbol may have no external node.
    """
    return tuple(_status(grammar, rule) for rule in grammar.rules)


def is_bfgg(grammar: Grammar) -> bool:
    """Whether every rule meets the B-FGG conditions."""
    return all(status.holds for status in b_status(grammar))


def _status(grammar: Grammar, rule: Rule) -> BStatus:
    externals = dict.fromkeys(rule.rhs.externals)
    if len(externals) > 1:
        names = ", ".join(f"`{name}`" for name in externals)
        return BStatus(
            rule.name, f"it has {len(externals)} external nodes, {names}", span=rule.head_span
        )
    if not externals and rule.lhs != grammar.start.label:
        return BStatus(
            rule.name,
            f"it has no external node, and `{rule.lhs}` is not the start symbol",
            span=rule.head_span,
        )
    for edge in rule.rhs.edges:
        if edge.label not in grammar.nonterminal:
            continue
        for attachment in edge.attachments:
            if attachment.node in externals:
                return BStatus(
                    rule.name,
                    f"the nonterminal edge `{edge.label}` touches the external node "
                    f"`{attachment.node}`",
                    node=attachment.node,
                    edge=edge.label,
                    span=edge.span,
                )
    return BStatus(rule.name)
