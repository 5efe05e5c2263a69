"""What a program for best derivations has besides: maxima in place of sums.

Weights are positive, so that the greatest product is that of the greatest logarithms; cells have
scales as in sums, and nothing under- or overflows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.runtime.prelude.cells import Cells, Index
from fgg.runtime.prelude.charts import Chart, Layouts, new_charts
from fgg.runtime.prelude.scaled import Term, shares_of

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch

BLOCK = 2**17


def best(left: Tensor, right: Tensor, keep: int, rank: int) -> Tensor:
    """The greatest products over all axes but the first ones; missing axes come first.

    Large products are made in blocks: the memory is that of the result.
    """
    left = left[(None,) * (rank - left.dim())]
    right = right[(None,) * (rank - right.dim())]
    shape = [max(a, b) for a, b in zip(left.shape, right.shape, strict=True)]
    count = 1
    for extent in shape:
        count *= extent
    if count <= BLOCK or 0 in shape:
        return (left * right).flatten(keep).amax(-1)
    widest = max(range(keep), key=lambda i: shape[i], default=keep)
    inner = widest >= keep or shape[widest] == 1
    axis = max(range(keep, rank), key=lambda i: shape[i]) if inner else widest
    pieces = max(2, min(shape[axis], count // BLOCK))
    size = -(-shape[axis] // pieces)
    parts = [
        best(block(left, axis, start, size), block(right, axis, start, size), keep, rank)
        for start in range(0, shape[axis], size)
    ]
    return torch.stack(parts).amax(0) if inner else torch.cat(parts, axis)


def block(values: Tensor, axis: int, start: int, size: int) -> Tensor:
    """A part of an axis, or all of one that has length one."""
    extent = values.shape[axis]
    return values if extent == 1 else values.narrow(axis, start, min(size, extent - start))


def best_einsum(spec: str, *operands: Tensor) -> Tensor:
    """A product of several tensors, its greatest over the letters that are not kept."""
    inputs, out = spec.split("->")
    terms = inputs.split(",")
    letters = [*out, *sorted({x for term in terms for x in term if x not in out})]
    found = None
    for term, values in zip(terms, operands, strict=True):
        # Each letter once, in order: where one occurs twice, the diagonal.
        aligned = torch.einsum(f"{term}->{''.join(x for x in letters if x in term)}", values)
        aligned = aligned[tuple(slice(None) if x in term else None for x in letters)]
        found = aligned if found is None else found * aligned
    assert found is not None
    return found.flatten(len(out)).amax(-1) if len(letters) > len(out) else found


class BestChart(Chart):
    """A chart of greatest products; each cell and state is judged by a mark besides."""

    marks: Cells

    def put(self, index: Index, new: Tensor, scale: Tensor | None = None, depth: int = 0) -> None:
        """Write cells, times their marks."""
        super().put(index, new * self.marks[index], scale, depth)

    def put_more(
        self, index: Index, new: Tensor, scale: Tensor | None = None, depth: int = 0
    ) -> None:
        """Write the greater of cells, times their marks, and of what they have."""
        values, scales = self[index], self.scale[index]
        terms = [(values, scales), ((new * self.marks[index]).expand_as(values), scale)]
        new, scale = self.total(terms, scales.dim())
        super().put(index, new, scale, depth)

    def total(self, terms: list[Term], rank: int) -> Term:
        """The greatest of several scaled numbers."""
        if len(terms) == 1:
            return terms[0]
        shares, top = shares_of(self.batch, terms, rank)
        new = terms[0][0] * shares[0]
        for (values, _), share in zip(terms[1:], shares[1:], strict=True):
            new = torch.maximum(new, values * share)
        return new, top

    def keep(self, index: Index, new: Tensor, scale: Tensor | None = None) -> None:
        """Write cells, times their marks, with the scales of what they were mapped from."""
        super().keep(index, new * self.marks[index], scale)

    def put_scale(self, index: Index, scale: Tensor | float) -> None:
        """Write cells without states, with their marks."""
        super().put_scale(index, self.marks[index] + scale)

    def put_scale_more(self, index: Index, scale: Tensor) -> None:
        """Write the greater of cells without states, with their marks, and of what they have."""
        place = self.scale[index]
        place.copy_(torch.maximum(place, scale + self.marks[index]))

    def log_total(self, terms: list[Tensor]) -> Tensor:
        """The greatest of several logarithms."""
        return torch.stack(terms).amax(0)


def best_charts(
    batch: Batch, layouts: Layouts, marks: Mapping[str, Tensor]
) -> tuple[BestChart, ...]:
    """Charts of zeros for greatest products."""
    charts = []
    # Adjoints need no room: there is no outside pass.
    batch.spare = False
    for chart in new_charts(batch, layouts):
        values = chart.all if chart.layout.states else None
        best = BestChart(chart.name, chart.layout, batch, values, chart.scale.all)
        best.marks = Cells(marks[chart.name], chart.layout.low, batch)
        charts.append(best)
    return tuple(charts)


def best_extended(source: Tensor, axis: int) -> Tensor:
    """A factor with two more entries on an axis: for impossible (-2) and missing (-1) tokens."""
    top = source.amax(axis, keepdim=True)
    return torch.cat([source, torch.zeros_like(top), top], axis)
