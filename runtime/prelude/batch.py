"""A batch: its size and lengths, its charts, and what its passes keep for the certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from fgg.runtime.prelude.cells import NEGATIVE, cells_at, hidden, take
from fgg.runtime.prelude.indices import Affine, Condition, Entry, Own

if TYPE_CHECKING:
    from fgg.runtime.prelude.certificate import Lift
    from fgg.runtime.prelude.charts import Chart, Table

OUTSIDE = -(2**40)


Made = TypeVar("Made")
Tops = list[tuple[int, Tensor, Tensor | None]]
"""Greatest values of cells with how many charts they are products of, and the scales they had."""
KEPT = 1024
"""How many index tensors and masks are kept at most: each is as large as a level."""


class Batch:
    """What a batch is like: its size, its lengths, the tables that indices look up."""

    levels: Any = range  # whoever shows progress sets it to a range that counts

    def __init__(
        self,
        size: int,
        lengths: dict[str, list[int]],
        tables: dict[str, Tensor],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.size = size
        self.lengths = lengths
        self.low = {name: min(values) for name, values in lengths.items()}
        self.high = {name: max(values) for name, values in lengths.items()}
        self.mixed = any(self.low[name] != self.high[name] for name in lengths)
        # [batch], and tables as [*indices, batch].
        self.item = {name: torch.tensor(v, device=device) for name, v in lengths.items()}
        self.tables = {name: table.movedim(0, -1) for name, table in tables.items()}
        self.dtype = dtype
        self.device = device
        self.made: dict[tuple[object, ...], Any] = {}
        # The charts and tables of an inside pass: the outside pass takes them over.
        self.charts_kept: dict[str, Chart] = {}
        self.tables_kept: dict[str, Table] = {}
        self.spare = False
        self.spares: dict[str, Tensor] = {}
        # How great the greatest value of a cell is, and how much greater gradients are than they
        # would be: powers of two.
        self.up = 1.0
        self.slope = 1.0
        # What is prepared from weights, and the least and greatest entry of each leaf.
        self.parts: dict[str, Tensor] = {}
        self.ends: dict[str, tuple[float, float]] = {}
        # What tells whether numbers became too small: the greatest values of all cells that were
        # computed, how far terms of a sum are apart, which items lost log-potentials. An engine may
        # tell the least positive values of charts, the ends of those greatest values, and the
        # least gap, itself.
        self.watched = False
        self.told: dict[str, float] = {}
        self.told_falls: dict[int, tuple[float, float]] = {}
        self.told_gap: float | None = None
        self.tops: Tops = []
        self.tops_of_items: Callable[[], Tops] | None = None
        self.gaps: list[Tensor] = []
        self.lost: list[Tensor] = []
        self.lift: Lift | None = None
        # Of which items it is known that nothing was lost.
        self.safe = torch.ones(size, dtype=torch.bool, device=device)

    def note_gap(self, gap: Tensor) -> None:
        """Keep how far the terms of a sum are apart, `[batch]`, in nats."""
        if self.lift is None:
            self.gaps.append(gap)
        else:
            lost = gap < self.lift.gap
            self.lift.lost = lost if self.lift.lost is None else self.lift.lost | lost

    def begin(self) -> None:
        """Forget what an earlier pass kept."""
        self.tops.clear()
        self.gaps.clear()
        self.told = {}
        self.told_falls = {}
        self.told_gap = None
        self.tops_of_items = None

    def all_tops(self) -> Tops:
        """The greatest values of all cells, by the number of charts in a product."""
        return self.tops if self.tops_of_items is None else [*self.tops, *self.tops_of_items()]

    def has_dead_cells(self) -> bool:
        """Whether any cell that was computed is zero."""
        return any(
            bool(((top == 0) if scale is None else (top == 0) & (scale > NEGATIVE)).any())
            for _, top, scale in self.all_tops()
        )

    def values(
        self, extents: tuple[int, ...], states: tuple[int, ...], half: str | None = None
    ) -> Tensor:
        """A chart of zeros; one that is `half` empty leaves room for its adjoint, if it is wanted.

        A cell (i, j) with i <= j has its adjoint at (j + 1, i).
        """
        sizes = tuple(max(x, 0) for x in extents)
        if half is None or not self.spare:
            shape = (*sizes, self.size, *states)
            return torch.zeros(shape, dtype=self.dtype, device=self.device)
        rows, columns = sizes
        square = (max(rows, columns + 1), max(rows, columns), self.size, *states)
        whole = torch.zeros(square, dtype=self.dtype, device=self.device)
        self.spares[half] = whole[1 : columns + 1, :rows].transpose(0, 1)
        return whole[:rows, :columns]

    def settled(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """Gradients of leaves as great as they are; they were computed greater."""
        for gradient in gradients.values():
            gradient.mul_(1 / self.slope)
        return gradients

    def marginal(self, adjoint: Tensor, values: Tensor | None = None) -> Tensor:
        """How often cells and states are used, from their adjoints; a scalar has no values."""
        flow = adjoint if values is None else adjoint * values
        return flow * (1 / self.slope)

    def adjoint(self, values: Tensor, name: str) -> Tensor:
        """Zeros like a chart: in the room that it left, the first time."""
        found = self.spares.pop(name, None)
        return torch.zeros_like(values) if found is None else found

    def scales(self, extents: tuple[int, ...]) -> Tensor:
        """The scales of a chart of zeros."""
        shape = (*(max(x, 0) for x in extents), self.size)
        return torch.full(shape, NEGATIVE, dtype=torch.float64, device=self.device)

    def one(self) -> Tensor:
        """The number one."""
        return torch.ones((), dtype=self.dtype, device=self.device)

    def over(self, scale: Tensor | float, *variables: Affine) -> Tensor:
        """Scales over all values of loop variables, and all items."""
        shape = (*(form.terms[0][1] for form in variables), self.size)
        if isinstance(scale, Tensor):
            return scale.expand(shape)
        return torch.full(shape, scale, dtype=torch.float64, device=self.device)

    # indices

    def own(self, name: str) -> Affine:
        """The length of each item."""
        return Affine(0, (), ((Own(name), 1),))

    def entry(self, table: str, *index: Affine | int) -> Affine:
        """The entry of a table for each item."""
        return Affine(0, (), ((Entry(table, index), 1),))

    def number(self, form: Affine | int, axes: Mapping[int, int]) -> Tensor | int:
        """A form as a tensor `[*axes, batch]`, with axes of length one where it is constant.

        `axes` are the places of the loop variables.
        """
        if isinstance(form, int) or not (form.terms or form.others):
            return form if isinstance(form, int) else form.constant
        rank = len(axes) + 1
        total: Tensor | int = form.constant
        for axis, count, coefficient in form.terms:
            shape = [1] * rank
            shape[axes[axis]] = count
            total = total + coefficient * torch.arange(count, device=self.device).view(shape)
        for atom, coefficient in form.others:
            total = total + coefficient * self.value(atom, axes)
        return total

    def value(self, atom: Own | Entry, axes: Mapping[int, int]) -> Tensor:
        """Each item's length, or its entry of a table: `OUTSIDE` where there is none."""
        if isinstance(atom, Own):
            return self.item[atom.name]
        table = self.tables[atom.table]
        index = tuple(self.number(form, axes) for form in atom.index)
        return take(table, cells_at(table, index), OUTSIDE)

    def fails(self, rank: int, *conditions: Condition | bool) -> Tensor | None:
        """Where some condition does not hold, `[*axes, batch]`; None if all hold everywhere.

        `rank` is the number of loop variables.
        """

        def make() -> Tensor | None:
            axes = {axis: axis for axis in range(rank)}
            holds = torch.ones((1,) * (rank + 1), dtype=torch.bool, device=self.device)
            for condition in conditions:
                if isinstance(condition, bool):
                    holds = holds & condition
                    continue
                holds = holds & torch.as_tensor(self.number(condition.form, axes) >= 0)
                for atom, _ in condition.form.others:
                    if isinstance(atom, Entry):
                        holds = holds & (self.value(atom, axes) != OUTSIDE)
            return hidden(holds)

        return self.kept((rank, conditions), make)

    def tokens(self, tokens: Tensor, *extents: Affine | int, outside: int = -2) -> Tensor:
        """Tokens or entries `[*indices, batch]`, impossible beyond an item's own extents."""
        moved = tokens.movedim(0, -1)
        if self.mixed:
            rank = len(extents)
            for axis, extent in enumerate(extents):
                shape = [1] * (rank + 1)
                shape[axis] = -1
                place = torch.arange(moved.shape[axis], device=self.device).view(shape)
                moved = moved.masked_fill(place >= self.number(extent, {}), outside)
        return moved

    def kept(self, key: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """What a key stands for, made once: index tensors and masks serve inside and outside."""
        if key not in self.made:
            if len(self.made) >= KEPT:
                self.made.clear()
            self.made[key] = make()
        made: Made = self.made[key]
        return made
