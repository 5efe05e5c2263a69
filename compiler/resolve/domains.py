"""Sizes and domains: their values, their checks, and the order of their dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import prod
from pathlib import Path

from fgg.compiler.resolve.scope import Scope
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import Label, did_you_mean
from fgg.files import read_limited, reason_of
from fgg.grammar import (
    Domain,
    Enumerated,
    FromFile,
    Grammar,
    Product,
    Reference,
    Shape,
    Size,
    Sized,
    Union,
)
from fgg.grammar.domains import MAX_SIZE, domain_size
from fgg.grammar.index import Expr
from fgg.grammar.spans import Span

MAX_VOCABULARY_BYTES = 64 * 1024 * 1024


def resolve_sizes(
    statements: Sequence[tree.SizeDecl], scope: Scope, overrides: Mapping[str, int]
) -> None:
    """Fill the scope's sizes; `overrides` replace what the file says."""
    scope.sizes.update({s.name.text: Size(name=s.name.text, value=Expr()) for s in statements})
    names = ", ".join(f"`{n}`" for n in scope.sizes)
    for name in overrides:
        if name not in scope.sizes:
            scope.report.add(
                "F410",
                f"the grammar has no size `{name}`",
                help=did_you_mean(name, scope.sizes)
                or ("its sizes are " + names if names else "it declares none"),
            )
        elif isinstance(overrides[name], bool) or not isinstance(overrides[name], int):
            scope.report.add(
                "F410", f"size `{name}` is set to {overrides[name]!r}, not to a whole number"
            )
    overrides = {n: v for n, v in overrides.items() if isinstance(v, int)}
    spans = {s.name.text: s for s in statements}
    for statement in statements:
        name = statement.name.text
        value = scope.expr(statement.value)
        if name in overrides:
            value = Expr.of(overrides[name])
        if value is None:
            scope.broken.add(name)
            del scope.sizes[name]
        else:
            scope.sizes[name] = Size(name=name, value=value, span=statement.name.span)
    order = _ordered({n: [x for x in s.value.names()] for n, s in scope.sizes.items()})
    if isinstance(order, list):
        cycle = [name for name in order if name in spans]
        first = spans[cycle[0]]
        scope.report.add(
            "F109",
            _cycle("size", order),
            first.name.span,
            "this one" if len(cycle) > 2 else "",
            labels=[
                Label(spans[n].name.span, "and this one") for n in cycle[1:-1] if n != cycle[0]
            ],
        )
        for name in set(cycle):
            scope.broken.add(name)
            scope.sizes.pop(name, None)
        resolve_rest = _ordered({n: [x for x in s.value.names()] for n, s in scope.sizes.items()})
        order = resolve_rest if isinstance(resolve_rest, tuple) else ()
    for name in order:
        if name in scope.sizes:
            _evaluate(scope.sizes[name], scope)


def _ordered(dependencies: Mapping[str, Sequence[str]]) -> tuple[str, ...] | list[str]:
    """Return the names in order of dependency, or a cycle of names as a list if there is one."""
    try:
        return tuple(TopologicalSorter(dependencies).static_order())
    except CycleError as error:
        return list(error.args[1])


def _cycle(kind: str, names: Sequence[str]) -> str:
    """Return the message for a cycle, whose last name is its first."""
    if len(names) == 2:
        return f"{kind} `{names[0]}` depends on itself"
    return f"{kind}s depend on each other: " + " -> ".join(f"`{name}`" for name in names)


def _evaluate(size: Size, scope: Scope) -> None:
    try:
        value = size.value.evaluate(scope.size_values)
    except KeyError:  # it depends on a size that has been reported
        value = None
    if value is None:
        scope.broken.add(size.name)
        del scope.sizes[size.name]
        return
    if not 0 <= value <= MAX_SIZE:
        shown = str(value) if abs(value) < 10**30 else "a number of more than 30 digits"
        scope.report.add(
            "F120",
            f"size `{size.name}` is {shown}, but a size lies between 0 and {MAX_SIZE}",
            size.span,
        )
        value = 1
    scope.size_values[size.name] = value


def resolve_domains(statements: Sequence[tree.DomainDecl], scope: Scope) -> None:
    """Fill the scope's domains, in the order of the file."""
    names = {s.name.text for s in statements} | set(scope.domains)
    shapes: dict[str, Shape] = {}
    spans = {s.name.text: s.name.span for s in statements}
    for statement in statements:
        shape = _shape(statement, names, scope)
        if shape is None:
            scope.broken.add(statement.name.text)
        else:
            shapes[statement.name.text] = shape
    parts = {
        name: list(shape.parts) if isinstance(shape, Union | Product) else []
        for name, shape in shapes.items()
    }
    order = _ordered(parts)
    if isinstance(order, list):
        scope.report.add(
            "F110",
            _cycle("domain", order),
            spans[order[0]],
            "this one" if len(order) > 2 else "",
            labels=[Label(spans[name], "and this one") for name in order[1:-1]],
            help="a domain is made of domains that can be counted before it",
        )
        scope.broken |= set(order)
        shapes = {n: s for n, s in shapes.items() if n not in order}
        rest = _ordered({n: [p for p in parts[n] if p in shapes] for n in shapes})
        order = rest if isinstance(rest, tuple) else ()
    known = tuple(scope.domains.values())
    brought = Grammar(start=Reference(label=""), sizes=tuple(scope.sizes.values()), domains=known)
    sizes = {domain.name: domain_size(brought, domain.name) for domain in known}
    for name in order:
        if name in shapes:
            _measure(name, shapes, sizes, spans[name], scope)
    for statement in statements:
        name = statement.name.text
        if name in sizes:
            scope.domains[name] = Domain(
                name=name, shape=shapes[name], rank=statement.rank, span=statement.name.span
            )
        else:
            scope.broken.add(name)


