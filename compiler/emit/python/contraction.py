"""The contraction of a step, as Python: operands times weights, summed to the head's cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgg.compiler.emit.python.frame import StepFrame
from fgg.compiler.emit.python.values import Value, aligned, best_code, product_code


@dataclass(frozen=True)
class Product:
    """A product that was written: two values, or one (`right` is -1) that was summed."""

    left: int
    right: int
    result: int


@dataclass(frozen=True)
class Contracted:
    """The result of a contraction, the products in order, and every value by number."""

    result: Value | None
    products: tuple[Product, ...]
    values: tuple[Value | None, ...]


class Contraction(StepFrame):
    """Writes products of operands."""

    def product_code(self, left: Value, right: Value, dims: Sequence[str]) -> str:
        """The product of two values, summed over the axes that are not in `dims`."""
        return (best_code if self.best else product_code)(left, right, dims)

    def multiplied(
        self, lines: list[str], left: Value, right: Value, dims: tuple[str, ...], stem: str = "v"
    ) -> Value:
        """The product of two values under a new name, summed over the axes not in `dims`."""
        name = self.fresh(stem)
        lines.append(f"{name} = {self.product_code(left, right, dims)}")
        return Value(name, dims)

    def summed(self, lines: list[str], value: Value, keep: tuple[str, ...]) -> Value:
        """A value summed to some of its axes."""
        gone = [d for d in value.dims if d not in keep]
        if not gone:
            return value
        name = self.fresh("a")
        axes = ", ".join(str(value.dims.index(d)) for d in gone)
        lines.append(f"{name} = {value.code}.{'amax' if self.best else 'sum'}(({axes},))")
        return Value(name, tuple(d for d in value.dims if d in keep))

    def carrier(self, values: Sequence[Value | None]) -> int | None:
        """The operand that the weights of the scales are multiplied into: the smallest."""
        found = [
            (len(set(value.dims) - {*self.point_dims}), number)
            for number, value in enumerate(values)
            if value is not None and self.step.operands[number].kind != "parameter"
        ]
        return min(found)[1] if found else None

    def contract(self, lines: list[str], values: list[Value | None]) -> Contracted:
        """Carries out the path."""
        live = {n: v for n, v in enumerate(values) if v is not None}
        done: list[Product] = []
        everything: list[Value | None] = list(values)
        alias: dict[int, int] = {}
        operands = len(self.step.operands)

        def real(number: int) -> int:
            # The path numbers results after operands; weights on their own come between.
            number += len(values) - operands if number >= operands else 0
            while number in alias:
                number = alias[number]
            return number

        for pair in self.step.path:
            left, right = real(pair.left), real(pair.right)
            result = len(everything)
            one, two = everything[left], everything[right]
            if one is None or two is None:
                alias[result] = right if one is None else left
                everything.append(None)
                continue
            del live[left], live[right]
            others = {d for v in live.values() for d in v.dims}
            axes = [a for a in pair.keep if a in one.dims or a in two.dims]
            loops = [
                d
                for d in self.point_dims
                if (d in one.dims or d in two.dims) and (d not in self.split_dims or d in others)
            ]
            dims = (*loops, *axes)
            value = self.multiplied(lines, one, two, dims)
            everything.append(value)
            live[result] = value
            done.append(Product(left, right, result))
        left_over = sorted(live)
        while len(left_over) > 1:
            left, right = left_over[0], left_over[1]
            one, two = live.pop(left), live.pop(right)
            others = {d for v in live.values() for d in v.dims} | set(self.step.head_axes)
            dims = tuple(
                d
                for d in dict.fromkeys((*self.point_dims, *one.dims, *two.dims))
                if d in {*one.dims, *two.dims} and (d in others or d in self.cell_dims)
            )
            result = len(everything)
            live[result] = self.multiplied(lines, one, two, dims)
            everything.append(live[result])
            done.append(Product(left, right, result))
            left_over = sorted(live)
        if not live:
            return Contracted(None, tuple(done), tuple(everything))
        (last,) = live
        final = live[last]
        extra = [d for d in final.dims if d not in self.cell_dims and d not in self.step.head_axes]
        if extra:
            result = len(everything)
            final = self.summed(lines, final, tuple(d for d in final.dims if d not in extra))
            everything.append(final)
            done.append(Product(last, -1, result))
        return Contracted(final, tuple(done), tuple(everything))

    def fitted(self, value: Value) -> str:
        """A result over all cells and states of the head, in their order."""
        axes = tuple(dict.fromkeys(self.step.head_axes))
        dims = (*self.cell_dims, *axes)
        code = aligned(value, dims)
        if value.dims != dims and set(value.dims) != set(dims):
            sizes = [self.counts[d] for d in self.position_dims] + ["batch.size"]
            chart = self.plan.chart[self.step.head]
            for axis in axes:
                sizes.append(str(chart.states[self.step.head_axes.index(axis)]))
            code = f"{code}.expand({', '.join(sizes)})"
        if len(axes) < len(self.step.head_axes):
            order = [axes.index(a) for a in self.step.head_axes]
            code = f"undiagonal({code}, {len(self.cell_dims)}, {tuple(order)})"
        return code

    def ones(self) -> Value:
        """The value of a rule without operands."""
        return Value("torch.ones((), dtype=batch.dtype, device=batch.device)", ())

    def masked(self, lines: list[str], value: Value) -> Value:
        """A value that is zero at the cells which only some items of a batch have."""
        if not self.step.masks or self.whole:
            return value
        for mask in self.step.masks:
            code = self.mask(mask.expr, self.cell_dims)
            lines.append("if batch.mixed:")
            states = sum(d not in self.cell_dims for d in value.dims)
            lines.append(f"    {value.code} = hide({value.code}, {code}, 0.0, {states})")
        return value

    def carry(
        self, lines: list[str], values: list[Value | None], weight: Value
    ) -> tuple[int | None, Value | None]:
        """Multiplies the weights into an operand; which one, and what it was before."""
        number = self.carrier(values)
        if number is None:
            # Only parameters, or nothing at all: the weights are an operand of their own.
            values.append(weight)
            return None, None
        before = values[number]
        assert before is not None
        axes = [d for d in before.dims if d not in self.point_dims]
        loops = [d for d in self.point_dims if d in before.dims or d in weight.dims]
        dims = (*loops, *axes)
        values[number] = self.multiplied(lines, before, weight, dims)
        return number, before
