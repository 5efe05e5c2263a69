"""The charts of a plan as parts of the user's families.

Splitting unions and products makes several families of one (`X_N` and `X_P` of `X`), each with
fewer stored indices where its support allows. Pinning a node to an observed value removes its
axis. Results are put together again here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import torch
from torch import Tensor

from fgg.factors.maps import map_values
from fgg.grammar import Grammar
from fgg.grammar.definitions import Variant
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.provenance import FamilySource, families_of
from fgg.grammar.slices import source_value
from fgg.inputs.clamps import Pin, path_end, path_steps
from fgg.inputs.tokens import IMPOSSIBLE
from fgg.plan import Plan
from fgg.plan.sizes import low_end
from fgg.runtime.memory import require
from fgg.runtime.prelude.evidence import mapped, part_of
from fgg.runtime.program.inputs import Collated


@dataclass(frozen=True)
class Refinement:
    """A chart's family, the user's family it is part of, and the variant of each external."""

    family: str
    source: str
    grammar: Grammar
    variants: tuple[Variant, ...]

    def add_sums_to(
        self, result: dict[str, Tensor], numbers: Tensor, plan: Plan, ends: Mapping[str, int]
    ) -> None:
        """Add the sums over a chart's states to those of the user's family, `[batch, *indices]`."""
        rank = len(plan.chart[self.family].axes)
        cells = numbers.flatten(rank + 1).sum(-1) if numbers.dim() > rank + 1 else numbers
        item = replace(self.grammar.nonterminal[self.source], domains=())
        plain = replace(self.grammar, nonterminals=(item,))
        replace(self, grammar=plain, variants=()).add_to(result, cells, plan, ends)

    def add_to(
        self, result: dict[str, Tensor], numbers: Tensor, plan: Plan, ends: Mapping[str, int]
    ) -> None:
        """Add a chart's numbers to those of the user's family, `[batch, *indices, *states]`."""
        chart = plan.chart[self.family]
        rank = len(chart.axes)
        states = tuple(
            domain_size(self.grammar, d) for d in self.grammar.nonterminal[self.source].domains
        )
        lows = [low_end(axis.low, ends) for axis in chart.axes]
        places = self.places(plan, lows, tuple(numbers.shape[:rank]))
        extents = [max(p, default=-1) + 1 for p in places] or []
        size = numbers.shape[rank]
        known = result.get(self.source)
        wide = [
            max(e, known.shape[1 + i] if known is not None else 0) for i, e in enumerate(extents)
        ]
        whole = numbers.new_zeros((size, *wide, *states))
        if known is not None:
            place = whole
            for axis, extent in enumerate(known.shape[1 : 1 + len(wide)]):
                place = place.narrow(1 + axis, 0, extent)
            place.copy_(known)
        count = prod(numbers.shape[:rank])
        rows = numbers.movedim(rank, 0).reshape(size, count, *numbers.shape[rank + 1 :])
        if any(p and min(p) < 0 for p in places):  # indices are counted from 0
            kept = [c for c, cell in enumerate(zip(*places, strict=True)) if min(cell) >= 0]
            places = [[p[c] for c in kept] for p in places]
            rows = rows[:, kept]
        if rows.shape[1]:
            cells = tuple(torch.tensor(p, device=numbers.device) for p in places)
            values = rows.reshape(size, rows.shape[1], -1)
            spread = values.new_zeros((size, rows.shape[1], *states)).reshape(
                size, rows.shape[1], -1
            )
            spread[:, :, self.entries(states).to(numbers.device)] = values
            shaped = spread.reshape(size, rows.shape[1], *states)
            if cells:
                place = whole.movedim(0, len(cells))
                place[cells] += shaped.movedim(0, 1)
            else:
                whole += shaped[:, 0]
        result[self.source] = whole

    def places(self, plan: Plan, lows: list[int], shape: tuple[int, ...]) -> list[list[int]]:
        """For each index of the family, its value at every stored cell, in order."""
        chart = plan.chart[self.family]
        indices = plan.grammar.nonterminal[self.family].indices
        columns: list[list[int]] = [[] for _ in indices]
        for cell in product(*(range(n) for n in shape)):
            known = {
                indices[i]: low + x for i, low, x in zip(chart.stored, lows, cell, strict=True)
            }
            for number, name in enumerate(indices):
                if name in known:
                    columns[number].append(known[name])
                else:
                    value = chart.followers[name].evaluate(known)
                    assert value is not None
                    columns[number].append(value)
        return columns

    def entries(self, states: tuple[int, ...]) -> Tensor:
        """The flat position of each of the chart's states among the user's."""
        axes = []
        for variant in self.variants:
            sizes = [domain_size(self.grammar, domain) for _, domain in variant.leaves()]
            axes.append(
                torch.tensor(
                    [
                        source_value(self.grammar, variant, values)
                        for values in product(*map(range, sizes))
                    ]
                )
            )
        total = torch.zeros((), dtype=torch.long)
        for axis, size in zip(axes, states, strict=True):
            total = total.unsqueeze(-1) * size + axis
        return total.reshape(-1)


def refinements(grammar: Grammar, plan: Plan) -> tuple[Refinement, ...]:
    """The charts of a plan that belong to families of the user's grammar, which may be its own."""
    themselves = {item.name: FamilySource.itself(item) for item in grammar.nonterminals}
    return tuple(
        Refinement(name, source.family, grammar, source.variants)
        for name, source in (
            themselves if plan.grammar is grammar else families_of(plan.grammar)
        ).items()
        if name in plan.chart
    )


