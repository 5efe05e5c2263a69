"""Joining: messages that are interchangeable wherever they are used become one message.

Splitting a union takes a rule apart. Where messages hide what the parts were,

    X[i,j](q) -> F1[i,k](q) F2[k,j](q)        X[i,j](q) -> F1[i,k](q) G2[k,j](q)
    X[i,j](q) -> G1[i,k](q) F2[k,j](q)        X[i,j](q) -> G1[i,k](q) G2[k,j](q),

the sums can be done first: with F1 + G1 and F2 + G2 as messages there is one rule (the four terms
of [RS eqs. 12-15] are the product of two sums). It is as costly as the costliest of the four.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

from fgg.compiler.passes.narrow import body_variables, narrowed
from fgg.compiler.plan.support import support, supported_rows
from fgg.compiler.rank.cut import wiring
from fgg.grammar import Fragment, Grammar, Nonterminal, Rule
from fgg.grammar.domains import size_values
from fgg.grammar.index import Condition, Expr
from fgg.grammar.linear import TooManyRows, implies, is_feasible
from fgg.grammar.memo import remember
from fgg.grammar.names import fresh
from fgg.grammar.ranges import Region, condition_rows, length_rows, regions, row

MAX_VARIANTS = 64


def join(grammar: Grammar, messages: Iterable[str]) -> Grammar:
    """The grammar with sums of messages in place of messages that are interchangeable.

    `messages` are the nonterminals that may be joined. Two are interchangeable if every rule that
    uses one has a twin that uses the other instead, or such a twin could apply nowhere. The value
    is the same: a product of sums is the sum of all products.
    """
    left = [name for name in messages if name in grammar.nonterminal]
    joined = grammar
    done = True
    while done:
        done = False
        for one, two in _candidates(joined, left):
            sum_of_two = _joined(joined, one, two)
            if sum_of_two is not None:
                joined, name = sum_of_two
                left = [*(n for n in left if n not in (one, two)), name]
                done = True
                break
    # What is known of where families are not zero is exact again for a grammar made anew.
    return grammar if joined is grammar else replace(joined)


def _candidates(grammar: Grammar, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of messages that are used by the same families beside the same others, or nearly so.

    A twin that could apply nowhere may be missing, so one place more or less is allowed.
    """
    uses: dict[str, list[Rule]] = {name: [] for name in names}
    for rule in grammar.rules:
        for label in {edge.label for edge in rule.rhs.edges} & uses.keys():
            uses[label].append(rule)

    def places(name: str, pair: tuple[str, str]) -> set[object]:
        return {
            (r.lhs, tuple(sorted("" if e.label in pair else e.label for e in r.rhs.edges)))
            for r in uses[name]
        }

    by_kind: dict[object, list[str]] = {}
    for name in names:
        item = grammar.nonterminal[name]
        heads = tuple(sorted({rule.lhs for rule in uses[name]}))
        by_kind.setdefault((item.domains, len(item.indices), heads[:1]), []).append(name)
    for members in by_kind.values():
        for pair in combinations(members, 2):
            one, two = (places(name, pair) for name in pair)
            if one & two and len(one ^ two) <= 1:
                yield pair


def _joined(grammar: Grammar, one: str, two: str) -> tuple[Grammar, str] | None:
    """The grammar with the sum of two messages in their place, and its name."""
    first, second = grammar.nonterminal[one], grammar.nonterminal[two]
    if first.domains != second.domains or len(first.indices) != len(second.indices):
        return None
    pair = (one, two)
    if not first.indices or grammar.start.label in pair:
        return None
    using = [r for r in grammar.rules if any(e.label in pair for e in r.rhs.edges)]
    if len(using) < 2 or any(r.lhs in pair for r in using):
        return None
    left = Counter(_key(rule) for rule in using)
    kept: list[Rule] = []
    # The twin with the most variables is the general one: the others follow when it is narrowed.
    for rule in sorted(using, key=lambda r: -len(body_variables(r))):
        if not left[_key(rule)]:
            continue
        twins = _twins(grammar, rule, pair, left)
        if twins is None:
            return None
        for key in twins:
            if not left[key]:
                return None
            left[key] -= 1
        kept.append(rule)
    return _with_sum(grammar, first, second, using, kept)


def _twins(
    grammar: Grammar, rule: Rule, pair: tuple[str, str], known: Counter[object]
) -> list[object] | None:
    """The keys of a rule with either message wherever it uses one; None if they are many.

    A twin that is not among those known may be there in narrowed form, or may apply nowhere.
    """
    places = [i for i, edge in enumerate(rule.rhs.edges) if edge.label in pair]
    if 2 ** len(places) > MAX_VARIANTS:
        return None
    keys = []
    for labels in product(pair, repeat=len(places)):
        twin = _relabelled(rule, dict(zip(places, labels, strict=True)))
        if known[_key(twin)]:
            keys.append(_key(twin))
        elif _applies(grammar, twin):
            keys.append(_key(narrowed(grammar, twin)))
    return keys


def _applies(grammar: Grammar, rule: Rule) -> bool:
    """Whether a rule has a value other than zero anywhere that matters, as far as ranges tell.

    The other rules of its family do not matter.
    """
    ranges = regions(grammar)
    rows = supported_rows(grammar, rule, ranges, support(grammar)) if rule.lhs in ranges else None
    try:
        return rows is not None and is_feasible(rows)
    except TooManyRows:
        return True


def _relabelled(rule: Rule, labels: dict[int, str]) -> Rule:
    edges = tuple(
        replace(edge, label=labels[i]) if i in labels else edge
        for i, edge in enumerate(rule.rhs.edges)
    )
    rhs = Fragment.make(rule.rhs.nodes, edges, rule.rhs.clamps, rule.rhs.externals)
    return replace(rule, rhs=rhs)


