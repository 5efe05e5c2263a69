"""Where a step reads and writes: its box, its operands' cells, scales and masks, as Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log

from fgg.compiler.emit.python.names import (
    BATCH,
    Names,
    affine_code,
    bound_code,
    bracketed,
    lookups_in,
    scaled_sum,
    single,
)
from fgg.compiler.emit.python.values import Value, aligned
from fgg.compiler.plan.affine import coefficient_of
from fgg.grammar.index import Expr, Lookup
from fgg.plan import Operand, Plan, Step


class StepFrame:
    """The box of a step and access to what it reads and writes.

    With `whole` the step is written for all cells of its chart at once: so the gradient of a
    parameter that maps cells one by one is a single product. With `best` sums are maxima.
    """

    def __init__(
        self,
        plan: Plan,
        step: Step,
        names: Names,
        scope: Mapping[str, str],
        origins: Mapping[str, Sequence[Expr]],
        *,
        whole: bool = False,
        best: bool = False,
    ) -> None:
        self.plan = plan
        self.best = best
        self.origins = origins
        self.strided: set[tuple[str, int]] = set()
        self.step = step
        self.names = names
        self.whole = whole
        self.loops = () if whole else step.positions + step.splits
        self.loop_dims = tuple(loop.name for loop in self.loops)
        self.position_dims = tuple(loop.name for loop in step.positions)
        self.split_dims = () if whole else tuple(loop.name for loop in step.splits)
        self.scope = dict(scope)
        self.counts: dict[str, str] = {}
        for loop in self.loops:
            plain = loop.name.rstrip("'")
            if plain != loop.name and plain in self.loop_dims:
                plain = loop.name  # a family's index may have the name of a rule's variable
            self.scope[loop.name] = names.get("", f"{plain}0")
            self.counts[loop.name] = names.get("", f"{plain}_n")
        if whole:
            chart = plan.chart[step.head]
            self.position_dims = tuple(f"@{i}" for i in range(len(chart.axes)))
            self.loop_dims = self.position_dims
        self.cell_dims = (*self.position_dims, BATCH)
        self.point_dims = (*self.loop_dims, BATCH)
        self.counter = 0
        # The name of the step's scale, once it has been written.
        self.scaled: str | None = None
        self.gathered: dict[int, str] = {}

    def bounds(self) -> Iterator[str]:
        """The ends of the loops, and the condition under which the step does anything."""
        for loop in self.loops:
            count = self.counts[loop.name]
            low, high = single(loop.low), single(loop.high)
            if low is not None and high is not None:
                yield f"{count} = {affine_code(high - low + 1, self.scope)}"
                continue
            name = self.scope[loop.name]
            if low is None:
                yield f"{name} = {bound_code(loop.low, self.scope, low=True)}"
            else:
                name = affine_code(low, self.scope)
            high_code = bound_code(loop.high, self.scope, low=False)
            less = "" if name == "0" else f" - {bracketed(name)}"
            yield f"{count} = {high_code}{less} + 1"

    def condition(self) -> str:
        """When the step has any points."""
        tests = [f"{self.counts[loop.name]} > 0" for loop in self.loops]
        tests += [f"{affine_code(g, self.scope)} >= 0" for g in self.step.guards]
        return " and ".join(tests)

    def is_scalar(self, operand: Operand) -> bool:
        """Whether an operand is its scale alone."""
        return self.plan.is_scale(operand)

    def states(self, operand: Operand) -> tuple[int, ...]:
        """The sizes of a chart's or a table's state axes."""
        if operand.kind == "chart":
            return self.plan.chart[operand.name].states
        return self.plan.table[operand.name].states

    def has_scale(self, operand: Operand) -> bool:
        """Whether an operand's scale counts: in a linear step it does not."""
        return not self.step.linear and self.plan.has_scale(operand)

    def index_dims(self, operand: Operand) -> tuple[str, ...]:
        """The loop variables that an operand's cell depends on, and the batch."""
        if operand.kind == "parameter":
            return ()
        if self.whole:
            return self.cell_dims
        used = {name for expr in operand.index for name in expr.names()}
        return (*(d for d in self.loop_dims if d in used), BATCH)

    def storage(self, operand: Operand) -> tuple[str, str, str, str]:
        """The identifiers of an operand's values, scales, gradients, and of its origin."""
        if operand.kind == "chart":
            chart = self.plan.chart[operand.name]
            return (
                self.names.get("v_", operand.name),
                self.names.get("e_", chart.scale_of),
                self.names.get("a_", operand.name),
                operand.name,
            )
        if operand.kind == "table":
            return (
                self.names.get("t_", operand.name),
                self.names.get("s_", operand.name),
                self.names.get("g_", operand.name),
                "",
            )
        return (
            self.names.get("p_", operand.name),
            "",
            self.names.get("g_", operand.name),
            "",
        )

    def start(self, operand: Operand, origin: str) -> list[Expr]:
        """Where in storage an operand's first cell lies, as far as that is one expression."""
        first = {d: Expr.of(d) for d in self.loop_dims}
        for loop in self.loops:
            first[loop.name] = single(loop.low) or first[loop.name]
        return [
            expr.substitute(first) - self.low(origin, number)
            for number, expr in enumerate(operand.index)
        ]

    def low(self, origin: str, number: int) -> Expr:
        """The least index of a chart's axis: an expression, or a name that stands for it."""
        if not origin:
            return Expr()
        return self.origins[origin][number]

    def place(self, tensor: str, operand: Operand, origin: str) -> str:
        """A view of an operand's cells in a tensor."""
        if self.whole or not operand.index:
            return tensor
        start = [affine_code(expr, self.scope) for expr in self.start(operand, origin)]
        loops = [d for d in self.index_dims(operand) if d != BATCH]
        if not loops:
            # One cell a level: cells along a single axis are listed once, by `unbind`.
            rows = self.names.get("c_", tensor) if len(start) == 1 else tensor
            return f"{rows}[{', '.join(start)}]"
        strides = [self.names.get(f"k{i}_", tensor) for i in range(len(start))]
        self.strided.add((tensor, len(start)))
        sizes = [self.counts[d] for d in loops]
        moves = [
            scaled_sum([coefficient_of(expr, d) for expr in operand.index], strides) for d in loops
        ]
        offset = scaled_sum(start, strides)
        if self.is_spare(tensor, operand):
            offset = f"{self.names.get('ko_', tensor)} + {offset}"
        return (
            f"{tensor}.as_strided(({', '.join(sizes)}, *{self.names.get('ks_', tensor)}), "
            f"({', '.join(moves)}, *{self.names.get('kt_', tensor)}), {offset})"
        )

    def is_spare(self, tensor: str, operand: Operand) -> bool:
        """Whether a tensor is an adjoint in the empty half of a chart: it begins later there."""
        is_half = operand.kind == "chart" and self.plan.chart[operand.name].half
        return is_half and tensor == self.names.get("a_", operand.name)

    def gather_index(self, number: int, operand: Operand, lines: list[str]) -> str:
        """The name of the cells of an operand that is gathered."""
        if number not in self.gathered:
            tensor, scale, _, origin = self.storage(operand)
            local = self.tensors(operand.index, self.index_dims(operand))
            index = [
                affine_code(expr - self.low(origin, axis), local)
                for axis, expr in enumerate(operand.index)
            ]
            like = scale if self.plan.has_scale(operand) else tensor
            self.gathered[number] = self.fresh("at")
            code = self.keep(f"cells_at({like}, ({', '.join(index)},))")
            lines.append(f"{self.gathered[number]} = {code}")
        return self.gathered[number]

    def keep(self, code: str) -> str:
        """Code that is carried out once for each level and box."""
        own = [self.scope[loop.name] for loop in self.loops] + list(self.counts.values())
        return self.names.keep(code, ("level", *own))

    def tensors(self, exprs: Sequence[Expr], dims: Sequence[str]) -> dict[str, str]:
        """The code of the variables and look-ups in expressions, as tensors."""
        local = dict(self.scope)
        used = {name for expr in exprs for name in expr.names()}
        for place, d in enumerate(dims):
            if d == BATCH or d not in used:
                continue
            loop = next(loop for loop in self.loops if loop.name == d)
            low = single(loop.low)
            first = self.scope[d] if low is None else affine_code(low, self.scope)
            local[d] = f"batch.arange({first}, {self.counts[d]}, {place}, {len(dims)})"
        for lookup in lookups_in(exprs):
            index = ", ".join(affine_code(i, local) for i in lookup.indices)
            local[str(lookup)] = f"batch.look_up({lookup.table!r}, ({index},))"
        return local

    def is_tensor(self, expr: Expr) -> bool:
        """Whether an expression's code is a tensor: it has a variable, a length or a look-up."""
        return any(
            isinstance(atom, Lookup) or atom in self.loop_dims or atom in self.plan.lengths
            for atom in expr.atoms()
        )

    def fresh(self, stem: str) -> str:
        """A new local name."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def read(self, lines: list[str], scales: bool) -> tuple[list[Value | None], list[Value]]:
        """Reads every operand: its values (None where it is scale alone), and the scales."""
        values: list[Value | None] = []
        found: list[Value] = []
        for number, operand in enumerate(self.step.operands):
            tensor, scale, _, origin = self.storage(operand)
            dims = self.index_dims(operand)
            if operand.kind == "parameter":
                values.append(self.diagonal(Value(tensor, operand.axes)))
                continue
            if operand.view or self.whole:
                code = self.place(tensor, operand, origin)
                scale_code = self.place(scale, operand, origin)
            else:
                name = self.gather_index(number, operand, lines)
                code = f"take({tensor}, {name})"
                scale_code = f"take({scale}, {name}, NEGATIVE)"
            if self.is_scalar(operand):
                values.append(None)
            else:
                name = self.fresh("v")
                lines.append(f"{name} = {code}")
                values.append(self.diagonal(Value(name, (*dims, *operand.axes))))
            if scales and self.has_scale(operand):
                name = self.fresh("e")
                lines.append(f"{name} = {scale_code}")
                found.append(Value(name, dims))
        return values, found

    @property
    def depth(self) -> int:
        """How many charts with states the step multiplies."""
        return self.plan.depth(self.step)

    @property
    def is_sparse(self) -> bool:
        """Whether tables say which cells of charts are read: then it may be none of them."""
        return any(o.kind == "chart" and lookups_in(o.index) for o in self.step.operands)

    def diagonal(self, value: Value) -> Value:
        """A value with each axis once: where a node occurs twice, the diagonal."""
        while len(set(value.dims)) < len(value.dims):
            first = next(i for i, d in enumerate(value.dims) if d in value.dims[i + 1 :])
            second = value.dims.index(value.dims[first], first + 1)
            rest = [d for i, d in enumerate(value.dims) if i not in (first, second)]
            code = f"{value.code}.diagonal(0, {first}, {second})"
            value = Value(code, (*rest, value.dims[first]))
        return value

    def scale_dims(self, scales: Sequence[Value]) -> tuple[str, ...]:
        """The axes of the scale of each point; none if it is the same number everywhere."""
        if self.step.masks:
            return self.point_dims
        return tuple(d for d in self.point_dims if any(d in s.dims for s in scales))

    def scale(self, lines: list[str], scales: Sequence[Value]) -> Value | None:
        """The sum of the operands' scales at each point, -inf where a mask says so."""
        extra = f" + {log(self.step.free)!r}" if self.step.free > 1 and not self.best else ""
        if not scales and not self.step.masks:
            if not extra:
                return None
            plain = f"torch.tensor({log(self.step.free)!r}, dtype=torch.float64"
            return Value(f"{plain}, device=batch.device)", ())
        full = bool(self.step.masks)
        dims = self.scale_dims(scales)
        name = self.scaled = self.fresh("e")
        if scales:
            total = " + ".join(aligned(s, dims) for s in scales)
            if len(scales) == 1 and scales[0].dims == dims and not (full or extra):
                self.scaled = scales[0].code
                return scales[0]
            lines.append(f"{name} = {total}{extra}")
        if full:
            sizes = ", ".join([*(self.counts[d] for d in self.loop_dims), "batch.size"])
            if scales:
                lines.append(f"{name} = {name}.expand({sizes})")
            else:
                lines.append(
                    f"{name} = torch.zeros(({sizes},), dtype=torch.float64, device=batch.device)"
                    f"{extra}"
                )
            for mask in self.step.masks:
                line = f"{name} = hide({name}, {self.mask(mask.expr, dims)}, NEGATIVE)"
                if mask.mixed:
                    lines.append("if batch.mixed:")
                    line = f"    {line}"
                lines.append(line)
        return Value(name, dims)

    def mask(self, expr: Expr, dims: Sequence[str]) -> str:
        """Where `expr >= 0` does not hold, or a table has no entry."""
        local = self.tensors([expr], dims)
        code = f"{affine_code(expr, local)} >= 0"
        if not self.is_tensor(expr):
            code = f"torch.tensor({code}, device=batch.device)"
        for lookup in lookups_in([expr]):
            code = f"({code}) & ({local[str(lookup)]} != OUTSIDE)"
        return self.keep(f"hidden({code})")

    def head(self, tensor: str) -> str:
        """A view of the head's cells in a tensor."""
        return self.place(tensor, self.head_operand(), self.step.head)

    def head_operand(self) -> Operand:
        """The head's cells as if they were read."""
        return Operand(kind="chart", name=self.step.head, index=self.step.head_index)
