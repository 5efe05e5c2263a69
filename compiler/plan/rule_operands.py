"""A rule as the operands of a contraction: parameters, evidence, tables, charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fgg.compiler.plan.contraction import Costs, Optimiser, RuleOperand, Tree
from fgg.grammar import Clamp, Edge, Grammar, Rule
from fgg.grammar.domains import domain_size, lengths
from fgg.grammar.index import Expr


@dataclass(frozen=True)
class RuleOperands:
    """The operands of a rule (`parts`), and the edge or clamp that each one is."""

    parts: tuple[RuleOperand, ...]
    sources: tuple[Edge | Clamp, ...]
    sizes: Mapping[str, int]
    output: tuple[str, ...]
    head: tuple[Expr, ...]
    ranks: frozenset[str] = frozenset()

    def tree(self, length: int, batch: int, *, hoist: bool = False) -> Tree:
        """The order of contraction that costs least.

        With `hoist`, products of parameters between rank nodes come before all others: no chart
        then has an axis of states that it could do without.
        """
        closed = self.between_ranks() if hoist else frozenset()
        costs = Costs(self.sizes, length, batch, closed)
        return Optimiser(self.parts, self.output, self.head, costs).run()

    def between_ranks(self) -> frozenset[str]:
        """The nodes that only parameters touch and whose neighbours are rank nodes or tokens."""
        nodes = set()
        for node in self.sizes.keys() - self.ranks - set(self.output):
            touching = [part for part in self.parts if node in part.axes]
            near = {axis for part in touching for axis in part.axes} - {node}
            tokens = {part.tokens for part in self.parts}
            if {part.kind for part in touching} == {"parameter"} and near <= self.ranks | tokens:
                nodes.add(node)
        return frozenset(nodes)


def rule_operands(grammar: Grammar, rule: Rule) -> RuleOperands:
    """The operands of a rule whose nodes are all atomic."""
    known = dict.fromkeys([*lengths(grammar), *grammar.size], 0)
    parts: list[RuleOperand] = []
    sources: list[Edge | Clamp] = []
    for edge in rule.rhs.edges:
        axes = tuple(dict.fromkeys(a.node for a in edge.attachments))
        forms = tuple(variable_part(i, known) for i in edge.indices)
        kind = "parameter"
        if edge.label in grammar.nonterminal:
            kind = "chart"
        elif edge.label in grammar.input_factor:
            kind = "table"
        parts.append(RuleOperand(kind, axes, forms))
        sources.append(edge)
    for clamp in rule.rhs.clamps:
        node = clamp.attachment.node
        forms = tuple(variable_part(i, known) for i in clamp.indices)
        if is_gathered(grammar, rule, clamp):
            parts.append(RuleOperand("clamp", (node,), forms, node))
        else:
            parts.append(RuleOperand("table", (node,), forms))
        sources.append(clamp)
    sizes = {n.name: domain_size(grammar, n.domain) for n in rule.rhs.nodes}
    head = tuple(variable_part(i, known) for i in rule.indices)
    ranks = frozenset(n.name for n in rule.rhs.nodes if grammar.domain[n.domain].rank)
    return RuleOperands(tuple(parts), tuple(sources), sizes, rule.rhs.externals, head, ranks)


def is_gathered(grammar: Grammar, rule: Rule, clamp: Clamp) -> bool:
    """Whether a clamped node is touched by one parameter only, so that tokens select entries."""
    node = clamp.attachment.node
    touching = [e for e in rule.rhs.edges if any(a.node == node for a in e.attachments)]
    return (
        node not in rule.rhs.externals
        and sum(c.attachment.node == node for c in rule.rhs.clamps) == 1
        and len(touching) == 1
        and touching[0].label in grammar.factor
        and sum(a.node == node for a in touching[0].attachments) == 1
    )


def variable_part(expr: Expr, known: Mapping[str, int]) -> Expr:
    """An index expression without lengths and sizes."""
    return expr.substitute(known)