def _key(rule: Rule) -> object:
    """A key that is equal for rules that differ in the names of their nodes only."""
    wires, numbers = wiring(rule.rhs.edges, rule.rhs.clamps, rule.rhs.externals, {})
    named = [n for n in rule.rhs.nodes if n.name in numbers]
    domains = tuple(n.domain for n in sorted(named, key=lambda n: numbers[n.name]))
    free = tuple(sorted(n.domain for n in rule.rhs.nodes if n.name not in numbers))
    ends = tuple(numbers[node] for node in rule.rhs.externals)
    said = frozenset(rule.conditions)
    return rule.lhs, rule.indices, wires, domains, free, ends, said


def _with_sum(
    grammar: Grammar,
    first: Nonterminal,
    second: Nonterminal,
    using: list[Rule],
    kept: list[Rule],
) -> tuple[Grammar, str]:
    """The grammar with one message for two."""
    labels = {*grammar.nonterminal, *grammar.factor, *grammar.input_factor}
    name = fresh(_common(first.name, second.name), labels)
    renamed = _names(second, first)
    theirs = [c.substitute(renamed) for c in second.conditions]
    shared = tuple(c for c in first.conditions if c in theirs)
    family = replace(first, name=name, conditions=shared, origin=None, source=None)
    pair = (first.name, second.name)
    lost = {
        first.name: tuple(c for c in first.conditions if c not in shared),
        second.name: tuple(
            c
            for c, renamed_condition in zip(second.conditions, theirs, strict=True)
            if renamed_condition not in shared
        ),
    }
    beyond = {
        first.name: tuple(_beyond(grammar, first, second)),
        second.name: tuple(_beyond(grammar, second, first)),
    }
    sizes = size_values(grammar)
    general = {rule.name for rule in kept}
    titles = {rule.name for rule in grammar.rules}
    rules = []
    for rule in grammar.rules:
        if rule.lhs in pair:
            known = grammar.nonterminal[rule.lhs]
            at = dict[str, int | Expr](zip(known.indices, rule.indices, strict=True))
            rows = condition_rows(rule.conditions, sizes) + length_rows(grammar)
            more = [c.substitute(at) for c in lost[rule.lhs]]
            for expr in (e.substitute(at) for e in beyond[rule.lhs]):
                if not implies(rows, row(expr, sizes)):
                    more.append(expr >= 0)
            conditions = tuple(_new(rule.conditions, more))
            rules.append(replace(rule, lhs=name, conditions=conditions))
        elif rule.name in general:
            places = {i: name for i, e in enumerate(rule.rhs.edges) if e.label in pair}
            source = rule.origin_or_self.rule
            title = rule.name if source in titles else source
            titles.add(title)
            # It stands for several variants of the user's rule now, and so for none of them.
            rules.append(replace(_relabelled(rule, places), name=title, source=None))
        elif rule not in using:
            rules.append(rule)
    nonterminals = (family if n is first else n for n in grammar.nonterminals if n is not second)
    result = replace(grammar, nonterminals=tuple(nonterminals), rules=tuple(rules))
    for where in (regions, support):
        remember(where, result, _with_hull(where(grammar), pair, name))
    return result, name


def _beyond(grammar: Grammar, family: Nonterminal, other: Nonterminal) -> Iterator[Expr]:
    """The bounds of a message's inferred range that the other message's range does not imply.

    Where only the other one is used, a rule of the message adds nothing to their sum.
    """
    known, sizes = regions(grammar), size_values(grammar)
    if family.name not in known or known[family.name].declared or other.name not in known:
        return
    here = [Expr.of(index) for index in family.indices]
    rows = known[other.name].rows(here, sizes) + length_rows(grammar)
    for expr in known[family.name].conditions:
        if not implies(rows, row(expr, sizes)):
            yield expr


def _with_hull(known: Mapping[str, Region], pair: tuple[str, str], name: str) -> dict[str, Region]:
    """The regions with that of a sum of two messages: the conditions that hold for both."""
    left = {n: region for n, region in known.items() if n not in pair}
    parts = [known[n] for n in pair if n in known]
    if len(parts) < 2:
        return left | ({name: parts[0]} if parts else {})
    one, two = parts
    renamed = {a: Expr.of(b) for a, b in zip(two.indices, one.indices, strict=True)}
    others = dict(_split(c.substitute(renamed)) for c in two.conditions)
    both = []
    for condition in one.conditions:
        form, constant = _split(condition)
        if form in others:
            both.append(condition + max(others[form] - constant, 0))
    return left | {name: Region(one.indices, tuple(both), declared=False)}


def _split(expr: Expr) -> tuple[Expr, int]:
    """An expression without its constant, and the constant."""
    constant = sum(times for monomial, times in expr.terms if not monomial)
    return expr - constant, constant


def _new(conditions: tuple[Condition, ...], more: Iterable[Condition]) -> Iterator[Condition]:
    yield from dict.fromkeys((*conditions, *more))


def _names(family: Nonterminal, other: Nonterminal) -> dict[str, int | Expr]:
    pairs = zip(family.indices, other.indices, strict=True)
    return {index: Expr.of(theirs) for index, theirs in pairs}


def _common(one: str, two: str) -> str:
    """The parts that two names share: `X_N_left` and `X_P_left` make `X_left`."""
    words, others = one.split("_"), two.split("_")
    if len(words) != len(others):
        return one
    return "_".join(a for a, b in zip(words, others, strict=True) if a == b) or one
