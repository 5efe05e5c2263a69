"""Annotations of a sequence by a derivation: spans, tags, heads, segments, pairs.

They follow from the cells and the rules of a derivation, for any grammar. The grammar does not say
which word of a rule is the head of which; the user says it by *links*, each the name of a rule and
two index expressions in its variables, `left_some=j-1:k`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from fgg.diagnostics import did_you_mean, refuse
from fgg.grammar import Grammar, Rule


class AppliedRule(Protocol):
    """The application of a rule."""

    @property
    def rule(self) -> Rule:
        """The ground rule; its `origin` names the rule that the user wrote."""


class Derived(Protocol):
    """The part of a derivation that annotations read."""

    @property
    def steps(self) -> Sequence[AppliedRule]:
        """The rules that were applied, in preorder."""

    def spans(self) -> Sequence[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        """For each step: the family, its indices, and the values of the external nodes."""


@dataclass(frozen=True)
class RuleLink:
    """Two positions that a rule connects, each a sum of variables and a number, or None."""

    rule: str
    first: Mapping[str, int] | None
    second: Mapping[str, int] | None


ONE = ""
"""The key of a link's constant."""


def read_links(texts: Iterable[str], grammar: Grammar) -> tuple[RuleLink, ...]:
    """Links as they are written, `RULE=FIRST:SECOND`, where FIRST may be empty.

    Raises GrammarError (F478) for what cannot be read or is no rule of the grammar.
    """
    names = {rule.origin_or_self.rule for rule in grammar.rules}
    links = []
    for text in texts:
        name, equals, rest = text.partition("=")
        first, colon, second = rest.partition(":")
        if not equals or not colon:
            refuse("F478", f"`{text}` is not a link", "write a rule and two positions, `arc=i:j-1`")
        if name not in names:
            refuse("F478", f"there is no rule `{name}`", did_you_mean(name, names))
        links.append(RuleLink(name, _position(first, text), _position(second, text)))
    return tuple(links)


def _position(text: str, whole: str) -> dict[str, int] | None:
    if not text.strip():
        return None
    terms: dict[str, int] = {}
    for term in text.replace("-", "+-").split("+"):
        sign, name = (-1, term.strip()[1:]) if term.strip().startswith("-") else (1, term.strip())
        if name.isdecimal():
            terms[ONE] = terms.get(ONE, 0) + sign * int(name)
        elif name.isidentifier():
            terms[name] = terms.get(name, 0) + sign
        elif name:
            refuse("F478", f"`{whole}`: `{term}` is not an index", "write sums such as `j-1`")
    return terms


def span_cells(derivation: Derived, families: Iterable[str] = ()) -> set[tuple[int, int]]:
    """The spans of a derivation: its cells with two indices, of these families or of all."""
    wanted = set(families)
    return {
        (indices[0], indices[1])
        for family, indices, _ in derivation.spans()
        if len(indices) == 2 and (not wanted or family in wanted)
    }


def tags(derivation: Derived, length: int, families: Iterable[str] = ()) -> list[str | None]:
    """A tag for each position: the values of its cell `[i]` or `[i,i+1]`; None without one."""
    wanted = set(families)
    tag_of: list[str | None] = [None] * length
    for family, indices, values in derivation.spans():
        single = len(indices) == 1 or (len(indices) == 2 and indices[1] == indices[0] + 1)
        if not single or not values or not 0 <= indices[0] < length:
            continue
        if not wanted or family in wanted:
            tag_of[indices[0]] = " ".join(map(str, values))
    return tag_of


def segments(derivation: Derived, length: int) -> list[tuple[int, int]]:
    """The segments of a sequence: one begins at each index that a rule of the derivation has."""
    cuts = {0, length}
    for values in _variables(derivation):
        cuts.update(v for v in values.values() if 0 < v < length)
    edges = sorted(cuts)
    return list(pairwise(edges))


def pairs(
    derivation: Derived, grammar: Grammar, links: Sequence[RuleLink] = ()
) -> set[tuple[int, int]]:
    """The pairs of positions that links give, or else that one rule reads from one input."""
    if links:
        return {
            (min(one, two), max(one, two))
            for one, two in _linked(derivation, links)
            if one is not None and two is not None
        }
    paired = set()
    rules = {rule.name: rule for rule in grammar.rules}
    for step in derivation.steps:
        origin = step.rule.origin
        if origin is None or origin.rule not in rules:
            continue
        values = dict[str, int](origin.values)
        read: dict[str, list[int]] = {}
        for clamp in rules[origin.rule].rhs.clamps:
            if len(clamp.indices) == 1 and set(clamp.indices[0].names()) <= set(values):
                place = clamp.indices[0].evaluate(values)
                if place is not None:
                    read.setdefault(clamp.input, []).append(place)
        for places in read.values():
            if len(places) == 2 and places[0] != places[1]:
                paired.add((min(places), max(places)))
    return paired


def heads(derivation: Derived, length: int, links: Sequence[RuleLink]) -> list[int]:
    """The head of each word: 0 for the root, i + 1 for the word at i, -1 where no link applies.

    A link is HEAD:WORD; without HEAD the word is the root.
    """
    head_of = [-1] * length
    for head, word in _linked(derivation, links):
        if word is not None and 0 <= word < length:
            head_of[word] = 0 if head is None else head + 1
    return head_of


def _variables(derivation: Derived) -> Iterator[Mapping[str, int]]:
    for step in derivation.steps:
        origin = step.rule.origin
        yield dict(origin.values) if origin else {}


def _linked(
    derivation: Derived, links: Sequence[RuleLink]
) -> Iterator[tuple[int | None, int | None]]:
    by_rule: dict[str, list[RuleLink]] = {}
    for link in links:
        by_rule.setdefault(link.rule, []).append(link)
    for step in derivation.steps:
        origin = step.rule.origin
        for link in by_rule.get(origin.rule if origin else step.rule.name, ()):
            values = dict(origin.values) if origin else {}
            yield _at(link.first, values, link), _at(link.second, values, link)


def _at(
    position: Mapping[str, int] | None, values: Mapping[str, int], link: RuleLink
) -> int | None:
    if position is None:
        return None
    for name in position:
        if name and name not in values:
            help = did_you_mean(name, values) or f"it has {', '.join(values) or 'none'}"
            refuse("F478", f"rule `{link.rule}` has no index `{name}`", help)
    return sum(times * (values[name] if name else 1) for name, times in position.items())
