"""Hypothesis strategies that make grammars: of any kind, and small ones that can be enumerated.

`grammars()` are plain factor graph grammars with everything the language has except families and
queries; `indexed_grammars()` have those; `finite_grammars()` have few derivations, few values and
a weight for everything, so that their value can be found by enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fgg.grammar import (
    Attachment,
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Node,
    Nonterminal,
    Product,
    Reference,
    Rule,
    Union,
)
from fgg.grammar.domains import domain_size
from tests.generators.families import indexed_grammars
from tests.generators.values import Namer, domains, factor, names, sizes, small_weights, weights

__all__ = ["any_grammars", "finite_grammars", "grammars", "indexed_grammars", "names"]


def any_grammars() -> SearchStrategy[Grammar]:
    """Grammars of all kinds."""
    return st.one_of(grammars(), indexed_grammars(), finite_grammars())


@dataclass
class Sketch:
    """A fragment under construction."""

    draw: DrawFn
    grammar: Grammar
    namer: Namer
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    max_nodes: int = 6

    def add_node(self, domain: str) -> Node:
        """A new node of the fragment."""
        node = Node(name=self.namer("u", "node"), domain=domain)
        self.nodes.append(node)
        return node

    def touch(self, domain: str) -> Attachment:
        """An attachment for a place that wants a domain: an old node, a part of one, a new node."""
        places = [
            Attachment(node=node.name, path=path)
            for node in self.nodes
            for path in paths(self.grammar, node.domain, domain)
        ]
        fresh = len(self.nodes) < self.max_nodes and self.draw(st.booleans())
        if places and not fresh:
            return self.draw(st.sampled_from(places))
        owners = [d.name for d in self.grammar.domains if paths(self.grammar, d.name, domain)]
        owner = self.draw(st.sampled_from(owners))
        path = self.draw(st.sampled_from(paths(self.grammar, owner, domain)))
        return Attachment(node=self.add_node(owner).name, path=path)

    def add_edge(self, label: Factor | Nonterminal) -> None:
        """An edge with the given label."""
        attachments = tuple(self.touch(domain) for domain in label.domains)
        self.edges.append(Edge(label=label.name, attachments=attachments))

    def externals(self, signature: Sequence[str]) -> tuple[str, ...]:
        """External nodes for a head, now and then the same one twice."""
        found: list[str] = []
        for domain in signature:
            same = [node.name for node in self.nodes if node.domain == domain]
            if same and self.draw(st.integers(0, 3)) == 0:
                found.append(self.draw(st.sampled_from(same)))
            else:
                found.append(self.add_node(domain).name)
        return tuple(found)


def paths(grammar: Grammar, domain: str, wanted: str) -> list[tuple[str, ...]]:
    """All paths from a domain to one of its parts, itself included."""
    found: list[tuple[str, ...]] = [()] if domain == wanted else []
    shape = grammar.domain[domain].shape
    if isinstance(shape, Union | Product):
        for part in shape.parts:
            found += [(part, *path) for path in paths(grammar, part, wanted)]
    return found


def fragment(
    draw: DrawFn,
    grammar: Grammar,
    signature: Sequence[str],
    labels: Sequence[Factor | Nonterminal],
    *,
    max_edges: int = 4,
    max_nodes: int = 6,
) -> Fragment:
    """A fragment with external nodes of the given domains and edges among the given labels."""
    sketch = Sketch(draw, grammar, Namer(draw), max_nodes=max_nodes)
    externals = sketch.externals(signature)
    count = draw(st.sampled_from((0, 1, 2, 2, 3, 3, max_edges))) if labels else 0
    for _ in range(count):
        sketch.add_edge(draw(st.sampled_from(labels)))
    if len(sketch.nodes) < max_nodes and draw(st.integers(0, 3)) == 0:
        sketch.add_node(draw(st.sampled_from(grammar.domains)).name)
    return Fragment.make(tuple(sketch.nodes), tuple(sketch.edges), (), externals)


@st.composite
def grammars(draw: DrawFn) -> Grammar:
    """Plain grammars of every shape: recursive, useless, cyclic, whatever is valid."""
    namer = Namer(draw)
    known = sizes(draw, namer)
    base = Grammar(
        start=Reference(label=""), sizes=known, domains=domains(draw, namer, known, limit=8)
    )
    factors = tuple(
        factor(draw, namer("f", "label"), base, weight=weights())
        for _ in range(draw(st.sampled_from((1, 2, 3, 4, 0))))
    )
    nonterminals = some_nonterminals(draw, namer, base.domains, draw(st.integers(1, 4)))
    rules = []
    for nonterminal in nonterminals:
        for _ in range(draw(st.sampled_from((1, 2, 2, 3, 0)))):
            rhs = fragment(draw, base, nonterminal.domains, (*factors, *nonterminals))
            rules.append(Rule(name=namer("r", "rule"), lhs=nonterminal.name, rhs=rhs))
    return Grammar(
        start=Reference(label=nonterminals[0].name),
        sizes=known,
        domains=base.domains,
        factors=factors,
        nonterminals=nonterminals,
        rules=tuple(draw(st.permutations(rules))),
    )


def some_nonterminals(
    draw: DrawFn, namer: Namer, known: Sequence[Domain], count: int
) -> tuple[Nonterminal, ...]:
    """Nonterminals, the first without nodes, so that it can be the start symbol."""
    choices = st.sampled_from([d.name for d in known])
    found = [Nonterminal(name=namer("S", "label"))]
    for _ in range(count - 1):
        signature = tuple(draw(choices) for _ in range(draw(st.sampled_from((1, 2, 0, 3)))))
        found.append(Nonterminal(name=namer("X", "label"), domains=signature))
    return tuple(found)


MAX_DERIVATIONS = 24
MAX_ASSIGNMENTS = 2000


@st.composite
def finite_grammars(draw: DrawFn) -> Grammar:
    """Grammars without recursion, whose factors all have values, small enough to enumerate.

    Domains have at most 4 values; there are at most `MAX_DERIVATIONS` derivations a rule, each
    with at most `MAX_ASSIGNMENTS` assignments of values to internal nodes.
    """
    namer = Namer(draw)
    known = sizes(draw, namer)
    base = Grammar(
        start=Reference(label=""), sizes=known, domains=domains(draw, namer, known, limit=4)
    )
    factors = tuple(
        factor(draw, namer("f", "label"), base, weight=small_weights(), valued=True)
        for _ in range(draw(st.sampled_from((1, 2, 3))))
    )
    nonterminals = some_nonterminals(draw, namer, base.domains, draw(st.sampled_from((1, 2, 3, 3))))
    costs: dict[str, tuple[int, int]] = {}
    rules: list[Rule] = []
    for position, nonterminal in reversed([*enumerate(nonterminals)]):
        labels: list[Factor | Nonterminal] = [*factors]
        labels += nonterminals[position + 1 :] * 2  # likelier, so that there is depth
        found = [(0, 0)]
        for _ in range(draw(st.sampled_from((1, 2, 2)))):
            rhs = fragment(draw, base, nonterminal.domains, labels, max_nodes=4)
            rhs, cost = _affordable(base, rhs, costs)
            rules.append(Rule(name=namer("r", "rule"), lhs=nonterminal.name, rhs=rhs))
            found.append(cost)
        costs[nonterminal.name] = (sum(d for d, _ in found), max(a for _, a in found))
    return Grammar(
        start=Reference(label=nonterminals[0].name),
        sizes=known,
        domains=base.domains,
        factors=factors,
        nonterminals=nonterminals,
        rules=tuple(reversed(rules)),
    )


def _affordable(
    grammar: Grammar, rhs: Fragment, costs: Mapping[str, tuple[int, int]]
) -> tuple[Fragment, tuple[int, int]]:
    """The fragment without the nonterminal edges that make it too costly, and what is left.

    A cost is the number of derivations and the number of assignments of the largest of them.
    """
    derivations = 1
    assignments = prod(domain_size(grammar, node.domain) for node in rhs.internals)
    kept = []
    for edge in rhs.edges:
        more, larger = costs.get(edge.label, (1, 1))
        if derivations * more > MAX_DERIVATIONS or assignments * larger > MAX_ASSIGNMENTS:
            continue
        derivations *= more
        assignments *= larger
        kept.append(edge)
    return Fragment.make(rhs.nodes, tuple(kept), rhs.clamps, rhs.externals), (
        derivations,
        assignments,
    )
