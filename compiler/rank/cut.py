"""Cutting a rule at its rank nodes into components, which are connected by state nodes.

Rank nodes are where a rule can be taken apart: what lies beyond them depends on nothing but their
values. A component that holds the external nodes is one side of such a cut, a nonterminal with
all that touches its nodes another [RS Fig. 4(a): the dashed rectangles].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from fgg.compiler.plan.eliminate import single
from fgg.grammar import Clamp, Edge, Grammar, Rule
from fgg.grammar.domains import lengths
from fgg.grammar.index import Condition, Expr


@dataclass(frozen=True)
class RuleComponent:
    """Connected state nodes of a rule, with the edges and clamps that touch them, by number.

    `ranks` are the rank nodes that it is cut off at, in the order in which they are touched.
    """

    nodes: tuple[str, ...]
    edges: tuple[int, ...]
    clamps: tuple[int, ...]
    ranks: tuple[str, ...]


def is_rank(grammar: Grammar, rule: Rule, node: str) -> bool:
    """Whether a node of a rule is a rank node."""
    return grammar.domain[rule.rhs.by_name[node].domain].rank


class RuleCut:
    """The components of a rule, and their dependencies."""

    def __init__(self, grammar: Grammar, rule: Rule) -> None:
        self.grammar = grammar
        self.rule = rule
        self.known = {*lengths(grammar), *grammar.size}
        self.head = self.names(rule.indices)
        self.conditions = tuple(single(rule.conditions))

    @cached_property
    def components(self) -> tuple[RuleComponent, ...]:
        """All components; an edge that touches rank nodes only is a component of its own."""
        rhs = self.rule.rhs
        above = {n.name: n.name for n in rhs.nodes if not is_rank(self.grammar, self.rule, n.name)}

        def root(node: str) -> str:
            while above[node] != node:
                node = above[node]
            return node

        touched = [[a.node for a in edge.attachments] for edge in rhs.edges]
        for nodes in touched:
            states = [node for node in nodes if node in above]
            for node in states[1:]:
                above[root(node)] = root(states[0])
        members: dict[object, tuple[list[int], list[int]]] = {
            root(n.name): ([], []) for n in rhs.nodes if n.name in above
        }
        for number, nodes in enumerate(touched):
            key: object = next((root(node) for node in nodes if node in above), ("edge", number))
            members.setdefault(key, ([], []))[0].append(number)
        for number, clamp in enumerate(rhs.clamps):
            node = clamp.attachment.node
            key = root(node) if node in above else ("clamp", number)
            members.setdefault(key, ([], []))[1].append(number)
        return tuple(self.component(*touching, key) for key, touching in members.items())

    def component(
        self, edges: Iterable[int], clamps: Iterable[int], alone: object
    ) -> RuleComponent:
        """A component with the given edges and clamps; `alone` is a node that may have neither."""
        numbers, fixed = tuple(edges), tuple(clamps)
        nodes = [a.node for i in numbers for a in self.rule.rhs.edges[i].attachments]
        nodes += [self.rule.rhs.clamps[i].attachment.node for i in fixed]
        nodes += [alone] if isinstance(alone, str) else []
        touched = dict.fromkeys(nodes)
        ranks = [node for node in touched if is_rank(self.grammar, self.rule, node)]
        return RuleComponent(
            tuple(n for n in touched if n not in ranks), numbers, fixed, tuple(ranks)
        )

    def merged(self, parts: Iterable[RuleComponent]) -> RuleComponent:
        """Several components as one."""
        components = list(parts)
        return RuleComponent(
            tuple(dict.fromkeys(n for c in components for n in c.nodes)),
            tuple(sorted(i for c in components for i in c.edges)),
            tuple(sorted(i for c in components for i in c.clamps)),
            tuple(dict.fromkeys(n for c in components for n in c.ranks)),
        )

    def edges(self, part: RuleComponent) -> list[Edge]:
        """The edges of a component."""
        return [self.rule.rhs.edges[i] for i in part.edges]

    def clamps(self, part: RuleComponent) -> list[Clamp]:
        """The clamps of a component."""
        return [self.rule.rhs.clamps[i] for i in part.clamps]

    def nonterminals(self, part: RuleComponent) -> list[int]:
        """The numbers of a component's nonterminal edges."""
        return [i for i in part.edges if self.rule.rhs.edges[i].label in self.grammar.nonterminal]

    def names(self, exprs: Iterable[Expr]) -> set[str]:
        """The index variables in expressions."""
        return {name for expr in exprs for name in expr.names()} - self.known

    def inputs(self, part: RuleComponent) -> set[str]:
        """The index variables that a component's input depends on."""
        indices = [i for c in self.clamps(part) for i in c.indices]
        for edge in self.edges(part):
            if edge.label in self.grammar.input_factor:
                indices += edge.indices
        return self.names(indices)

    def has_input(self, part: RuleComponent) -> bool:
        """Whether a component depends on the input other than through nonterminals."""
        labels = (edge.label for edge in self.edges(part))
        return bool(part.clamps) or any(label in self.grammar.input_factor for label in labels)

    def variables(self, part: RuleComponent) -> set[str]:
        """The index variables in a component."""
        indices = [i for edge in self.edges(part) for i in edge.indices]
        indices += [i for clamp in self.clamps(part) for i in clamp.indices]
        return self.names(indices)

    @cached_property
    def head_values(self) -> dict[str, Expr]:
        """The variables of the rule's head in terms of its family's index names."""
        family = self.grammar.nonterminal[self.rule.lhs]
        return solved(self.rule.indices, family.indices, self.known)

    def at(self, edge: Edge) -> dict[str, Expr]:
        """The variables of a nonterminal edge in terms of its family's index names."""
        family = self.grammar.nonterminal[edge.label]
        return solved(edge.indices, family.indices, self.known)

    def about(self, name: str) -> list[Condition]:
        """The conditions of the rule in which a variable occurs."""
        return [c for c in self.conditions if name in self.names(c.terms)]


