"""Provenance: which rule and which family of the user's grammar a derived one stands for.

`traced` notes it before the first pass. Every pass then keeps it, or composes it with what the pass
itself does, so it can be read off any later grammar. Rules and families that a pass adds (messages,
the closing of the start symbol), and rules that lose their states, carry none: they stand for
nothing of the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fgg.grammar import Grammar, Nonterminal, Rule
from fgg.grammar.definitions import Variant
from fgg.grammar.slices import source_value

if TYPE_CHECKING:
    from fgg.inputs.clamps import Pin, Pins


@dataclass(frozen=True)
class NodeSource:
    """A node of the user's rule: its variant, and the nodes that stand for it, in order."""

    variant: Variant
    nodes: tuple[str, ...]

    def refined(self, variants: Mapping[str, NodeSource]) -> NodeSource:
        """The same node after each node that stands for it has been split again."""
        parts = [variants[name] for name in self.nodes]
        variant = _refined(self.variant, iter([part.variant for part in parts]))
        return NodeSource(variant, tuple(name for part in parts for name in part.nodes))

    def renamed(self, names: Mapping[str, str]) -> NodeSource:
        """The same node after other nodes have taken the place of some, `names[old] = new`."""

        def last(name: str) -> str:
            return last(names[name]) if name in names else name

        return replace(self, nodes=tuple(map(last, self.nodes)))


@dataclass(frozen=True)
class RuleSource:
    """The user's rule that a rule is a variant of, and what became of its nodes.

    A pass that moves a part of the rule into a message moves its nodes along; they are still
    listed here.
    """

    rule: str
    nodes: Mapping[str, NodeSource]

    @staticmethod
    def itself(rule: Rule) -> RuleSource:
        """A rule that is the user's own."""
        nodes = {n.name: NodeSource(Variant(n.domain), (n.name,)) for n in rule.rhs.nodes}
        return RuleSource(rule.name, nodes)

    def values(self, grammar: Grammar, values: Mapping[str, int]) -> dict[str, int]:
        """The values of the nodes of the user's rule, given those of the derived rule's nodes."""
        return {
            name: source_value(grammar, node.variant, (values[n] for n in node.nodes))
            for name, node in self.nodes.items()
        }

    def refined(self, variants: Mapping[str, NodeSource]) -> RuleSource:
        """The source of one variant of the rule, in which its nodes are split again."""
        nodes = {name: node.refined(variants) for name, node in self.nodes.items()}
        return replace(self, nodes=nodes)

    def renamed(self, names: Mapping[str, str]) -> RuleSource:
        """The source of the rule after nodes have taken the place of others."""
        nodes = {name: node.renamed(names) for name, node in self.nodes.items()}
        return replace(self, nodes=nodes)

    def only(self, kept: Mapping[str, object]) -> RuleSource:
        """The source of the rule after all nodes but these have left the grammar."""
        nodes = {name: node for name, node in self.nodes.items() if {*node.nodes} <= {*kept}}
        return replace(self, nodes=nodes)


@dataclass(frozen=True)
class FamilySource:
    """The user's family that a nonterminal is a part of.

    `variants` has one entry for each external node of that family. `pins` has one for each node
    that `split` left it with: where its value is known from, or None for a node that is still
    there. It is empty if no node is pinned.
    """

    family: str
    variants: tuple[Variant, ...]
    pins: tuple[Pin | None, ...] = ()

    @staticmethod
    def itself(item: Nonterminal) -> FamilySource:
        """A family that is the user's own."""
        return FamilySource(item.name, tuple(map(Variant, item.domains)))

    def refined(self, variants: tuple[Variant, ...]) -> FamilySource:
        """The source of the part in which the nodes lie in the variants given."""
        order = iter(variants)
        return replace(self, variants=tuple(_refined(old, order) for old in self.variants))


def _refined(variant: Variant, leaves: Iterator[Variant]) -> Variant:
    """A variant whose atomic domains are split again, as the next of `leaves` say."""
    if not variant.inner:
        return next(leaves)
    return replace(variant, inner=tuple(_refined(item, leaves) for item in variant.inner))


def traced(grammar: Grammar) -> Grammar:
    """The grammar with each rule and nonterminal as its own source.

    A grammar that carries sources already is returned as it is.
    """
    if any(rule.source is not None for rule in grammar.rules):
        return grammar
    return replace(
        grammar,
        nonterminals=tuple(replace(x, source=FamilySource.itself(x)) for x in grammar.nonterminals),
        rules=tuple(replace(rule, source=RuleSource.itself(rule)) for rule in grammar.rules),
    )


def origins_of(grammar: Grammar) -> dict[str, RuleSource]:
    """The source of each rule that has one, by the rule's name."""
    return {rule.name: rule.source for rule in grammar.rules if rule.source is not None}


def families_of(grammar: Grammar) -> dict[str, FamilySource]:
    """The source of each nonterminal that has one, by the nonterminal's name."""
    return {item.name: item.source for item in grammar.nonterminals if item.source is not None}


def is_added(grammar: Grammar, name: str) -> bool:
    """Whether a pass has added a nonterminal, so that it stands for no family of the user's."""
    families = families_of(grammar)
    return bool(families) and name not in families


def pins_of(grammar: Grammar) -> Pins:
    """The pins of each family that has lost external nodes to the pass `pin`."""
    return {name: source.pins for name, source in families_of(grammar).items() if source.pins}
