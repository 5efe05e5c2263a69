"""One step of a plan on one level, in any semiring: its addition to charts, and derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

import numpy as np

from fgg.grammar.domains import domain_size
from fgg.plan import Operand, Pair, Step
from fgg.runtime.interpret.algebra import Algebra, Named
from fgg.runtime.interpret.charts import Charts
from fgg.runtime.interpret.frame import BATCH, CellIndex, Frame
from fgg.runtime.interpret.semirings.base import Array


class StepWork(Generic[Array]):
    """One step on one level, with the charts as they are."""

    def __init__(self, charts: Charts[Array], step: Step, frame: Frame) -> None:
        self.charts = charts
        self.algebra = charts.algebra
        self.step = step
        self.frame = frame
        self.head_axes = tuple(dict.fromkeys(step.head_axes))
        self.cell_dims = (*(loop.name for loop in step.positions), BATCH)
        self.sizes = {d: frame.size(d) for d in (*frame.loops, BATCH)}
        grammar = charts.plan.grammar
        for node in step.rule.rhs.nodes:
            self.sizes[node.name] = domain_size(grammar, node.domain)

    def read(self, operand: Operand) -> Named[Array]:
        """An operand over the loops that it depends on, the batch, and its nodes."""
        algebra = self.algebra
        if operand.kind == "parameter":
            return algebra.named(self.charts.prepared.arrays[operand.name], operand.axes)
        place, array = self.place(operand)
        cells = algebra.take(array, place.index, place.valid)
        return algebra.named(cells, (*place.dims, *operand.axes))

    def place(self, operand: Operand) -> tuple[CellIndex, Array]:
        """The indices of an operand's cells, and the array that holds them."""
        if operand.kind == "chart":
            array = self.charts.arrays[operand.name]
            low = self.charts.low[operand.name]
        else:
            array = self.charts.prepared.arrays[operand.name]
            low = (0,) * len(operand.index)
        shape = array.shape[: len(operand.index)]
        return self.frame.place(operand.index, low, shape), array

    def presence(self, operands: Sequence[Named[Array]]) -> Named[Array] | None:
        """One at the points where the rule applies, zero elsewhere.

        The axes are the loops and nodes that the masks mention or that no operand has. None if
        there are no masks and no such axes: the operands then say everything.
        """
        seen = {d for value in operands for d in value.dims} | {*self.cell_dims, *self.head_axes}
        loose = [d for d in self.frame.loops if d not in seen]
        loose += [n.name for n in self.step.rule.rhs.nodes if n.name not in seen]
        # A node that a preparation has summed out is not loose, but no operand names it.
        loose = [d for d in loose if d in self.frame.loops or self.untouched(d)]
        if not self.step.masks and not loose:
            return None
        mask, dims = self.frame.holds([m.expr for m in self.step.masks])
        dims = (*dims, *(d for d in loose if d not in dims))
        mask = mask.reshape(mask.shape + (1,) * (len(dims) - mask.ndim))
        full = np.broadcast_to(mask, [self.sizes[d] for d in dims])
        return Named(self.algebra.ones(full), dims)

    def untouched(self, node: str) -> bool:
        """Whether no edge and no clamp of the rule touches a node."""
        fragment = self.step.rule.rhs
        touched = {a.node for edge in fragment.edges for a in edge.attachments}
        return node not in touched and all(c.attachment.node != node for c in fragment.clamps)

    def forward(self) -> Contraction[Array]:
        """The product of the operands, summed to the head's cells."""
        operands = [self.read(operand) for operand in self.step.operands]
        presence = self.presence(operands)
        if not operands:
            operands = [presence or Named(self.algebra.semiring.full((), one=True), ())]
            presence = None
        keep = {*self.cell_dims, *self.head_axes}
        return Contraction(self.algebra, operands, presence, self.step.path, keep)

    def inside(self, scores: Mapping[str, Array]) -> Array:
        """The head's chart with what the step adds to it."""
        result = self.forward().result
        head, array = self.head()
        if self.step.head in scores:
            cells = self.algebra.take(scores[self.step.head], head.index, head.valid)
            score = self.algebra.named(cells, (*self.cell_dims, *self.step.head_axes))
            result = self.algebra.product(result, score)
        values = self.spread(result)
        return self.algebra.add_to(array, head.index, head.valid, values, distinct=True)

    def head(self) -> tuple[CellIndex, Array]:
        """The indices of the head's cells at all positions, and the chart that holds them."""
        operand = Operand(kind="chart", name=self.step.head, index=self.step.head_index)
        place, array = self.place(operand)
        extents = [self.sizes[d] if d in place.dims else 1 for d in self.cell_dims]
        shape = [self.sizes[d] for d in self.cell_dims]
        index = tuple(np.broadcast_to(i.reshape(extents), shape) for i in place.index)
        valid = np.broadcast_to(place.valid.reshape(extents), shape)
        return CellIndex(index, valid, self.cell_dims), array

    def spread(self, value: Named[Array]) -> Array:
        """A result over all cells and values of the head, in their order."""
        array = self.algebra.fit(value, (*self.cell_dims, *self.head_axes), self.sizes)
        return self.repeated(array, len(self.cell_dims), self.step.head_axes)

    def outside(self, arrays: dict[str, Array], leaves: dict[str, Array] | None = None) -> None:
        """Add the head's outside values times the other operands to the charts that the step reads.

        Derivatives in parameters and tables are added to `leaves`, if it is given.
        """
        wanted = [
            number
            for number, operand in enumerate(self.step.operands)
            if operand.kind == "chart" or leaves is not None
        ]
        if not wanted:
            return
        algebra = self.algebra
        head, _ = self.head()
        above = algebra.take(arrays[self.step.head], head.index, head.valid)
        gradient = algebra.named(above, (*self.cell_dims, *self.step.head_axes))
        product = self.forward()
        for number in wanted:
            operand = self.step.operands[number]
            once = tuple(dict.fromkeys(operand.axes))
            slope = product.gradient(number, gradient)
            if operand.kind == "parameter":
                assert leaves is not None
                values = algebra.fit(algebra.sum(slope, once), once, self.sizes)
                values = self.repeated(values, 0, operand.axes)
                before = self.slopes(operand, leaves)
                leaves[operand.name] = algebra.add(before, values)
                continue
            target = arrays
            if operand.kind == "table":
                assert leaves is not None
                target = leaves
                target[operand.name] = self.slopes(operand, leaves)
            place, _ = self.place(operand)
            dims = (*place.dims, *once)
            values = algebra.fit(algebra.sum(slope, dims), dims, self.sizes)
            values = self.repeated(values, len(place.dims), operand.axes)
            target[operand.name] = algebra.add_to(
                target[operand.name], place.index, place.valid, values, distinct=False
            )

    def slopes(self, operand: Operand, leaves: Mapping[str, Array]) -> Array:
        """The derivatives in a parameter or table so far: zero before any is added."""
        if operand.name in leaves:
            return leaves[operand.name]
        shape = tuple(self.charts.prepared.arrays[operand.name].shape)
        return self.algebra.semiring.full(shape, one=False)

    def repeated(self, values: Array, rank: int, axes: tuple[str, ...]) -> Array:
        """Values with one axis for each distinct node, with one axis for each of `axes` instead.

        A node may occur twice in `axes`; entries off the diagonal are zero. `rank` axes come
        before those of the nodes.
        """
        once = tuple(dict.fromkeys(axes))
        if len(once) == len(axes):
            return values
        states = [self.sizes[axis] for axis in axes]
        grid = np.indices(states)
        agree = np.ones(states, dtype=bool)
        for number, axis in enumerate(axes):
            agree &= grid[number] == grid[axes.index(axis)]
        chosen = [grid[axes.index(axis)].reshape(-1) for axis in once]
        flat = np.ravel_multi_index(chosen, [self.sizes[axis] for axis in once])
        cells = values.reshape((*values.shape[:rank], -1))
        wide = self.algebra.semiring.take(cells, flat.tolist(), rank)
        wide = wide.reshape((*values.shape[:rank], *states))
        return self.algebra.where(np.broadcast_to(agree, wide.shape), wide)


