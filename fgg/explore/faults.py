"""Faults to plant behind a pass of the compiler, so that a proof can be seen to fail.

Each fault is a mistake that a pass could make with any grammar. It has places where it can be made,
and changes one rule of the grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

from fgg.compiler.driver import PIPELINES, Expected, Pass
from fgg.diagnostics import refuse
from fgg.grammar import Edge, Grammar, Rule


class Mistake(NamedTuple):
    """A rule, and what stands in its place."""

    rule: str
    instead: tuple[Rule, ...]


def _drop_rule(grammar: Grammar, rule: Rule) -> Iterator[Mistake]:
    yield Mistake(rule.name, ())


def _repeat_rule(grammar: Grammar, rule: Rule) -> Iterator[Mistake]:
    taken = {other.name for other in grammar.rules}
    name = next(
        f"{rule.name}_{n}" for n in range(2, len(taken) + 3) if f"{rule.name}_{n}" not in taken
    )
    yield Mistake(rule.name, (rule, replace(rule, name=name)))


def _drop_factor(grammar: Grammar, rule: Rule) -> Iterator[Mistake]:
    for number, edge in enumerate(rule.rhs.edges):
        if edge.label not in grammar.nonterminal:
            yield _with_edge(rule, number, None)


def _swap_ends(grammar: Grammar, rule: Rule) -> Iterator[Mistake]:
    domain = {node.name: node.domain for node in rule.rhs.nodes}
    for number, edge in enumerate(rule.rhs.edges):
        ends = edge.attachments
        for one in range(len(ends)):
            for two in range(one + 1, len(ends)):
                same = domain.get(ends[one].node) == domain.get(ends[two].node)
                if same and ends[one].path == ends[two].path and ends[one] != ends[two]:
                    order = list(ends)
                    order[one], order[two] = ends[two], ends[one]
                    yield _with_edge(rule, number, replace(edge, attachments=tuple(order)))


def _shift_index(grammar: Grammar, rule: Rule) -> Iterator[Mistake]:
    for number, edge in enumerate(rule.rhs.edges):
        if edge.label in grammar.nonterminal:
            for place, expr in enumerate(edge.indices):
                moved = (*edge.indices[:place], expr + 1, *edge.indices[place + 1 :])
                yield _with_edge(rule, number, replace(edge, indices=moved))


def _with_edge(rule: Rule, number: int, edge: Edge | None) -> Mistake:
    edges = list(rule.rhs.edges)
    edges[number : number + 1] = [] if edge is None else [edge]
    return Mistake(rule.name, (replace(rule, rhs=replace(rule.rhs, edges=tuple(edges))),))


@dataclass(frozen=True)
class Fault:
    """A kind of mistake: what it is, and all ways to make it with a rule."""

    title: str
    mistakes: Callable[[Grammar, Rule], Iterator[Mistake]]

    def all(self, grammar: Grammar) -> list[Mistake]:
        """All ways to make it with a grammar."""
        return [mistake for rule in grammar.rules for mistake in self.mistakes(grammar, rule)]


FAULTS: Mapping[str, Fault] = {
    "drop_rule": Fault("a rule is lost", _drop_rule),
    "repeat_rule": Fault("a rule is there twice", _repeat_rule),
    "drop_factor": Fault("a factor of a rule is lost", _drop_factor),
    "swap_ends": Fault("two ends of an edge are swapped", _swap_ends),
    "shift_index": Fault("an index of a nonterminal is off by one", _shift_index),
}


@dataclass
class Planted:
    """A fault behind a pass of a space, at one of its places; `made` once the pass has run."""

    fault: Fault
    name: str
    space: str
    place: int
    places: int | None = None
    made: tuple[Grammar, Mistake] | None = None

    def pipelines(self) -> Mapping[str, tuple[Pass, ...]]:
        """The passes of the space with the fault in them."""
        if self.name not in {item.name for item in PIPELINES[self.space]}:
            refuse("F415", f"there is no pass `{self.name}` in the space `{self.space}`")
        passes = (self._wrong(p) if p.name == self.name else p for p in PIPELINES[self.space])
        return {self.space: tuple(passes)}

    def _wrong(self, item: Pass) -> Pass:
        def run(grammar: Grammar, expected: Expected) -> Grammar:
            return self.planted(item.run(grammar, expected))

        return Pass(item.name, run)

    def refuse(self) -> NoReturn:
        """Refuse the fault: the grammar has no place for it."""
        message = f"after `{self.name}` there is no place for this fault: {self.fault.title}"
        refuse("F415", message, "plant another one, or behind another pass")

    def planted(self, grammar: Grammar) -> Grammar:
        """A grammar with the fault. Raises GrammarError (F415) if it has no place for it."""
        mistakes = self.fault.all(grammar)
        self.places = len(mistakes)
        if not mistakes:
            self.refuse()
        mistake = mistakes[self.place % len(mistakes)]
        self.made = grammar, mistake
        rules: list[Rule] = []
        for rule in grammar.rules:
            rules += mistake.instead if rule.name == mistake.rule else [rule]
        return replace(grammar, rules=tuple(rules))
