"""Inputs as users give them: words or numbers, nested as the input is indexed; their lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan
from typing import cast

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
from fgg.grammar import Grammar, Input, InputFactor, InputTable
from fgg.grammar.domains import domain_size, lengths, size_values
from fgg.grammar.index import Expr
from fgg.inputs.tokens import IMPOSSIBLE, token_id, whole_number, why_unread

MAX_PROBLEMS = 20

Nest = Sequence[object]
"""Lists of lists, as deep as the input has indices."""


@dataclass(frozen=True)
class Observation:
    """Lengths, tokens, tables and log-potentials, checked against a grammar."""

    lengths: Mapping[str, int]
    tokens: Mapping[str, Mapping[tuple[int, ...], int]] = field(default_factory=dict)
    tables: Mapping[str, Mapping[tuple[int, ...], int]] = field(default_factory=dict)
    potentials: Mapping[str, Nest] = field(default_factory=dict)

    def look_up(self, table: str, position: tuple[int, ...]) -> int | None:
        """An entry of a table, or None outside it."""
        return self.tables[table].get(position)


def observe(
    grammar: Grammar,
    *,
    lengths: Mapping[str, int] | None = None,
    inputs: Mapping[str, Nest] | None = None,
) -> Observation:
    """The inputs checked, words turned into numbers, lengths inferred. Raises GrammarError."""
    return _Observer(grammar, dict(lengths or {}), dict(inputs or {})).run()


class _Observer:
    def __init__(self, grammar: Grammar, given: dict[str, int], inputs: dict[str, Nest]) -> None:
        self.grammar = grammar
        self.lengths = given
        self.inputs = inputs
        self.sizes = size_values(grammar)
        self.problems: list[Diagnostic] = []

    def fail(self, code: str, message: str, help: str = "") -> None:
        self.problems.append(Diagnostic(code=code, message=message, help=help))

    def run(self) -> Observation:
        grammar = self.grammar
        known = {*grammar.input, *grammar.table, *grammar.input_factor}
        for name in self.inputs:
            if name not in known:
                self.fail("F411", f"there is no input `{name}`", did_you_mean(name, known))
        wanted = sorted(lengths(grammar))
        for name, value in self.lengths.items():
            if name not in wanted:
                self.fail("F411", f"there is no length `{name}`", did_you_mean(name, wanted))
            elif whole_number(value) is None or value < 0:
                self.fail("F411", f"length `{name}` must be a whole number from 0 up")
        tokens = {i.name: self.tokens(i) for i in grammar.inputs if i.name in self.inputs}
        tables = {t.name: self.table(t) for t in grammar.tables if t.name in self.inputs}
        for factor in grammar.input_factors:
            if factor.name in self.inputs:
                self.inputs[factor.name] = _listed(self.inputs[factor.name])
                self.potential_lengths(factor)
                self.potentials(factor, self.inputs[factor.name], ())
        for name in wanted:
            if name not in self.lengths:
                owners = [
                    item.name
                    for item in grammar.observed
                    if any(name in expr.names() for expr in item.shape)
                ]
                self.fail(
                    "F301",
                    f"length `{name}` is not known",
                    f"give it, `{name}=3`, or give the input `{owners[0]}`" if owners else "",
                )
        for table in grammar.tables:
            if table.name not in self.inputs:
                self.fail(
                    "F301", f"table `{table.name}` is not given", "indices depend on its entries"
                )
        if self.problems:
            raise GrammarError(self.problems)
        potentials = {n: self.inputs[n] for n in grammar.input_factor if n in self.inputs}
        return Observation(self.lengths, tokens, tables, potentials)

    def entries(self, item: Input | InputTable) -> Iterator[tuple[tuple[int, ...], object]]:
        """The entries of an input with their positions; its extents give lengths."""
        yield from self._walk(item, self.inputs[item.name], item.shape, ())

    def _walk(
        self,
        item: Input | InputTable,
        nest: object,
        shape: tuple[Expr, ...],
        position: tuple[int, ...],
    ) -> Iterator[tuple[tuple[int, ...], object]]:
        if not shape:
            yield position, nest
            return
        items = _items(nest)
        if items is None:
            self.fail("F411", f"`{item.name}`: a list is expected at {list(position)}")
            return
        if not self.extent(item, shape[0], len(items)):
            return
        for i, inner in enumerate(items):
            yield from self._walk(item, inner, shape[1:], (*position, i))

    def extent(self, item: Input | InputTable, expr: Expr, count: int) -> bool:
        """Whether `count` entries fit an extent; sets a length that is still unknown."""
        unknown = [n for n in expr.names() if n not in self.sizes and n not in self.lengths]
        if len(unknown) == 1:
            self.set_length(unknown[0], expr, count)
        values = {**self.sizes, **self.lengths}
        if all(name in values for name in expr.names()) and expr.evaluate(values) == count:
            return True
        known = {n: values[n] for n in expr.names() if n in values}
        shown = ", ".join(f"{n} = {v}" for n, v in known.items())
        self.fail(
            "F411",
            f"`{item.name}` has {count} entries where `{expr}` are expected"
            + (f" ({shown})" if shown else ""),
        )
        return False

    def potential_lengths(self, factor: InputFactor) -> None:
        """Set unknown lengths from the number of log-potentials: `i < n` has n of them."""
        nest: object = self.inputs[factor.name]
        for index in factor.indices:
            items = _items(nest)
            if items is None:
                return
            for inequality in (e for c in factor.conditions for e in c.inequalities()):
                above = inequality + Expr.of(index)  # index <= above
                names = [n for n in above.names() if n not in self.sizes]
                unknown = [n for n in names if n not in self.lengths]
                if len(unknown) == 1 and not set(names) & set(factor.indices):
                    self.set_length(unknown[0], above + 1, len(items))
            if not len(items):
                return
            nest = items[0]

    def potentials(self, factor: InputFactor, nest: object, position: tuple[int, ...]) -> None:
        """Check that log-potentials are numbers, nested as the factor says."""
        depth = len(position) - len(factor.indices)
        where = f"`{factor.name}{list(position)}`" if position else f"`{factor.name}`"
        if depth == len(factor.domains):
            if isinstance(nest, bool) or not isinstance(nest, int | float) or isnan(nest):
                self.fail("F411", f"{where} is {nest!r}, but a number is expected")
            elif nest == inf:
                self.fail("F411", f"{where} is infinite, but a number or -inf is expected")
            return
        wanted = domain_size(self.grammar, factor.domains[depth]) if depth >= 0 else None
        if not isinstance(nest, list | tuple) or (wanted is not None and len(nest) != wanted):
            size = "entries" if wanted is None else f"{wanted} entries"
            shown = f"{len(nest)}" if isinstance(nest, list | tuple) else repr(nest)
            self.fail("F411", f"{where}: a list of {size} is expected, not {shown}")
            return
        for i, inner in enumerate(nest):
            if len(self.problems) < MAX_PROBLEMS:
                self.potentials(factor, inner, (*position, i))

    def set_length(self, name: str, extent: Expr, count: int) -> None:
        """Set an unknown length so that an extent equals `count`, if some length does."""
        values = {**self.sizes, **self.lengths}
        at_zero = extent.evaluate({**values, name: 0})
        at_one = extent.evaluate({**values, name: 1})
        assert at_zero is not None and at_one is not None
        slope = at_one - at_zero
        if slope and (count - at_zero) % slope == 0 and (count - at_zero) // slope >= 0:
            self.lengths[name] = (count - at_zero) // slope

    def tokens(self, item: Input) -> dict[tuple[int, ...], int]:
        """The tokens of an input by position."""
        size = domain_size(self.grammar, item.domain)
        tokens: dict[tuple[int, ...], int] = {}
        for position, entry in self.entries(item):
            token = self.token(item, entry, size, position)
            if token is not None:
                tokens[position] = token
        return tokens

    def token(self, item: Input, entry: object, size: int, position: tuple[int, ...]) -> int | None:
        where = ", ".join(map(str, position))
        number = token_id(self.grammar, item.domain, entry)
        if number is None:
            reason, help = why_unread(self.grammar, item.domain, entry)
            self.fail("F411", f"`{item.name}[{where}]`: {reason}", help)
        elif not IMPOSSIBLE <= number < size:
            self.fail(
                "F411",
                f"`{item.name}[{where}]` is {entry!r}; domain `{item.domain}` has the values "
                f"0 to {size - 1} (-1: missing, -2: impossible)",
            )
            return None
        return number

    def table(self, item: InputTable) -> dict[tuple[int, ...], int]:
        """The entries of a table by position."""
        entries: dict[tuple[int, ...], int] = {}
        for position, entry in self.entries(item):
            number = table_entry(entry)
            if number is None:
                self.fail("F411", f"`{item.name}` holds {entry!r}, which is not a whole number")
            else:
                entries[position] = number
        return entries


def _listed(nest: Nest) -> Nest:
    """An array or tensor as nested lists; anything else as it is."""
    return cast(Nest, nest.tolist()) if hasattr(nest, "tolist") else nest


def _items(nest: object) -> Nest | None:
    """A list, tuple or array as a sequence; None for anything else, such as text."""
    if isinstance(nest, str) or not hasattr(nest, "__len__"):
        return None
    return cast(Nest, nest)


def table_entry(entry: object) -> int | None:
    """An entry of a table, a number or its text; None if it is neither."""
    text = entry if isinstance(entry, str) and len(entry) < 20 else ""
    return int(text) if text.removeprefix("-").isdecimal() else whole_number(entry)
