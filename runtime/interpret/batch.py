"""A batch of inputs as a plan is carried out on it: arrays of tokens, tables and log-potentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fgg.grammar import Grammar
from fgg.grammar.domains import size_values
from fgg.inputs.tokens import IMPOSSIBLE
from fgg.plan import Plan
from fgg.plan.sizes import chart_bytes, environment, table_bytes
from fgg.runtime.interpret.semirings.base import Ints
from fgg.runtime.memory import require
from fgg.runtime.program.inputs import Lengths, check_potentials, collate


@dataclass(frozen=True)
class Batch:
    """Inputs of several items side by side, padded to the greatest lengths.

    `lengths` are `[batch]`, tokens and tables `[batch, *indices]`, log-potentials
    `[batch, *indices, *values]`.
    """

    size: int
    lengths: Mapping[str, Ints]
    tokens: Mapping[str, Ints]
    tables: Mapping[str, Ints]
    potentials: Mapping[str, Tensor]

    def item(self, number: int) -> Batch:
        """One item as a batch of its own."""
        one = slice(number, number + 1)
        return Batch(
            1,
            {name: values[one] for name, values in self.lengths.items()},
            {name: values[one] for name, values in self.tokens.items()},
            {name: values[one] for name, values in self.tables.items()},
            {name: values[one] for name, values in self.potentials.items()},
        )


def batch_of(plan: Plan, inputs: Mapping[str, object], lengths: Lengths = None) -> Batch:
    """The inputs checked against a plan's grammar. Raises GrammarError for what does not fit."""
    grammar = plan.grammar
    # Users give the log-potentials that a split grammar's own ones are cut out of.
    given = tuple(f for f in grammar.input_factors if f.definition is None)
    collated = collate(
        replace(grammar, input_factors=given), inputs, lengths, dtype=torch.float64, device="cpu"
    )
    check_potentials(plan, collated)
    ends = environment(collated.lengths)
    # Values in float64, inside and outside, and the tables.
    size = collated.size
    needed = 2 * chart_bytes(plan, ends, size, 8) + table_bytes(plan, ends, size, 8)
    require(needed, torch.device("cpu"), "this batch")
    item_lengths = {n: np.asarray(collated.lengths[n], dtype=np.int64) for n in plan.lengths}
    tokens = {
        item.name: held(grammar, item.name, collated.inputs[item.name].numpy(), item_lengths)
        for item in grammar.inputs
    }
    tables = {table.name: collated.inputs[table.name].numpy() for table in grammar.tables}
    potentials = {factor.name: collated.inputs[factor.name] for factor in given}
    return Batch(size, item_lengths, tokens, tables, potentials)


def held(grammar: Grammar, name: str, tokens: Ints, lengths: Mapping[str, Ints]) -> Ints:
    """Tokens that are impossible beyond an item's own lengths."""
    values: dict[str, Any] = {**size_values(grammar), **lengths}
    inside = np.ones(tokens.shape, dtype=bool)
    for axis, expr in enumerate(grammar.input[name].shape):
        extent = np.asarray(expr.evaluate(values)).reshape([-1] + [1] * (tokens.ndim - 1))
        places = np.arange(tokens.shape[axis + 1])
        inside &= places.reshape([-1] + [1] * (tokens.ndim - axis - 2)) < extent
    return np.where(inside, tokens, IMPOSSIBLE)
