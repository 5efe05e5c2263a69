"""`use`: what a grammar takes over from another file, and under which names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from fgg.compiler.resolve.scope import Scope
from fgg.compiler.syntax.tree import UseDecl
from fgg.diagnostics import Label, Report
from fgg.grammar import (
    Domain,
    Factor,
    FromFile,
    Grammar,
    Input,
    InputFactor,
    InputTable,
    Nonterminal,
    Rule,
    Size,
)
from fgg.grammar.domains import lengths
from fgg.grammar.values import Load, Map
from fgg.rewrite.rename import rename
from fgg.rewrite.trim import needed_factors, reachable

Declared = Size | Domain | Factor | Nonterminal | InputFactor | Input | InputTable | Rule
Item = TypeVar("Item", Size, Domain, Factor, Nonterminal, InputFactor, Input, InputTable, Rule)


def sizes_within(sizes: Mapping[str, int], statement: UseDecl) -> dict[str, int]:
    """Return the sizes that are set for a file that is used, by the names it has for them."""
    if statement.prefix is None:
        return dict(sizes)
    prefix = f"{statement.prefix.text}_"
    return {n.removeprefix(prefix): value for n, value in sizes.items() if n.startswith(prefix)}


def bring(model: Grammar, broken: Iterable[str], folder: str, use: UseDecl, scope: Scope) -> None:
    """Put the declarations of a model, which has no start and no queries, into a scope."""
    prefix = f"{use.prefix.text}_" if use.prefix is not None else ""
    scope.broken |= {_prefixed(name, prefix) for name in broken}
    model = relocated(model, os.path.relpath(folder, scope.folder or "."), scope.folder)
    model = rename(model, prefix=prefix) if prefix else model
    numbers: dict[str, Declared] = {**scope.sizes, **scope.domains}
    _add(scope.sizes, model.size, numbers, use, scope.report)
    _add(scope.domains, model.domain, numbers, use, scope.report)
    labels = {name: scope.label(name) for name in scope.all_labels()}
    _add(scope.factors, model.factor, labels, use, scope.report)
    _add(scope.nonterminals, model.nonterminal, labels, use, scope.report)
    _add(scope.input_factors, model.input_factor, labels, use, scope.report)
    given: dict[str, Declared] = {**scope.inputs, **scope.tables}
    _add(scope.inputs, model.input, given, use, scope.report)
    _add(scope.tables, model.table, given, use, scope.report)
    rules = {rule.name: rule for rule in model.rules}
    _add(scope.rules, rules, dict(scope.rules), use, scope.report)
    scope.lengths |= lengths(model)


def _add(
    table: dict[str, Item],
    new: Mapping[str, Item],
    known: Mapping[str, Declared | None],
    use: UseDecl,
    report: Report,
) -> None:
    """Add declarations to a table; report those whose names are known as something else.

    A file that is used twice brings each declaration twice, which is no mistake.
    """
    for name, item in new.items():
        earlier = known.get(name)
        if earlier is None:
            table[name] = item
        elif earlier != item or earlier.span != item.span:
            report.add(
                "F107",
                f"`{use.path.text}` declares `{name}`, which is declared already",
                use.path.span,
                labels=[Label(place, "here") for place in (earlier.span, item.span) if place],
                help=""
                if use.prefix
                else f'write `use "{use.path.text}" as m`: then it is called `m_{name}`',
            )


def _prefixed(name: str, prefix: str) -> str:
    kind, _, rest = name.rpartition(" ")
    return f"{kind} {prefix}{rest}" if kind else f"{prefix}{rest}"


def relocated(model: Grammar, below: str, folder: str) -> Grammar:
    """Return the grammar with the paths of its files seen from another folder."""
    if below == ".":
        return model

    def seen(path: str) -> str:
        return path if os.path.isabs(path) else os.path.normpath(os.path.join(below, path))

    def domain(item: Domain) -> Domain:
        if not isinstance(item.shape, FromFile):
            return item
        return replace(item, shape=replace(item.shape, path=seen(item.shape.path)))

    def factor(item: Factor) -> Factor:
        value = item.value
        if not isinstance(value, Load | Map) or not value.path:
            return item
        return replace(item, value=replace(value, path=seen(value.path), folder=folder))

    return replace(
        model,
        domains=tuple(map(domain, model.domains)),
        factors=tuple(map(factor, model.factors)),
    )


def without_unused(grammar: Grammar, brought: Scope) -> Grammar:
    """Return the grammar without what it has brought along and does not use.

    Sizes, domains and tables stay. `brought` is the scope before the grammar's own statements.
    """
    kept = reachable(grammar)
    kept |= {n.name for n in grammar.nonterminals if n.name not in brought.nonterminals}
    rules = tuple(r for r in grammar.rules if r.name not in brought.rules or r.lhs in kept)
    grammar = replace(
        grammar,
        rules=rules,
        nonterminals=tuple(n for n in grammar.nonterminals if n.name in kept),
    )
    needed = needed_factors(grammar)
    read = {clamp.input for rule in rules for clamp in rule.rhs.clamps}
    read |= {clamp.input for q in grammar.queries for r in q.rules for clamp in r.clamps}
    return replace(
        grammar,
        factors=tuple(
            f for f in grammar.factors if f.name in needed or f.name not in brought.factors
        ),
        input_factors=tuple(
            f
            for f in grammar.input_factors
            if f.name in needed or f.name not in brought.input_factors
        ),
        inputs=tuple(i for i in grammar.inputs if i.name in read or i.name not in brought.inputs),
    )
