"""The new families of rank space: those over rank nodes, and messages in place of their uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from fgg.compiler.passes.inline import Option, leaf_option, renamed_rule, with_indices, written_out
from fgg.compiler.plan.eliminate import eliminated, mentioning, within
from fgg.compiler.rank.cut import RuleComponent, RuleCut, wiring
from fgg.compiler.rank.nodes import Analysis, BelowRanks, LeafRule
from fgg.compiler.rank.uses import Message
from fgg.grammar import Attachment, Edge, Fragment, Grammar, Node, Nonterminal, Rule
from fgg.grammar.definitions import Slice
from fgg.grammar.domains import lengths
from fgg.grammar.index import Expr
from fgg.grammar.names import fresh

T = TypeVar("T")


class Families:
    """Declares families and writes their rules; equal messages are declared once.

    `below` are the families over the rank nodes of rules, by the rules' names; `options` is what
    each family that moves can be.
    """

    def __init__(self, grammar: Grammar, plan: Analysis) -> None:
        self.grammar = grammar
        self.plan = plan
        self.labels = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
        self.rule_names = {rule.name for rule in grammar.rules}
        self.known = {*lengths(grammar), *grammar.size}
        self.declared: dict[str, list[Nonterminal]] = {}
        self.below: dict[str, str] = {}
        self.messages: dict[object, str] = {}
        self.rules: list[Rule] = []
        self.options = {
            item.name: self.family(item) for item in grammar.nonterminals if item.name in plan.moved
        }

    def family(self, item: Nonterminal) -> list[Option]:
        """Declare the families over rank nodes, one for each U. Returns the options of X."""
        groups: dict[object, str] = {}
        options: list[Option] = []
        for rule in self.grammar.rules_of[item.name]:
            kind = self.plan.kinds[item.name][rule.name]
            if isinstance(kind, LeafRule):
                options.append(leaf_option(rule))
                continue
            if kind.key not in groups:
                ranks = [rule.rhs.by_name[name] for name in kind.ranks]
                groups[kind.key] = self.declare(item, f"{item.name}_rank", ranks, kind.dropped)
                options.append(self.above(item, rule, kind, groups[kind.key]))
            self.below[rule.name] = groups[kind.key]
        return options

    def above(self, item: Nonterminal, rule: Rule, kind: BelowRanks, name: str) -> Option:
        """A rule as an option: what lies above its rank nodes, and a cell of the family below."""
        values = dict[str, int | Expr](self.plan.cuts[rule.name].head_values)
        nodes = rule.rhs.by_name
        indices = tuple(map(Expr.of, item.indices))
        cell = Edge(
            label=name,
            attachments=tuple(Attachment(node=q) for q in kind.ranks),
            indices=without_places(indices, kind.dropped),
            span=rule.span,
        )
        upper = Rule(name=name, lhs=name, rhs=fragment(self.plan.cuts[rule.name], kind.part, ()))
        part = with_indices(upper, values).rhs
        gone = {item.indices[i] for i in kind.dropped}
        said = [c.substitute(values) for c in kind.conditions]
        said += mentioning(item.conditions, gone)
        said += within(self.grammar, part.edges)
        inner = (*kind.ranks, *kind.part.nodes)
        return Option(
            name=name,
            states=tuple(nodes[x] for x in rule.rhs.externals),
            nodes=tuple(nodes[x] for x in inner if x not in rule.rhs.externals),
            edges=(*part.edges, cell),
            clamps=part.clamps,
            indices=indices,
            conditions=tuple(dict.fromkeys(said)),
            rule=rule,
        )

    def declare(
        self, item: Nonterminal, name: str, nodes: Iterable[Node], dropped: Sequence[int]
    ) -> str:
        """Declare a family with the indices of another one, some dropped, over other nodes."""
        label = fresh(name, self.labels)
        self.labels.add(label)
        new = replace(
            item,
            name=label,
            domains=tuple(node.domain for node in nodes),
            indices=without_places(item.indices, dropped),
            conditions=eliminated(item.conditions, (item.indices[i] for i in dropped)),
            origin=None,
            source=None,
        )
        self.declared.setdefault(item.name, []).append(new)
        return label

    def whole(self, name: str) -> list[Rule]:
        """The rules of a family over its state nodes, for uses that stay in state space."""
        rules = []
        for option in self.options[name]:
            rhs = Fragment.make(
                (*option.states, *option.nodes),
                option.edges,
                option.clamps,
                tuple(node.name for node in option.states),
            )
            indices, conditions = option.indices, option.conditions
            rule = Rule(name=name, lhs=name, indices=indices, conditions=conditions, rhs=rhs)
            rules.append(self.named(name, option, rule))
        return rules

    def message(self, cut: RuleCut, number: int, item: Message) -> Edge:
        """The edge of a message in place of a use; the message is declared if it is new."""
        edge = cut.rule.rhs.edges[number]
        source = self.grammar.nonterminal[edge.label]
        values = dict[str, int | Expr](cut.at(edge))
        others = [cut.rule.rhs.edges[i] for i in item.part.edges if i != number]
        fixed = [a.node for a in edge.attachments]
        wires, numbers = wiring(others, cut.clamps(item.part), fixed, values)
        ranks = sorted(item.part.ranks, key=numbers.__getitem__)
        summed = [Expr.of(name) for name in item.summed]
        dropped = tuple(i for i, index in enumerate(edge.indices) if index in summed)
        # What is said of the indices that are summed, in the names of the family's own.
        gone = {source.indices[i] for i in dropped}
        said = [c.substitute(values) for c in item.conditions]
        said += mentioning(source.conditions, gone)
        domains = tuple(cut.rule.rhs.by_name[q].domain for q in ranks)
        order = tuple(numbers[q] for q in ranks)
        key = (edge.label, wires, order, domains, dropped, frozenset(said))
        if key not in self.messages:
            labels = dict.fromkeys(self.plain(e.label) for e in others)
            nodes = [cut.rule.rhs.by_name[q] for q in ranks]
            name = self.declare(source, "_".join((source.name, *labels)), nodes, dropped)
            self.messages[key] = name
            whole = Rule(name=name, lhs=name, rhs=fragment(cut, item.part, tuple(ranks)))
            rhs = with_indices(whole, values).rhs
            rule = Rule(
                name=name,
                lhs=name,
                indices=tuple(map(Expr.of, without_places(source.indices, dropped))),
                conditions=tuple(dict.fromkeys([*said, *within(self.grammar, rhs.edges)])),
                rhs=rhs,
            )
            self.define(rule, item.part.edges.index(number), source)
        return replace(
            edge,
            label=self.messages[key],
            attachments=tuple(Attachment(node=q) for q in ranks),
            indices=without_places(edge.indices, dropped),
        )

    def define(self, rule: Rule, number: int, source: Nonterminal) -> None:
        """Add the rules of a message, one for each option of the family used."""
        use = replace(rule.rhs.edges[number], indices=tuple(map(Expr.of, source.indices)))
        edges = tuple(use if i == number else e for i, e in enumerate(rule.rhs.edges))
        rule = replace(rule, rhs=replace(rule.rhs, edges=edges))
        top: dict[str, str] = {}
        for name in rule.rhs.externals:
            top[name] = fresh("p", {*rule.rhs.by_name, *top.values()} - {name})
        rule = renamed_rule(rule, top)
        for option in self.options[source.name]:
            states = {
                a.node: s.name
                for a, s in zip(use.attachments, option.states, strict=True)
                if s.name not in rule.rhs.by_name
            }
            written = written_out(
                self.grammar,
                renamed_rule(rule, states),
                number,
                option,
                self.known,
                set(source.indices),
            )
            if written is not None:
                self.rules.append(self.named(rule.lhs, option, written))

    def named(self, label: str, option: Option, rule: Rule) -> Rule:
        """A rule for one option of a family, with its name and where it comes from."""
        source = option.rule
        many = len(self.options[source.lhs]) > 1
        name = fresh(f"{label}_{option.name}" if many else label, self.rule_names)
        self.rule_names.add(name)
        origin = source.origin_or_self
        return replace(rule, name=name, lhs=label, origin=origin, span=source.span)

    def plain(self, label: str) -> str:
        """The name of a factor, or of the factor that it is a slice of."""
        factor = self.grammar.factor.get(label)
        cut = None if factor is None else factor.definition
        return cut.source if isinstance(cut, Slice) else label


def without_places(items: Sequence[T], dropped: Sequence[int]) -> tuple[T, ...]:
    """The indices without those at some places."""
    return tuple(item for place, item in enumerate(items) if place not in dropped)


def fragment(cut: RuleCut, part: RuleComponent, externals: tuple[str, ...]) -> Fragment:
    """A component as a fragment, with some of its rank nodes external."""
    nodes = cut.rule.rhs.by_name
    return Fragment.make(
        tuple(nodes[name] for name in (*part.nodes, *part.ranks)),
        tuple(cut.edges(part)),
        tuple(cut.clamps(part)),
        externals,
    )
