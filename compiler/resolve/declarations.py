"""Declarations that the model and its queries share: inputs, families, start symbols."""

from __future__ import annotations

from collections.abc import Iterable

from fgg.compiler.resolve.factors import resolve_attribute
from fgg.compiler.resolve.scope import Scope, place_of, usual_indices
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import Label, Report, did_you_mean
from fgg.grammar import Input, InputFactor, InputTable, Nonterminal, Reference
from fgg.grammar.definitions import Slice, read_definition
from fgg.grammar.spans import Span


def declare_inputs(
    statements: Iterable[tree.InputDecl | tree.InputTableDecl], scope: Scope
) -> tuple[tuple[Input, ...], tuple[InputTable, ...]]:
    """Add inputs and tables to the scope; names in shapes that are not sizes are lengths."""
    inputs: list[Input] = []
    tables: list[InputTable] = []
    for statement in statements:
        name = statement.name
        earlier = scope.inputs.get(name.text) or scope.tables.get(name.text)
        if earlier is not None and earlier.span is not None:
            duplicate(name, earlier.span, scope.report)
            continue
        names: set[str] = set()
        shape = scope.affines(statement.shape, names)
        scope.lengths |= names
        if isinstance(statement, tree.InputTableDecl):
            if shape is not None:
                table = InputTable(name=name.text, shape=shape, span=name.span)
                scope.tables[name.text] = table
                tables.append(table)
                continue
        else:
            domain = scope.domain_name(statement.domain)
            if shape is not None and domain is not None:
                item = Input(name=name.text, domain=domain, shape=shape, span=name.span)
                scope.inputs[name.text] = item
                inputs.append(item)
                continue
        scope.broken.add(name.text)
    return tuple(inputs), tuple(tables)


def declare_nonterminal(statement: tree.NonterminalDecl, scope: Scope) -> None:
    """Add a nonterminal to the scope."""
    name = statement.name
    domains = scope.domain_names(statement.domains or ())
    variables = index_variables(statement.variables, scope)
    conditions = scope.range_conditions(statement.conditions, {v.text for v in statement.variables})
    if domains is None or variables is None:
        scope.broken.add(name.text)
        return
    scope.nonterminals[name.text] = Nonterminal(
        name=name.text, domains=domains, indices=variables, conditions=conditions, span=name.span
    )


def declare_input_factor(statement: tree.InputFactorDecl, scope: Scope) -> InputFactor | None:
    """Add an input factor to the scope and return it; unknown names in its range are lengths."""
    name = statement.name
    earlier = scope.label(name.text)
    if earlier is not None and earlier.span is not None:
        duplicate(name, earlier.span, scope.report)
        return None
    domains = scope.domain_names(statement.domains)
    variables = index_variables(statement.variables, scope)
    indices = {v.text for v in statement.variables}
    used: set[str] = set()
    for condition in statement.conditions:
        scope.affines(condition.terms, used)
    scope.lengths |= used - indices
    conditions = scope.range_conditions(statement.conditions, indices)
    if domains is None or variables is None:
        scope.broken.add(name.text)
        return None
    factor = InputFactor(
        name=name.text,
        domains=domains,
        indices=variables,
        conditions=conditions,
        definition=_definition(statement, scope),
        span=name.span,
    )
    scope.input_factors[name.text] = factor
    return factor


def _definition(statement: tree.InputFactorDecl, scope: Scope) -> Slice | None:
    """Return the definition of an input factor. It has no parameters, so it can only be a slice."""
    definition = None
    for node in statement.attributes:
        if node.key.text != "slice":
            scope.report.add(
                "F133",
                f"an input factor has no attribute `{node.key.text}`",
                node.key.span,
                help="its log-potentials are given at run time; the one attribute is `slice`",
            )
            continue
        attribute = resolve_attribute(node, scope)
        if attribute is not None:
            definition = read_definition(attribute.key, attribute.value, attribute.span)
    return definition if isinstance(definition, Slice) else None


def index_variables(names: Iterable[Name], scope: Scope) -> tuple[str, ...] | None:
    """Return the index variables of a family: distinct names that are neither sizes nor lengths.

    Reports a name that cannot be one, and returns None.
    """
    first: dict[str, Name] = {}
    good = True
    for name in names:
        if name.text in scope.sizes or name.text in scope.lengths:
            good = False
            kind = "size" if name.text in scope.sizes else "length"
            scope.report.add(
                "F142",
                f"`{name.text}` is a {kind}, but an index variable needs another name",
                name.span,
            )
        elif name.text in first:
            good = False
            scope.report.add(
                "F142",
                f"index variable `{name.text}` is used twice, but each index needs its own",
                name.span,
                labels=[Label(first[name.text].span, "first here")],
            )
        first[name.text] = name
    return tuple(first) if good else None


def start_reference(
    statement: tree.StartDecl, scope: Scope, arity: int | None = None
) -> Reference | None:
    """Return the nonterminal and the indices of a `start` statement; report if they are wrong."""
    name = statement.name
    nonterminal = scope.nonterminals.get(name.text)
    if nonterminal is None:
        if name.text not in scope.broken:
            scope.report.add(
                "F106",
                f"there is no nonterminal `{name.text}`",
                name.span,
                help=did_you_mean(name.text, scope.nonterminals),
            )
        return None
    variables: set[str] = set()
    indices = scope.affines(statement.indices, variables)
    if indices is None:
        return None
    for variable in sorted(variables):
        scope.report.add(
            "F101",
            f"`{variable}` in the start symbol's index is neither a size nor a length",
            place_of(variable, statement.indices) or statement.span,
            help=did_you_mean(variable, [*scope.sizes, *scope.lengths]),
        )
    usual = arity is not None and arity != len(nonterminal.indices)
    wanted = usual_indices(arity or 0) if usual else nonterminal.indices
    if not scope.check_count(name, len(indices), wanted, nonterminal.span):
        return None
    return Reference(label=name.text, indices=indices, span=name.span)


def duplicate(name: Name, first: Span, report: Report) -> None:
    """Report a name that is declared twice."""
    report.add(
        "F107",
        f"`{name.text}` is declared twice",
        name.span,
        labels=[Label(first, "first declared here")],
        help="rename one of them",
    )