def unpinned(
    marginals: Tensor,
    family: str,
    pins: Sequence[Pin | None],
    plan: Plan,
    collated: Collated,
    ends: Mapping[str, int],
) -> Tensor:
    """Return a chart `[*axes, batch, *states]` with an axis again for each node lost to a pin.

    Along such an axis, the number stands at the value that the input fixes; all others are 0.
    """
    grammar = plan.grammar
    rank = len(plan.chart[family].axes)
    domains = {
        place: path_end(grammar, grammar.input[pin.input].domain, pin.path)
        for place, pin in enumerate(pins)
        if pin is not None
    }
    sizes = {place: domain_size(grammar, name) for place, name in domains.items()}
    whole = marginals.numel() * prod(sizes.values()) * marginals.element_size()
    require(2 * whole, marginals.device, f"the marginals of `{family}`")
    for place, pin in enumerate(pins):
        if pin is not None:
            # [*axes, batch]: the value of this node at each cell of each item.
            values = _pinned_values(marginals.shape[: rank + 1], family, pin, plan, collated, ends)
            values = values.to(marginals.device)
            wide = marginals.unsqueeze(rank + 1 + place)
            known = torch.arange(sizes[place], device=marginals.device) == values.unsqueeze(-1)
            shape = [*values.shape, *(1 for _ in range(wide.dim() - rank - 1))]
            shape[rank + 1 + place] = sizes[place]
            marginals = wide * known.reshape(shape).to(marginals.dtype)
    return marginals


def _pinned_values(
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
    result = torch.full(tuple(shape), IMPOSSIBLE)
    known: dict[str, int] = dict(size_values(grammar))
    for item in range(shape[-1]):
        of_item = known | {name: numbers[item] for name, numbers in collated.lengths.items()}
        for cell in product(*(range(n) for n in shape[:-1])):
            at = of_item | {
                names[i]: low + x for i, low, x in zip(chart.stored, lows, cell, strict=True)
            }
            at |= {n: e.evaluate(at) or 0 for n, e in chart.followers.items()}
            place = [index.evaluate(at) for index in pin.indices]
            inside = all(
                p is not None and 0 <= p < extent
                for p, extent in zip(place, tokens.shape[1:], strict=True)
            )
            if inside:
                result[(*cell, item)] = tokens[(item, *place)]
    return result