def _measure(
    name: str, shapes: Mapping[str, Shape], sizes: dict[str, int], span: Span, scope: Scope
) -> None:
    """Evaluate the number of values of a domain and check it."""
    shape = shapes[name]
    if isinstance(shape, Sized):
        size = shape.size.evaluate(scope.size_values)
        assert size is not None
    elif isinstance(shape, Union | Product):
        if not all(part in sizes for part in shape.parts):
            return
        inner = [sizes[part] for part in shape.parts]
        size = sum(inner) if isinstance(shape, Union) else prod(inner)
    else:
        size = len(shape.values)
    if not 1 <= size <= MAX_SIZE:
        shown = str(size) if abs(size) < 10**30 else "more than 10^30"
        what = "no values" if size < 1 else f"{shown} values"
        scope.report.add(
            "F121",
            f"domain `{name}` has {what}",
            span,
            help=f"a domain has between 1 and {MAX_SIZE} values",
        )
        size = 1
    sizes[name] = size


def _shape(statement: tree.DomainDecl, names: set[str], scope: Scope) -> Shape | None:
    definition = statement.definition
    if isinstance(definition, tree.Enumeration):
        return _enumerated(definition, scope)
    if isinstance(definition, tree.CallLiteral):
        return _from_file(definition, scope)
    used = _names(definition)
    if not any(name.text in names for name in used):
        size = scope.expr(definition)
        return None if size is None else Sized(size)
    if statement.rank:
        scope.report.add("F124", "a rank domain is given by a number", definition.span)
        return None
    return _composed(definition, names, scope)


def _composed(node: tree.Arithmetic, names: set[str], scope: Scope) -> Shape | None:
    """Return a union or product of domains; None, and a report, if it is neither."""
    if isinstance(node, tree.NameRef):
        return Union((node.name.text,))
    items: Sequence[tree.Arithmetic]
    if isinstance(node, tree.Sum) and all(sign > 0 for sign, _ in node.terms):
        items = [term for _, term in node.terms]
    elif isinstance(node, tree.Times):
        items = node.factors
    else:
        items = ()
    parts = [item.name for item in items if isinstance(item, tree.NameRef)]
    declared = names | set(scope.sizes)
    if any(part.text in scope.broken and part.text not in declared for part in parts):
        return None
    if not items or len(parts) < len(items) or not all(p.text in names for p in parts):
        wrong = [p for p in parts if p.text not in names]
        known = bool(wrong) and wrong[0].text in scope.sizes
        scope.report.add(
            "F124",
            "a domain is made of domains (`A + B`, `A * B`) or of sizes, not of both",
            node.span,
            help=(
                f"`{wrong[0].text}` is a size: declare a domain of that size first"
                if known
                else did_you_mean(wrong[0].text, names)
                if wrong
                else "declare the inner domain first, with a name"
            ),
        )
        return None
    seen: dict[str, Name] = {}
    for part in parts:
        if part.text in seen:
            scope.report.add(
                "F123",
                f"`{part.text}` is a part twice, so `.{part.text}` would be ambiguous",
                part.span,
                labels=[Label(seen[part.text].span, "first here")],
                help=f"declare a copy: `domain {part.text}2 = {part.text}`",
            )
            return None
        seen[part.text] = part
    shape = tuple(part.text for part in parts)
    return Union(shape) if isinstance(node, tree.Sum) else Product(shape)


def _names(node: tree.Arithmetic) -> list[Name]:
    if isinstance(node, tree.NameRef):
        return [node.name]
    if isinstance(node, tree.Negated):
        return _names(node.operand)
    if isinstance(node, tree.Sum):
        return [name for _, term in node.terms for name in _names(term)]
    if isinstance(node, tree.Times):
        return [name for factor in node.factors for name in _names(factor)]
    return []


def _enumerated(node: tree.Enumeration, scope: Scope) -> Shape:
    seen: dict[str, Name] = {}
    for value in node.values:
        if value.text in seen:
            scope.report.add(
                "F122",
                f"value `{value.text}` is listed twice",
                value.span,
                labels=[Label(seen[value.text].span, "first here")],
            )
        seen.setdefault(value.text, value)
    return Enumerated(tuple(seen))


def _from_file(node: tree.CallLiteral, scope: Scope) -> Shape | None:
    path = node.arguments[0] if len(node.arguments) == 1 and not node.keywords else None
    if node.name.text != "file" or not isinstance(path, tree.StringLiteral):
        scope.report.add(
            "F132",
            f"`{node.name.text}(…)` is not a domain",
            node.span,
            help='a domain\'s values can be read from a file: `file("vocab.txt")`',
        )
        return None
    try:
        values = read_vocabulary(Path(scope.folder) / path.text)
    except (OSError, ValueError) as error:
        message = f"the vocabulary `{path.text}` cannot be used: {reason_of(error)}"
        scope.report.add("F403", message, path.span)
        return None
    return FromFile(path.text, values)


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """Return the values in a vocabulary file, one on each line. Raises OSError or ValueError."""
    try:
        lines = read_limited(path, MAX_VOCABULARY_BYTES).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    if lines and not lines[-1]:
        lines.pop()
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        value = line.rstrip("\r")
        if not value:
            raise ValueError(f"line {number} is empty")
        if value in seen:
            raise ValueError(f"line {number} repeats line {seen[value]}, `{value}`")
        seen[value] = number
    return tuple(seen)
