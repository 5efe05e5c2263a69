"""The cells of a family that has lost nodes to pins, with these nodes again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import torch
from torch import Tensor

from fgg.factors.maps import map_values
from fgg.grammar.domains import domain_size, size_values
from fgg.inputs.clamps import Pin, path_end, path_steps
from fgg.inputs.given import IMPOSSIBLE
from fgg.plan import Plan
from fgg.plan.sizes import low_end
from fgg.runtime.memory import require
from fgg.runtime.prelude.charts import mapped, part_of
from fgg.runtime.program.inputs import Collated


def unpinned(
    found: Tensor,
    family: str,
    pins: Sequence[Pin | None],
    plan: Plan,
    collated: Collated,
    ends: Mapping[str, int],
) -> Tensor:
    """A chart `[*axes, batch, *states]` with an axis for every node that the family had.

    What is fixed has its number at the value that the input says, and 0 at all others.
    """
    grammar = plan.grammar
    rank = len(plan.chart[family].axes)
    domains = {
        place: path_end(grammar, grammar.input[pin.input].domain, pin.path)
        for place, pin in enumerate(pins)
        if pin is not None
    }
    sizes = {place: domain_size(grammar, name) for place, name in domains.items()}
    whole = found.numel() * prod(sizes.values()) * found.element_size()
    require(2 * whole, found.device, f"the marginals of `{family}`")
    for place, pin in enumerate(pins):
        if pin is not None:
            # [*axes, batch]: the value of this node at each cell of each item.
            values = _values(found.shape[: rank + 1], family, pin, plan, collated, ends)
            values = values.to(found.device)
            wide = found.unsqueeze(rank + 1 + place)
            known = torch.arange(sizes[place], device=found.device) == values.unsqueeze(-1)
            shape = [*values.shape, *(1 for _ in range(wide.dim() - rank - 1))]
            shape[rank + 1 + place] = sizes[place]
            found = wide * known.reshape(shape).to(found.dtype)
    return found


def _values(
    shape: Sequence[int],
    family: str,
    pin: Pin,
    plan: Plan,
    collated: Collated,
    ends: Mapping[str, int],
) -> Tensor:
    """The value of a pinned node at each cell of each item; impossible outside the input."""
    chart, grammar = plan.chart[family], plan.grammar
    names = grammar.nonterminal[family].indices
    lows = [low_end(axis.low, ends) for axis in chart.axes]
    tokens = collated.inputs[pin.input]
    for step in path_steps(grammar, grammar.input[pin.input].domain, pin.path):
        if isinstance(step, str):
            tokens = mapped(tokens, map_values(grammar, step))
        else:
            tokens = part_of(tokens, step.offset, step.size, step.stride, step.period)
    found = torch.full(tuple(shape), IMPOSSIBLE)
    known: dict[str, int] = dict(size_values(grammar))
    for item in range(shape[-1]):
        own = known | {name: numbers[item] for name, numbers in collated.lengths.items()}
        for cell in product(*(range(n) for n in shape[:-1])):
            at = own | {
                names[i]: low + x for i, low, x in zip(chart.stored, lows, cell, strict=True)
            }
            at |= {n: e.evaluate(at) or 0 for n, e in chart.followers.items()}
            place = [index.evaluate(at) for index in pin.indices]
            inside = all(
                p is not None and 0 <= p < extent
                for p, extent in zip(place, tokens.shape[1:], strict=True)
            )
            if inside:
                found[(*cell, item)] = tokens[(item, *place)]
    return found
