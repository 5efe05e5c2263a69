"""Tie: all that a rule reads at one position is one variable, even if the token is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from fgg.compiler.passes.split import MAX_VARIANTS, SplitImpossible
from fgg.grammar import Clamp, Grammar, Rule
from fgg.grammar.index import Condition, Expr
from fgg.grammar.linear import is_feasible
from fgg.grammar.names import fresh
from fgg.inputs.readings import Ties, clamp_pairs, meet, rows_of
from fgg.rewrite.trim import trim


def tie(grammar: Grammar) -> Grammar:
    """The grammar whose rules read each position of an input once, or through maps of one node.

    Where a rule may read a position twice, it becomes a rule for each case:

        X -> f(a, w[i]) g(b, w[k])  for i <= k

    becomes one rule for i < k, and for i == k one in which both edges touch the same node. Where
    two clamps read different things of one token, `v = w[i].C` and `o = w[i]`, one of them
    follows from the other, by a map (see `fgg.inputs.readings`).

    Requires a grammar without queries whose nodes are atomic. Guarantees the same value Z as the
    ground grammar has, also where tokens are missing. A grammar that reads every position once is
    returned as it is. Raises SplitImpossible if a rule would become more than `MAX_VARIANTS`.
    """
    ties = Ties(grammar)
    names = {rule.name for rule in grammar.rules}
    rules: list[Rule] = []
    for rule in grammar.rules:
        cases = list(islice(_cases(grammar, rule, {}), MAX_VARIANTS + 1))
        if len(cases) > MAX_VARIANTS:
            message = f"rule `{rule.name}` reads positions that can lie in too many orders"
            raise SplitImpossible(message)
        for case, groups in cases:
            fragment, renamed = ties.tied(case.rhs, groups)
            if fragment is None:
                continue
            if fragment is case.rhs and case is rule:
                rules.append(rule)
                continue
            name = fresh(f"{rule.name}_tied", names)
            names.add(name)
            origin = rule.origin_or_self
            source = rule.source and rule.source.renamed(renamed)
            rules.append(replace(case, name=name, rhs=fragment, origin=origin, source=source))
    if tuple(rules) == grammar.rules:
        return grammar
    result = replace(
        grammar,
        domains=(*grammar.domains, *ties.domains),
        factors=(*grammar.factors, *ties.factors),
        rules=tuple(rules),
    )
    return trim(result)


def _cases(
    grammar: Grammar, rule: Rule, decided: Mapping[tuple[int, int], bool]
) -> Iterator[tuple[Rule, list[list[Clamp]]]]:
    """The cases of a rule, in each of which it is known which clamps read the same position.

    Each case comes with its clamps grouped by position. `decided` says of pairs of clamps, by
    number, whether the conditions added so far make their positions equal.
    """
    clamps = rule.rhs.clamps
    rows = rows_of(grammar, rule) if len(clamps) > 1 else []
    same: list[tuple[Clamp, Clamp]] = []
    for one, two in clamp_pairs(grammar, rule):
        pair = (clamps.index(one), clamps.index(two))
        equal_here = decided[pair] if pair in decided else meet(grammar, one, two, rows)
        if equal_here is None:
            for conditions, equal in _orders(one, two):
                case = replace(rule, conditions=(*rule.conditions, *conditions))
                if is_feasible(rows_of(grammar, case)):
                    yield from _cases(grammar, case, {**decided, pair: equal})
            return
        if equal_here:
            same.append((one, two))
    # One of the clamps goes, and with it that its position lies inside the input: so the rule says
    # that it is the other's.
    said = [c for one, two in same for c in _equal(one, two)]
    said = [c for c in dict.fromkeys(said) if c not in rule.conditions]
    if said:
        rule = replace(rule, conditions=(*rule.conditions, *said))
    yield rule, _groups(clamps, same)


def _equal(one: Clamp, two: Clamp) -> Iterator[Condition]:
    """The conditions under which two clamps read the same position."""
    for first, second in zip(one.indices, two.indices, strict=True):
        gap = first - second
        if gap.constant is None:
            yield gap.equals(Expr())


def _orders(one: Clamp, two: Clamp) -> Iterator[tuple[list[Condition], bool]]:
    """Conditions for each way in which two positions can lie, and whether they are the same."""
    equal: list[Condition] = []
    zero = Expr()
    for first, second in zip(one.indices, two.indices, strict=True):
        gap = first - second
        if gap.constant is None:
            yield [*equal, gap < zero], False
            yield [*equal, gap > zero], False
            equal.append(gap.equals(zero))
    yield equal, True


def _groups(clamps: Sequence[Clamp], same: Sequence[tuple[Clamp, Clamp]]) -> list[list[Clamp]]:
    """The clamps grouped by the position that they read."""
    groups = [[clamp] for clamp in clamps]
    for one, two in same:
        joined = [group for group in groups if one in group or two in group]
        rest = [group for group in groups if group not in joined]
        groups = [*rest, [clamp for group in joined for clamp in group]]
    return groups
