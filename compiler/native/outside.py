"""The outside of a step in C++: how the gradient of its head goes to its operands."""

from __future__ import annotations

from collections.abc import Sequence

from fgg.compiler.emit.outside import OutsideWriter
from fgg.compiler.emit.values import Value
from fgg.compiler.native.frame import NativeFrame
from fgg.compiler.native.memory import Term, product
from fgg.plan import Operand


class NativeOutside(NativeFrame, OutsideWriter):
    """Writes the gradient of a step; what is to be computed is as in the emitted Python."""

    def head_gradient(self, lines: list[str]) -> Value:
        """The gradient of the head's cells; zero in cells that only other items have."""
        memory = self.memory(self.head_operand(), "adjoint")
        if self.step.linear and not self.whole:
            count = product(self.loops_of.sizes[a] for a in self.step.head_axes)
            for mask in self.step.masks:
                test = self.mask_code(mask.expr, mixed=mask.mixed)
                self.written.append(
                    f"{self.open_loops(self.cell_dims)}if (!{test}) "
                    f"std::memset({self.offset(memory, self.cell_dims)}, 0, sizeof(T) * {count});"
                )
        dims = (*self.cell_dims, *dict.fromkeys(self.step.head_axes))
        return Term(dims=dims, left=(memory,))

    def weight(self, lines: list[str], scales: Sequence[Value]) -> Value:
        """What each point's scale is worth relative to its cell's."""
        found = self.scale_dims(scales)
        dims = self.cell_dims
        if found is not None and any(d in found for d in self.split_dims):
            dims = tuple(d for d in self.point_dims if d in found or d in self.cell_dims)
        ordered = self.loops_of.order_of(dims)
        weights = self.loops_of.buffer(ordered)
        head = self.memory(self.head_operand(), "scales", states=False)
        self.written.append(
            f"{self.open_loops(ordered)}*({self.offset(weights, ordered)}) = "
            f"ratio({self.scale_code(scales, ordered)}, *({self.offset(head, ordered)}));"
        )
        return Term(dims=dims, left=(weights,))

    def give(self, number: int, operand: Operand, gradient: Value) -> list[str]:
        """Adds a gradient to an operand's own."""
        if operand.kind == "table" and operand.name in self.constant_tables():
            return []
        term = self.term(gradient)
        self.loops_of.assign(self.gradient_of(operand), term, add=True)
        return []
