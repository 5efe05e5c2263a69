"""Where the rules of a plan's grammar come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fgg.grammar import Grammar, Rule
from fgg.grammar.slices import SplitNode, SplitRule, Variant
from fgg.runtime.derive.choices import Choice


@dataclass(frozen=True)
class Source:
    """The user's grammar, and where each rule of a plan's grammar comes from."""

    grammar: Grammar
    rules: Mapping[str, SplitRule]

    @staticmethod
    def of(grammar: Grammar) -> Source:
        """A grammar that is its own source."""
        return Source(
            grammar,
            {
                rule.name: SplitRule(
                    rule.name,
                    rule.lhs,
                    {n.name: SplitNode(Variant(n.domain), (n.name,)) for n in rule.rhs.nodes},
                )
                for rule in grammar.rules
            },
        )

    @cached_property
    def rule(self) -> Mapping[str, Rule]:
        """The user's rules by name."""
        return {rule.name: rule for rule in self.grammar.rules}

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The places of the user's rules in the grammar."""
        return {rule.name: number for number, rule in enumerate(self.grammar.rules)}

    def of_rule(self, rule: Rule) -> Rule:
        """The user's rule that a rule of the plan comes from."""
        return self.rule[self.rules[rule.name].source]

    def families(self, grammar: Grammar) -> dict[str, str]:
        """The user's nonterminal for each nonterminal of a plan's grammar."""
        return {rule.lhs: self.of_rule(rule).lhs for rule in grammar.rules}

    def key(self, choice: Choice) -> tuple[object, ...]:
        """What the reference engine orders choices by: rule, index variables, inner values."""
        rule = self.of_rule(choice.rule)
        values = self.values(choice)
        inner = tuple(values[node.name] for node in rule.rhs.internals)
        return (self.order[rule.name], tuple(choice.variables.values()), inner)

    def values(self, choice: Choice) -> dict[str, int]:
        """The values of the user's nodes."""
        return self.rules[choice.rule.name].values(self.grammar, choice.values)
