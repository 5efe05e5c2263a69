"""Linear integer constraints: feasibility, bounds and enumeration, exact.

Guards and ranges of families are conjunctions of inequalities `expr >= 0` that are affine in index
variables and lengths. Fourier-Motzkin elimination decides them over the rationals, tightened to
integers row by row; the systems of a grammar have a handful of variables, so this is fast and,
unlike floating-point programming, exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

MAX_ROWS = 400


@dataclass(frozen=True, slots=True)
class Row:
    """An inequality: the sum of coefficients times variables, plus a constant, is >= 0."""

    coefficients: tuple[tuple[str, int], ...]
    constant: int

    @staticmethod
    def make(coefficients: Mapping[str, int], constant: int) -> Row:
        """The row divided by the common divisor, its constant rounded down to an integer."""
        kept = tuple(sorted([item for item in coefficients.items() if item[1]]))
        divisor = gcd(*[c for _, c in kept]) or 1
        if divisor > 1:
            kept = tuple((name, c // divisor) for name, c in kept)
            constant = constant // divisor
        return Row(kept, constant)

    def coefficient(self, name: str) -> int:
        """The coefficient of a variable."""
        for other, coefficient in self.coefficients:
            if other == name:
                return coefficient
        return 0


class TooManyRows(Exception):
    """Elimination grew past `MAX_ROWS`; the question stays open."""


def _reduce(rows: Iterable[Row]) -> list[Row]:
    # Of rows with the same coefficients only the tightest counts.
    tightest: dict[tuple[tuple[str, int], ...], int] = {}
    for row in rows:
        known = tightest.get(row.coefficients)
        if known is None or row.constant < known:
            tightest[row.coefficients] = row.constant
    return [Row(c, k) for c, k in tightest.items() if c or k < 0]


def eliminate(rows: Iterable[Row], name: str) -> list[Row]:
    """The constraints on the other variables that follow from `rows`."""
    lower: list[tuple[int, Row]] = []
    upper: list[tuple[int, Row]] = []
    rest: list[Row] = []
    for row in rows:
        coefficient = row.coefficient(name)
        if coefficient:
            (lower if coefficient > 0 else upper).append((coefficient, row))
        else:
            rest.append(row)
    for scale_high, low in lower:
        for scale, high in upper:
            scale_low = -scale
            total = {other: scale_low * c for other, c in low.coefficients}
            for other, c in high.coefficients:
                total[other] = total.get(other, 0) + scale_high * c
            rest.append(Row.make(total, scale_low * low.constant + scale_high * high.constant))
    reduced = _reduce(rest)
    if len(reduced) > MAX_ROWS:
        raise TooManyRows
    return reduced


def variables(rows: Iterable[Row]) -> list[str]:
    """The variables of a system, in order of first occurrence."""
    return list(dict.fromkeys(name for row in rows for name, _ in row.coefficients))


def project(rows: Iterable[Row], keep: Iterable[str]) -> list[Row]:
    """The consequences of `rows` for the variables in `keep` alone."""
    return list(_project(tuple(rows), frozenset(keep)))


# Rules of one grammar ask the same question many times.
@lru_cache(maxsize=4096)
def _project(rows: tuple[Row, ...], kept: frozenset[str]) -> tuple[Row, ...]:
    system = _reduce(rows)
    while True:
        signs: dict[str, list[int]] = {}
        for row in system:
            for name, coefficient in row.coefficients:
                if name not in kept:
                    signs.setdefault(name, [0, 0])[coefficient > 0] += 1
        if not signs:
            return tuple(system)
        # Eliminate the variable that makes the fewest new rows.
        system = eliminate(system, min(signs, key=lambda name: signs[name][0] * signs[name][1]))


def is_feasible(rows: Iterable[Row]) -> bool:
    """Whether the system may have a solution; True also where the question stays open."""
    try:
        return not any(row.constant < 0 for row in project(rows, ()))
    except TooManyRows:
        return True


def implies(rows: Iterable[Row], row: Row) -> bool:
    """Whether every integer solution of `rows` satisfies `row`; False where it stays open."""
    rows = tuple(rows)
    if any(r.constant <= row.constant and r.coefficients == row.coefficients for r in rows):
        return True  # it is said
    negated = Row.make({name: -c for name, c in row.coefficients}, -row.constant - 1)
    try:
        return any(r.constant < 0 for r in project([*rows, negated], ()))
    except TooManyRows:
        return False


def is_bounded(rows: Iterable[Row], name: str, given: Iterable[str]) -> tuple[bool, bool]:
    """Whether a variable has a lower and an upper bound once the `given` ones are known."""
    try:
        system = project(rows, {name, *given})
    except TooManyRows:
        return True, True
    low = any(row.coefficient(name) > 0 for row in system)
    high = any(row.coefficient(name) < 0 for row in system)
    return low, high


@dataclass(frozen=True)
class BoundedVariable:
    """A variable with the rows that bound it from below and from above, given earlier ones."""

    name: str
    lower: tuple[Row, ...]
    upper: tuple[Row, ...]


@dataclass(frozen=True)
class LoopNest:
    """Nested loops over the integer points of a system, for known values of some variables."""

    guards: tuple[Row, ...]
    loops: tuple[BoundedVariable, ...]


def scan_order(rows: Iterable[Row], order: Iterable[str], given: Iterable[str]) -> LoopNest:
    """The loop nest that enumerates `order`, each variable bounded by the ones before it."""
    names = list(order)
    system = project(rows, {*names, *given})
    loops: list[BoundedVariable] = []
    for name in reversed(names):
        lower = tuple(row for row in system if row.coefficient(name) > 0)
        upper = tuple(row for row in system if row.coefficient(name) < 0)
        loops.append(BoundedVariable(name, lower, upper))
        system = eliminate(system, name)
    return LoopNest(tuple(system), tuple(loops[::-1]))


def holds(row: Row, values: Mapping[str, int]) -> bool:
    """Whether a row is satisfied by known values."""
    return row.constant + sum(c * values[name] for name, c in row.coefficients) >= 0


def scan(nest: LoopNest, given: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """All integer points of a loop nest, in lexicographic order."""
    loops = [
        (loop.name, _bound(loop.name, loop.lower), _bound(loop.name, loop.upper))
        for loop in nest.loops
    ]
    values = dict(given)

    def walk(depth: int) -> Iterator[dict[str, int]]:
        if depth == len(loops):
            yield dict(values)
            return
        name, low, high = loops[depth]
        for value in range(low(values), -high(values) + 1):
            values[name] = value
            yield from walk(depth + 1)

    if all(holds(row, given) for row in nest.guards):
        yield from walk(0)


def _bound(name: str, rows: tuple[Row, ...]) -> Callable[[Mapping[str, int]], int]:
    """The greatest of ceil(-rest / |c|) over the rows.

    For rows that bound from above it is the negated least upper bound, so that one function
    serves both ends.
    """
    parts = [
        (
            abs(row.coefficient(name)),
            row.constant,
            [(other, c) for other, c in row.coefficients if other != name],
        )
        for row in rows
    ]

    def value(values: Mapping[str, int]) -> int:
        best: int | None = None
        for scale, constant, others in parts:
            rest = constant
            for other, c in others:
                rest += c * values[other]
            bound = -(rest // scale)
            if best is None or bound > best:
                best = bound
        assert best is not None, f"`{name}` has no bound"
        return best

    return value
