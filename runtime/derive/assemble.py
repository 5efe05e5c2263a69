"""Derivations put together from the choices of a search.

Choices of a plan are written as steps of a ground grammar in the user's own terms. Choices of a
ground grammar that was cut into small fragments are joined to steps of the rules that were cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fgg.check.indices import rule_variables
from fgg.grammar import Edge, Fragment, Grammar, Nonterminal, Origin, Reference, Rule
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh
from fgg.grammar.provenance import RuleSource
from fgg.rewrite.factorise import Factorised, factorise
from fgg.runtime.derive.choices import Choice
from fgg.runtime.derive.completed import Observed
from fgg.runtime.derive.derivation import Derivation, Reading, Step
from fgg.runtime.derive.search import Path

LARGE = 2**14
"""Fragments whose inner nodes have more assignments than this are divided."""


def linked_steps(applied: Iterable[tuple[Rule, Mapping[str, int], int]]) -> tuple[Step, ...]:
    """Steps, linked to parents and children.

    `applied` has, in preorder, each rule, the values of its nodes and its number of children.
    """
    unlinked: list[tuple[Rule, Mapping[str, int], int | None]] = []
    children: list[list[int]] = []
    waiting: list[int | None] = [None]
    for number, (rule, values, count) in enumerate(applied):
        parent = waiting.pop()
        if parent is not None:
            children[parent].append(number)
        unlinked.append((rule, values, parent))
        children.append([])
        waiting += [number] * count
    return tuple(
        Step(rule, values, tuple(below), parent)
        for (rule, values, parent), below in zip(unlinked, children, strict=True)
    )


@dataclass(frozen=True)
class FactorUse:
    """An edge of a rule that is labelled with a factor: for each node its name, domain and path."""

    label: str
    nodes: tuple[tuple[str, str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Source:
    """The user's grammar, which the rules of a plan's grammar have as their source.

    With `itself`, the plan's grammar is the user's, and each of its rules is its own source.
    """

    grammar: Grammar
    itself: bool = False

    @staticmethod
    def of(grammar: Grammar) -> Source:
        """A grammar that is its own source."""
        return Source(grammar, itself=True)

    def origin(self, rule: Rule) -> RuleSource:
        """Where a rule of the plan's grammar comes from."""
        if self.itself or rule.source is None:
            return RuleSource.itself(rule)
        return rule.source

    @cached_property
    def rule(self) -> Mapping[str, Rule]:
        """The user's rules by name."""
        return {rule.name: rule for rule in self.grammar.rules}

    @cached_property
    def factor_uses(self) -> Mapping[str, tuple[FactorUse, ...]]:
        """The edges of each of the user's rules that are labelled with factors."""
        return {
            rule.name: tuple(
                _factor_use(edge, rule)
                for edge in rule.rhs.edges
                if edge.label in self.grammar.factor
            )
            for rule in self.grammar.rules
        }

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The places of the user's rules in the grammar."""
        return {rule.name: number for number, rule in enumerate(self.grammar.rules)}

    def of_rule(self, rule: Rule) -> Rule:
        """The user's rule that a rule of the plan comes from."""
        return self.rule[self.origin(rule).rule]

    def key(self, choice: Choice) -> tuple[object, ...]:
        """The key by which the reference engine orders choices: rule, index variables, values."""
        rule = self.of_rule(choice.rule)
        values = self.values(choice)
        inner = tuple(values[n.name] for n in rule.rhs.internals if n.name in values)
        return (self.order[rule.name], tuple(choice.variables.values()), inner)

    def values(self, choice: Choice) -> dict[str, int]:
        """The values of the user's nodes."""
        return self.origin(choice.rule).values(self.grammar, choice.values)


class ItemIndices(Protocol):
    """What is known of the indices and inputs of an item."""

    @property
    def lengths(self) -> Mapping[str, int]:
        """The lengths."""

    @property
    def given(self) -> Mapping[str, NDArray[np.int64]]:
        """The tokens and tables that are given."""

    def evaluate(self, choice: Choice, expr: Expr) -> int:
        """An index expression of a chosen rule."""


