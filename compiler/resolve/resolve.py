"""From the syntax tree to a Grammar: declarations, then rules, then queries.

All errors are reported. Statements without errors are kept, so that one mistake does not hide the
next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from fgg.compiler.resolve.files import File, Files
from fgg.compiler.resolve.query import resolve_query
from fgg.compiler.resolve.rules import resolve_rule
from fgg.compiler.resolve.scope import Scope
from fgg.compiler.resolve.use import bring, sizes_within, without_unused
from fgg.compiler.syntax import tree
from fgg.diagnostics import Label, Report
from fgg.grammar import (
    Domain,
    Factor,
    Grammar,
    InputFactor,
    Nonterminal,
    Query,
    Reference,
    Size,
)
from fgg.grammar.constants import indicators_last
from fgg.grammar.names import fresh
from fgg.grammar.spans import Span

Declared = Size | Domain | Factor | Nonterminal | InputFactor

Declaration = TypeVar(
    "Declaration",
    tree.SizeDecl | tree.DomainDecl,
    tree.FactorDecl | tree.NonterminalDecl | tree.InputFactorDecl,
    tree.InputDecl | tree.InputTableDecl,
    tree.QueryDecl,
)


def resolve(
    file: File, files: Files, *, name: str, sizes: Mapping[str, int] | None = None
) -> Grammar:
    """Return the grammar that a file describes, without the statements that have errors.

    Raises Unusable if a file that it uses cannot be read.
    """
    statements, report = file.statements, files.report
    scope = Scope(report, file.folder, broken=set(file.broken))
    brought = bring_used(statements, scope, files, sizes or {})
    resolve_model(statements, scope, sizes or {})
    start = _start([s for s in statements if isinstance(s, tree.StartDecl)], scope)
    queries = _queries([s for s in statements if isinstance(s, tree.QueryDecl)], scope, start)
    grammar = replace(model_of(scope, name), start=start or Reference(label=""), queries=queries)
    return with_blocks(indicators_last(without_unused(grammar, brought), brought.factors), report)


def bring_used(
    statements: Sequence[tree.Statement], scope: Scope, files: Files, sizes: Mapping[str, int]
) -> Scope:
    """Put the declarations of files that statements use into a scope; return a copy of it then."""
    for statement in statements:
        if isinstance(statement, tree.UseDecl):
            file = files.enter(statement, scope.folder)
            inner = Scope(files.report, file.folder, broken=set(file.broken))
            known = sizes_within(sizes, statement)
            bring_used(file.statements, inner, files, known)
            resolve_model(file.statements, inner, known, all_sizes=False)
            files.leave()
            bring(model_of(inner, ""), inner.broken, file.folder, statement, scope)
    return scope.copied()


def model_of(scope: Scope, name: str) -> Grammar:
    """Return the grammar of all that a scope holds, without a start symbol."""
    return Grammar(
        name=name,
        start=Reference(label=""),
        sizes=tuple(scope.sizes.values()),
        domains=tuple(scope.domains.values()),
        inputs=tuple(scope.inputs.values()),
        input_factors=tuple(scope.input_factors.values()),
        tables=tuple(scope.tables.values()),
        factors=tuple(scope.factors.values()),
        nonterminals=tuple(scope.nonterminals.values()),
        rules=tuple(scope.rules.values()),
    )


def resolve_model(
    statements: Sequence[tree.Statement],
    scope: Scope,
    sizes: Mapping[str, int],
    *,
    all_sizes: bool = True,
) -> None:
    """Put all that statements declare into a scope, but for start symbols and queries.

    `sizes` replace those of the text; if `all_sizes`, others than those are reported.
    """
    report = scope.report
    numbers = unique(
        [s for s in statements if isinstance(s, tree.SizeDecl | tree.DomainDecl)],
        report,
        {**scope.sizes, **scope.domains},
    )
    declared = [s for s in numbers if isinstance(s, tree.SizeDecl)]
    if not all_sizes:
        sizes = {s.name.text: sizes[s.name.text] for s in declared if s.name.text in sizes}
    resolve_sizes(declared, scope, sizes)
    resolve_domains([s for s in numbers if isinstance(s, tree.DomainDecl)], scope)
    inputs = [s for s in statements if isinstance(s, tree.InputDecl | tree.InputTableDecl)]
    labels = [
        s
        for s in statements
        if isinstance(s, tree.FactorDecl | tree.NonterminalDecl | tree.InputFactorDecl)
    ]
    declare_inputs(inputs, scope)
    distinct = unique(labels, report, {n: scope.label(n) for n in scope.all_labels()})
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
    _rules([s for s in statements if isinstance(s, tree.RuleDecl)], scope)


def unique(
    declarations: Sequence[Declaration], report: Report, known: Mapping[str, Declared | None]
) -> list[Declaration]:
    """Return the first declaration of each name, and report the others.

    `known` are the declarations of other files that are used.
    """
    first: dict[str, Declaration] = {}
    for declaration in declarations:
        name = declaration.name
        earlier = known.get(name.text)
        if name.text in first:
            duplicate(name, first[name.text].name.span, report)
        elif earlier is not None and earlier.span is not None:
            duplicate(name, earlier.span, report)
        else:
            first[name.text] = declaration
    return list(first.values())


def _rules(statements: Sequence[tree.RuleDecl], scope: Scope) -> None:
    named: dict[str, Span | None] = {name: rule.span for name, rule in scope.rules.items()}
    for statement in statements:
        if statement.name is not None:
            earlier = named.setdefault(statement.name.text, statement.name.span)
            if earlier is not None and earlier != statement.name.span:
                duplicate(statement.name, earlier, scope.report)
    taken = set(named)
    for statement in statements:
        name = statement.name.text if statement.name else fresh(statement.head.label.text, taken)
        taken.add(name)
        rule = resolve_rule(statement, name, scope)
        if rule is not None:
            scope.rules.setdefault(name, rule)
        else:
            scope.broken.add(f"rule {name}")


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
    for statement in unique(statements, scope.report, {}):
        query = resolve_query(statement, scope.inner(), start)
        if query is not None:
            queries.append(query)
    return tuple(queries)
