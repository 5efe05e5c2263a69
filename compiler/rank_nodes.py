"""Which nonterminals can go from states to ranks, and what stands in the way of the others.

A rule of a family meets its external state node *below* a rank node if all that touches the node
are parameters that lead to one rank node, `X(a) -> U(a, q) …`; a rule without nonterminals is a
*leaf*. If every rule of a family is one or the other, the family's values are a product with U (or
those of a leaf), and its state node can be summed wherever parameters alone touch it besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fgg.grammar import Edge, Grammar, Product, Rule, Union

MAX_OPTIONS = 64
"""How many rules one rule may become by writing out what its nonterminals are."""


class NotRankSpace(Exception):
    """A rule and a node of it that keep a grammar out of rank space, and the reason."""

    def __init__(self, rule: str, node: str | None, reason: str) -> None:
        where = f"rule `{rule}`" + (f", node `{node}`" if node is not None else "")
        super().__init__(f"{where}: {reason}")
        self.rule = rule
        self.node = node
        self.reason = reason


@dataclass(frozen=True)
class Below:
    """A rule whose external node leads through parameters to a rank node."""

    state: str
    rank: str
    edges: tuple[Edge, ...]


@dataclass(frozen=True)
class Leaf:
    """A rule without nonterminals."""

    state: str


@dataclass(frozen=True)
class Use:
    """A nonterminal edge whose state node can be summed.

    `edges` are the parameters that touch the node besides; `rank` is the one node that they lead
    to, if it is one and a rank node. `dense`: they lead to state nodes only.
    """

    edge: Edge
    state: str
    edges: tuple[Edge, ...]
    rank: str | None
    dense: bool


def state_uses(grammar: Grammar) -> Iterator[tuple[Rule, Edge, str]]:
    """Where nonterminal edges touch state nodes."""
    for rule in grammar.rules:
        for edge in rule.rhs.edges:
            if edge.label in grammar.nonterminal:
                for attachment in edge.attachments:
                    if not is_rank(grammar, rule, attachment.node):
                        yield rule, edge, attachment.node


def is_rank(grammar: Grammar, rule: Rule, node: str) -> bool:
    """Whether a node of a rule is a rank node."""
    return grammar.domain[rule.rhs.by_name[node].domain].rank


def family(grammar: Grammar, name: str) -> dict[str, Below | Leaf] | NotRankSpace:
    """What each rule of a nonterminal is, or why one of them is neither."""
    rules = grammar.rules_of.get(name, ())
    found: dict[str, Below | Leaf] = {}
    for rule in rules:
        kind = _kind(grammar, rule)
        if isinstance(kind, NotRankSpace):
            return kind
        found[rule.name] = kind
    return found


def _kind(grammar: Grammar, rule: Rule) -> Below | Leaf | NotRankSpace:
    externals = rule.rhs.externals
    if len(externals) != 1:
        count = len(externals) or "no"
        nodes = "node" if len(externals) == 1 else "nodes"
        return NotRankSpace(rule.name, None, f"it has {count} external {nodes}, not one")
    (state,) = externals
    domain = grammar.domain[rule.rhs.by_name[state].domain]
    if domain.rank:
        return NotRankSpace(rule.name, state, "it is a rank node already")
    if isinstance(domain.shape, Union | Product):
        return NotRankSpace(rule.name, state, f"`{domain.name}` is not atomic: split it first")
    edges = touching(rule, state)
    used = [e.label for e in rule.rhs.edges if e.label in grammar.nonterminal]
    reason = _leads(grammar, rule, state, edges)
    if not reason:
        others = _others(edges, state)
        ranks = [node for node in others if is_rank(grammar, rule, node)]
        if len(others) == len(ranks) == 1:
            return Below(state, ranks[0], edges)
        if not ranks:
            reason = "no factor leads from the external node to a rank node"
        elif len(ranks) > 1:
            reason = f"factors lead from the external node to {len(ranks)} rank nodes"
        else:
            node = next(node for node in others if node not in ranks)
            reason = f"a factor leads from the external node to the state node `{node}`"
    return NotRankSpace(rule.name, state, reason) if used else Leaf(state)


def use(grammar: Grammar, rule: Rule, edge: Edge) -> Use | NotRankSpace:
    """The use of a family with one external node, or why its node must stay."""
    (attachment,) = edge.attachments
    state = attachment.node
    found = list(touching(rule, state))
    found.remove(edge)  # once: two equal edges are two nonterminals
    edges = tuple(found)
    if state in rule.rhs.externals:
        reason = f"`{edge.label}` touches the external node"
    elif sum(e.label in grammar.nonterminal for e in edges) > 0:
        reason = "two nonterminals touch it"
    else:
        reason = _leads(grammar, rule, state, edges)
    if reason:
        return NotRankSpace(rule.name, state, reason)
    others = _others(edges, state)
    only = others[0] if len(others) == 1 and is_rank(grammar, rule, others[0]) else None
    ranks = sum(is_rank(grammar, rule, node) for node in others)
    return Use(edge, state, edges, only, bool(others) and not ranks)


def _leads(grammar: Grammar, rule: Rule, state: str, edges: tuple[Edge, ...]) -> str:
    """Why not only parameters lead away from a node; empty if they do."""
    if any(a.path for edge in edges for a in edge.attachments):
        return "an edge touches a part of a node: split the grammar first"
    clamped = {c.attachment.node for c in rule.rhs.clamps}
    if state in clamped:
        return "it is observed"
    for edge in edges:
        if edge.label in grammar.nonterminal:
            return f"the nonterminal `{edge.label}` touches it"
        observed = [a.node for a in edge.attachments if a.node in clamped]
        if edge.label not in grammar.factor or observed:
            return f"`{edge.label}` depends on the input there: merge it into one factor first"
    return ""


def touching(rule: Rule, node: str) -> tuple[Edge, ...]:
    """The edges of a rule that touch a node."""
    return tuple(e for e in rule.rhs.edges if any(a.node == node for a in e.attachments))


def _others(edges: tuple[Edge, ...], state: str) -> list[str]:
    return [n for n in dict.fromkeys(a.node for e in edges for a in e.attachments) if n != state]


class Analysis:
    """Which families move to rank space, and what becomes of their uses."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.blocked: list[NotRankSpace] = []
        self.kinds: dict[str, Mapping[str, Below | Leaf]] = {}
        self.uses: dict[str, dict[int, Use]] = {}
        reasons: dict[str, NotRankSpace] = {}
        for item in grammar.nonterminals:
            if item.name == grammar.start.label or not grammar.rules_of.get(item.name):
                continue
            found = family(grammar, item.name)
            if isinstance(found, NotRankSpace):
                reasons[item.name] = found
            else:
                self.kinds[item.name] = found
        for rule in grammar.rules:
            self.uses[rule.name] = self.uses_of(rule)
        touched = dict.fromkeys(edge.label for _, edge, _ in state_uses(grammar))
        self.blocked = [reasons[name] for name in touched if name in reasons] + self.blocked
        self.moved = {use.edge.label for uses in self.uses.values() for use in uses.values()}

    def uses_of(self, rule: Rule) -> dict[int, Use]:
        """The uses in a rule that can go, by the numbers of their edges."""
        found: dict[int, Use] = {}
        options = 1
        for number, edge in enumerate(rule.rhs.edges):
            if edge.label not in self.kinds:
                continue
            item = use(self.grammar, rule, edge)
            if isinstance(item, Use) and item.dense and not self.has_rank(edge.label):
                reason = f"neither `{edge.label}` nor a factor leads from it to a rank node"
                item = NotRankSpace(rule.name, item.state, reason)
            if isinstance(item, Use) and item.rank is None:
                options *= len(self.kinds[edge.label])
                if options > MAX_OPTIONS:
                    item = NotRankSpace(rule.name, item.state, f"it would become {options} rules")
            if isinstance(item, NotRankSpace):
                self.blocked.append(item)
            else:
                found[number] = item
        return found

    def has_rank(self, name: str) -> bool:
        """Whether a family has a rank node to go to."""
        return any(isinstance(kind, Below) for kind in self.kinds[name].values())


def refusal(grammar: Grammar, plan: Analysis) -> NotRankSpace:
    """The reason why no family moves; one about a rule with a rank node, if there is any."""
    ranks = {
        rule.name
        for rule in grammar.rules
        if any(grammar.domain[node.domain].rank for node in rule.rhs.nodes)
    }
    if not ranks:
        rule, _, node = next(state_uses(grammar))
        return NotRankSpace(rule.name, node, "no rule has a rank node: decompose a factor first")
    found = [item for item in plan.blocked if item.rule in ranks] + plan.blocked
    if found:
        return found[0]
    rule, _, node = next(state_uses(grammar))
    return NotRankSpace(rule.name, node, "no family's external node leads to a rank node")
