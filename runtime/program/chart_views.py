"""The charts of a plan as parts of the user's families.

Splitting unions and products makes several families of one (`X_N` and `X_P` of `X`), each with
fewer stored indices where its support allows. Results are put together again here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import torch
from torch import Tensor

from fgg.grammar import Grammar
from fgg.grammar.definitions import Variant
from fgg.grammar.domains import domain_size
from fgg.grammar.provenance import FamilySource, families_of
from fgg.grammar.slices import source_value
from fgg.plan import Plan
from fgg.plan.sizes import low_end


@dataclass(frozen=True)
class Refinement:
    """A chart's family, the user's family it is part of, and the variant of each external."""

    family: str
    source: str
    grammar: Grammar
    variants: tuple[Variant, ...]

    def add_sums_to(
        self, result: dict[str, Tensor], found: Tensor, plan: Plan, ends: Mapping[str, int]
    ) -> None:
        """Add the sums over a chart's states to those of the user's family, `[batch, *indices]`."""
        rank = len(plan.chart[self.family].axes)
        cells = found.flatten(rank + 1).sum(-1) if found.dim() > rank + 1 else found
        item = replace(self.grammar.nonterminal[self.source], domains=())
        plain = replace(self.grammar, nonterminals=(item,))
        replace(self, grammar=plain, variants=()).add_to(result, cells, plan, ends)

    def add_to(
        self, result: dict[str, Tensor], found: Tensor, plan: Plan, ends: Mapping[str, int]
    ) -> None:
        """Add a chart's numbers to those of the user's family, `[batch, *indices, *states]`."""
        chart = plan.chart[self.family]
        rank = len(chart.axes)
        states = tuple(
            domain_size(self.grammar, d) for d in self.grammar.nonterminal[self.source].domains
        )
        lows = [low_end(axis.low, ends) for axis in chart.axes]
        places = self.places(plan, lows, tuple(found.shape[:rank]))
        extents = [max(p, default=-1) + 1 for p in places] or []
        size = found.shape[rank]
        known = result.get(self.source)
        wide = [
            max(e, known.shape[1 + i] if known is not None else 0) for i, e in enumerate(extents)
        ]
        whole = found.new_zeros((size, *wide, *states))
        if known is not None:
            place = whole
            for axis, extent in enumerate(known.shape[1 : 1 + len(wide)]):
                place = place.narrow(1 + axis, 0, extent)
            place.copy_(known)
        count = prod(found.shape[:rank])
        rows = found.movedim(rank, 0).reshape(size, count, *found.shape[rank + 1 :])
        if any(p and min(p) < 0 for p in places):  # indices are counted from 0
            kept = [c for c, cell in enumerate(zip(*places, strict=True)) if min(cell) >= 0]
            places = [[p[c] for c in kept] for p in places]
            rows = rows[:, kept]
        if rows.shape[1]:
            cells = tuple(torch.tensor(p, device=found.device) for p in places)
            values = rows.reshape(size, rows.shape[1], -1)
            spread = values.new_zeros((size, rows.shape[1], *states)).reshape(
                size, rows.shape[1], -1
            )
            spread[:, :, self.entries(states).to(found.device)] = values
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
        found: list[list[int]] = [[] for _ in indices]
        for cell in product(*(range(n) for n in shape)):
            known = {
                indices[i]: low + x for i, low, x in zip(chart.stored, lows, cell, strict=True)
            }
            for number, name in enumerate(indices):
                if name in known:
                    found[number].append(known[name])
                else:
                    value = chart.followers[name].evaluate(known)
                    assert value is not None
                    found[number].append(value)
        return found

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
    own = {item.name: FamilySource.itself(item) for item in grammar.nonterminals}
    return tuple(
        Refinement(name, source.family, grammar, source.variants)
        for name, source in (own if plan.grammar is grammar else families_of(plan.grammar)).items()
        if name in plan.chart
    )
