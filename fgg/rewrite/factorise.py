"""Factorisation: fragments of many nodes cut into small ones along a tree decomposition.

Summing or maximising over a fragment costs as much as all assignments of its nodes together. A
tree decomposition of the fragment gives bags of few nodes; each bag becomes a rule of its own, and
the cost that of the largest bag [CR §5.1].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from fgg.diagnostics import refuse
from fgg.grammar import Attachment, Edge, Fragment, Grammar, Nonterminal, Rule
from fgg.grammar.names import fresh


@dataclass(frozen=True)
class RulePart:
    """Where a rule of the factorised grammar comes from.

    `source` is the rule that was cut. `edges` gives, for each edge of the part, its place among
    the source's edges, or None for an edge that leads to another part.
    """

    source: Rule
    edges: tuple[int | None, ...]
    root: bool


@dataclass(frozen=True)
class Factorised:
    """A grammar of small fragments, and the rules they come from."""

    grammar: Grammar
    parts: Mapping[str, RulePart]


def factorise(grammar: Grammar) -> Factorised:
    """The grammar with every fragment cut into the bags of a tree decomposition.

    Requires a grammar without indices. Guarantees the same value and the same derivations, up to
    the cutting; a grammar whose fragments are bags already comes back as it is.
    """
    if grammar.is_indexed:
        refuse("F303", f"grammar `{grammar.name}` has indices or inputs")
    cutter = _Cutter(grammar)
    for rule in grammar.rules:
        cutter.cut(rule)
    if len(cutter.rules) == len(grammar.rules):
        return Factorised(grammar, cutter.parts)
    cut = replace(
        grammar,
        rules=tuple(cutter.rules),
        nonterminals=(*grammar.nonterminals, *cutter.nonterminals),
    )
    return Factorised(cut, cutter.parts)


class _Cutter:
    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.rules: list[Rule] = []
        self.nonterminals: list[Nonterminal] = []
        self.parts: dict[str, RulePart] = {}
        self.labels = {*grammar.factor, *grammar.nonterminal}
        self.names = {rule.name for rule in grammar.rules}

    def cut(self, rule: Rule) -> None:
        """Add the parts of a rule."""
        bags = tree_decomposition(rule.rhs) if len(rule.rhs.nodes) > 2 else None
        if bags is None or len(bags) == 1:
            self.rules.append(rule)
            self.parts[rule.name] = RulePart(rule, tuple(range(len(rule.rhs.edges))), True)
            return
        home = self._homes(rule, bags)
        labels = [rule.lhs]
        separators: list[tuple[str, ...]] = [rule.rhs.externals]
        for bag in bags[1:]:
            shared = bags[bag.parent].nodes
            separator = tuple(n.name for n in rule.rhs.nodes if n.name in bag.nodes & shared)
            label = fresh(f"{rule.name}_part", self.labels)
            self.labels.add(label)
            domains = tuple(rule.rhs.by_name[name].domain for name in separator)
            self.nonterminals.append(Nonterminal(name=label, domains=domains, span=rule.span))
            labels.append(label)
            separators.append(separator)
        for number, bag in enumerate(bags):
            here = [i for i, place in enumerate(home) if place == number]
            below = [i for i, other in enumerate(bags) if i and other.parent == number]
            edges = [rule.rhs.edges[i] for i in here]
            edges += [
                Edge(
                    label=labels[i],
                    attachments=tuple(Attachment(node=name) for name in separators[i]),
                )
                for i in below
            ]
            nodes = tuple(n for n in rule.rhs.nodes if n.name in bag.nodes)
            name = rule.name if number == 0 else fresh(f"{rule.name}_part", self.names)
            self.names.add(name)
            self.rules.append(
                replace(
                    rule,
                    name=name,
                    lhs=labels[number],
                    rhs=Fragment.make(nodes, tuple(edges), (), separators[number]),
                )
            )
            self.parts[name] = RulePart(rule, (*here, *(None for _ in below)), number == 0)

    @staticmethod
    def _homes(rule: Rule, bags: list[Bag]) -> list[int]:
        """For each edge the first bag that has all its nodes."""
        return [
            next(
                i
                for i, bag in enumerate(bags)
                if bag.nodes.issuperset(a.node for a in e.attachments)
            )
            for e in rule.rhs.edges
        ]


@dataclass(frozen=True)
class Bag:
    """A bag of a tree decomposition; the first has the external nodes and is its own parent."""

    nodes: frozenset[str]
    parent: int


def tree_decomposition(fragment: Fragment) -> list[Bag]:
    """The bags of a decomposition of small width, each after its parent (min-fill heuristic)."""
    import networkx as nx
    from networkx.algorithms.approximation import treewidth_min_fill_in

    graph = nx.Graph()
    graph.add_nodes_from(node.name for node in fragment.nodes)
    cliques = [tuple(dict.fromkeys(a.node for a in e.attachments)) for e in fragment.edges]
    cliques.append(tuple(dict.fromkeys(fragment.externals)))
    for clique in cliques:
        graph.add_edges_from((a, b) for i, a in enumerate(clique) for b in clique[:i])
    # The pieces of a disconnected fragment are tied together, which costs no width.
    pieces = [min(piece) for piece in nx.connected_components(graph)]
    graph.add_edges_from(pairwise(pieces))
    _, tree = treewidth_min_fill_in(graph)
    externals = frozenset(fragment.externals)
    ordered = sorted(tree.nodes, key=lambda bag: (not bag >= externals, sorted(bag)))
    number = {ordered[0]: 0}
    bags = [Bag(frozenset(ordered[0]), 0)]
    for parent, child in nx.bfs_edges(
        tree, ordered[0], sort_neighbors=lambda b: sorted(b, key=sorted)
    ):
        number[child] = len(bags)
        bags.append(Bag(frozenset(child), number[parent]))
    return bags
