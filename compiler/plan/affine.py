"""Affine forms of indices, and consequences of inequalities between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, implies, project
from fgg.plan import HIGH, LEVEL, LOW, Bound, Loop


def expr_of(row: Row) -> Expr:
    """The affine form of a row."""
    terms = tuple(((name,), coefficient) for name, coefficient in sorted(row.coefficients))
    return Expr((*terms, ((), row.constant)) if row.constant else terms)


def row_of(expr: Expr) -> Row:
    """The inequality `expr >= 0`; a look-up is a variable of its own."""
    return Row.make(*_coefficients(expr))


def _coefficients(expr: Expr) -> tuple[dict[str, int], int]:
    """The coefficients of an affine form's variables, and its constant."""
    coefficients: dict[str, int] = {}
    constant = 0
    for monomial, coefficient in expr.terms:
        if not monomial:
            constant += coefficient
        else:
            (atom,) = monomial
            coefficients[str(atom)] = coefficients.get(str(atom), 0) + coefficient
    return coefficients, constant


def moved(rows: Iterable[Row], values: Mapping[str, Expr]) -> list[Row]:
    """Rows with variables replaced by affine forms."""
    forms = {name: _coefficients(expr) for name, expr in values.items()}
    result = []
    for r in rows:
        if not any(name in forms for name, _ in r.coefficients):
            result.append(r)
            continue
        total: dict[str, int] = {}
        constant = r.constant
        for name, c in r.coefficients:
            if name not in forms:
                total[name] = total.get(name, 0) + c
                continue
            form, more = forms[name]
            constant += c * more
            for other, inner in form.items():
                total[other] = total.get(other, 0) + c * inner
        result.append(Row.make(total, constant))
    return result


def coefficient_of(expr: Expr, name: str) -> int:
    """The coefficient of a variable in an affine form."""
    return next((c for monomial, c in expr.terms if monomial == (name,)), 0)


def loosen(expr: Expr, lengths: Iterable[str], *, up: bool) -> Expr:
    """The greatest (or least) value of a form over the lengths of a batch."""
    values = {
        name: Expr.of(name + (HIGH if (coefficient_of(expr, name) > 0) == up else LOW))
        for name in lengths
        if coefficient_of(expr, name)
    }
    return expr.substitute(values)


def bounds(rows: Sequence[Row], name: str, lengths: Sequence[str]) -> tuple[Bound, Bound]:
    """The ends of a variable, as forms of the level and the lengths of a batch."""
    system = project(rows, {name, LEVEL, *lengths})
    low: list[tuple[Expr, int]] = []
    high: list[tuple[Expr, int]] = []
    for row in system:
        c = row.coefficient(name)
        rest = expr_of(Row(tuple(p for p in row.coefficients if p[0] != name), row.constant))
        if c > 0:
            low.append((loosen(-rest, lengths, up=False), c))
        elif c < 0:
            high.append((loosen(rest, lengths, up=True), -c))
    return Bound(tuple(dict.fromkeys(low))), Bound(tuple(dict.fromkeys(high)))


def box_rows(loop: Loop) -> list[Row]:
    """The inequalities that a loop's range stands for."""
    variable = Expr.of(loop.name)
    rows = [row_of(variable * d - e) for e, d in loop.low.terms]
    return rows + [row_of(e - variable * d) for e, d in loop.high.terms]


def batch_rows(lengths: Iterable[str]) -> list[Row]:
    """Inequalities: each length of an item lies between the least and the greatest of its batch."""
    rows: list[Row] = []
    for name in lengths:
        low, length, high = Expr.of(name + LOW), Expr.of(name), Expr.of(name + HIGH)
        rows += [row_of(low), row_of(length - low), row_of(high - length)]
    return rows


def uniform(rows: Iterable[Row], lengths: Iterable[str]) -> list[Row]:
    """The inequalities of a batch whose items all have the same lengths."""
    same = {name + end: Expr.of(name) for name in lengths for end in (LOW, HIGH)}
    return moved(rows, same)


def irredundant(rows: Iterable[Row]) -> list[Row]:
    """The rows without those that the others imply."""
    kept = list(dict.fromkeys(r for r in rows if r.coefficients or r.constant < 0))
    for candidate in list(kept):
        others = [r for r in kept if r != candidate]
        if implies(others, candidate):
            kept = others
    return kept


def solve_equalities(
    equalities: Sequence[Expr], preferred: Sequence[str], without: Iterable[str] = ()
) -> tuple[dict[str, Expr], list[Expr]]:
    """Solve equalities for as many of the preferred variables as possible, in their order.

    Returns the value of each solved variable, and the equalities that are left. No value contains
    a name in `without`.
    """
    excluded = set(without)
    values: dict[str, Expr] = {}
    pending = list(equalities)
    for name in preferred:
        for number, equality in enumerate(pending):
            if name in values or abs(coefficient_of(equality, name)) != 1:
                continue
            if any(True for _ in equality.lookups()) or excluded & set(equality.names()):
                continue
            sign = coefficient_of(equality, name)
            solved = (equality - Expr.of(name) * sign) * -sign
            values = {n: e.substitute({name: solved}) for n, e in values.items()}
            values[name] = solved
            pending.pop(number)
            pending = [e.substitute({name: solved}) for e in pending]
            break
    return values, [e for e in pending if e.terms]


def implicit_equalities(rows: Sequence[Row]) -> list[Expr]:
    """The forms that must be zero: the system has both `form >= 0` and `-form >= 0`."""
    known = set(rows)
    both_ways = []
    for r in rows:
        if not r.coefficients:
            continue
        negated = Row(tuple((n, -c) for n, c in r.coefficients), -r.constant)
        if negated in known and negated not in both_ways:
            both_ways.append(r)
    return [expr_of(r) for r in both_ways]
