"""The inside of a step in C++: what the head's cells are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgg.compiler.emit.python.values import Value

from fgg.compiler.emit.cpp.frame import NativeFrame
from fgg.compiler.emit.cpp.loops import INDENT
from fgg.compiler.emit.cpp.memory import Memory, Term, product
from fgg.compiler.emit.python.names import BATCH


@dataclass(frozen=True)
class Part:
    """What a step gives to the head's cells: values (none for a scalar), and their scales."""

    values: Memory | None
    scales: Memory | None
    depth: int = 0


class NativeInside(NativeFrame):
    """Writes how a step fills the head's cells."""

    def inside(self) -> Part | None:
        """The result of a step; None if it has been written to the head's cells."""
        values, scales = self.read(self.written, scales=True)
        if self.step.linear:
            result = self.contract(self.written, values).result
            assert result is not None
            self.linear(self.term(result))
            return None
        dims = self.scale_dims(scales)
        chart = self.plan.chart[self.step.head]
        cells = None
        if dims:
            splits = [d for d in self.split_dims if d in dims]
            if splits and chart.is_scalar and all(v is None for v in values):
                return Part(None, self.log_sum(scales, dims))
            if splits:
                cells, weights = self.weights(scales, dims)
                self.carry(self.written, values, Term(dims=dims, left=(weights,)))
            else:
                cells = self.cell_scales(scales, dims)
        elif self.step.free > 1:
            cells = self.cell_scales(scales, (BATCH,))
        result = self.contract(self.written, values).result
        if chart.is_scalar and result is None and cells is not None:
            return Part(None, cells)
        values_of = self.result(Term() if result is None else self.term(result))
        return Part(values_of, cells, self.depth)

    def result(self, term: Term) -> Memory:
        """The values of the head's cells, before they are put."""
        axes = self.step.head_axes
        repeated = len(set(axes)) < len(axes)
        inner, count = self.inner_strides(axes)
        name = self.loops_of.fresh("r")
        make = "zeros" if repeated else "some"
        self.written.append(f"T* const {name} = room.{make}<T>({self.cell_count() * count});")
        cells = self.loops_of.dense(self.cell_dims)
        target = Memory(name, {**{d: stride * count for d, stride in cells.items()}, **inner})
        self.loops_of.assign(target, term)
        return target

    def linear(self, result: Term) -> None:
        """Maps each cell of one chart; its scale is kept."""
        head = self.head_operand()
        target = self.memory(head, "values")
        self.loops_of.assign(target, result)
        self.clear_masked(target)
        if not self.plan.shares_scale(self.step):
            (source,) = (o for o in self.step.operands if o.kind == "chart")
            own, other = self.memory(head, "scales", states=False), self.scales_of(source)
            self.written.append(
                f"{self.open_loops(self.cell_dims)}*({self.offset(own, self.cell_dims)}) = "
                f"*({self.offset(other, self.cell_dims)});"
            )

    def cell_scales(self, scales: Sequence[Value], dims: tuple[str, ...]) -> Memory:
        """The scale of each cell, where every point is a cell."""
        found = self.loops_of.buffer(dims, "double")
        self.written.append(
            f"{self.open_loops(dims)}*({self.offset(found, dims)}) = "
            f"{self.scale_code(scales, dims)};"
        )
        return found

    def over_splits(
        self, scales: Sequence[Value], dims: tuple[str, ...], body: list[str]
    ) -> Memory:
        """The greatest scale of each cell; `body` is carried out for each of its positions.

        There `top` is the position's greatest scales, `e` its points' scales and `count` their
        number, item by item.
        """
        positions = [d for d in dims if d in self.position_dims]
        splits = [d for d in dims if d in self.split_dims]
        number = product(self.loops_of.sizes[d] for d in splits)
        tops = self.loops_of.buffer((*positions, BATCH), "double")
        every = self.loops_of.buffer((*splits, BATCH), "double")
        at = self.offset(every, (*splits, BATCH))
        self.written += [
            f"{self.open_loops(positions)}{{",
            f"{INDENT}double* const top = {self.offset(tops, positions)};",
            f"{INDENT}double* const e = {every.base};",
            f"{INDENT}const I count = {number};",
            f"{INDENT}for (I b = 0; b < B; ++b) top[b] = NEGATIVE;",
            f"{INDENT}{self.open_loops(splits)}",
            f"{INDENT}{INDENT}LOOP for (I b = 0; b < B; ++b) {{",
            f"{INDENT}{INDENT}{INDENT}const double x = {self.scale_code(scales, dims)};",
            f"{INDENT}{INDENT}{INDENT}*({at}) = x;",
            f"{INDENT}{INDENT}{INDENT}top[b] = x > top[b] ? x : top[b];",
            f"{INDENT}{INDENT}}}",
            *(INDENT + line for line in body),
            "}",
        ]
        return tops

    def weights(self, scales: Sequence[Value], dims: tuple[str, ...]) -> tuple[Memory, Memory]:
        """The greatest scale of each cell, and what each point's is worth relative to it."""
        ordered = (
            *(d for d in dims if d in self.position_dims),
            *(d for d in dims if d in self.split_dims),
            BATCH,
        )
        found = self.loops_of.buffer(ordered)
        positions = [d for d in dims if d in self.position_dims]
        body = [
            f"T* const w = {self.offset(found, positions)};",
            "if (range.watched) range.terms(e, top, count);",
            "for (I q = 0; q < count; ++q)",
            f"{INDENT}LOOP for (I b = 0; b < B; ++b) w[q * B + b] = weight(e[q * B + b], top[b]);",
        ]
        return self.over_splits(scales, dims, body), found

    def log_sum(self, scales: Sequence[Value], dims: tuple[str, ...]) -> Memory:
        """The logarithm of the sum over all points of each cell."""
        self.written.append("double* const total = room.some<double>(B);")
        body = [
            "for (I b = 0; b < B; ++b) total[b] = 0;",
            "for (I q = 0; q < count; ++q)",
            f"{INDENT}LOOP for (I b = 0; b < B; ++b) total[b] += worth(e[q * B + b], top[b]);",
            "for (I b = 0; b < B; ++b) top[b] += std::log(total[b]);",
        ]
        return self.over_splits(scales, dims, body)
