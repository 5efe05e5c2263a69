"""Items: batches of data as methods take them, and in-memory data cut into batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fgg.diagnostics import refuse
from fgg.runtime.program.inputs import Collated, check_potentials, collate
from fgg.runtime.program.program import CompiledProgram, Program

BUDGET = 2048
"""How many tokens, padding included, go into a batch."""


@dataclass(frozen=True)
class Items:
    """A batch: inputs and lengths as a program takes them, and a number for each item.

    The numbers tell methods that remember items (CVB, Hastings) which is which. `query` is the
    query that the items are observations of, if it is not the model's own: a treebank beside text.
    """

    inputs: Mapping[str, Any]
    lengths: Any = None
    ids: tuple[int, ...] = ()
    query: str | None = None


@dataclass(frozen=True, eq=False)
class Ready:
    """A batch that has been checked, with its program."""

    program: Program
    collated: Collated
    ids: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many items there are."""
        return self.collated.size


def ready(program: Program, items: Items | Ready, device: torch.device | None = None) -> Ready:
    """A batch checked against the program of its query. Raises GrammarError for what is wrong."""
    if isinstance(items, Ready):
        return items
    own = program.for_query(items.query)
    collated = collate(own.grammar, items.inputs, items.lengths, dtype=torch.float64, device=device)
    if isinstance(own, CompiledProgram):
        check_potentials(own.plan, collated)
    ids = items.ids or tuple(range(collated.size))
    if len(ids) != collated.size:
        message = f"a batch has {collated.size} items, and numbers for {len(ids)}"
        refuse("F476", message)
    return Ready(own, collated, ids)


def in_memory(program: Program, data: Any, query: str | None = None) -> list[Items]:
    """Data that is all there, as one batch an item.

    Token lists are the one input of a grammar that has one; else data is a mapping from inputs to
    lists with an entry an item, or a list of such mappings with an entry each.
    """
    own = program.for_query(query)
    names = [item.name for item in own.grammar.observed]
    names += [factor.name for factor in own.grammar.input_factors]
    if not isinstance(data, Mapping):
        data = list(data)
        if data and all(isinstance(item, Mapping) for item in data):
            data = {name: [item[name] for item in data] for name in data[0]}
        elif len(names) == 1:
            data = {names[0]: data}
        else:
            listed = ", ".join(f"`{name}`" for name in names)
            message = f"`{own.grammar.name}` has several inputs: {listed}"
            help = "give data by their names: a list of items for each"
            refuse("F476", message, help)
    counts = {len(values) for values in data.values()}
    if len(counts) != 1 or not min(counts):
        message = "there are no data, or not as many items of each input"
        refuse("F476", message)
    return [
        Items({name: [values[i]] for name, values in data.items()}, None, (i,), query)
        for i in range(counts.pop())
    ]


def numbered(batches: Sequence[Items], first: int) -> list[Items]:
    """The batches with the numbers of their items counted from `first` on."""
    found = []
    for batch in batches:
        found.append(replace(batch, ids=tuple(first + i for i in batch.ids)))
    return found


def bucketed(program: Program, items: Sequence[Items], budget: int = BUDGET) -> list[Items]:
    """Items of similar lengths put together, as many as the budget of tokens allows."""
    sized = [(_length(program, item), place) for place, item in enumerate(items)]
    sized.sort(key=lambda pair: (items[pair[1]].query or "", pair))
    found: list[list[Items]] = []
    for length, place in sized:
        item = items[place]
        last = found[-1] if found else []
        if not last or last[0].query != item.query or (len(last) + 1) * max(length, 1) > budget:
            found.append([])
        found[-1].append(item)
    return [_joined(batch) for batch in found]


def tokens(program: Program, batch: Items | Ready) -> int:
    """How many tokens the items of a batch have: entries of inputs within their lengths."""
    own = ready(program, batch)
    lengths = own.collated.lengths
    return sum(sum(values) for values in lengths.values()) if lengths else own.size


def _length(program: Program, item: Items) -> int:
    values = next(iter(item.inputs.values()))[0]
    return len(values.split()) if isinstance(values, str) else len(values)


def _joined(batch: Sequence[Items]) -> Items:
    inputs: dict[str, list[Any]] = {name: [] for name in batch[0].inputs}
    for item in batch:
        for name, values in item.inputs.items():
            inputs[name] += values
    return Items(inputs, None, tuple(i for item in batch for i in item.ids), batch[0].query)
