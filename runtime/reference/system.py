"""A finite grammar as a system of equations [RS eq. 3-4], in an order in which to solve it.

Each rule is a term: a contraction of factors and nonterminals. Terms of one shape that belong to
one level are kept together, so that they run as one batched contraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from fgg.diagnostics import refuse
from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import domain_size
from fgg.grammar.memo import per_grammar
from fgg.runtime.interpret.semirings import Letters

BATCH = -1
"""The letter of the batch axis."""


@dataclass(frozen=True, slots=True)
class TermOperand:
    """An edge of a term: its label, the paths to the parts of nodes it touches, and its letters."""

    label: str
    paths: tuple[tuple[str, ...], ...]
    letters: Letters
    nonterminal: bool


@dataclass(frozen=True)
class Term:
    """A rule as a contraction; letters number the nodes of its fragment."""

    rule: Rule
    operands: tuple[TermOperand, ...]
    out: Letters
    sizes: tuple[int, ...]

    @property
    def head(self) -> str:
        """The nonterminal that the term adds to."""
        return self.rule.lhs

    @cached_property
    def children(self) -> tuple[str, ...]:
        """The nonterminals that the term needs, in order."""
        return tuple(o.label for o in self.operands if o.nonterminal)

    @cached_property
    def shape_key(self) -> tuple[object, ...]:
        """Terms with the same key are contracted together: only nonterminals and evidence differ.

        Factors of one node differ from term to term in ground grammars (they say what is observed
        where) and are small, so they are stacked; larger ones must be the same.
        """
        operands = tuple(
            (
                o.nonterminal,
                o.letters,
                o.paths,
                None if o.nonterminal or len(o.letters) <= 1 else o.label,
                # What a path leads to depends on the domain it begins at.
                tuple(self.rule.rhs.nodes[a].domain for a in o.letters) if any(o.paths) else None,
            )
            for o in self.operands
        )
        return (operands, self.out, self.sizes)


@dataclass(frozen=True)
class Component:
    """Nonterminals that depend on each other, or a single one."""

    nonterminals: tuple[str, ...]
    recursive: bool
    linear: bool


@dataclass(frozen=True)
class Level:
    """Components that do not depend on each other, with the levels below them done."""

    components: tuple[Component, ...]

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """The nonterminals that do not depend on themselves."""
        return tuple(c.nonterminals[0] for c in self.components if not c.recursive)


class System:
    """The terms, components and levels of a finite grammar."""

    def __init__(self, grammar: Grammar) -> None:
        if grammar.is_indexed:
            refuse(
                "F303",
                f"`{grammar.name}` has indices or inputs",
                "choose a query and give its inputs or lengths",
            )
        self.grammar = grammar
        self.terms_of: dict[str, list[Term]] = {x.name: [] for x in grammar.nonterminals}
        extents = {d.name: domain_size(grammar, d.name) for d in grammar.domains}
        for rule in grammar.rules:
            self.terms_of[rule.lhs].append(_term(grammar, rule, extents))
        self.shapes: Mapping[str, tuple[int, ...]] = {
            x.name: tuple(extents[d] for d in x.domains) for x in grammar.nonterminals
        }
        self.levels = _levels(grammar, self.terms_of)

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """All components, each after those it depends on."""
        return tuple(c for level in self.levels for c in level.components)

    @cached_property
    def component_of(self) -> Mapping[str, int]:
        """The number of the component that each nonterminal is in."""
        return {
            name: number
            for number, component in enumerate(self.components)
            for name in component.nonterminals
        }

    def cells(self, name: str) -> int:
        """The number of entries of a nonterminal's value."""
        return prod(self.shapes[name])


@per_grammar
def system_of(grammar: Grammar) -> System:
    """The system of a grammar, made once."""
    return System(grammar)


def _term(grammar: Grammar, rule: Rule, extents: Mapping[str, int]) -> Term:
    nonterminals = grammar.nonterminal
    numbers = {node.name: i for i, node in enumerate(rule.rhs.nodes)}
    operands = []
    for edge in rule.rhs.edges:
        letters = tuple([numbers[a.node] for a in edge.attachments])
        paths = tuple([a.path for a in edge.attachments])
        operands.append(TermOperand(edge.label, paths, letters, edge.label in nonterminals))
    out = tuple([numbers[name] for name in rule.rhs.externals])
    sizes = tuple([extents[node.domain] for node in rule.rhs.nodes])
    return Term(rule, tuple(operands), out, sizes)


def _levels(grammar: Grammar, terms_of: Mapping[str, Iterable[Term]]) -> tuple[Level, ...]:
    """The components in levels: a level depends on earlier ones only."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(terms_of)
    graph.add_edges_from(
        {(head, child) for head, terms in terms_of.items() for t in terms for child in t.children}
    )
    position = {name: i for i, name in enumerate(terms_of)}
    level_of: dict[str, int] = {}
    levels: list[list[Component]] = []
    # networkx gives components in reverse topological order: what is needed comes first.
    for names in nx.strongly_connected_components(graph):
        ordered = tuple(sorted(names, key=position.__getitem__))
        inside = set(ordered)
        terms = [t for name in ordered for t in terms_of[name]]
        uses = [sum(child in inside for child in t.children) for t in terms]
        below = [level_of[c] for t in terms for c in t.children if c not in inside]
        level = 1 + max(below, default=-1)
        level_of.update(dict.fromkeys(ordered, level))
        while len(levels) <= level:
            levels.append([])
        levels[level].append(Component(ordered, any(uses), max(uses, default=0) <= 1))
    for components in levels:
        components.sort(key=lambda c: position[c.nonterminals[0]])
    return tuple(Level(tuple(components)) for components in levels)