def solved(indices: Sequence[Expr], names: Sequence[str], known: Set[str]) -> dict[str, Expr]:
    """Variables in terms of a family's index names, where the family stands at `indices`.

    At `X[i, h+1]` of a family `X[i, j]`, i is i and h is j - 1.
    """
    values: dict[str, Expr] = {}
    for plain in (True, False):
        for index, name in zip(indices, names, strict=True):
            variables = [n for n in index.names() if n not in known]
            if len(variables) != 1 or variables[0] in values:
                continue
            (variable,) = variables
            rest = index - Expr.of(variable)
            if variable not in rest.names() and (not rest.terms or not plain):
                values[variable] = Expr.of(name) - rest
    return values


def wiring(
    edges: Iterable[Edge],
    clamps: Iterable[Clamp],
    fixed: Iterable[str],
    indices: Mapping[str, int | Expr],
) -> tuple[object, dict[str, int]]:
    """A key of how edges and clamps connect nodes, whatever their names, and the nodes' numbers.

    Nodes in `fixed` come first, in their order; `indices` are names to use for index variables.
    """
    numbers = {name: i for i, name in enumerate(dict.fromkeys(fixed))}
    ordered = sorted(
        edges, key=lambda e: (e.label, [numbers.get(a.node, -1) for a in e.attachments])
    )
    wires: list[object] = []
    for edge in ordered:
        nodes = tuple(numbers.setdefault(a.node, len(numbers)) for a in edge.attachments)
        wires.append((edge.label, nodes, tuple(i.substitute(indices) for i in edge.indices)))
    evidence = frozenset(
        (
            numbers.setdefault(c.attachment.node, len(numbers)),
            c.input,
            c.path,
            tuple(i.substitute(indices) for i in c.indices),
        )
        for c in clamps
    )
    return (tuple(wires), evidence), numbers
