"""The rules of a ground grammar as pieces of directed trees: what generates which node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fgg.diagnostics import refuse
from fgg.grammar import Grammar, Rule
from fgg.grammar.definitions import InputEvidence
from fgg.rewrite.ground import ground

MAX_RULES = 20_000
"""More ground rules than this make no backbones in a time that anybody would wait."""


@dataclass(frozen=True)
class Template:
    """The part of the tree that a rule adds: nodes by number, the external ones first.

    `arcs` go from a node to one that it generates, with the factor's name; `roots` are nodes that
    a factor of one node generates; `children` are the nodes of each nonterminal edge.
    """

    external: int
    nodes: int
    arcs: tuple[tuple[int, int, str], ...]
    roots: tuple[tuple[int, str], ...]
    children: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Instance:
    """A ground rule: its template, the cells it needs, and the positions that it observes."""

    template: Template
    cells: tuple[str, ...]
    observed: tuple[tuple[int, int], ...]  # (node, position)


@dataclass(frozen=True)
class Topologies:
    """The ground rules of each cell for one length, and the positions that each cell covers."""

    length: int
    start: str
    instances: Mapping[str, tuple[Instance, ...]]
    positions: Mapping[str, frozenset[int]]


def only_input(grammar: Grammar) -> tuple[str, str]:
    """The names of the input and of its length. Raises GrammarError if there is not just one."""
    if len(grammar.inputs) == 1 and not grammar.input_factors and not grammar.tables:
        (item,) = grammar.inputs
        names = [name for expr in item.shape for name in expr.names()]
        if len(item.shape) == 1 and len(names) == 1 and names[0] not in grammar.size:
            return item.name, names[0]
    refuse("F460", f"`{grammar.name}` has no query with one string of words as its input")


def topologies(grammar: Grammar, length: int) -> Topologies:
    """The derivations of a grammar joined with its query as trees of nodes, for one length.

    Raises GrammarError (F460) where they are none: each factor must be a distribution of one node,
    given one other or none, each node must be generated once, and each word observed once.
    """
    name, size = only_input(grammar)
    flat = ground(grammar, lengths={size: length}, limit=MAX_RULES)
    places = _evidence(flat, name, length)
    instances: dict[str, list[Instance]] = {}
    for rule in flat.rules:
        instances.setdefault(rule.lhs, []).append(_instance(grammar, flat, rule, places))
    by_cell = {cell: tuple(each) for cell, each in instances.items()}
    start = flat.start.label
    positions: dict[str, frozenset[int]] = {}
    _cover(grammar, by_cell, start, positions, set())
    if positions.get(start) != frozenset(range(length)):
        refuse("F460", f"`{grammar.name}`: sentences of {length} words have no derivations")
    return Topologies(length, start, by_cell, positions)


def _evidence(flat: Grammar, name: str, length: int) -> dict[str, int]:
    """The position that each factor of evidence is about."""
    positions = {}
    for factor in flat.factors:
        evidence = factor.definition
        match = re.fullmatch(rf"{re.escape(name)}_(\d+)(_\d+)?", factor.name)
        if evidence == InputEvidence(name) and match is not None and int(match.group(1)) < length:
            positions[factor.name] = int(match.group(1))
        elif isinstance(evidence, InputEvidence):
            refuse("F460", f"a part of `{name}` is observed, not the whole word")
    return positions


def _instance(grammar: Grammar, flat: Grammar, rule: Rule, places: Mapping[str, int]) -> Instance:
    externals = list(dict.fromkeys(rule.rhs.externals))
    names = externals + [n.name for n in rule.rhs.nodes if n.name not in externals]
    number = {node: i for i, node in enumerate(names)}
    where = f"rule `{rule.origin_or_self.rule}`"
    if len(externals) < len(rule.rhs.externals):
        refuse("F460", f"{where}: two external nodes are the same")
    arcs, roots, children, cells, observed = [], [], [], [], []
    for edge in rule.rhs.edges:
        if any(a.path for a in edge.attachments):
            refuse("F460", f"{where}: `{edge.label}` touches a part of a node")
        nodes = tuple(number[a.node] for a in edge.attachments)
        if edge.label in flat.nonterminal:
            cells.append(edge.label)
            children.append(nodes)
        elif edge.label in places:
            observed.append((nodes[0], places[edge.label]))
        else:
            given = flat.factor[edge.label].given
            if given == 1 and len(nodes) == 2 and nodes[0] != nodes[1]:
                arcs.append((nodes[0], nodes[1], edge.label))
            elif given == 0 and len(nodes) == 1:
                roots.append((nodes[0], edge.label))
            else:
                refuse(
                    "F460",
                    f"{where}: `{edge.label}` is not a distribution of one node given one other",
                    "unmixing is for trees of nodes, each drawn given its parent alone: "
                    "`factor child(N -> N)`",
                )
    template = Template(len(externals), len(names), tuple(arcs), tuple(roots), tuple(children))
    return Instance(template, tuple(cells), tuple(observed))


def _cover(
    grammar: Grammar,
    instances: Mapping[str, tuple[Instance, ...]],
    cell: str,
    known: dict[str, frozenset[int]],
    open: set[str],
) -> frozenset[int]:
    """The positions that the derivations of a cell observe: the same ones in all of them."""
    if cell in known:
        return known[cell]
    if cell in open:
        refuse("F460", f"`{grammar.name}`: a sentence has infinitely many derivations")
    sets = set()
    for instance in instances.get(cell, ()):
        each = [frozenset([position]) for _, position in instance.observed]
        each += [_cover(grammar, instances, c, known, open | {cell}) for c in instance.cells]
        whole: frozenset[int] = frozenset().union(*each)
        if len(whole) < sum(map(len, each)):
            refuse("F460", f"`{grammar.name}`: a word is observed twice")
        sets.add(whole)
    if len(sets) > 1:
        refuse("F460", f"`{grammar.name}`: derivations of `{cell}` observe different words")
    known[cell] = sets.pop() if sets else frozenset()
    return known[cell]
