"""Which nonterminals can move from state to rank space, and why the others cannot.

A rule of a family is met *below* rank nodes if these separate its external nodes from all its
nonterminals, `X(a) -> U(a, q) …`; a rule without nonterminals is a *leaf*. If every rule of a
family is one or the other, the family's values are products with U (or those of a leaf), and its
state nodes can be summed wherever it is used and nothing but parameters leads to them.

U may come with something that depends on the input at fewer indices than the family has, such as
the label of a head word or of an aligned node. It is then known before any span is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fgg.compiler.plan.eliminate import mentioning
from fgg.compiler.rank.cut import RuleComponent, RuleCut, is_rank, wiring
from fgg.compiler.rank.uses import FamilyUse, NotRankSpace, observed_reason, touching, use
from fgg.grammar import Edge, Grammar, Product, Rule, Union
from fgg.grammar.index import Condition, Expr

MAX_OPTIONS = 64
"""The most rules that one rule may become when the options of its nonterminals are written out."""


@dataclass(frozen=True)
class BelowRanks:
    """A rule whose nonterminals lie below rank nodes.

    `part` is what lies above them; `dropped` are the places of the family's indices that nothing
    below depends on, and `conditions` what the rule says of them; `key` tells parts apart, in the
    names of the family's indices.
    """

    part: RuleComponent
    ranks: tuple[str, ...]
    dropped: tuple[int, ...]
    conditions: tuple[Condition, ...]
    key: object


@dataclass(frozen=True)
class LeafRule:
    """A rule without nonterminals."""


def state_uses(grammar: Grammar) -> Iterator[tuple[Rule, Edge, str]]:
    """Where nonterminal edges touch state nodes."""
    for rule in grammar.rules:
        for edge in rule.rhs.edges:
            if edge.label in grammar.nonterminal:
                for attachment in edge.attachments:
                    if not is_rank(grammar, rule, attachment.node):
                        yield rule, edge, attachment.node


def kind_of(cut: RuleCut) -> BelowRanks | LeafRule | NotRankSpace:
    """Whether a rule lies below rank nodes or is a leaf, or why it is neither."""
    grammar, rule = cut.grammar, cut.rule
    externals = rule.rhs.externals
    if not externals:
        return NotRankSpace(rule.name, None, "it has no external node")
    for node in externals:
        domain = grammar.domain[rule.rhs.by_name[node].domain]
        if domain.rank:
            return NotRankSpace(rule.name, node, "it is a rank node already")
        if isinstance(domain.shape, Union | Product):
            return NotRankSpace(rule.name, node, f"`{domain.name}` is not atomic: split it first")
        if externals.count(node) > 1:
            return NotRankSpace(rule.name, node, "it is external twice")
    part = cut.merged(c for c in cut.components if set(c.nodes) & set(externals))
    below = _below(cut, part)
    used = [e for e in rule.rhs.edges if e.label in grammar.nonterminal]
    return below if isinstance(below, BelowRanks) or used else LeafRule()


def _below(cut: RuleCut, part: RuleComponent) -> BelowRanks | NotRankSpace:
    rule, first = cut.rule, cut.rule.rhs.externals[0]
    if any(a.path for e in cut.edges(part) for a in e.attachments):
        return NotRankSpace(
            rule.name, first, "an edge touches a part of a node: split the grammar first"
        )
    if cut.nonterminals(part) or not part.ranks:
        return NotRankSpace(rule.name, *_why_not_separated(cut, part))
    if len(part.ranks) > len(rule.rhs.externals):
        count = len(part.ranks)
        reason = f"factors lead from the external node to {count} rank nodes"
        if len(rule.rhs.externals) > 1:
            reason = f"{count} rank nodes are more than the rule has external nodes"
        return NotRankSpace(rule.name, first, reason)
    if cut.has_input(part):
        needed = cut.inputs(part)
        if not needed <= set(cut.head_values) or len(needed) >= len(rule.indices):
            return NotRankSpace(rule.name, first, observed_reason(cut, part, first))
    dropped, conditions = _droppable(cut, part)
    values = dict[str, int | Expr](cut.head_values)
    key, numbers = wiring(cut.edges(part), cut.clamps(part), rule.rhs.externals, values)
    ranks = tuple(sorted(part.ranks, key=numbers.__getitem__))
    domains = tuple(rule.rhs.by_name[x].domain for x in ranks)
    said = frozenset(c.substitute(values) for c in conditions)
    whole = (key, tuple(numbers[x] for x in ranks), domains, dropped, said)
    return BelowRanks(part, ranks, dropped, conditions, whole)


def _why_not_separated(cut: RuleCut, part: RuleComponent) -> tuple[str, str]:
    """The external node from which a nonterminal is reached, and how."""
    rule = cut.rule
    direct = {node: touching(rule, node) for node in rule.rhs.externals}
    for node, edges in direct.items():
        for edge in edges:
            if edge.label in cut.grammar.nonterminal:
                return node, f"the nonterminal `{edge.label}` touches it"
    node = rule.rhs.externals[0]
    others = dict.fromkeys(
        a.node for edges in direct.values() for e in edges for a in e.attachments
    )
    states = [x for x in others if x not in direct and not is_rank(cut.grammar, rule, x)]
    if len(states) == len(others) - len(direct) or not part.ranks:
        return node, "no factor leads from the external node to a rank node"
    return node, f"a factor leads from the external node to the state node `{states[0]}`"


def _droppable(cut: RuleCut, part: RuleComponent) -> tuple[tuple[int, ...], tuple[Condition, ...]]:
    """The places of indices that nothing below the rank nodes needs, and their conditions."""
    family = cut.grammar.nonterminal[cut.rule.lhs]
    below = set().union(
        *(cut.variables(c) for c in cut.components if not set(c.nodes) & set(part.nodes))
    )
    dropped: list[int] = []
    conditions: list[Condition] = []
    for name in sorted(cut.inputs(part) - below):
        places = [i for i, e in enumerate(cut.rule.indices) if name in e.names()]
        if len(places) != 1 or cut.rule.indices[places[0]] != Expr.of(name):
            continue
        about = cut.about(name)
        index = family.indices[places[0]]
        declared = mentioning(family.conditions, {index})
        if all(cut.names(c.terms) == {name} for c in about) and all(
            cut.names(c.terms) == {index} for c in declared
        ):
            dropped.append(places[0])
            conditions += about
    return tuple(sorted(dropped)), tuple(conditions)


class Analysis:
    """The families that move to rank space, and the replacements of their uses."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.cuts = {rule.name: RuleCut(grammar, rule) for rule in grammar.rules}
        self.blocked: list[NotRankSpace] = []
        self.kinds: dict[str, Mapping[str, BelowRanks | LeafRule]] = {}
        self.uses: dict[str, dict[int, FamilyUse]] = {}
        reasons: dict[str, NotRankSpace] = {}
        for item in grammar.nonterminals:
            if item.name == grammar.start.label or not grammar.rules_of.get(item.name):
                continue
            kinds = self.family(item.name)
            if isinstance(kinds, NotRankSpace):
                reasons[item.name] = kinds
            else:
                self.kinds[item.name] = kinds
        for rule in grammar.rules:
            self.uses[rule.name] = self.uses_of(self.cuts[rule.name])
        touched = dict.fromkeys(edge.label for _, edge, _ in state_uses(grammar))
        self.blocked = [reasons[name] for name in touched if name in reasons] + self.blocked
        self.moved = {
            rule.rhs.edges[number].label
            for rule in grammar.rules
            for number in self.uses[rule.name]
        }

    def family(self, name: str) -> dict[str, BelowRanks | LeafRule] | NotRankSpace:
        """The kind of each rule of a nonterminal, or why one of them has none."""
        kinds: dict[str, BelowRanks | LeafRule] = {}
        for rule in self.grammar.rules_of.get(name, ()):
            kind = kind_of(self.cuts[rule.name])
            if isinstance(kind, NotRankSpace):
                return kind
            kinds[rule.name] = kind
        return kinds

    def uses_of(self, cut: RuleCut) -> dict[int, FamilyUse]:
        """The uses in a rule that can move to rank space, by the numbers of their edges."""
        uses: dict[int, FamilyUse] = {}
        options = 1
        for number, edge in enumerate(cut.rule.rhs.edges):
            if edge.label not in self.kinds:
                continue
            hidden = self.hidden(edge.label)
            item = use(cut, number, hidden)
            if isinstance(item, FamilyUse) and item.message is None:
                item = self.counted(cut, number, hidden, uses) or item
            if isinstance(item, FamilyUse) and item.dense and not self.has_rank(edge.label):
                reason = f"neither `{edge.label}` nor a factor leads from it to a rank node"
                item = NotRankSpace(cut.rule.name, edge.attachments[0].node, reason)
            if isinstance(item, FamilyUse) and item.message is None:
                options *= len(self.kinds[edge.label])
                if options > MAX_OPTIONS:
                    reason = f"it would become {options} rules"
                    item = NotRankSpace(cut.rule.name, edge.attachments[0].node, reason)
            if isinstance(item, NotRankSpace):
                self.blocked.append(item)
            else:
                uses[number] = item
        return uses

    def hidden(self, name: str) -> set[int]:
        """The places of indices on which nothing in some leaf rule of the family depends."""
        places: set[int] = set()
        for rule in self.grammar.rules_of[name]:
            if isinstance(self.kinds[name][rule.name], LeafRule):
                cut = self.cuts[rule.name]
                inside = set().union(*(cut.variables(c) for c in cut.components))
                for place, index in enumerate(rule.indices):
                    others = [e for i, e in enumerate(rule.indices) if i != place]
                    alone = cut.names([index]) - inside - cut.names(others)
                    places |= {place} if alone else set()
        return places

    def counted(
        self, cut: RuleCut, number: int, hidden: set[int], uses: Mapping[int, FamilyUse]
    ) -> NotRankSpace | None:
        """Why a use cannot be written out: a variable would be left that nothing depends on."""
        edge = cut.rule.rhs.edges[number]
        left = set(cut.head)
        for other, item in enumerate(cut.rule.rhs.edges):
            if other != number and (other not in uses or uses[other].message is not None):
                left |= cut.names(item.indices)
        left |= cut.names(i for clamp in cut.rule.rhs.clamps for i in clamp.indices)
        for place in sorted(hidden):
            for name in sorted(cut.names([edge.indices[place]]) - left):
                reason = f"a rule of `{edge.label}` does not depend on the index `{name}`"
                return NotRankSpace(cut.rule.name, edge.attachments[0].node, reason)
        return None

    def is_worthwhile(self) -> bool:
        """Whether a family with rank nodes moves, and not only where the start symbol uses it."""
        start = self.grammar.start.label
        moved = [
            (rule.lhs, rule.rhs.edges[number].label)
            for rule in self.grammar.rules
            for number in self.uses[rule.name]
        ]
        heads = [lhs for lhs, label in moved if self.has_rank(label)]
        return bool(heads) and (not self.blocked or any(lhs != start for lhs in heads))

    def has_rank(self, name: str) -> bool:
        """Whether a family has a rank node to go to."""
        return any(isinstance(kind, BelowRanks) for kind in self.kinds[name].values())


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
    reasons = [item for item in plan.blocked if item.rule in ranks] + plan.blocked
    if reasons:
        return reasons[0]
    rule, _, node = next(state_uses(grammar))
    return NotRankSpace(rule.name, node, "no family's external node leads to a rank node")
