"""Cells of charts and tables: views at affine indices, and cells that differ from item to item.

A chart is stored as `[*indices, batch, *states]`. Cells whose indices are loop variables are a
strided view of it: nothing is copied. Cells whose indices depend on the item are gathered.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from fgg.runtime.prelude.indices import Affine, axes_of

if TYPE_CHECKING:
    from fgg.runtime.prelude.batch import Batch

NEGATIVE = float("-inf")


def alive(scale: Tensor) -> bool:
    """Whether any scale is not that of zero. Always true on a GPU: looking would synchronise."""
    return scale.device.type != "cpu" or bool((scale > NEGATIVE).any())


class Place(NamedTuple):
    """Cells of a chart at index tensors: what is fixed, index tensors, and which are outside."""

    fixed: tuple[tuple[int, int], ...]
    held: tuple[Tensor, ...]
    outside: Tensor | None


def hidden(mask: Tensor) -> Tensor | None:
    """Where a mask does not hold; None if it holds everywhere, which only a CPU looks up."""
    found = ~mask
    return found if found.device.type != "cpu" or bool(found.any()) else None


def hide(values: Tensor, where: Tensor | bool | None, zero: float, states: int = 0) -> Tensor:
    """Values with zero where a mask holds; it may lack axes that come first, or be nowhere."""
    if where is None or where is False:
        return values
    assert isinstance(where, Tensor)
    for _ in range(states):
        where = where.unsqueeze(-1)
    return values.masked_fill(where, zero)


def cells_at(chart: Tensor, index: tuple[Tensor | int, ...]) -> Place:
    """Cells of a chart: index tensors, with the batch as their last axis, held inside it."""
    inside: Tensor | None = None
    fixed: list[tuple[int, int]] = []
    held: list[Tensor] = []
    for i, x in enumerate(index):
        last = max(chart.shape[i] - 1, 0)
        if isinstance(x, int):
            # From the last axis on: what is fixed is selected one after the other.
            fixed.insert(0, (i, min(max(x, 0), last)))
            here = torch.full((), x == fixed[0][1], device=chart.device)
            if x == fixed[0][1]:
                continue
        else:
            here = (x >= 0) & (x <= last)
            held.append(x.clamp(0, last))
        inside = here if inside is None else inside & here
    if held:
        held.append(torch.arange(chart.shape[len(index)], device=chart.device))
    return Place(tuple(fixed), tuple(held), None if inside is None else hidden(inside))


def spread(mask: Tensor, like: Tensor) -> Tensor:
    """A mask over cells with an axis for each state axis of what it is applied to."""
    for _ in range(like.dim() - mask.dim()):
        mask = mask.unsqueeze(-1)
    return mask


def take(chart: Tensor, place: Place, zero: float = 0.0) -> Tensor:
    """The cells at a place, `zero` outside the chart."""
    rank = len(place.fixed) + max(len(place.held) - 1, 0)
    if not chart.numel():
        shape = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
            (chart.shape[rank],), *(x.shape for x in place.held)
        )
        return chart.new_full(shape + chart.shape[rank + 1 :], zero)
    for axis, i in place.fixed:
        chart = chart.select(axis, i)
    found = chart[place.held] if place.held else chart
    return hide(found, place.outside, zero, chart.dim() - max(len(place.held), 1))


def give(chart: Tensor, place: Place, gradient: Tensor) -> None:
    """Add to the cells at a place; what falls outside the chart is dropped."""
    if not chart.numel():
        return
    for axis, i in place.fixed:
        chart = chart.select(axis, i)
    if not place.held:
        chart.add_(hide(gradient, place.outside, 0.0, chart.dim() - 1))
        return
    shape = torch.broadcast_shapes(*(x.shape for x in place.held))  # type: ignore[no-untyped-call]
    gradient = gradient.expand(shape + chart.shape[len(place.held) :])
    gradient = hide(gradient, place.outside, 0.0, chart.dim() - len(place.held))
    chart.index_put_(tuple(x.expand(shape) for x in place.held), gradient, accumulate=True)


def undiagonal(values: Tensor, rank: int, order: tuple[int, ...], sizes: tuple[int, ...]) -> Tensor:
    """Values over distinct nodes as values over the places of an edge that repeats some.

    `rank` axes come before those of the nodes, which have `sizes`. `order` names the node at each
    place; what is off the diagonal is zero.
    """
    while values.dim() < rank + len(sizes):
        values = values.unsqueeze(0)
    values = values.expand(*values.shape[:rank], *sizes)
    shape = tuple(values.shape[:rank]) + tuple(values.shape[rank + i] for i in order)
    whole = values.new_zeros(shape)
    place = whole
    places = list(order)
    while len(set(places)) < len(places):
        first = next(i for i, a in enumerate(places) if a in places[i + 1 :])
        second = places.index(places[first], first + 1)
        place = place.diagonal(0, rank + first, rank + second)
        places = [a for i, a in enumerate(places) if i not in (first, second)] + [places[first]]
    back = [places.index(i) for i in range(len(places))]
    place.permute(*range(rank), *(rank + i for i in back)).copy_(values)
    return whole


Index = tuple[Affine | int, ...] | Affine | int
"""The indices of cells; a single one needs no tuple."""


View = tuple[tuple[int, ...], tuple[int, ...], int]
"""The sizes and strides of a view, and where it begins."""
GEOMETRY: dict[tuple[object, ...], dict[object, View]] = {}
"""The views that were taken of tensors with a layout, by index."""
KEPT_LAYOUTS = 256
KEPT_VIEWS = 4096


class Cells:
    """A tensor `[*indices, batch, *states]` that is read and written by its indices.

    `low` are the least indices: that of the first cell along each axis.
    """

    def __init__(self, tensor: Tensor, low: tuple[int, ...], batch: Batch) -> None:
        self.all = tensor
        self.low = low
        self.batch = batch
        # Views of tensors that lie in memory alike lie alike.
        if len(GEOMETRY) >= KEPT_LAYOUTS:
            GEOMETRY.clear()
        key = (low, tensor.shape, tensor.stride(), tensor.storage_offset())
        self.geometry = GEOMETRY.setdefault(key, {})
        self.views: dict[object, Tensor] = {}

    @cached_property
    def rows(self) -> tuple[Tensor, ...]:
        """The cells along a single axis."""
        return self.all.unbind()

    def __getitem__(self, index: Index) -> Tensor:
        """A view of cells: an axis for each loop variable, then the batch, then the states."""
        if index.__class__ is int:
            return self.rows[index - self.low[0]]
        view = self.views.get(index)
        if view is None:
            where = self.geometry.get(index) or self.locate(index)
            view = self.views[index] = self.all.as_strided(*where)
        return view

    def locate(self, index: Index) -> View:
        """The sizes, strides and offset of a view."""
        rank = len(self.low)
        stride = self.all.stride()
        forms = index if index.__class__ is tuple else (index,)
        offset = self.all.storage_offset()
        counts: dict[int, int] = {}
        steps: dict[int, int] = {}
        for form, low, step in zip(forms, self.low, stride, strict=False):
            if isinstance(form, int):
                offset += (form - low) * step
                continue
            offset += (form.constant - low) * step
            for axis, count, coefficient in form.terms:
                counts[axis] = count
                steps[axis] = steps.get(axis, 0) + coefficient * step
        axes = sorted(counts)
        sizes = (*(counts[axis] for axis in axes), *self.all.shape[rank:])
        where = (sizes, (*(steps[axis] for axis in axes), *stride[rank:]), int(offset))
        if len(self.geometry) >= KEPT_VIEWS:
            self.geometry.clear()
        self.geometry[index] = where
        return where

    def place(self, index: Index) -> Place:
        """Where cells lie that differ from item to item; the same place is worked out once."""
        forms: tuple[Affine | int, ...] = index if index.__class__ is tuple else (index,)  # type: ignore[assignment]

        def make() -> Place:
            axes = {axis: place for place, axis in enumerate(axes_of(forms))}
            numbers = tuple(
                self.batch.number(form - low, axes)
                for form, low in zip(forms, self.low, strict=True)
            )
            return cells_at(self.all, numbers)

        return self.batch.kept((forms, self.low, self.all.shape[: len(self.low)]), make)

    def gather(self, *index: Affine | int, zero: float = 0.0) -> Tensor:
        """Cells that differ from item to item; `zero` where there are none."""
        return take(self.all, self.place(index), zero)

    def add(self, index: Index, value: Tensor) -> None:
        """Add to cells, each of which is met once."""
        self[index].add_(value)

    def addcmul(self, index: Index, left: Tensor, right: Tensor) -> None:
        """Add a product to cells, each of which is met once."""
        self[index].addcmul_(left, right)

    def scatter(self, index: Index, value: Tensor) -> None:
        """Add to cells that differ from item to item, or are met several times."""
        give(self.all, self.place(index), value)
