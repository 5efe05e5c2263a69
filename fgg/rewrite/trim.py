"""The useful nonterminals, rules and factors of a grammar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fgg.grammar import Grammar, Query, Rule


def _called(grammar: Grammar, rule: Rule) -> Iterable[str]:
    return (edge.label for edge in rule.rhs.edges if edge.label in grammar.nonterminal)


def reachable(grammar: Grammar) -> set[str]:
    """The nonterminals that derivations reach from the start symbol or from a query's own start."""
    reached = _starts(grammar)
    agenda = sorted(reached)
    while agenda:
        for rule in grammar.rules_of.get(agenda.pop(), ()):
            for label in _called(grammar, rule):
                if label not in reached:
                    reached.add(label)
                    agenda.append(label)
    return reached


def _starts(grammar: Grammar) -> set[str]:
    starts = [grammar.start, *(query.start for query in grammar.queries)]
    return {start.label for start in starts if start is not None}


def productive(grammar: Grammar) -> set[str]:
    """The nonterminals that can be rewritten to a graph without nonterminals."""
    waiting: dict[str, list[int]] = {}
    missing: list[int] = []
    alive: set[str] = set()
    agenda: list[str] = []

    def derive(label: str) -> None:
        if label not in alive:
            alive.add(label)
            agenda.append(label)

    for number, rule in enumerate(grammar.rules):
        labels = set(_called(grammar, rule))
        missing.append(len(labels))
        for label in labels:
            waiting.setdefault(label, []).append(number)
        if not labels:
            derive(rule.lhs)
    while agenda:
        for number in waiting.get(agenda.pop(), ()):
            missing[number] -= 1
            if not missing[number]:
                derive(grammar.rules[number].lhs)
    return alive


def trim(grammar: Grammar) -> Grammar:
    """The grammar without useless nonterminals and rules, in the model and in its queries.

    Guarantees the same derivations. Start symbols stay, those of queries too, and so do all
    factors and domains; a grammar without useless symbols is returned as it is.
    """
    alive = productive(grammar)
    rules = tuple(
        r for r in grammar.rules if r.lhs in alive and alive.issuperset(_called(grammar, r))
    )
    pruned = grammar if len(rules) == len(grammar.rules) else replace(grammar, rules=rules)
    kept = reachable(pruned)
    rules = tuple(rule for rule in rules if rule.lhs in kept)
    starts = _starts(grammar)
    nonterminals = tuple(
        x for x in grammar.nonterminals if x.name in starts or (x.name in kept and x.name in alive)
    )
    if len(rules) == len(grammar.rules) and len(nonterminals) == len(grammar.nonterminals):
        return grammar
    names = {rule.name for rule in rules}
    labels = {nonterminal.name for nonterminal in nonterminals}
    queries = tuple(_trim_query(query, names, labels) for query in grammar.queries)
    return replace(grammar, rules=rules, nonterminals=nonterminals, queries=queries)


def _trim_query(query: Query, rules: set[str], nonterminals: set[str]) -> Query:
    """The query without its parts for model rules and nonterminals that are gone."""
    return replace(
        query,
        rules=tuple(rule for rule in query.rules if rule.name in rules),
        families=tuple(family for family in query.families if family.name in nonterminals),
    )


def needed_factors(grammar: Grammar) -> set[str]:
    """The factors that rules and queries use, and those that any factor follows from."""
    used = {edge.label for rule in grammar.rules for edge in rule.rhs.edges}
    return used | query_factors(grammar) | {s for f in grammar.factors for s in f.sources}


def query_factors(grammar: Grammar) -> set[str]:
    """The factors that queries add to rules."""
    return {edge.label for query in grammar.queries for r in query.rules for edge in r.edges}
