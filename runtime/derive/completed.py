"""Completed inputs: the inputs of an item, with the tokens that a derivation decides filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import did_you_mean, refuse
from fgg.grammar import Grammar, Input, InputTable, Product, Union
from fgg.grammar.domains import domain_values, parts, select, size_values
from fgg.inputs.tokens import IMPOSSIBLE, MISSING
from fgg.inputs.written import Words

if TYPE_CHECKING:
    from fgg.runtime.derive.derivation import Derivation, Reading, Step

FORMS = ("words", "ids", "tensors", "parts")

Position = tuple[int, ...]
Path = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Observed:
    """The item that a derivation explains: the model joined with its query, lengths and inputs.

    `given` has arrays of tokens by input, and of entries by table, as far as they are given.
    `words` are those of inputs that were written as text, before anything changed them.
    """

    grammar: Grammar
    lengths: Mapping[str, int]
    given: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    words: Mapping[str, Words] = field(default_factory=dict)

    def written(self, name: str, position: Position) -> str | None:
        """What was written at a position of an input; None if no word was.

        An input with two axes, `s[i,j]`, has the parts of what was written.
        """
        words, tokens = self.words.get(name), self.given.get(name)
        if words is None or tokens is None or tokens[position] < 0:
            return None
        start, *end = position
        part = words[start : end[0] if end else start + 1]
        return "".join(map(str, part)) if part and None not in part else None

    def extents(self, item: Input | InputTable) -> tuple[int, ...]:
        """The extents of an input or table."""
        known = {**size_values(self.grammar), **self.lengths}
        return tuple(expr.evaluate(known) or 0 for expr in item.shape)

    def entry(self, item: Input | InputTable, position: Position) -> int:
        """The token or entry that is given at a position; -1 if none is."""
        array = self.given.get(item.name)
        return MISSING if array is None else int(array[position])

    def look_up(self, table: str, position: Position) -> int | None:
        """An entry of a table; None outside it."""
        extents = self.given[table].shape
        inside = all(0 <= i < n for i, n in zip(position, extents, strict=True))
        return int(self.given[table][position]) if inside else None

    def positions(self, item: Input | InputTable) -> list[Position]:
        """The positions of an input or table, in order."""
        return list(product(*(range(extent) for extent in self.extents(item))))


def completed(derivation: Derivation, form: str) -> dict[str, Any]:
    """The inputs and tables of a derivation's item, in one of the `FORMS`.

    Raises GrammarError (F415, F498) if there are none, or if rules disagree about a token.
    """
    if form not in FORMS:
        known = ", ".join(f"`{name}`" for name in FORMS)
        help = did_you_mean(form, FORMS) or f"forms are {known}"
        refuse("F415", f"inputs have no form `{form}`", help)
    observed = derivation.observed
    if observed is None:
        help = "derivations of a program or model have inputs, those of a ground grammar do not"
        refuse("F498", "this derivation has no inputs", help)
    values: dict[str, Any] = {}
    tokens = all_tokens(derivation, observed)
    for item in observed.grammar.observed:
        numbers = tokens.get(item.name)
        if numbers is None:
            numbers = {place: observed.entry(item, place) for place in observed.positions(item)}
        show = _shown(observed, item, form)
        nest = _nested(observed.extents(item), numbers, show)
        values[item.name] = _tensor(nest) if form == "tensors" else nest
    return values


def line(derivation: Derivation, fields: Mapping[str, str]) -> str:
    """The inputs as a line of a data file: words, `word/TAG`, or columns separated by tabs.

    `fields` says which inputs are words and tags. Raises GrammarError (F498).
    """
    columns: dict[str, list[str]] = {}
    for name, words in completed(derivation, "words").items():
        if any(isinstance(word, list) for word in words) or not isinstance(words, list):
            refuse("F498", f"`{name}` is no sequence, so it cannot be written as a line of words")
        columns[name] = [str(MISSING) if word is None else str(word) for word in words]
    by_field = {fields.get(name, ""): words for name, words in columns.items()}
    if set(by_field) == {"words", "tags"}:
        pairs = zip(by_field["words"], by_field["tags"], strict=True)
        return " ".join(f"{word}/{'_' if tag == '-1' else tag}" for word, tag in pairs)
    return "\t".join(" ".join(words) for words in columns.values())


def all_tokens(derivation: Derivation, observed: Observed) -> dict[str, dict[Position, int]]:
    """The tokens of each input by position: those given, and those that the rules read.

    A token that nothing decides is missing. Raises GrammarError (F498) if rules disagree.
    """
    read: dict[tuple[str, Position], list[tuple[Step, Reading]]] = {}
    for step in derivation.steps:
        for reading in step.readings:
            if reading.attachment is not None:
                read.setdefault((reading.input, reading.position), []).append((step, reading))
    tokens: dict[str, dict[Position, int]] = {}
    for item in observed.grammar.inputs:
        tokens[item.name] = {}
        for position in observed.positions(item):
            token = observed.entry(item, position)
            if token == MISSING:
                readings = read.get((item.name, position), ())
                token = _decided(derivation, item, position, readings)
            tokens[item.name][position] = token
    return tokens


def _decided(
    derivation: Derivation,
    item: Input,
    position: Position,
    readings: Sequence[tuple[Step, Reading]],
) -> int:
    """The token at a position that steps have read, or -1 if they do not decide it."""
    grammar = derivation.grammar
    known: dict[Path, int] = {}
    for step, reading in readings:
        attachment = reading.attachment
        if attachment is None or attachment.node not in step.values:
            continue
        domain = step.rule.rhs.by_name[attachment.node].domain
        value = select(grammar, domain, attachment.path, step.values[attachment.node])
        if value is None:
            continue
        if known.setdefault(reading.path, value) != value:
            place = ", ".join(map(str, position))
            refuse(
                "F498",
                f"rules of this derivation read different values of `{item.name}[{place}]`",
                "a missing token is one variable within a rule only: `fggc explain F209`",
            )
    token = joined(grammar, item.domain, known)
    return MISSING if token is None else token


def joined(grammar: Grammar, domain: str, known: Mapping[Path, int]) -> int | None:
    """The value of a domain whose parts and components have known values; None if some lack."""
    if () in known:
        return known[()]
    shape = grammar.domain[domain].shape
    token = 0
    for name, part in parts(grammar, domain).items():
        below = {path[1:]: value for path, value in known.items() if path[0] == name}
        inner = joined(grammar, part.domain, below) if below else None
        if isinstance(shape, Union):
            if inner is not None:
                return part.offset + inner
        elif inner is None:
            return None
        else:
            token += inner * part.stride
    return token if isinstance(shape, Product) else None


def _shown(
    observed: Observed, item: Input | InputTable, form: str
) -> Callable[[Position, int], object]:
    """How the token at a position is shown: as a number, a word, or its parts by name."""
    grammar = observed.grammar

    def shown(position: Position, token: int) -> object:
        if not isinstance(item, Input) or form in ("ids", "tensors"):
            return token
        if token == MISSING:
            return None
        if token == IMPOSSIBLE:
            return str(IMPOSSIBLE)
        if form == "parts":
            return by_part(grammar, item.domain, token)
        written = observed.written(item.name, position)
        if written is not None:
            return written
        return domain_values(grammar, item.domain)[token]

    return shown


def by_part(grammar: Grammar, domain: str, value: int) -> object:
    """A value by the names of its part or components: `{"T": "D", "W": "the"}`."""
    inner = parts(grammar, domain)
    if not inner:
        return domain_values(grammar, domain)[value]
    values = {name: part.select(value) for name, part in inner.items()}
    return {
        name: by_part(grammar, inner[name].domain, selected)
        for name, selected in values.items()
        if selected is not None
    }


def _nested(
    extents: Sequence[int],
    numbers: Mapping[Position, int],
    show: Callable[[Position, int], object],
) -> object:
    """Entries by position as nested lists."""

    def nest(position: Position) -> object:
        if len(position) == len(extents):
            return show(position, numbers[position])
        return [nest((*position, place)) for place in range(extents[len(position)])]

    return nest(())


def _tensor(nest: object) -> object:
    import torch

    return torch.tensor(nest, dtype=torch.long)
