"""Rank space: summing the state nodes between nonterminals, so that charts range over ranks."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import product
from math import prod

from fgg.compiler.passes.inline import written_out
from fgg.compiler.passes.merge_messages import join
from fgg.compiler.plan.eliminate import without_all
from fgg.compiler.rank.cut import RuleComponent
from fgg.compiler.rank.families import Families, without_places
from fgg.compiler.rank.nodes import Analysis, BelowRanks, refusal, state_uses
from fgg.compiler.rank.uses import NotRankSpace
from fgg.grammar import Edge, Fragment, Grammar, Rule
from fgg.grammar.linear import is_feasible
from fgg.grammar.names import fresh
from fgg.grammar.ranges import regions, rule_rows
from fgg.rewrite.trim import trim


def rank_space(grammar: Grammar) -> Grammar:
    """The grammar with nonterminals over rank nodes, by summing state nodes [RS §4.1, step 2].

    Where rank nodes q separate the external nodes a of each rule of a family X from its
    nonterminals, U being what lies on the side of a,

        X[i](a)  =  Σ_q U(a, q) X_rank[i](q),

    X_rank being the rest of its rules. So where a use's nodes b are separated from all else by rank
    nodes p, V being what lies between, the use and V are a *message*, which has one rule for each U
    and one for each rule without nonterminals [RS §4.2: H = V Uᵀ, I = W Uᵀ; J = V Eᵀ, K = W Eᵀ],

        M[i](p)  ->  V(p, b) U(b, q) X_rank[i](q)        M[i](p)  ->  V(p, b) emit(b, o) o = w[i],

    and a use where parameters lead elsewhere or nowhere (L = (U s)ᵀ) is written out in its rule.
    The products V Uᵀ are hoisted when the rules are planned. An index that only U depends on (a
    head word, an aligned node) is not an index of X_rank; one that only a use depends on is summed
    in its message. Nodes that two nonterminals touch, and families with rules that lead to no rank
    node, stay in state space: see `kept`.

    Requires a grammar without queries, after `cpd` and `split`. Guarantees the same value Z. A
    grammar whose nonterminals touch no state nodes is returned as it is. Raises NotRankSpace if no
    family can go to rank space, or only where the start symbol uses it.
    """
    assert not grammar.queries, "conjoin the grammar with a query first"
    if not any(True for _ in state_uses(grammar)):
        return grammar
    plan = Analysis(grammar)
    if not plan.is_worthwhile():
        raise refusal(grammar, plan)
    rewriter = _Rewriter(grammar, plan)
    written = without_idle(rewriter.run(), {rule.name for rule in grammar.rules})
    return join(trim(written), rewriter.families.messages.values())


def without_idle(grammar: Grammar, known: Set[str]) -> Grammar:
    """The grammar without new rules that never apply; rules with names in `known` are not new.

    A leaf `X[n]`, written out in a rule that uses `X[i]` for i < n, makes such a rule.
    """
    ranges = regions(grammar)
    idle = {
        rule.name
        for rule in grammar.rules
        if rule.name not in known
        and rule.lhs in ranges
        and not is_feasible(rule_rows(grammar, rule, ranges))
    }
    return replace(grammar, rules=tuple(r for r in grammar.rules if r.name not in idle))


def kept(grammar: Grammar) -> tuple[NotRankSpace, ...]:
    """The rules and nodes that `rank_space` leaves in state space, and the reasons."""
    return tuple(Analysis(grammar).blocked)


class _Rewriter:
    """Writes the rules in rank space."""

    def __init__(self, grammar: Grammar, plan: Analysis) -> None:
        self.grammar = grammar
        self.plan = plan
        self.families = Families(grammar, plan)

    def run(self) -> Grammar:
        families = self.families
        changed = [new for rule in self.grammar.rules for new in self.rewrite(rule)]
        whole = [rule for name in families.options for rule in families.whole(name)]
        nonterminals = [
            new
            for item in self.grammar.nonterminals
            for new in (item, *families.declared.get(item.name, ()))
        ]
        return replace(
            self.grammar,
            nonterminals=tuple(nonterminals),
            rules=(*changed, *families.rules, *whole),
        )

    def rewrite(self, rule: Rule) -> list[Rule]:
        """The rules that replace a rule: without state nodes, with messages in place of uses."""
        cut, uses = self.plan.cuts[rule.name], self.plan.uses[rule.name]
        gone: list[RuleComponent] = []
        conditions, externals = rule.conditions, rule.rhs.externals
        result = rule
        if rule.lhs in self.families.options:
            if rule.name not in self.families.below:
                return []  # a leaf: written out wherever its family is used
            kind = self.plan.kinds[rule.lhs][rule.name]
            assert isinstance(kind, BelowRanks)
            gone.append(kind.part)
            conditions, externals = without_all(conditions, kind.conditions), kind.ranks
            indices = without_places(rule.indices, kind.dropped)
            result = replace(rule, lhs=self.families.below[rule.name], indices=indices)
        instead: dict[int, Edge] = {}
        for number, item in uses.items():
            if item.message is not None:
                gone.append(item.message.part)
                instead[number] = self.families.message(cut, number, item.message)
                conditions = without_all(conditions, item.message.conditions)
                conditions = tuple(dict.fromkeys((*conditions, *item.message.left)))
        if not gone and not uses:
            return [rule]
        lost = {i for part in gone for i in part.edges} - set(instead)
        numbers = [i for i in range(len(rule.rhs.edges)) if i not in lost]
        nodes = {node for part in gone for node in part.nodes}
        clamps = {i for part in gone for i in part.clamps}
        rhs = Fragment.make(
            tuple(n for n in rule.rhs.nodes if n.name not in nodes),
            tuple(instead.get(i, rule.rhs.edges[i]) for i in numbers),
            tuple(c for i, c in enumerate(rule.rhs.clamps) if i not in clamps),
            externals,
        )
        origin = rule.origin_or_self
        result = replace(result, conditions=conditions, origin=origin, source=None, rhs=rhs)
        written = [numbers.index(i) for i, item in uses.items() if item.message is None]
        return self.written(result, written)

    def written(self, rule: Rule, uses: Sequence[int]) -> list[Rule]:
        """One rule for each way to write out the nonterminal edges numbered `uses`."""
        choices = [self.families.options[rule.rhs.edges[number].label] for number in uses]
        if not choices:
            return [rule]
        rules = []
        known = self.families.known
        head = {name for index in rule.indices for name in index.names()}
        for chosen in product(*choices):
            name = rule.name
            if prod(map(len, choices)) > 1:
                parts = (o.name for o, all_ in zip(chosen, choices, strict=True) if len(all_) > 1)
                name = fresh("_".join((name, *parts)), self.families.rule_names)
                self.families.rule_names.add(name)
            result: Rule | None = replace(rule, name=name)
            shift = 0
            for number, option in zip(uses, chosen, strict=True):
                if result is not None:
                    free = {n for e in result.rhs.edges for i in e.indices for n in i.names()}
                    free -= known | head
                    result = written_out(
                        self.families.grammar, result, number + shift, option, known, free
                    )
                shift += len(option.edges) - 1
            if result is not None:
                rules.append(result)
        return rules
