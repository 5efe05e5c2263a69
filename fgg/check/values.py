"""Checks of the values that factors are given: shape, sign, finiteness, normalisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import exp, inf, isfinite, prod
from pathlib import Path
from sys import float_info
from typing import TYPE_CHECKING

from fgg.diagnostics import Diagnostic, GrammarError, Report
from fgg.factors.maps import groups, map_values
from fgg.files import map_array
from fgg.grammar import Factor, Grammar
from fgg.grammar.domains import domain_size, domain_values
from fgg.grammar.spans import Span
from fgg.grammar.values import (
    MAX_LOG,
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
    exact,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Locate = Callable[[str, tuple[int, ...]], Span | None]

TOLERANCE = 1e-6
TOLERANCE_SINGLE = 1e-4
MAX_REPORTS = 5


def check_values(grammar: Grammar, locate: Locate | None = None) -> list[Diagnostic]:
    """Errors in the values of a grammar's factors."""
    report = Report()
    for factor in grammar.factors:
        if factor.value is not None:
            _FactorChecker(grammar, factor, report, locate).check()
    return report.diagnostics


class _FactorChecker:
    def __init__(
        self, grammar: Grammar, factor: Factor, report: Report, locate: Locate | None
    ) -> None:
        self.grammar = grammar
        self.factor = factor
        self.report = report
        self.locate = locate
        self.shape = tuple(domain_size(grammar, d) for d in factor.domains)
        self.reports = 0
        try:
            self.blocks = groups(grammar, factor)
        except GrammarError:  # the map's own mistakes are reported with it
            self.blocks = None

    def span(self, position: tuple[int, ...] = ()) -> Span | None:
        place = self.locate(self.factor.name, position) if self.locate is not None else None
        return place or self.factor.span

    def add(self, code: str, message: str, position: tuple[int, ...] = (), help: str = "") -> None:
        """Report a problem at an entry, up to a limit."""
        self.reports += 1
        if self.reports <= MAX_REPORTS:
            text = f"factor `{self.factor.name}`: {message}"
            self.report.add(code, text, self.span(position), help=help)

    def check(self) -> None:
        value = self.factor.value
        if self.blocks is not None and not isinstance(value, Table | Load):
            # Normalised within blocks: only what says each weight can be.
            self.add("F494", "a factor with blocks is learned, or has a table of weights")
        elif isinstance(value, Constant):
            if self.weight(value.number, ()):
                self.constant(value.number)
        elif isinstance(value, Table):
            if self.nested(value.entries, ()):
                self.rows(self.sums(value.entries, ()))
        elif isinstance(value, Exp):
            if self.nested(value.entries, (), self.log):
                self.rows(self.sums(_exponentials(value.entries), ()))
        elif isinstance(value, Sparse):
            self.sparse(value)
        elif isinstance(value, Uniform) and self.factor.given is None:
            self.add(
                "F131",
                "`uniform` is a distribution, but the factor has no arrow",
                help="declare what it is a distribution over, or write `= 1`",
            )
        elif isinstance(value, Eye) and (len(self.shape) != 2 or self.shape[0] != self.shape[1]):
            shown = " and ".join(map(str, self.shape)) or "none"
            self.add("F131", f"`eye` takes two domains of one size, but the sizes are {shown}")
        elif isinstance(value, Map):
            self.map()
        elif isinstance(value, Load):
            self.load(value)

    def map(self) -> None:
        """Check a function: from one domain to another, with a value for each value."""
        if len(self.shape) != 2 or self.factor.given != 1:
            self.add(
                "F493",
                "a map goes from one domain to another",
                help=f"declare it as `factor {self.factor.name}(W -> M) = map(…)`",
            )
            return
        try:
            map_values(self.grammar, self.factor.name)
        except GrammarError as error:
            for diagnostic in error.diagnostics:
                self.report.add(
                    diagnostic.code, diagnostic.message, self.span(), help=diagnostic.help
                )

    def weight(self, number: Number, position: tuple[int, ...]) -> bool:
        """Whether a weight is finite and non-negative."""
        where = f" at {list(position)}" if position else ""
        if not isfinite(number):
            self.add("F127", f"weight {float(number)}{where} is not finite", position)
            return False
        if number < 0:
            self.add(
                "F126",
                f"weight {float(number):g}{where} is negative",
                position,
                help="weights are never logarithms: "
                f"for the log-weight {float(number):g} write {exp(number):.4g}",
            )
            return False
        return True

    def log(self, number: Number, position: tuple[int, ...]) -> bool:
        """Whether a number is the logarithm of a finite weight."""
        if isfinite(number) or number == -inf:
            return True
        where = f" at {list(position)}" if position else ""
        self.add(
            "F127", f"{float(number)}{where} is not the logarithm of a finite weight", position
        )
        return False

    def constant(self, number: Number) -> None:
        given = self.factor.given
        if given is not None:
            total = _float(exact(number) * prod(self.shape[given:]))
            if abs(total - 1) > TOLERANCE:
                size = prod(self.shape[given:])
                self.add(
                    "F128",
                    f"{size} weights of {float(number):g} sum to {total:g}, not to 1",
                    help="write `= uniform`, or drop the arrow",
                )

    def nested(
        self,
        entries: Nested,
        position: tuple[int, ...],
        good_entry: Callable[[Number, tuple[int, ...]], bool] | None = None,
    ) -> bool:
        """Whether nested lists have the factor's shape, and good entries: weights, if not said."""
        depth = len(position)
        if depth == len(self.shape):
            if isinstance(entries, tuple):
                self.add("F125", "a list, but a number is expected", position)
                return False
            return (good_entry or self.weight)(entries, position)
        domain, size = self.factor.domains[depth], self.shape[depth]
        if not isinstance(entries, tuple):
            self.add(
                "F125",
                f"a number, but a list with an entry for each of the {size} values of "
                f"`{domain}` is expected",
                position,
                help=f"lists are nested {len(self.shape)} deep, one level for each node",
            )
            return False
        if len(entries) != size:
            self.add(
                "F125",
                f"{len(entries)} entr{'y' if len(entries) == 1 else 'ies'}, "
                f"but `{domain}` has {size} value{'s' * (size != 1)}",
                position,
            )
            return False
        good = True
        for i, entry in enumerate(entries):
            good = self.nested(entry, (*position, i), good_entry) and good
        return good

    def sums(
        self, entries: Nested, position: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], float]]:
        """For each value of the left side, the sum over the right side."""
        given = self.factor.given
        if given is None:
            return
        if len(position) == given:
            for numbers in self.blocked(list(_flat(entries))):
                yield position, _float(sum(map(exact, numbers), Fraction(0)))
        elif isinstance(entries, tuple):
            for i, entry in enumerate(entries):
                yield from self.sums(entry, (*position, i))

    def blocked(self, numbers: list[Number]) -> list[list[Number]]:
        """The numbers that sum to one: all of them, or those of each block."""
        if self.blocks is None:
            return [numbers]
        members: dict[int, list[Number]] = {}
        for number, block in zip(numbers, self.blocks, strict=True):
            members.setdefault(block, []).append(number)
        return list(members.values())

    def rows(
        self,
        sums: Iterator[tuple[tuple[int, ...], float]],
        tolerance: float = TOLERANCE,
    ) -> None:
        """Report the distributions that do not sum to one."""
        for position, total in sums:
            if abs(total - 1) > tolerance:
                names = [
                    domain_values(self.grammar, d)[i]
                    for d, i in zip(self.factor.domains, position, strict=False)
                ]
                given = f" given {', '.join(f'`{n}`' for n in names)}" if names else ""
                self.add(
                    "F128",
                    f"the weights{given} sum to {total:.8g}, not to 1",
                    position,
                    help="change the weights, or drop the arrow if this is a potential",
                )

    def sparse(self, value: Sparse) -> None:
        good = True
        totals: dict[tuple[int, ...], float] = {}
        for position, number in value.entries:
            if len(position) != len(self.shape) or not all(
                0 <= i < size for i, size in zip(position, self.shape, strict=True)
            ):
                self.add("F125", f"there is no entry {list(position)}")
                good = False
            elif self.weight(number, position):
                key = position[: self.factor.given]
                totals[key] = totals.get(key, 0.0) + float(number)
            else:
                good = False
        given = self.factor.given
        if not good or given is None:
            return
        wanted = prod(self.shape[:given])
        self.rows(iter(totals.items()))
        if len(totals) < wanted:
            self.add(
                "F128",
                f"{wanted - len(totals)} of {wanted} distributions have no weights",
                help="missing entries of a map are 0, so these cannot sum to 1",
            )

    def load(self, value: Load) -> None:
        try:
            array = load_array(value)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.add("F404", f"`{value.path}` cannot be used: {reason.lower()}")
            return
        if array.shape != self.shape:
            self.add("F125", f"`{value.path}` has shape {array.shape}, not {self.shape}")
            return
        if array.size and not bool(_finite(array)):
            self.add("F127", f"`{value.path}` has entries that are not finite")
        elif array.size and float(array.min()) < 0:
            self.add("F126", f"`{value.path}` has negative entries")
        elif self.factor.given is not None:
            axes = tuple(range(self.factor.given, array.ndim))
            tolerance = TOLERANCE if array.dtype.itemsize >= 8 else TOLERANCE_SINGLE
            if self.blocks is None:
                self.rows(_indexed(array.sum(axis=axes, dtype="float64")), tolerance)
                return
            for block in sorted(set(self.blocks)):
                places = [place for place, number in enumerate(self.blocks) if number == block]
                self.rows(_indexed(array[..., places].sum(axis=-1, dtype="float64")), tolerance)


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf


