"""A collate function for `torch.utils.data.DataLoader`: items become tensors that a model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar import Grammar
from fgg.runtime.layer.precision import as_computed
from fgg.runtime.program.inputs import collate


@dataclass(frozen=True)
class Collate:
    """Makes a batch of items: padded tensors by input, and `lengths`, the lengths of each item.

    An item gives its inputs by name, `{"w": ["the", "dog"]}`. If the grammar has a single input, it
    may be that input itself: words, numbers, an array or a tensor. `model(**batch)` takes the
    result. Workers of a data loader can be given this function: it can be pickled.
    """

    grammar: Grammar

    def __call__(self, items: Sequence[object]) -> dict[str, Tensor | dict[str, Tensor]]:
        """The batch of some items. Raises GrammarError (F411) for what does not fit."""
        grammar = self.grammar
        inputs = by_input(grammar, items)
        types = (x.dtype for name in grammar.input_factor for x in map(_real, inputs.get(name, ())))
        dtype = next(types, torch.float32)
        batch = collate(grammar, inputs, dtype=dtype)
        given: dict[str, Tensor | dict[str, Tensor]] = {n: batch.inputs[n] for n in inputs}
        if batch.lengths:
            given["lengths"] = {n: torch.tensor(each) for n, each in batch.lengths.items()}
        return given


def by_input(grammar: Grammar, items: Sequence[object]) -> dict[str, list[object]]:
    """Items as lists by input, one entry for each item.

    Raises GrammarError (F411) if items have different inputs, or none by name where there are
    several.
    """
    if not items:
        refuse("F411", "a batch has at least one item")
    names = [item.name for item in grammar.observed]
    names += [factor.name for factor in grammar.input_factors]
    records: list[Mapping[str, object]] = []
    for number, item in enumerate(items):
        if isinstance(item, Mapping):
            records.append(item)
        elif len(names) == 1:
            records.append({names[0]: item})
        else:
            listed = ", ".join(f"`{name}`" for name in names)
            help = f"an item gives {listed} by name" if names else "the grammar has no inputs"
            refuse("F411", f"item {number} does not say what it is an input of", help)
    for number, record in enumerate(records):
        if record.keys() != records[0].keys():
            refuse("F411", f"item {number} has other inputs than item 0")
    return {name: [record[name] for record in records] for name in records[0]}


def _real(value: object) -> Tensor:
    """Log-potentials of an item as a tensor of real numbers."""
    tensor = torch.as_tensor(value)
    return as_computed(tensor if tensor.is_floating_point() else tensor.float())
