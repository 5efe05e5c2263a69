"""From the syntax tree to a Grammar: declarations, then rules, then queries.

All errors are reported. Statements without errors are kept, so that one mistake does not hide the
next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from fgg.compiler.resolve.blocks import with_blocks
from fgg.compiler.resolve.declarations import (
    declare_input_factor,
    declare_inputs,
    declare_nonterminal,
    duplicate,
    start_reference,
)
from fgg.compiler.resolve.domains import resolve_domains, resolve_sizes
from fgg.compiler.resolve.factors import resolve_factor
from fgg.compiler.resolve.query import resolve_query
from fgg.compiler.resolve.rules import resolve_rule
from fgg.compiler.resolve.scope import Scope
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import Label, Report
from fgg.grammar import Grammar, Query, Reference, Rule
from fgg.grammar.names import fresh

Declaration = TypeVar(
    "Declaration",
    tree.SizeDecl | tree.DomainDecl,
    tree.FactorDecl | tree.NonterminalDecl | tree.InputFactorDecl,
    tree.InputDecl | tree.InputTableDecl,
    tree.QueryDecl,
)


def resolve(
    statements: Sequence[tree.Statement],
    report: Report,
    *,
    name: str,
    folder: str = ".",
    sizes: Mapping[str, int] | None = None,
    broken: Collection[str] = (),
) -> Grammar:
    """Return the grammar that statements describe, without those that have errors.

    `broken` holds names whose declarations could not be parsed: their uses are not reported.
    """
    scope = Scope(report, folder, broken=set(broken))
    numbers = unique(
        [s for s in statements if isinstance(s, tree.SizeDecl | tree.DomainDecl)], report
    )
    resolve_sizes([s for s in numbers if isinstance(s, tree.SizeDecl)], scope, sizes or {})
    resolve_domains([s for s in numbers if isinstance(s, tree.DomainDecl)], scope)
    inputs = [s for s in statements if isinstance(s, tree.InputDecl | tree.InputTableDecl)]
    labels = [
        s
        for s in statements
        if isinstance(s, tree.FactorDecl | tree.NonterminalDecl | tree.InputFactorDecl)
    ]
    declare_inputs(inputs, scope)
    distinct = unique(labels, report)
    for statement in distinct:  # input factors first: their ranges may name lengths
        if isinstance(statement, tree.InputFactorDecl):
            declare_input_factor(statement, scope)
    for statement in distinct:
        if isinstance(statement, tree.FactorDecl):
            factor = resolve_factor(statement, scope)
            if factor is not None:
                scope.factors[factor.name] = factor
        elif isinstance(statement, tree.NonterminalDecl):
            declare_nonterminal(statement, scope)
    rules = _rules([s for s in statements if isinstance(s, tree.RuleDecl)], scope)
    start = _start([s for s in statements if isinstance(s, tree.StartDecl)], scope)
    queries = _queries([s for s in statements if isinstance(s, tree.QueryDecl)], scope, start)
    grammar = Grammar(
        name=name,
        sizes=tuple(scope.sizes.values()),
        domains=tuple(scope.domains.values()),
        inputs=tuple(scope.inputs.values()),
        input_factors=tuple(scope.input_factors.values()),
        tables=tuple(scope.tables.values()),
        factors=tuple(scope.factors.values()),
        nonterminals=tuple(scope.nonterminals.values()),
        start=start or Reference(label=""),
        rules=rules,
        queries=queries,
    )
    return with_blocks(grammar, report)


def unique(declarations: Sequence[Declaration], report: Report) -> list[Declaration]:
    """Return the first declaration of each name, and report the others."""
    first: dict[str, Declaration] = {}
    for declaration in declarations:
        name = declaration.name
        if name.text in first:
            duplicate(name, first[name.text].name.span, report)
        else:
            first[name.text] = declaration
    return list(first.values())


def _rules(statements: Sequence[tree.RuleDecl], scope: Scope) -> tuple[Rule, ...]:
    named: dict[str, Name] = {}
    for statement in statements:
        if statement.name is not None:
            if statement.name.text in named:
                duplicate(statement.name, named[statement.name.text].span, scope.report)
            named.setdefault(statement.name.text, statement.name)
    taken = set(named)
    rules = []
    for statement in statements:
        name = statement.name.text if statement.name else fresh(statement.head.label.text, taken)
        taken.add(name)
        rule = resolve_rule(statement, name, scope)
        if rule is not None:
            rules.append(rule)
            scope.rules.setdefault(name, rule)
        else:
            scope.broken.add(f"rule {name}")
    return tuple(rules)


def _start(statements: Sequence[tree.StartDecl], scope: Scope) -> Reference | None:
    if not statements:
        first = next(iter(scope.nonterminals), None)
        if "start symbol" not in scope.broken:
            scope.report.add(
                "F136",
                "the grammar has no start symbol",
                help=f"add `start {first}`" if first else "add `nonterminal S()` and `start S`",
            )
        return None
    for statement in statements[1:]:
        scope.report.add(
            "F137",
            "this is a second start symbol, but a grammar has one",
            statement.span,
            labels=[Label(statements[0].span, "the first one")],
        )
    return start_reference(statements[0], scope)


def _queries(
    statements: Sequence[tree.QueryDecl], scope: Scope, start: Reference | None
) -> tuple[Query, ...]:
    queries = []
    for statement in unique(statements, scope.report):
        query = resolve_query(statement, scope.inner(), start)
        if query is not None:
            queries.append(query)
    return tuple(queries)
