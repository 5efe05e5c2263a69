"""The outside of a step, as Python: the gradient of a product of sums, over the same views.

A gradient is kept relative to its cell's scale, so that value times gradient is the cell's
marginal. The scales are constants in it: they cancel.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgg.compiler.emit.python.contraction import Contracted, Contraction
from fgg.compiler.emit.python.names import affine_code
from fgg.compiler.emit.python.values import Value, aligned
from fgg.plan import Operand


class OutsideWriter(Contraction):
    """Writes how the gradient of a step's head goes to its operands."""

    def outside(self, *, charts: bool, parameters: bool) -> list[str]:
        """The lines that add to the gradients of charts and tables, of parameters, or of both."""
        self.charts, self.parameters = charts, parameters
        self.before: list[str] = []
        self.matrices: set[str] = set()
        self.scalars = [(n, o) for n, o in enumerate(self.step.operands) if self.is_scalar(o)]
        self.carried: int | None = None
        lines: list[str] = []
        values, scales = self.read(lines, scales=True)
        gradient = self.head_gradient(lines)
        before, weight = None, None
        if not self.step.linear and not self.is_product(values):
            weight = self.weight(lines, scales)
            if set(weight.dims) == set(self.cell_dims):
                # One term a cell: its weight goes into the gradient once and for all.
                gradient = self.product(lines, gradient, weight, gradient.dims)
                weight = None
            else:
                self.carried, before = self.carry(lines, values, weight)
        done = self.contract(lines, values)
        if done.result is None:
            # Scales alone: what the head has goes to each of them.
            self.give_scalars(lines, self.without_states(lines, gradient))
            return lines
        if self.scalars and weight is None:
            whole = self.product(lines, gradient, done.result, gradient.dims)
            self.give_scalars(lines, self.without_states(lines, whole))
        grads = self.backward(lines, gradient, done)
        if weight is not None:
            self.uncarry(lines, grads, weight, before, done)
        for number, operand in enumerate(self.step.operands):
            wanted = parameters if operand.kind == "parameter" else charts
            if number in grads and values[number] is not None and wanted:
                lines += self.give(number, operand, grads[number])
        return lines

    def head_gradient(self, lines: list[str]) -> Value:
        """The gradient of the head's cells; zero in cells that only other items have."""
        step = self.step
        place = self.head(self.names.get("a_", step.head))
        found = self.diagonal(Value(place, (*self.cell_dims, *step.head_axes)))
        name = self.fresh("a")
        # A linear step multiplies it with a matrix and with what the matrix was multiplied with:
        # both want the cells next to each other.
        dense = step.linear and self.loops and not self.whole
        # Where other points add to these cells, they are read before any does.
        copy = ".clone()" if step.overlaps else ".contiguous()" if dense else ""
        lines.append(f"{name} = {found.code}{copy}")
        gradient = Value(name, found.dims)
        if step.linear and step.masks and not self.whole:
            gradient = self.masked(lines, gradient)
            lines.append("if batch.mixed:")
            lines.append(f"    {place}.copy_({gradient.code})")
        return gradient

    def is_product(self, values: Sequence[Value | None]) -> bool:
        """Whether the head's scale is just the sum of the operands': one term, no values.

        Then each term is worth as much as its cell. (A cell of zeros has the gradient zero.)
        """
        return (
            not self.step.masks
            and not self.split_dims
            and self.step.mode == "write"
            and all(value is None for value in values)
            and self.plan.chart[self.step.head].is_scalar
            and sum(s.head == self.step.head for s in self.plan.steps) == 1
        )

    def weight(self, lines: list[str], scales: Sequence[Value]) -> Value:
        """What each point's scale is worth relative to its cell's."""
        known = self.known_weight()
        if known is not None:
            return known
        scale = self.scale(lines, scales)
        inverse = Value(self.head(self.names.get("i_", self.step.head)), self.cell_dims)
        dims = self.weight_dims(() if scale is None else scale.dims)
        scale_code = "None" if scale is None else aligned(scale, dims)
        name = self.fresh("w")
        lines.append(f"{name} = ratio({scale_code}, {aligned(inverse, dims)}, batch.dtype)")
        return Value(name, dims)

    def weight_dims(self, scale: Sequence[str]) -> tuple[str, ...]:
        """The axes of weights, from those of the scale: the cells', and splits that it tells of."""
        if not any(d in scale for d in self.split_dims):
            return self.cell_dims
        return tuple(d for d in self.point_dims if d in scale or d in self.cell_dims)

    def known_weight(self) -> Value | None:
        """The weight from those of all cells of a chain, if the step is one of its links.

        The scales are known before the outside begins: so the weights of all levels are computed
        at once (`before`), and a level takes its own.
        """
        step = self.step
        scaled = [o for o in step.operands if self.has_scale(o)]
        if self.loops or self.whole or step.masks or step.free > 1 or len(scaled) != 1:
            return None
        (operand,) = scaled
        if not operand.view or len(operand.index) != 1 or len(step.head_index) != 1:
            return None
        _, scale, _, origin = self.storage(operand)
        (here,) = self.start(operand, origin)
        (head,) = self.start(self.head_operand(), step.head)
        shift = (here - head).constant
        if shift is None or head.constant is not None:
            return None
        inverse = self.names.get("i_", step.head)
        name = self.names.get("r_", f"{step.head} {scale} {shift}")
        self.before.append(f"{name} = ratios({scale}, {inverse}, {shift}, batch.dtype)")
        return Value(f"{name}[{affine_code(head - max(0, -shift), self.scope)}]", self.cell_dims)

    def backward(self, lines: list[str], gradient: Value, done: Contracted) -> dict[int, Value]:
        """The gradients of values, by number, from the result's on."""
        result = done.result
        assert result is not None
        numbers = [number for number, value in enumerate(done.values) if value is not None]
        last = done.products[-1].result if done.products else numbers[0]
        keep = tuple(d for d in gradient.dims if d in result.dims)
        grads = {last: self.summed(lines, gradient, keep)}
        for product in reversed(done.products):
            if product.result not in grads:
                continue  # nothing in it depends on a parameter or a chart
            upper = grads[product.result]
            if product.right == -1:
                grads[product.left] = upper  # a sum over axes: broadcast when it is used
                continue
            pair = (product.left, product.right)
            for number, partner in (pair, pair[::-1]):
                value, other = done.values[number], done.values[partner]
                assert value is not None and other is not None
                if self.wanted(number, done):
                    grads[number] = self.product(lines, upper, other, value.dims)
        return grads

    def uncarry(
        self,
        lines: list[str],
        grads: dict[int, Value],
        weight: Value,
        before: Value | None,
        done: Contracted,
    ) -> None:
        """Take the weights out of the gradient of the operand that carried them."""
        number = len(self.step.operands) if self.carried is None else self.carried
        if number not in grads:
            return
        upper = grads[number]
        if self.scalars:
            moved = weight if self.carried is None else done.values[number]
            assert moved is not None
            self.give_scalars(lines, self.product(lines, upper, moved, weight.dims))
        if before is not None:
            grads[number] = self.product(lines, upper, weight, before.dims)

    def wanted(self, number: int, done: Contracted) -> bool:
        """Whether anything asks for the gradient of a value."""
        inner = next((p for p in done.products if p.result == number), None)
        if inner is not None:
            halves = (inner.left, inner.right)
            return any(self.wanted(half, done) for half in halves if half >= 0)
        if number >= len(self.step.operands):
            return bool(self.scalars)  # the weights as an operand
        operand = self.step.operands[number]
        if operand.kind == "parameter":
            return self.parameters
        if operand.kind == "table" and operand.name in self.plan.constants:
            return number == self.carried and bool(self.scalars)
        return self.charts

    def product(self, lines: list[str], left: Value, right: Value, dims: Sequence[str]) -> Value:
        """A product under a new name, summed to those of the axes that it has."""
        kept = tuple(d for d in dims if d in left.dims or d in right.dims)
        found = self.multiplied(lines, left, right, kept, "a")
        if len(kept) == 2:
            self.matrices.add(found.code)
        return found

    def without_states(self, lines: list[str], value: Value) -> Value:
        """A value summed over the head's state axes."""
        axes = self.step.head_axes
        return self.summed(lines, value, tuple(d for d in value.dims if d not in axes))

    def give_scalars(self, lines: list[str], value: Value) -> None:
        """Adds what every point of a rule contributes to the operands that are scales alone."""
        for number, operand in self.scalars:
            lines += self.give(number, operand, value)

    def give(self, number: int, operand: Operand, gradient: Value) -> list[str]:
        """Adds a gradient to an operand's own."""
        lines: list[str] = []
        if operand.kind == "table" and operand.name in self.plan.constants:
            return lines
        _, _, tensor, origin = self.storage(operand)
        index_dims = self.index_dims(operand)
        dims = (*index_dims, *dict.fromkeys(operand.axes))
        value = self.summed(lines, gradient, tuple(d for d in gradient.dims if d in dims))
        in_place = operand.kind == "parameter" or self.whole
        if in_place or (operand.view and operand.distinct):
            code = tensor if operand.kind == "parameter" else self.place(tensor, operand, origin)
            place = self.diagonal(Value(code, (*index_dims, *operand.axes)))
            if len(place.dims) != 2:
                self.matrices.discard(value.code)  # it is added to all matrices of a larger tensor
            lines.append(f"{place.code}.add_({aligned(value, place.dims)})")
            return lines
        index = self.gather_index(number, operand, lines)
        code = aligned(value, dims)
        axes = tuple(dict.fromkeys(operand.axes))
        if len(axes) < len(operand.axes):
            order = tuple(axes.index(a) for a in operand.axes)
            # A diagonal has every entry, also where all are the same.
            states = self.states(operand)
            sizes = [self.counts.get(d, "batch.size") for d in index_dims]
            sizes += [str(states[operand.axes.index(a)]) for a in axes]
            code = f"undiagonal({code}.expand({', '.join(sizes)}), {len(index_dims)}, {order})"
        lines.append(f"give({tensor}, {index}, {code})")
        return lines
