"""Factors: signatures, ranks, values and attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from fgg.compiler.resolve.scope import Scope
from fgg.compiler.syntax import tree as syntax
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import GrammarError, Label, did_you_mean
from fgg.factors.maps import PATTERNS
from fgg.grammar import Attribute, Factor, Grammar, Reference, Sized
from fgg.grammar.domains import value_index
from fgg.grammar.index import Expr
from fgg.grammar.options import check_attribute, check_definitions, with_attributes
from fgg.grammar.values import (
    ZERO,
    AttributeValue,
    Call,
    Constant,
    Exp,
    Eye,
    Load,
    Map,
    Nested,
    Number,
    Sparse,
    Table,
    Uniform,
    Value,
    Word,
)


def resolve_factor(statement: syntax.FactorDecl, scope: Scope) -> Factor | None:
    """A factor; None, and the name marked as broken, if its signature is wrong."""
    name = statement.name
    given = scope.domain_names(statement.given or ())
    over = scope.domain_names(statement.over)
    if statement.given is not None and not statement.over:
        scope.report.add(
            "F138",
            f"factor `{name.text}` is a distribution over nothing",
            statement.signature_span,
            "nothing stands right of the arrow",
            help="name the domains that it is a distribution over, or drop the arrow",
        )
        over = None
    if given is None or over is None:
        scope.broken.add(name.text)
        return None
    domains = given + over
    resolved = [resolve_attribute(a, scope) for a in statement.attributes]
    attributes = [attribute for attribute in resolved if attribute is not None]
    clash = check_definitions(attributes)
    if clash is not None:
        scope.report.add(clash.code, clash.message, clash.span, help=clash.help)
    factor = Factor(
        name=name.text,
        domains=domains,
        given=None if statement.given is None else len(given),
        rank=_rank(statement, len(domains), scope),
        value=None if statement.value is None else _value(statement.value, domains, scope),
        span=name.span,
    )
    return with_attributes(factor, attributes)


def _rank(statement: syntax.FactorDecl, arity: int, scope: Scope) -> Expr | None:
    node = statement.rank
    if node is None:
        return None
    rank: Expr | None = None
    if isinstance(node, syntax.NameRef) and node.name.text in scope.domains:
        domain = scope.domains[node.name.text]
        if domain.rank and isinstance(domain.shape, Sized):
            rank = domain.shape.size.at(node.span)
    if rank is None:
        rank = scope.expr(node)
    if rank is None:
        return None
    if arity < 2:
        scope.report.add(
            "F139",
            f"factor `{statement.name.text}` touches {arity} node{'s' * (arity != 1)}: "
            "a rank needs two or more",
            node.span,
            help="drop the `rank` clause",
        )
        return None
    value = rank.evaluate(scope.size_values)
    if value is None or value < 1:
        scope.report.add("F139", f"a rank of {value}, but a rank is at least 1", node.span)
        return None
    return rank


INFINITE = ("nan", "inf", "infinity")
_NAMED = (syntax.WordLiteral, syntax.CallLiteral)


def _value(node: syntax.ValueSyntax, domains: Sequence[str], scope: Scope) -> Value | None:
    if isinstance(node, syntax.NumberLiteral):
        number = _number(node, scope)
        return None if number is None else Constant(number)
    if isinstance(node, syntax.ListSyntax):
        entries = _nested(node, scope)
        return None if entries is None else Table(entries)
    if isinstance(node, syntax.MapLiteral):
        return _sparse(node, domains, scope)
    if isinstance(node, syntax.WordLiteral):
        simple: Mapping[str, Value] = {"uniform": Uniform(), "eye": Eye()}
        if node.name.text in simple:
            return simple[node.name.text]
        if _is_infinite(node, scope):
            return None
    if isinstance(node, syntax.CallLiteral) and node.name.text == "load":
        path = node.arguments[0] if len(node.arguments) == 1 and not node.keywords else None
        if isinstance(path, syntax.StringLiteral):
            return Load(path.text, scope.folder)
    if isinstance(node, syntax.CallLiteral) and node.name.text == "exp":
        if len(node.arguments) == 1 and not node.keywords:
            logs = _nested(node.arguments[0], scope, logs=True)
            return None if logs is None else Exp(logs)
    if isinstance(node, syntax.CallLiteral) and node.name.text == "map" and not node.keywords:
        found = _map(node.arguments, scope)
        if found is not None:
            return found
    what = f"`{node.name.text}`" if isinstance(node, _NAMED) else "this"
    scope.report.add(
        "F132",
        f"{what} is not a value for a factor",
        node.span,
        help="values are numbers, lists, maps by domain values, `uniform`, `eye`, "
        '`load("file.npy")`, `exp([0, -800])` and `map(0, 1, 1)` or `map("clusters.txt")`',
    )
    return None


def _map(arguments: Sequence[syntax.ValueSyntax], scope: Scope) -> Map | None:
    """A function, by its values, a pattern or a file; None if this is none."""
    first = arguments[0] if len(arguments) == 1 else None
    if isinstance(first, syntax.StringLiteral):
        return Map(path=first.text, folder=scope.folder)
    if isinstance(first, syntax.WordLiteral) and first.name.text in PATTERNS:
        return Map(pattern=first.name.text)
    values: list[int | str] = []
    for node in arguments:
        if isinstance(node, syntax.NumberLiteral):
            if node.negative or node.denominator is not None or not node.digits.isdecimal():
                return None
            values.append(int(node.digits))
        elif isinstance(node, syntax.WordLiteral):
            values.append(node.name.text)
        elif isinstance(node, syntax.StringLiteral):
            values.append(node.text)
        else:
            return None
    return Map(tuple(values)) if values else None


def _number(node: syntax.NumberLiteral, scope: Scope) -> Number | None:
    sign = -1 if node.negative else 1
    if node.denominator is not None:
        if int(node.denominator) == 0:
            scope.report.add("F127", "a division by zero, but weights are finite", node.span)
            return None
        return sign * Fraction(node.digits) / int(node.denominator)
    number = sign * float(node.digits)
    if number in (float("inf"), float("-inf")):
        scope.report.add(
            "F127",
            "this number is too large for a weight, which is at most about 1.8e308",
            node.span,
        )
        return None
    return number + 0.0  # no negative zeros


def _nested(node: syntax.ValueSyntax, scope: Scope, *, logs: bool = False) -> Nested | None:
    """The entries of a table; of one of logarithms, `zero` is -inf."""
    if isinstance(node, syntax.NumberLiteral):
        return _number(node, scope)
    if isinstance(node, syntax.NumberRow):
        return node.numbers()
    if isinstance(node, syntax.ListLiteral):
        items = [_nested(item, scope, logs=logs) for item in node.items]
        return None if None in items else tuple(item for item in items if item is not None)
    if logs and isinstance(node, syntax.WordLiteral) and node.name.text == ZERO:
        return float("-inf")
    if not _is_infinite(node, scope):
        scope.report.add("F132", "a list of weights holds numbers and lists", node.span)
    return None


def _is_infinite(node: syntax.ValueSyntax, scope: Scope) -> bool:
    """Whether a word stands for a number that is not finite; then it is reported."""
    if not isinstance(node, syntax.WordLiteral) or node.name.text.lower() not in INFINITE:
        return False
    scope.report.add("F127", f"`{node.name.text}` is not a weight: weights are finite", node.span)
    return True


def _sparse(node: syntax.MapLiteral, domains: Sequence[str], scope: Scope) -> Value | None:
    grammar = Grammar(
        start=Reference(label=""),
        sizes=tuple(scope.sizes.values()),
        domains=tuple(scope.domains.values()),
    )
    entries: dict[tuple[int, ...], Number] = {}
    good = True

    def walk(item: syntax.ValueSyntax, prefix: tuple[int, ...]) -> None:
        nonlocal good
        if len(prefix) == len(domains):
            number = _number(item, scope) if isinstance(item, syntax.NumberLiteral) else None
            if number is None:
                good = False
                if not isinstance(item, syntax.NumberLiteral) and not _is_infinite(item, scope):
                    scope.report.add("F125", "a weight was expected here", item.span)
            else:
                entries[prefix] = number
            return
        if not isinstance(item, syntax.MapLiteral):
            good = False
            scope.report.add(
                "F125",
                f"a map by the values of `{domains[len(prefix)]}` was expected here",
                item.span,
                help=f"the factor has {len(domains)} nodes, so maps are nested that deep",
            )
            return
        good &= walk_map(item, prefix)

    def walk_map(item: syntax.MapLiteral, prefix: tuple[int, ...]) -> bool:
        domain = domains[len(prefix)]
        known = value_index(grammar, domain)
        seen: dict[str, Name] = {}
        right = True
        for key, inner in item.entries:
            if key.text not in known:
                right = False
                scope.report.add(
                    "F129",
                    f"domain `{domain}` has no value `{key.text}`",
                    key.span,
                    help=did_you_mean(key.text, known),
                )
            elif key.text in seen:
                right = False
                scope.report.add(
                    "F130",
                    f"`{key.text}` is given twice",
                    key.span,
                    labels=[Label(seen[key.text].span, "first here")],
                )
            else:
                seen[key.text] = key
                walk(inner, (*prefix, known[key.text]))
        return right

    try:
        walk(node, ())
    except GrammarError:  # too many values to name
        scope.report.add("F131", "a domain of this factor is too large for a map", node.span)
        return None
    return Sparse(tuple(sorted(entries.items()))) if good else None


def resolve_attribute(node: syntax.AttributeDecl, scope: Scope) -> Attribute | None:
    """An attribute, or None if there is no such attribute, or it cannot have this value."""
    value = _attribute_value(node.value, scope)
    if value is None:
        return None
    attribute = Attribute(key=node.key.text, value=value, span=node.span)
    problem = check_attribute(attribute)
    if problem is not None:
        place = node.key.span if problem.code == "F133" else node.span
        scope.report.add(problem.code, problem.message, place, help=problem.help)
        return None
    return attribute


def _attribute_value(node: syntax.ValueSyntax, scope: Scope) -> AttributeValue | None:
    if isinstance(node, syntax.NumberLiteral):
        return _number(node, scope)
    if isinstance(node, syntax.StringLiteral):
        return node.text
    if isinstance(node, syntax.WordLiteral):
        return Word(node.name.text)
    if isinstance(node, syntax.CallLiteral):
        arguments = [_attribute_value(a, scope) for a in node.arguments]
        keywords = [(k.text, _attribute_value(v, scope)) for k, v in node.keywords]
        return Call(
            node.name.text,
            tuple(a for a in arguments if a is not None),
            tuple((k, v) for k, v in keywords if v is not None),
        )
    return None