class PlanAssembler:
    """Writes choices of a plan as derivations of a ground grammar, as the reference engine does.

    Ground rules and nonterminals are made and named as they are needed.
    """

    def __init__(self, source: Source, choices: ItemIndices) -> None:
        self.source = source
        self.choices = choices
        self.labels: dict[tuple[str, tuple[int, ...]], str] = {}
        self.label_names: set[str] = set()
        self.nonterminals: dict[str, Nonterminal] = {}
        self.rules: dict[tuple[str, tuple[int, ...]], Rule] = {}
        self.readings: dict[str, tuple[Reading, ...]] = {}
        self.rule_names: set[str] = set()
        self.variables: dict[str, Sequence[str]] = {}

    def derivation(self, path: Path, log_weight: float) -> Derivation:
        """The derivation of a search's choices."""
        steps = linked_steps(
            (self.rule(choice, cell.indices), self.source.values(choice), children)
            for cell, choice, children in path
        )
        steps = tuple(replace(step, readings=self.readings[step.rule.name]) for step in steps)
        start = self.label(self.source.grammar.start.label, path[0].cell.indices)
        return Derivation(self.ground(start), steps, log_weight, self.observed)

    @cached_property
    def observed(self) -> Observed:
        """The item that the derivations explain."""
        return Observed(self.source.grammar, self.choices.lengths, self.choices.given)

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
        rule = self.source.of_rule(choice.rule)
        if rule.name not in self.variables:
            lengths = set(self.choices.lengths)
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
                    rule=rule.origin_or_self.rule,
                    values=tuple(variables.items()),
                ),
                span=rule.span,
                head_span=rule.head_span,
            )
            self.readings[name] = tuple(self.read(rule, choice))
        return self.rules[key]

    def read(self, rule: Rule, choice: Choice) -> Iterator[Reading]:
        """What an instance of a rule reads from inputs."""
        for clamp in rule.rhs.clamps:
            position = tuple(self.choices.evaluate(choice, index) for index in clamp.indices)
            yield Reading(clamp.input, position, clamp.attachment, clamp.path)
        for edge in rule.rhs.edges:
            if edge.label in self.source.grammar.input_factor:
                position = tuple(self.choices.evaluate(choice, index) for index in edge.indices)
                yield Reading(edge.label, position)

    def edge(self, edge: Edge, choice: Choice) -> Edge:
        """An edge with its indices written out."""
        indices = tuple(self.choices.evaluate(choice, index) for index in edge.indices)
        label = edge.label
        if label in self.source.grammar.nonterminal:
            label = self.label(label, indices)
        elif indices:
            label = _name(label, indices)
        return Edge(label=label, attachments=edge.attachments, span=edge.span)

    def ground(self, start: str) -> Grammar:
        """The ground grammar of the derivations written so far."""
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


def _factor_use(edge: Edge, rule: Rule) -> FactorUse:
    nodes = rule.rhs.by_name
    return FactorUse(
        edge.label, tuple((a.node, nodes[a.node].domain, a.path) for a in edge.attachments)
    )


def _name(name: str, indices: Sequence[int]) -> str:
    return "_".join([name, *(str(i) if i >= 0 else f"m{-i}" for i in indices)])


def small_fragments(grammar: Grammar) -> Factorised:
    """The grammar, cut into small fragments if some have very many assignments."""
    for rule in grammar.rules:
        count = prod(domain_size(grammar, node.domain) for node in rule.rhs.internals)
        if count > LARGE:
            return factorise(grammar)
    return Factorised(grammar, {})


def ground_derivation(
    path: Path, log_weight: float, factorised: Factorised, grammar: Grammar
) -> Derivation:
    """The derivation, in terms of `grammar`, of choices of its `small_fragments`."""
    steps = linked_steps((choice.rule, choice.values, children) for _, choice, children in path)
    if factorised.grammar is not grammar:
        steps = linked_steps(_joined(steps, factorised))
    return Derivation(grammar, steps, log_weight)


def _joined(
    steps: Sequence[Step], factorised: Factorised
) -> Iterator[tuple[Rule, Mapping[str, int], int]]:
    """The rules that were cut, in preorder, with the values of all their parts' nodes."""
    agenda = [0]
    while agenda:
        first = agenda.pop()
        values: dict[str, int] = {}
        below: list[tuple[int, int]] = []  # (place among the source's edges, step)
        parts = [first]
        while parts:
            step = steps[parts.pop()]
            part = factorised.parts[step.rule.name]
            values.update(step.values)
            places = [
                place
                for place, edge in zip(part.edges, step.rule.rhs.edges, strict=True)
                if edge.label in factorised.grammar.nonterminal
            ]
            for place, child in zip(places, step.children, strict=True):
                if place is None:
                    parts.append(child)
                else:
                    below.append((place, child))
        yield factorised.parts[steps[first].rule.name].source, values, len(below)
        agenda += [child for _, child in sorted(below, reverse=True)]
