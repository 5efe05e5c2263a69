"""From the kernel of an inside pass to that of the outside pass: reverse differentiation.

A block computes `head += Σ w · x₁ · x₂ ⋯`. Its adjoint adds to the adjoint of each operand the
head's adjoint times all other factors, summed to the operand's axes:

    x̄₁ += Σ head̄ · w · x₂ ⋯

In the plain form w is the presence of a point. In the scaled form w is what the point's scale is
worth beside that of the head's cell, so that an adjoint is relative to its cell's scale and value
times adjoint is the cell's marginal. Scales are constants there: they cancel. The adjoint of a
chart without states, which is a scale alone, is its marginal: the sum of head̄ · w · x₁ · x₂ ⋯.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fgg.grammar.index import Expr
from fgg.plan.kernel import (
    Block,
    Erase,
    Give,
    Hide,
    Keep,
    Kernel,
    Multiply,
    Presence,
    Put,
    Relative,
    Scale,
    Stage,
    live,
    whole_chart,
)
from fgg.plan.kernelise import Contracted, Operations
from fgg.plan.plan import Operand, Plan


def adjoint(kernel: Kernel) -> Kernel:
    """The kernel of the outside pass."""
    assert not kernel.outside
    stages = []
    for stage in reversed(kernel.stages):
        blocks = [
            adjoint_block(kernel, block, parameters=not _at_once(kernel, block))
            for group in reversed(stage.groups)
            for block in reversed(group)
        ]
        levels = stage.levels and replace(stage.levels, reverse=not stage.levels.reverse)
        groups = tuple((block,) for block in blocks if block.body)
        if groups:
            stages.append(Stage(groups=groups, levels=levels))
    late = [
        adjoint_block(kernel, over_all_cells(kernel.plan, block), charts=False)
        for block in kernel.blocks
        if _at_once(kernel, block)
    ]
    if late:
        stages.append(Stage(groups=tuple((block,) for block in late if block.body)))
    return replace(kernel, stages=tuple(stages), outside=True)


def _at_once(kernel: Kernel, block: Block) -> bool:
    """Whether the parameters of a block get their gradient from all cells at once.

    A chart with several axes is half empty, so that this would be twice the work there.
    """
    keep = block.body[-1]
    if not isinstance(keep, Keep) or keep.source is not None:
        return False
    return len(kernel.plan.chart[keep.cells.name].axes) < 2


def over_all_cells(plan: Plan, block: Block) -> Block:
    """A block that maps cells one by one, for all cells of its chart: the outside has no levels."""
    keep = block.body[-1]
    assert isinstance(keep, Keep)
    loops = whole_chart(plan.chart[keep.cells.name])
    index = tuple(Expr.of(loop.name) for loop in loops)

    def moved(cells: Operand) -> Operand:
        return replace(cells, index=index, view=True) if cells.kind == "chart" else cells

    operands = tuple(moved(operand) for operand in block.operands)
    new = replace(keep, cells=moved(keep.cells))
    return replace(
        block, positions=loops, splits=(), guards=(), sure=(), operands=operands, body=(new,)
    )


def adjoint_block(
    kernel: Kernel, block: Block, *, charts: bool = True, parameters: bool = True
) -> Block:
    """The adjoint of a block: of the charts and tables, of the parameters, or of all it reads."""
    ops = _AdjointBlock(kernel, block, charts, parameters)
    ops.run()
    # Nothing is put, so there are no terms of a group to wait for.
    return replace(block, body=live(tuple(ops.body)))


@dataclass(frozen=True)
class _Weighed:
    """How the weights of points entered a contraction: by the gradient, an operand, or not."""

    weight: str | None = None
    carrier: int | None = None
    before: str | None = None


class _AdjointBlock(Operations):
    """Collects the operations of a block's adjoint."""

    def __init__(self, kernel: Kernel, block: Block, charts: bool, parameters: bool) -> None:
        put = block.body[-1]
        assert isinstance(put, Put | Keep)
        loops = tuple(loop.name for loop in block.loops)
        positions = tuple(loop.name for loop in block.positions)
        super().__init__(kernel.plan, loops, positions, put.cells.axes)
        self.kernel = kernel
        self.block = block
        self.put = put
        self.charts = charts
        self.parameters = parameters
        # The operands that are scales alone (scaled form).
        self.scalars = [o for o in block.operands if kernel.scaled and self.plan.is_scale(o)]

    def run(self) -> None:
        """Collect the operations."""
        block, kernel = self.block, self.kernel
        values = [
            None if kernel.scaled and self.plan.is_scale(o) else self.load(o)
            for o in block.operands
        ]
        loads = list(values)
        gradient, weighed = self.weigh(values, self.head_gradient())
        path = self.path(len(values))
        done = self.contract(values, path)
        if done.result is None:
            self.give_scalars(self.without_states(gradient))
            return
        if self.scalars and weighed.weight is None:
            whole = self.multiply(gradient, done.result, self.dims[gradient])
            self.give_scalars(self.without_states(whole))
        gradients = self.backward(gradient, done, values, weighed)
        for number, operand in enumerate(block.operands):
            value = loads[number]
            if value in gradients and self.is_wanted(operand):
                self.give(operand, gradients[value])

    def path(self, count: int) -> list[tuple[int, int]]:
        """The pairs of the contraction; weights on their own stand after the operands."""
        operands = len(self.block.operands)
        extra = count - operands

        def moved(number: int) -> int:
            return number + extra if number >= operands else number

        return [(moved(left), moved(right)) for left, right in self.block.path]

    def head_gradient(self) -> str:
        """The adjoint of the head's cells; zero in cells that only other items have."""
        gradient = self.load(self.put.cells, adjoint=True, copy=self.block.overlaps)
        hidden = [op for op in self.block.body if isinstance(op, Hide)]
        for op in hidden:
            name = self.fresh("d")
            dims = self.dims[gradient]
            gradient = self.add(Hide(name=name, source=gradient, masks=op.masks, dims=dims))
            self.body.append(Erase(cells=self.put.cells, masks=op.masks))
        return gradient

    # weights

    def weigh(self, values: list[str | None], gradient: str) -> tuple[str, _Weighed]:
        """Multiply the weights of points into the gradient if there is one point a cell.

        Else they go into an operand.
        """
        weight = self.weight(values)
        if weight is None:
            return gradient, _Weighed()
        if not {*self.dims[weight]} - {*self.cell_dims}:
            return self.multiply(gradient, weight, self.dims[gradient]), _Weighed()
        before = list(values)
        carrier = self.carry(values, weight, self.block.operands)
        return gradient, _Weighed(weight, carrier, None if carrier is None else before[carrier])

    def weight(self, values: Sequence[str | None]) -> str | None:
        """What each point is worth for its cell; None if that is one."""
        if not self.kernel.scaled:
            present = [op for op in self.block.body if isinstance(op, Presence)]
            return self.add(replace(present[0], name=self.fresh("w"))) if present else None
        if isinstance(self.put, Keep) or self.is_product(values):
            return None
        scales = [op for op in self.block.body if isinstance(op, Scale)]
        scale, dims = None, self.cell_dims
        if scales:
            scale = self.add(replace(scales[0], name=self.fresh("e")))
            if any(d in self.dims[scale] for d in self.splits):
                wanted = {*self.dims[scale], *self.cell_dims}
                dims = tuple(d for d in self.point_dims if d in wanted)
        name = self.fresh("w")
        return self.add(Relative(name=name, scale=scale, head=self.put.cells, dims=dims))

    def is_product(self, values: Sequence[str | None]) -> bool:
        """Whether the head's scale is just the sum of the operands': one term, no values.

        Then each term is worth as much as its cell. (A cell of zeros has the adjoint zero.)
        """
        head = self.put.cells.name
        return (
            isinstance(self.put, Put)
            and self.put.mode == "write"
            and not self.splits
            and not any(isinstance(op, Scale) and op.masks for op in self.block.body)
            and all(value is None for value in values)
            and self.plan.chart[head].is_scalar
            and sum(step.head == head for step in self.plan.steps) == 1
        )

    # derivatives

    def backward(
        self, gradient: str, done: Contracted, values: Sequence[str | None], weighed: _Weighed
    ) -> dict[str | None, str]:
        """The gradients of values, from the result's on."""
        assert done.result is not None
        wanted = self.wanted(done, values, weighed)
        kept = set(self.dims[done.result])
        gradients: dict[str | None, str] = {
            done.result: self.summed(gradient, (d for d in self.dims[gradient] if d in kept))
        }
        for product in reversed(done.products):
            upper = gradients.get(product.name)
            if upper is None:
                continue  # nothing in it is differentiated
            if not isinstance(product, Multiply):
                gradients[product.source] = upper  # a sum: repeated where it is used
                continue
            for value, other in (
                (product.left, product.right),
                (product.right, product.left),
            ):
                if value in wanted:
                    gradients[value] = self.through(upper, other, value)
        if weighed.weight is not None:
            self.unweigh(gradients, values, weighed)
        return gradients

    def unweigh(
        self,
        gradients: dict[str | None, str],
        values: Sequence[str | None],
        weighed: _Weighed,
    ) -> None:
        """Go from the weighed operand back to the operand and its weights."""
        assert weighed.weight is not None
        moved = weighed.weight if weighed.carrier is None else values[weighed.carrier]
        assert moved is not None
        upper = gradients.get(moved)
        if upper is None:
            return
        if self.scalars:
            self.give_scalars(self.multiply(upper, moved, self.dims[weighed.weight]))
        if weighed.before is not None:
            before = weighed.before
            gradients[before] = self.through(upper, weighed.weight, before)

    def through(self, upper: str, other: str, value: str) -> str:
        """The gradient of one side of a product: that of the product times the other side."""
        both = {*self.dims[upper], *self.dims[other]}
        dims = tuple(d for d in self.dims[value] if d in both)
        return self.add(Multiply(name=self.fresh("v"), left=upper, right=other, dims=dims))

    def wanted(self, done: Contracted, values: Sequence[str | None], weighed: _Weighed) -> set[str]:
        """The values whose gradients anything asks for."""
        wanted: set[str] = set()
        for number, value in enumerate(values):
            if value is None:
                continue
            if number >= len(self.block.operands):
                needed = bool(self.scalars)  # the weights as an operand
            else:
                needed = self.is_wanted(self.block.operands[number])
                needed |= number == weighed.carrier and bool(self.scalars)
            if needed:
                wanted.add(value)
        for product in done.products:
            sides = (
                (product.left, product.right)
                if isinstance(product, Multiply)
                else (product.source,)
            )
            if wanted & {*sides}:
                wanted.add(product.name)
        return wanted

    def is_wanted(self, operand: Operand) -> bool:
        """Whether the adjoint of an operand is asked for."""
        if operand.kind == "parameter":
            return self.parameters
        return self.charts and operand.name not in self.plan.constants

    def without_states(self, value: str) -> str:
        """A value summed over the head's nodes."""
        return self.summed(value, (d for d in self.dims[value] if d not in self.head_axes))

    def give_scalars(self, value: str) -> None:
        """Add what every point contributes to the operands that are scales alone."""
        for operand in self.scalars:
            if self.is_wanted(operand):
                self.give(operand, value)

    def give(self, operand: Operand, value: str) -> None:
        """Add to the adjoint of an operand."""
        dims = {*self.index_dims(operand), *operand.axes}
        total = self.summed(value, (d for d in self.dims[value] if d in dims))
        self.body.append(Give(cells=operand, value=total))
