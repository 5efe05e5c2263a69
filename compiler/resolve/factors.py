"""Factors: signatures, ranks, values and attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from fgg.compiler.resolve.scope import Scope
from fgg.compiler.syntax import tree
from fgg.compiler.syntax.tree import Name
from fgg.diagnostics import GrammarError, Label, did_you_mean
from fgg.factors.maps import PATTERNS
from fgg.grammar import Attribute, Factor, Sized, values
from fgg.grammar.domains import value_index
from fgg.grammar.index import Expr
from fgg.grammar.options import check_attribute, check_definitions, with_attributes


def resolve_factor(statement: tree.FactorDecl, scope: Scope) -> Factor | None:
    """Return a factor; None if its signature is wrong, and then its name counts as broken."""
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


def _rank(statement: tree.FactorDecl, arity: int, scope: Scope) -> Expr | None:
    node = statement.rank
    if node is None:
        return None
    rank: Expr | None = None
    if isinstance(node, tree.NameRef) and node.name.text in scope.domains:
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
        scope.report.add("F139", f"the rank is {value}, but it must be at least 1", node.span)
        return None
    return rank


INFINITE = ("nan", "inf", "infinity")
_NAMED = (tree.WordLiteral, tree.CallLiteral)


def _value(node: tree.ValueSyntax, domains: Sequence[str], scope: Scope) -> values.Value | None:
    if isinstance(node, tree.NumberLiteral):
        number = _number(node, scope)
        return None if number is None else values.Constant(number)
    if isinstance(node, tree.ListSyntax):
        entries = _nested(node, scope)
        return None if entries is None else values.Table(entries)
    if isinstance(node, tree.MapLiteral):
        return _sparse(node, domains, scope)
    if isinstance(node, tree.WordLiteral):
        simple: Mapping[str, values.Value] = {"uniform": values.Uniform(), "eye": values.Eye()}
        if node.name.text in simple:
            return simple[node.name.text]
        if _is_infinite(node, scope):
            return None
    if isinstance(node, tree.CallLiteral) and node.name.text == "load":
        path = node.arguments[0] if len(node.arguments) == 1 and not node.keywords else None
        if isinstance(path, tree.StringLiteral):
            return values.Load(path.text, scope.folder)
    if isinstance(node, tree.CallLiteral) and node.name.text == "exp":
        if len(node.arguments) == 1 and not node.keywords:
            logs = _nested(node.arguments[0], scope, logs=True)
            return None if logs is None else values.Exp(logs)
    if isinstance(node, tree.CallLiteral) and node.name.text == "map" and not node.keywords:
        function = _map(node.arguments, scope)
        if function is not None:
            return function
    what = f"`{node.name.text}`" if isinstance(node, _NAMED) else "this"
    scope.report.add(
        "F132",
        f"{what} is not a value for a factor",
        node.span,
        help="values are numbers, lists, maps by domain values, `uniform`, `eye`, "
        '`load("file.npy")`, `exp([0, -800])` and `map(0, 1, 1)` or `map("clusters.txt")`',
    )
    return None


def _map(arguments: Sequence[tree.ValueSyntax], scope: Scope) -> values.Map | None:
    """Return the function of `map(…)`: its values, a pattern or a file; None if it is wrong."""
    first = arguments[0] if len(arguments) == 1 else None
    if isinstance(first, tree.StringLiteral):
        return values.Map(path=first.text, folder=scope.folder)
    if isinstance(first, tree.WordLiteral) and first.name.text in PATTERNS:
        return values.Map(pattern=first.name.text)
    entries: list[int | str] = []
    for node in arguments:
        if isinstance(node, tree.NumberLiteral):
            if node.negative or node.denominator is not None or not node.digits.isdecimal():
                return None
            entries.append(int(node.digits))
        elif isinstance(node, tree.WordLiteral):
            entries.append(node.name.text)
        elif isinstance(node, tree.StringLiteral):
            entries.append(node.text)
        else:
            return None
    return values.Map(tuple(entries)) if entries else None


def _number(node: tree.NumberLiteral, scope: Scope) -> values.Number | None:
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


def _nested(node: tree.ValueSyntax, scope: Scope, *, logs: bool = False) -> values.Nested | None:
    """Return the entries of a table; in a table of logarithms, `zero` is -inf."""
    if isinstance(node, tree.NumberLiteral):
        return _number(node, scope)
    if isinstance(node, tree.NumberRow):
        return node.numbers()
    if isinstance(node, tree.ListLiteral):
        items = [_nested(item, scope, logs=logs) for item in node.items]
        return None if None in items else tuple(item for item in items if item is not None)
    if logs and isinstance(node, tree.WordLiteral) and node.name.text == values.ZERO:
        return float("-inf")
    if not _is_infinite(node, scope):
        scope.report.add("F132", "a list of weights holds numbers and lists", node.span)
    return None


def _is_infinite(node: tree.ValueSyntax, scope: Scope) -> bool:
    """Return whether a word stands for a number that is not finite, and report it."""
    if not isinstance(node, tree.WordLiteral) or node.name.text.lower() not in INFINITE:
        return False
    scope.report.add("F127", f"`{node.name.text}` is not a weight: weights are finite", node.span)
    return True


def _sparse(node: tree.MapLiteral, domains: Sequence[str], scope: Scope) -> values.Value | None:
    entries: dict[tuple[int, ...], values.Number] = {}
    good = True

    def walk(item: tree.ValueSyntax, prefix: tuple[int, ...]) -> None:
        nonlocal good
        if len(prefix) == len(domains):
            number = _number(item, scope) if isinstance(item, tree.NumberLiteral) else None
            if number is None:
                good = False
                if not isinstance(item, tree.NumberLiteral) and not _is_infinite(item, scope):
                    scope.report.add("F125", "a weight was expected here", item.span)
            else:
                entries[prefix] = number
            return
        if not isinstance(item, tree.MapLiteral):
            good = False
            scope.report.add(
                "F125",
                f"a map by the values of `{domains[len(prefix)]}` was expected here",
                item.span,
                help=f"the factor has {len(domains)} nodes, so maps are nested that deep",
            )
            return
        good &= walk_map(item, prefix)

    def walk_map(item: tree.MapLiteral, prefix: tuple[int, ...]) -> bool:
        domain = domains[len(prefix)]
        known = value_index(scope.of_domains, domain)
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
    return values.Sparse(tuple(sorted(entries.items()))) if good else None


def resolve_attribute(node: tree.AttributeDecl, scope: Scope) -> Attribute | None:
    """Return an attribute; None, and a report, if its name or its value is wrong."""
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


def _attribute_value(node: tree.ValueSyntax, scope: Scope) -> values.AttributeValue | None:
    if isinstance(node, tree.NumberLiteral):
        return _number(node, scope)
    if isinstance(node, tree.StringLiteral):
        return node.text
    if isinstance(node, tree.WordLiteral):
        return values.Word(node.name.text)
    if isinstance(node, tree.CallLiteral):
        arguments = [_attribute_value(a, scope) for a in node.arguments]
        keywords = [(k.text, _attribute_value(v, scope)) for k, v in node.keywords]
        return values.Call(
            node.name.text,
            tuple(a for a in arguments if a is not None),
            tuple((k, v) for k, v in keywords if v is not None),
        )
    return None
