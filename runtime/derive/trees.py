"""Derivations in the user's own terms, from choices made on a plan's charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fgg.check.indices import rule_variables
from fgg.grammar import Attachment, Edge, Fragment, Grammar, Nonterminal, Origin, Reference, Rule
from fgg.grammar.names import fresh
from fgg.grammar.provenance import RuleSource
from fgg.runtime.derive.choices import Cell, Choice, Choices
from fgg.runtime.derive.derivation import Derivation, Step
from fgg.runtime.derive.plan_choices import Cells


@dataclass(frozen=True)
class Source:
    """The user's grammar, which the rules of a plan's grammar have as their source.

    With `own`, the plan's grammar is the user's, and each of its rules is its own source.
    """

    grammar: Grammar
    own: bool = False

    @staticmethod
    def of(grammar: Grammar) -> Source:
        """A grammar that is its own source."""
        return Source(grammar, own=True)

    def origin(self, rule: Rule) -> RuleSource:
        """Where a rule of the plan's grammar comes from."""
        if self.own or rule.source is None:
            return RuleSource.itself(rule)
        return rule.source

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
        return self.rule[self.origin(rule).rule]

    def families(self, grammar: Grammar) -> dict[str, str]:
        """The user's nonterminal for each nonterminal of a plan's grammar."""
        return {rule.lhs: self.of_rule(rule).lhs for rule in grammar.rules}

    def key(self, choice: Choice) -> tuple[object, ...]:
        """What the reference engine orders choices by: rule, index variables, inner values."""
        rule = self.of_rule(choice.step.rule)
        values = self.values(choice)
        inner = tuple(values[node.name] for node in rule.rhs.internals)
        return (self.order[rule.name], tuple(choice.variables.values()), inner)

    def values(self, choice: Choice) -> dict[str, int]:
        """The values of the user's nodes."""
        return self.origin(choice.step.rule).values(self.grammar, choice.values)


class Writer:
    """Writes choices out as a derivation of a ground grammar, like that of the reference engine.

    Names of ground rules and nonterminals are made as they are needed.
    """

    def __init__(self, source: Source, cells: Cells) -> None:
        self.source = source
        self.cells = cells
        self.labels: dict[tuple[str, tuple[int, ...]], str] = {}
        self.label_names: set[str] = set()
        self.nonterminals: dict[str, Nonterminal] = {}
        self.rules: dict[tuple[str, tuple[int, ...]], Rule] = {}
        self.rule_names: set[str] = set()
        self.variables: dict[str, Sequence[str]] = {}

    def label(self, family: str, indices: tuple[int, ...]) -> str:
        """The ground nonterminal of a family at an index."""
        key = (family, indices)
        if key not in self.labels:
            name = fresh(_name(family, indices), self.label_names)
            self.label_names.add(name)
            self.labels[key] = name
            domains = self.source.grammar.nonterminal[family].domains
            self.nonterminals[name] = Nonterminal(name=name, domains=domains, origin=key)
        return self.labels[key]

    def rule(self, choice: Choice, indices: tuple[int, ...]) -> Rule:
        """The ground rule of a choice: its nonterminals and factors, without evidence."""
        rule = self.source.of_rule(choice.step.rule)
        if rule.name not in self.variables:
            lengths = set(self.cells.lengths)
            self.variables[rule.name] = rule_variables(rule, self.source.grammar, lengths)
        variables = {name: choice.variables[name] for name in self.variables[rule.name]}
        key = (rule.name, tuple(variables.values()))
        if key not in self.rules:
            name = fresh(_name(*key), self.rule_names)
            self.rule_names.add(name)
            self.rules[key] = Rule(
                name=name,
                lhs=self.label(rule.lhs, indices),
                rhs=Fragment(
                    nodes=rule.rhs.nodes,
                    edges=tuple(self.edge(edge, choice) for edge in rule.rhs.edges),
                    externals=rule.rhs.externals,
                ),
                origin=Origin(
                    rule=rule.origin.rule if rule.origin else rule.name,
                    values=tuple(variables.items()),
                ),
                span=rule.span,
                head_span=rule.head_span,
            )
        return self.rules[key]

    def edge(self, edge: Edge, choice: Choice) -> Edge:
        """An edge with its indices written out."""
        indices = tuple(self.cells.evaluate(choice, index) for index in edge.indices)
        label = edge.label
        if label in self.source.grammar.nonterminal:
            label = self.label(label, indices)
        elif indices:
            label = _name(label, indices)
        attachments: tuple[Attachment, ...] = edge.attachments
        return Edge(label=label, attachments=attachments, span=edge.span)

    def derivation(self, made: Sequence[tuple[Cell, Choice]], weight: float) -> Derivation:
        """The derivation of choices in preorder."""
        steps: list[tuple[Rule, dict[str, int], int | None]] = []
        children: list[list[int]] = []
        waiting: list[int | None] = [None]
        for cell, choice in made:
            parent = waiting.pop()
            number = len(steps)
            if parent is not None:
                children[parent].append(number)
            rule = self.rule(choice, cell.indices)
            steps.append((rule, self.source.values(choice), parent))
            children.append([])
            waiting += [number] * self.cells.count(choice)
        start, _ = made[0]
        return Derivation(
            self.ground(self.label(self.source.grammar.start.label, start.indices)),
            tuple(
                Step(rule, values, tuple(below), parent)
                for (rule, values, parent), below in zip(steps, children, strict=True)
            ),
            weight,
        )

    def ground(self, start: str) -> Grammar:
        """The ground grammar that the derivations written so far need."""
        grammar = self.source.grammar
        return Grammar(
            name=grammar.name,
            start=Reference(label=start),
            sizes=grammar.sizes,
            domains=grammar.domains,
            factors=grammar.factors,
            nonterminals=tuple(self.nonterminals.values()),
            rules=tuple(self.rules.values()),
        )


def build(cells: Cells, start: Cell, choose: Callable[[Choices], int]) -> list[tuple[Cell, Choice]]:
    """The choices of a derivation in preorder; `choose` gives a place among a cell's choices."""
    agenda = [start]
    made: list[tuple[Cell, Choice]] = []
    while agenda:
        cell = agenda.pop()
        choices = cells.choices(cell)
        choice = choices.decode(choose(choices))
        made.append((cell, choice))
        agenda += reversed(cells.children(choice))
    return made


def _name(name: str, indices: Sequence[int]) -> str:
    return "_".join([name, *(str(i) if i >= 0 else f"m{-i}" for i in indices)])