def _exponentials(entries: Nested) -> Nested:
    """The exponentials of logarithms, as floats: exact enough to check what they sum to."""
    if isinstance(entries, tuple):
        return tuple(map(_exponentials, entries))
    return exp(entries) if entries < MAX_LOG else float_info.max


def _flat(entries: Nested) -> Iterator[Number]:
    if isinstance(entries, tuple):
        for entry in entries:
            yield from _flat(entry)
    else:
        yield entries


def _finite(array: NDArray[np.floating]) -> bool:
    import numpy as np

    # Row by row, so that a mapped file is never copied whole.
    rows = array if array.ndim > 1 else [array]
    return all(bool(np.isfinite(part).all()) for part in rows)


def _indexed(sums: NDArray[np.floating]) -> Iterator[tuple[tuple[int, ...], float]]:
    import numpy as np

    for position, total in np.ndenumerate(np.asarray(sums)):
        yield position, float(total)


def load_array(value: Load) -> NDArray[np.floating]:
    """The array of a `.npy` file, mapped, not read. Raises OSError or ValueError."""
    path = Path(value.folder) / value.path
    if path.suffix != ".npy":
        raise ValueError("only .npy files are read")
    array = map_array(path)
    if array.dtype.kind not in "fiu":
        raise ValueError("it does not hold real numbers")
    return array