class Contraction(Generic[Array]):
    """A contraction of operands in a given order, and its derivatives."""

    def __init__(
        self,
        algebra: Algebra[Array],
        operands: Sequence[Named[Array]],
        presence: Named[Array] | None,
        path: Sequence[Pair],
        keep: set[str],
    ) -> None:
        self.algebra = algebra
        self.presence = presence
        self.values = list(operands)
        if presence is not None:
            self.values[0] = algebra.product(operands[0], presence)
        self.pairs: list[tuple[int, int]] = []
        self.first = len(self.values)
        live = dict(enumerate(self.values))
        pending = [(pair.left, pair.right) for pair in path]
        while len(live) > 1:
            left, right = pending.pop(0) if pending else tuple(sorted(live))[:2]
            one, two = live.pop(left), live.pop(right)
            needed = keep | {d for value in live.values() for d in value.dims}
            live[len(self.values)] = algebra.contract(one, two, needed)
            self.values.append(live[len(self.values)])
            self.pairs.append((left, right))
        self.result = algebra.sum(self.values[-1], keep)

    def gradient(self, number: int, gradient: Named[Array]) -> Named[Array]:
        """The derivative in an operand: `gradient` times the other operands, summed to its axes."""
        for place in range(len(self.pairs) - 1, -1, -1):
            pair = self.pairs[place]
            if not self.contains(self.first + place, number):
                continue
            side = 0 if self.contains(pair[0], number) else 1
            operand, other = self.values[pair[side]], self.values[pair[1 - side]]
            gradient = self.algebra.contract(gradient, other, set(operand.dims))
        if number == 0 and self.presence is not None:
            gradient = self.algebra.product(gradient, self.presence)
        return gradient

    def contains(self, value: int, number: int) -> bool:
        """Whether an operand takes part in a value."""
        if value < self.first:
            return value == number
        return any(self.contains(v, number) for v in self.pairs[value - self.first])
