"""Rank space: the state nodes between nonterminals are summed, and what is left are ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from fgg.compiler.options import Option, leaf_option, renamed, written_out
from fgg.compiler.rank_nodes import (
    Analysis,
    Below,
    Leaf,
    NotRankSpace,
    Use,
    refusal,
    state_uses,
)
from fgg.conjoining import lengths
from fgg.grammar import Attachment, Edge, Fragment, Grammar, Node, Nonterminal, Origin, Rule
from fgg.index import Expr
from fgg.names import fresh
from fgg.useful import trim


def rank_space(grammar: Grammar) -> Grammar:
    """The grammar with nonterminals over rank nodes, by summing state nodes [RS §4.1, step 2].

    Where each rule of a family X leads from its state node through parameters U to a rank node q,

        X[i](a)  =  Σ_q U(a, q) X_rank[i](q),

    X_rank being the rest of its rules. So where parameters V lead from a use's node b to a rank
    node p, the use and they are a *message*, which has one rule for each U and one for each rule
    without nonterminals [RS §4.2: H = V Uᵀ, I = W Uᵀ; J = V Eᵀ, K = W Eᵀ],

        M[i](p)  ->  V(p, b) U(b, q) X_rank[i](q)        M[i](p)  ->  V(p, b) emit(b, o) o = w[i],

    and a use where parameters lead elsewhere or nowhere (L = (U s)ᵀ) is written out in its rule.
    The products V Uᵀ are hoisted when the rules are planned. Nodes that two nonterminals touch, and
    families with rules that lead to no rank node, stay in state space: see `kept`.

    Requires a grammar without queries, after `cpd` and `split`. Guarantees the same value Z. A
    grammar whose nonterminals touch no state nodes is returned as it is. Raises NotRankSpace if no
    family can go to rank space.
    """
    assert not grammar.queries, "conjoin the grammar with a query first"
    if not any(True for _ in state_uses(grammar)):
        return grammar
    plan = Analysis(grammar)
    moved = {name for name in plan.moved if plan.has_rank(name)}
    if not moved:
        raise refusal(grammar, plan)
    return trim(_Rewriter(grammar, plan).run())


def kept(grammar: Grammar) -> tuple[NotRankSpace, ...]:
    """What `rank_space` leaves in state space: rules and nodes, and the reasons."""
    return tuple(Analysis(grammar).blocked)


class _Rewriter:
    """Writes the rules in rank space, and names the families that they need."""

    def __init__(self, grammar: Grammar, plan: Analysis) -> None:
        self.grammar = grammar
        self.plan = plan
        self.labels = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
        self.rule_names = {rule.name for rule in grammar.rules}
        self.known = {*lengths(grammar), *grammar.size}
        self.nonterminals: dict[str, list[Nonterminal]] = {}
        self.below: dict[str, str] = {}  # a rule's name: the family over its rank node
        self.options: dict[str, list[Option]] = {}
        self.messages: dict[object, str] = {}
        self.rules: list[Rule] = []
        for item in grammar.nonterminals:
            if item.name in plan.moved:
                self.options[item.name] = self.family(item)

    def run(self) -> Grammar:
        changed: list[Rule] = []
        for rule in self.grammar.rules:
            changed += self.rewrite(rule)
        for name in self.options:
            self.rules += self.whole(name)
        nonterminals = [
            new
            for item in self.grammar.nonterminals
            for new in (item, *self.nonterminals.get(item.name, ()))
        ]
        return replace(
            self.grammar, nonterminals=tuple(nonterminals), rules=(*changed, *self.rules)
        )

    # families

    def family(self, item: Nonterminal) -> list[Option]:
        """Declare the families over rank nodes, one for each U; what X is, written out."""
        groups: dict[object, str] = {}
        found: list[Option] = []
        for rule in self.grammar.rules_of[item.name]:
            kind = self.plan.kinds[item.name][rule.name]
            if isinstance(kind, Leaf):
                found.append(leaf_option(rule, kind.state))
                continue
            key = _wiring(kind.edges, (kind.state, kind.rank))
            if key not in groups:
                rank = rule.rhs.by_name[kind.rank]
                groups[key] = self.declare(item, f"{item.name}_rank", rank.domain)
                indices = tuple(Expr.of(i) for i in item.indices)
                cell = Edge(
                    label=groups[key],
                    attachments=(Attachment(node=kind.rank),),
                    indices=indices,
                    span=rule.span,
                )
                state = rule.rhs.by_name[kind.state]
                edges = (*kind.edges, cell)
                found.append(Option(groups[key], state, (rank,), edges, (), indices, (), rule))
            self.below[rule.name] = groups[key]
        return found

    def declare(self, item: Nonterminal, name: str, domain: str) -> str:
        """Declare a family with the indices of another one, over one node."""
        label = fresh(name, self.labels)
        self.labels.add(label)
        new = replace(item, name=label, domains=(domain,), origin=None)
        self.nonterminals.setdefault(item.name, []).append(new)
        return label

    def whole(self, name: str) -> list[Rule]:
        """The rules of a family over its state node, for uses that cannot go."""
        return [
            self.new_rule(name, option, (), (option.state,), option.state.name)
            for option in self.options[name]
        ]

    def message(self, rule: Rule, item: Use) -> str:
        """The family of a use and the parameters that lead to a rank node, with its rules."""
        assert item.rank is not None
        key = (item.edge.label, _wiring(item.edges, (item.state, item.rank)))
        if key not in self.messages:
            source = self.grammar.nonterminal[item.edge.label]
            rank = rule.rhs.by_name[item.rank]
            parts = (source.name, *(edge.label for edge in item.edges))
            name = self.declare(source, "_".join(parts), rank.domain)
            self.messages[key] = name
            for option in self.options[source.name]:
                taken = {node.name for node in (option.state, *option.nodes)}
                top = replace(rank, name=fresh("p", taken))
                names = {item.rank: top.name, item.state: option.state.name}
                edges = tuple(renamed(edge, names) for edge in item.edges)
                self.rules.append(self.new_rule(name, option, edges, (top, option.state), top.name))
        return self.messages[key]

    def new_rule(
        self,
        label: str,
        option: Option,
        edges: Sequence[Edge],
        nodes: tuple[Node, ...],
        external: str,
    ) -> Rule:
        """A rule for one option of a family, with more edges and nodes."""
        source = option.rule
        many = len(self.options[source.lhs]) > 1
        name = fresh(f"{label}_{option.name}" if many else label, self.rule_names)
        self.rule_names.add(name)
        return Rule(
            name=name,
            lhs=label,
            indices=option.indices,
            conditions=option.conditions,
            rhs=Fragment.make(
                (*nodes, *option.nodes), (*edges, *option.edges), option.clamps, (external,)
            ),
            origin=source.origin or Origin(rule=source.name),
            span=source.span,
        )

    # rules

    def rewrite(self, rule: Rule) -> list[Rule]:
        """What becomes of a rule: it loses its state node, and its uses become messages."""
        if rule.lhs in self.options:
            if rule.name not in self.below:
                return []  # a leaf: written out wherever its family is used
            rule = self.inner(rule)
        uses = self.plan.uses[rule.name]
        numbers = {id(edge): number for number, edge in enumerate(self.original(rule).rhs.edges)}
        written: list[Use] = []
        for edge in rule.rhs.edges:
            item = uses.get(numbers[id(edge)])
            if item is None:
                continue
            if item.rank is None:
                written.append(item)
            else:
                rule = self.with_message(rule, item)
        choices = [self.options[item.edge.label] for item in written]
        found = []
        for chosen in product(*choices):
            name = rule.name
            if prod(map(len, choices)) > 1:
                parts = (o.name for o, all_ in zip(chosen, choices, strict=True) if len(all_) > 1)
                name = fresh("_".join((name, *parts)), self.rule_names)
                self.rule_names.add(name)
            result: Rule | None = replace(
                rule, name=name, origin=rule.origin or Origin(rule=rule.name)
            )
            for item, option in zip(written, chosen, strict=True):
                result = result and written_out(result, item.edge, option, self.known)
            if result is not None:
                found.append(result if written else rule)
        return found

    def original(self, rule: Rule) -> Rule:
        """The rule that another one was rewritten from; its edges are the same objects."""
        return next(r for r in self.grammar.rules if r.name == rule.name)

    def inner(self, rule: Rule) -> Rule:
        """The rest of a rule, as a function of its rank node."""
        kind = self.plan.kinds[rule.lhs][rule.name]
        assert isinstance(kind, Below)
        return replace(
            rule,
            lhs=self.below[rule.name],
            rhs=_without(rule.rhs, kind.edges, kind.state, externals=(kind.rank,)),
            origin=rule.origin or Origin(rule=rule.name),
        )

    def with_message(self, rule: Rule, item: Use) -> Rule:
        """The rule with a message in place of a use and its parameters."""
        assert item.rank is not None
        edge = replace(
            item.edge,
            label=self.message(self.original(rule), item),
            attachments=(Attachment(node=item.rank),),
        )
        rhs = _without(rule.rhs, item.edges, item.state, instead={id(item.edge): (edge,)})
        return replace(rule, rhs=rhs, origin=rule.origin or Origin(rule=rule.name))


def _wiring(edges: Iterable[Edge], nodes: Sequence[str]) -> object:
    """What tells parameters between the same two nodes apart."""
    number = {name: i for i, name in enumerate(nodes)}
    return tuple(sorted((e.label, tuple(number[a.node] for a in e.attachments)) for e in edges))


def _without(
    fragment: Fragment,
    edges: Sequence[Edge],
    node: str,
    *,
    externals: tuple[str, ...] | None = None,
    instead: Mapping[int, tuple[Edge, ...]] | None = None,
) -> Fragment:
    """A fragment without some edges and a node, and with other edges in place of some."""
    gone = set(map(id, edges))
    left: list[Edge] = []
    for edge in fragment.edges:
        if id(edge) not in gone:
            left += (instead or {}).get(id(edge), (edge,))
    return Fragment.make(
        tuple(n for n in fragment.nodes if n.name != node),
        tuple(left),
        fragment.clamps,
        fragment.externals if externals is None else externals,
    )
