"""Joint weights of the values at kept input positions, with all others summed out or clamped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from fgg.diagnostics import did_you_mean, refuse
from fgg.grammar.domains import domain_size
from fgg.plan import Plan
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.interpret import inside, semiring_of
from fgg.runtime.interpret.prepare import checked_weights
from fgg.runtime.interpret.semirings import AnySemiring
from fgg.runtime.interpret.semirings.base import Ints
from fgg.runtime.program.inputs import Lengths

MAX_ENTRIES = 2**22
ITEMS = 1024
"""How many assignments of the kept positions are computed at a time."""

Keep = Mapping[str, int | Sequence[int | Sequence[int]]]


def moments(
    plan: Plan,
    weights: Mapping[str, Any],
    inputs: Mapping[str, Any],
    lengths: Lengths = None,
    *,
    keep: Keep,
    semiring: str | AnySemiring = "real",
) -> Any:
    """The weight of each assignment of the kept positions, `[batch, *values]`.

    `keep` names positions of inputs, `{"w": [0, 2]}`: one axis for each, in order. Other positions
    keep the values of the inputs; missing tokens are summed out. In `real` and `log`
    it is differentiable.
    """
    batch = batch_of(plan, inputs, lengths)
    kept = _positions(plan, batch, keep)
    sizes = [domain_size(plan.grammar, plan.grammar.input[name].domain) for name, _ in kept]
    count = prod(sizes)
    if count * batch.size > MAX_ENTRIES:
        message = f"the kept positions have {count:,} joint values"
        refuse("F420", message, "keep fewer positions")
    real = checked_weights(plan, weights)
    algebra = semiring_of("log" if semiring == "real" else semiring, real)
    pieces = []
    for start in range(0, batch.size * count, ITEMS):
        numbers = np.arange(start, min(start + ITEMS, batch.size * count))
        values = np.unravel_index(numbers % count, sizes) if sizes else ()
        part = _assigned(batch, numbers // count, kept, values)
        pieces.append(inside(plan, real, part, algebra).z)
    joint = algebra.concatenate(pieces)
    if semiring == "real":
        joint = joint.exp()
    return joint.reshape((batch.size, *sizes, *joint.shape[1:]))


def _positions(plan: Plan, batch: Batch, keep: Keep) -> list[tuple[str, tuple[int, ...]]]:
    """The kept positions. Raises GrammarError for those that an item does not have."""
    kept = []
    for name, positions in keep.items():
        if name not in plan.grammar.input:
            help = did_you_mean(name, plan.grammar.input)
            message = f"there is no input `{name}`"
            refuse("F411", message, help)
        shape = batch.tokens[name].shape[1:]
        for position in positions if isinstance(positions, Sequence) else [positions]:
            place = tuple(position) if isinstance(position, Sequence) else (position,)
            is_there = len(place) == len(shape) and all(
                isinstance(i, int | np.integer) and 0 <= i < n
                for i, n in zip(place, shape, strict=True)
            )
            if not is_there:
                message = f"`{name}` has no position {', '.join(map(str, place))}"
                refuse("F411", message)
            if (name, place) in kept:
                shown = ", ".join(map(str, place))
                message = f"position {shown} of `{name}` is kept twice"
                refuse("F411", message)
            kept.append((name, place))
    return kept


def _assigned(
    batch: Batch,
    rows: Ints,
    kept: Sequence[tuple[str, tuple[int, ...]]],
    values: Sequence[Ints],
) -> Batch:
    """Items of a batch, repeated, with values at the kept positions."""
    tokens = {name: array[rows].copy() for name, array in batch.tokens.items()}
    for (name, place), value in zip(kept, values, strict=True):
        index: Any = (slice(None), *place)
        tokens[name][index] = value
    return replace(
        batch,
        size=len(rows),
        lengths={name: array[rows] for name, array in batch.lengths.items()},
        tokens=tokens,
        tables={name: array[rows] for name, array in batch.tables.items()},
        potentials={name: array[rows] for name, array in batch.potentials.items()},
    )
