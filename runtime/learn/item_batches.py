"""Batches of items as learning methods take them, and in-memory data cut into such batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from os import PathLike
from types import MappingProxyType

import torch

from fgg.diagnostics import refuse
from fgg.runtime.program.inputs import Collated, Lengths, check_potentials, collate
from fgg.runtime.program.program import CompiledProgram, Program

Data = Mapping[str, Sequence[object]] | Iterable[object]
"""Data in memory: lists of values by input, or a list of items."""

BUDGET = 2048
"""The most tokens of a batch, padding included."""

NO_FIELDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Items:
    """A batch: inputs and lengths as a program takes them, and a number for each item.

    Methods that remember items (CVB, Hastings) know them by their numbers, `ids`. `query` is the
    query that the items are observations of, if it is not the model's: a treebank beside text.
    """

    inputs: Mapping[str, object]
    lengths: Lengths = None
    ids: tuple[int, ...] = ()
    query: str | None = None


@dataclass(frozen=True, eq=False)
class CheckedItems:
    """A batch that has been checked, with the program of its query."""

    program: Program
    collated: Collated
    ids: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of items."""
        return self.collated.size

    def item(self, place: int) -> CheckedItems:
        """One item as a batch by itself, without padding."""
        if self.size == 1:
            return self
        lengths = {name: [values[place]] for name, values in self.collated.lengths.items()}
        inputs = {name: x[place : place + 1] for name, x in self.collated.inputs.items()}
        return check_items(self.program, Items(inputs, lengths or None, (self.ids[place],)))


def check_items(
    program: Program, items: Items | CheckedItems, device: torch.device | None = None
) -> CheckedItems:
    """A batch checked against the program of its query. Raises GrammarError for unfit inputs."""
    if isinstance(items, CheckedItems):
        return items
    asked = program.for_query(items.query)
    collated = collate(
        asked.grammar, items.inputs, items.lengths, dtype=torch.float64, device=device
    )
    if isinstance(asked, CompiledProgram):
        check_potentials(asked.plan, collated)
    ids = items.ids or tuple(range(collated.size))
    if len(ids) != collated.size:
        refuse("F476", f"a batch has {collated.size} items, and numbers for {len(ids)}")
    return CheckedItems(asked, collated, ids)


def in_memory(program: Program, data: Data, query: str | None = None) -> list[Items]:
    """Data in memory as batches of one item each.

    Data are a mapping from inputs to lists of values, one for each item, or a list of mappings, one
    for each item. If the grammar has a single input, they may be a list of its values. Raises
    GrammarError (F476).
    """
    by_input = data_by_input(program.for_query(query), data)
    counts = {len(values) for values in by_input.values()}
    if len(counts) != 1 or not min(counts):
        refuse("F476", "there are no data, or inputs have different numbers of items")
    return [
        Items({name: [values[i]] for name, values in by_input.items()}, None, (i,), query)
        for i in range(counts.pop())
    ]


def data_by_input(
    program: Program, data: Data, fields: Mapping[str, str] = NO_FIELDS
) -> Mapping[str, Sequence[object]]:
    """Data in memory as lists by input.

    A list of values is of the only input, or of the only one that reads words, by `fields`. A text
    is refused: it would be taken for a list of letters.
    """
    if isinstance(data, Mapping):
        for values in data.values():
            _check_list(values)
        return data
    _check_list(data)
    entries = list(data)
    records = [entry for entry in entries if isinstance(entry, Mapping)]
    if records and len(records) == len(entries):
        return {name: [record[name] for record in records] for name in records[0]}
    names = [item.name for item in program.grammar.observed]
    names += [factor.name for factor in program.grammar.input_factors]
    words = [name for name in names if fields.get(name) == "words"] if len(names) > 1 else names
    if len(words) != 1:
        listed = ", ".join(f"`{name}`" for name in names)
        message = f"`{program.grammar.name}` has several inputs: {listed}"
        refuse("F476", message, "give data by their names: a list of items for each")
    return {words[0]: entries}


def _check_list(values: object) -> None:
    if isinstance(values, (str, bytes, PathLike)):
        message = "data are a list of items, not one text"
        refuse("F476", message, "`[text]` is a list of one; `fgg.train` and `fgg.data` read files")
    if not isinstance(values, Iterable):
        refuse("F476", f"data are a list of items, not {values!r}")


def numbered(batches: Sequence[Items], first: int) -> list[Items]:
    """The batches with the numbers of their items increased by `first`."""
    return [replace(batch, ids=tuple(first + i for i in batch.ids)) for batch in batches]


def bucketed(items: Sequence[Items], budget: int = BUDGET) -> list[Items]:
    """Batches of items of similar length and one query, each of at most `budget` tokens.

    A longer item is a batch by itself.
    """
    sized = [(_length(item), place) for place, item in enumerate(items)]
    sized.sort(key=lambda pair: (items[pair[1]].query or "", pair))
    batches: list[list[Items]] = []
    for length, place in sized:
        item = items[place]
        last = batches[-1] if batches else []
        if not last or last[0].query != item.query or (len(last) + 1) * max(length, 1) > budget:
            batches.append([])
        batches[-1].append(item)
    return [_joined(batch) for batch in batches]


def token_count(program: Program, batch: Items | CheckedItems) -> int:
    """The number of tokens of a batch, without padding; of items if inputs have no length."""
    checked = check_items(program, batch)
    lengths = checked.collated.lengths
    return sum(sum(values) for values in lengths.values()) if lengths else checked.size


def _length(item: Items) -> int:
    """The length of an item: that of its first input."""
    first = _values(next(iter(item.inputs.values())))[0]
    if isinstance(first, str):
        return len(first.split())
    return len(first) if isinstance(first, Sized) else 1


def _values(values: object) -> list[object]:
    """The values of an input, one for each item."""
    assert isinstance(values, Iterable)
    return list(values)


def _joined(batch: Sequence[Items]) -> Items:
    inputs: dict[str, list[object]] = {name: [] for name in batch[0].inputs}
    for item in batch:
        for name, values in item.inputs.items():
            inputs[name] += _values(values)
    return Items(inputs, None, tuple(i for item in batch for i in item.ids), batch[0].query)
