"""Conjunction: a model with a query, and two grammars in general [CR §4].

Two rules that have the same nodes and the same nonterminal attachments become one rule with the
factors of both; a nonterminal of the result is a pair of nonterminals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from fgg.diagnostics import Diagnostic, GrammarError, refuse
from fgg.grammar import (
    Domain,
    Edge,
    Factor,
    Fragment,
    Grammar,
    Nonterminal,
    Origin,
    Query,
    QueryRule,
    Reference,
    Rule,
    Size,
)
from fgg.grammar.domains import lengths
from fgg.grammar.index import Condition, Expr
from fgg.grammar.names import fresh

INDEX_NAMES = ("i", "j", "k", "l", "p", "q")

D = TypeVar("D", Size, Domain, Factor)


def conjoin(grammar: Grammar, query: Query) -> Grammar:
    """The model with its nonterminals indexed, and its nodes fixed, as the query says [CR §4].

    Requires a query of this grammar. Guarantees a grammar without queries whose derivations are
    the model's derivations that the query admits.
    """
    taken: set[str] = set()
    rules: list[Rule] = []
    by_name: dict[str, list[QueryRule]] = {}
    for query_rule in query.rules:
        by_name.setdefault(query_rule.name, []).append(query_rule)
    for rule in grammar.rules:
        for query_rule in by_name.get(rule.name, ()):
            name = fresh(rule.name, taken)
            taken.add(name)
            rules.append(_conjoin_rule(grammar, rule, query_rule, name))
    start = grammar.start
    if query.start is not None:
        indices = start.indices + query.start.indices
        start = replace(query.start, indices=indices)
    used = {start.label, *(rule.lhs for rule in rules)}
    used |= {edge.label for rule in rules for edge in rule.rhs.edges}
    inputs = grammar.inputs + query.inputs
    tables = grammar.tables + query.tables
    result = replace(
        grammar,
        start=start,
        inputs=inputs,
        input_factors=grammar.input_factors + query.input_factors,
        tables=tables,
        rules=tuple(rules),
        queries=(),
        name=f"{grammar.name}_{query.name}",
    )
    reserved = set(grammar.size) | lengths(result)
    nonterminals = tuple(
        _index(nonterminal, query, reserved)
        for nonterminal in grammar.nonterminals
        if nonterminal.name in used
    )
    return replace(result, nonterminals=nonterminals)


def _conjoin_rule(grammar: Grammar, rule: Rule, query: QueryRule, name: str) -> Rule:
    query = _apart(rule, query)
    body = iter(query.body)
    edges: list[Edge] = []
    for edge in rule.rhs.edges:
        if edge.label in grammar.nonterminal:
            reference = next(body)
            indices = edge.indices + reference.indices
            edge = replace(edge, indices=indices, span=reference.span or edge.span)
        edges.append(edge)
    return Rule(
        name=name,
        lhs=rule.lhs,
        indices=rule.indices + query.head.indices,
        rhs=Fragment.make(
            rule.rhs.nodes,
            tuple(edges) + query.edges,
            rule.rhs.clamps + query.clamps,
            rule.rhs.externals,
        ),
        conditions=rule.conditions + query.conditions,
        origin=Origin(rule=rule.name),
        span=query.span or rule.span,
        head_span=query.head.span or rule.head_span,
    )


def _apart(rule: Rule, query: QueryRule) -> QueryRule:
    """The query rule with index variables that the model rule does not use."""
    mine = rule_names(rule.indices, rule.rhs.edges, rule.conditions)
    if not mine or not rule.indices:
        return query
    theirs = rule_names(query.head.indices, query.edges, query.conditions)
    theirs |= {n for ref in query.body for e in ref.indices for n in e.names()}
    renaming: dict[str, int | Expr] = {}
    for name in sorted(mine & theirs):
        renaming[name] = Expr.of(fresh(name, mine | theirs))
    if not renaming:
        return query

    def change(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(e.substitute(renaming) for e in exprs)

    return replace(
        query,
        head=replace(query.head, indices=change(query.head.indices)),
        body=tuple(replace(r, indices=change(r.indices)) for r in query.body),
        edges=tuple(replace(e, indices=change(e.indices)) for e in query.edges),
        clamps=tuple(replace(c, indices=change(c.indices)) for c in query.clamps),
        conditions=tuple(c.substitute(renaming) for c in query.conditions),
    )


def rule_names(
    indices: Sequence[Expr], edges: Sequence[Edge], conditions: Sequence[Condition]
) -> set[str]:
    """The names in index expressions and conditions."""
    exprs = [*indices, *(e for edge in edges for e in edge.indices)]
    exprs += [term for condition in conditions for term in condition.terms]
    return {name for expr in exprs for name in expr.names()}


def _index(nonterminal: Nonterminal, query: Query, reserved: set[str]) -> Nonterminal:
    """The nonterminal with the indices that the query gives it."""
    family = next((f for f in query.families if f.name == nonterminal.name), None)
    if family is not None:
        return replace(
            nonterminal,
            indices=nonterminal.indices + family.indices,
            conditions=nonterminal.conditions + family.conditions,
            span=family.span,
        )
    references = [query.start] if query.start is not None else []
    references += [ref for rule in query.rules for ref in (rule.head, *rule.body)]
    first = next((ref for ref in references if ref.label == nonterminal.name), None)
    names = list(nonterminal.indices)
    for position in range(len(first.indices) if first is not None else 0):
        wanted = INDEX_NAMES[position] if position < len(INDEX_NAMES) else f"i{position + 1}"
        names.append(fresh(wanted, reserved | set(names)))
    return replace(
        nonterminal,
        indices=tuple(names),
        span=first.span if first is not None and first.span else nonterminal.span,
    )


def conjunction(left: Grammar, right: Grammar, *, by_name: bool = False) -> Grammar:
    """The conjunction of two grammars [CR §4].

    Rules pair where they have the same nodes, external nodes and nonterminal attachments, in
    order; with `by_name` they must also have the same name. Only pairs of nonterminals that
    can be reached from the start are kept. Both grammars must be free of indices.
    """
    for grammar in (left, right):
        if grammar.is_indexed:
            refuse("F303", f"grammar `{grammar.name}` has indices or inputs")
    merged = merge_declarations(left, right)
    start = (left.start.label, right.start.label)
    names: dict[tuple[str, str], str] = {}
    agenda = [start]
    labels = set(merged.factor)

    def name_of(pair: tuple[str, str]) -> str:
        if pair not in names:
            names[pair] = fresh(f"{pair[0]}_{pair[1]}", labels | set(names.values()))
            agenda.append(pair)
        return names[pair]

    name_of(start)
    rules: list[Rule] = []
    taken: set[str] = set()
    done: set[tuple[str, str]] = set()
    while agenda:
        pair = agenda.pop(0)
        if pair in done:
            continue
        done.add(pair)
        for one in left.rules_of.get(pair[0], ()):
            for two in right.rules_of.get(pair[1], ()):
                if by_name and one.name != two.name:
                    continue
                if not _conjoinable(one, two, left, right):
                    continue
                name = fresh(one.name if one.name == two.name else f"{one.name}_{two.name}", taken)
                taken.add(name)
                partners = iter([e for e in two.rhs.edges if e.label in right.nonterminal])
                edges = [
                    replace(edge, label=name_of((edge.label, next(partners).label)))
                    if edge.label in left.nonterminal
                    else edge
                    for edge in one.rhs.edges
                ]
                edges += [edge for edge in two.rhs.edges if edge.label not in right.nonterminal]
                rhs = Fragment.make(one.rhs.nodes, tuple(edges), (), one.rhs.externals)
                rules.append(Rule(name=name, lhs=name_of(pair), rhs=rhs))
    return replace(
        merged,
        start=Reference(label=names[start]),
        nonterminals=tuple(
            Nonterminal(name=name, domains=left.nonterminal[pair[0]].domains)
            for pair, name in names.items()
        ),
        rules=tuple(rules),
        name=f"{left.name}_{right.name}",
    )


def _conjoinable(one: Rule, two: Rule, left: Grammar, right: Grammar) -> bool:
    def outline(rule: Rule, grammar: Grammar) -> object:
        return (
            {node.name: node.domain for node in rule.rhs.nodes},
            rule.rhs.externals,
            [e.attachments for e in rule.rhs.edges if e.label in grammar.nonterminal],
        )

    return outline(one, left) == outline(two, right)


def merge_declarations(left: Grammar, right: Grammar) -> Grammar:
    """Sizes, domains and factors of both grammars; what both declare must be the same."""
    problems: list[Diagnostic] = []

    def merge(kind: str, ones: tuple[D, ...], twos: tuple[D, ...]) -> tuple[D, ...]:
        declared = {item.name: item for item in ones}
        for item in twos:
            if declared.setdefault(item.name, item) != item:
                problems.append(
                    Diagnostic(
                        code="F304",
                        message=f"{kind} `{item.name}` is declared differently in two grammars",
                        help="rename one of them first",
                    )
                )
        return tuple(declared.values())

    sizes = merge("size", left.sizes, right.sizes)
    domains = merge("domain", left.domains, right.domains)
    factors = merge("factor", left.factors, right.factors)
    for name in sorted(
        set(left.factor) & set(right.nonterminal) | set(right.factor) & set(left.nonterminal)
    ):
        problems.append(
            Diagnostic(
                code="F304",
                message=f"`{name}` is a factor in one grammar, a nonterminal in the other",
            )
        )
    if problems:
        raise GrammarError(problems)
    return Grammar(start=left.start, sizes=sizes, domains=domains, factors=factors)
