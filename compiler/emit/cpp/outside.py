"""The outside of a step in C++: how the gradient of its head goes to its operands."""

from __future__ import annotations

from collections.abc import Sequence

from fgg.compiler.emit.python.outside import OutsideWriter
from fgg.compiler.emit.python.values import Value

from fgg.compiler.emit.cpp.frame import NativeFrame
from fgg.compiler.emit.cpp.memory import Term
from fgg.plan import Operand


class NativeOutside(NativeFrame, OutsideWriter):
    """Writes the gradient of a step; what is to be computed is as in the emitted Python."""

    def head_gradient(self, lines: list[str]) -> Value:
        """The gradient of the head's cells; zero in cells that only other items have."""
        memory = self.memory(self.head_operand(), "adjoint")
        if self.step.linear and not self.whole:
            self.clear_masked(memory)
        dims = (*self.cell_dims, *dict.fromkeys(self.step.head_axes))
        return Term(dims=dims, left=(memory,))

    def weight(self, lines: list[str], scales: Sequence[Value]) -> Value:
        """What each point's scale is worth relative to its cell's."""
        dims = self.weight_dims(self.scale_dims(scales))
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
        if operand.kind == "table" and operand.name in self.plan.constants:
            return []
        term = self.term(gradient)
        self.loops_of.assign(self.gradient_of(operand), term, add=True)
        return []
