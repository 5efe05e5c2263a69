"""A step as Python: its box, its operands, its contraction, and the same in reverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log

from fgg.compiler.boxes import coefficient_of
from fgg.compiler.emit_code import (
    BATCH,
    Names,
    Value,
    affine_code,
    aligned,
    bound_code,
    lookups_in,
    product_code,
)
from fgg.index import Expr, Lookup
from fgg.plan import Bound, Operand, Plan, Step


class StepWriter:
    """Writes the inside and the outside of one step.

    With `whole` the step is written for all cells of its chart at once: so the gradient of a
    parameter that maps cells one by one is a single product.
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
    ) -> None:
        self.plan = plan
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
            self.scope[loop.name] = names.get("", f"{plain}0")
            self.counts[loop.name] = names.get("", f"{plain}_n")
        if whole:
            chart = plan.chart[step.head]
            self.position_dims = tuple(f"@{i}" for i in range(len(chart.axes)))
            self.loop_dims = self.position_dims
        self.cell_dims = (*self.position_dims, BATCH)
        self.point_dims = (*self.loop_dims, BATCH)
        self.counter = 0
        self.matrices: set[str] = set()
        self.terms = False
        self.arranged: dict[tuple[str, tuple[str, ...]], str] = {}

    # the box

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
            less = "" if name == "0" else f" - {_bracketed(name)}"
            yield f"{count} = {high_code}{less} + 1"

    def condition(self) -> str:
        """When the step has any points."""
        tests = [f"{self.counts[loop.name]} > 0" for loop in self.loops]
        tests += [f"{affine_code(g, self.scope)} >= 0" for g in self.step.guards]
        return " and ".join(tests)

    # operands

    def depends(self, operand: Operand) -> bool:
        return operand.kind != "parameter"

    def is_scalar(self, operand: Operand) -> bool:
        """Whether an operand is its scale alone."""
        if operand.kind == "chart":
            return self.plan.chart[operand.name].is_scalar
        if operand.kind == "table":
            table = self.plan.table[operand.name]
            return table.scaled and not table.states
        return False

    def states(self, operand: Operand) -> tuple[int, ...]:
        """The sizes of a chart's or a table's state axes."""
        if operand.kind == "chart":
            return self.plan.chart[operand.name].states
        return self.plan.table[operand.name].states

    def has_scale(self, operand: Operand) -> bool:
        if self.step.linear:
            return False
        return operand.kind == "chart" or (
            operand.kind == "table" and self.plan.table[operand.name].scaled
        )

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
            return f"{tensor}[{', '.join(start)}]"
        strides = [f"d{i}_{tensor}" for i in range(len(start))]
        self.strided.add((tensor, len(start)))
        sizes = [self.counts[d] for d in loops]
        moves = [
            scaled_sum([coefficient_of(expr, d) for expr in operand.index], strides) for d in loops
        ]
        offset = scaled_sum(start, strides)
        return (
            f"{tensor}.as_strided(({', '.join(sizes)}, *shape_{tensor}), "
            f"({', '.join(moves)}, *inner_{tensor}), {offset})"
        )

    def index_tensors(self, operand: Operand, origin: str) -> Iterator[tuple[str, list[str]]]:
        """Lines that make index tensors for a gathered operand, then their names."""
        dims = self.index_dims(operand)
        lines, local = self.tensors(operand.index, dims)
        yield from ((line, []) for line in lines)
        found = []
        for number, expr in enumerate(operand.index):
            found.append(self.tensor_code(expr - self.low(origin, number), local))
        yield "", found

    def tensors(
        self, exprs: Sequence[Expr], dims: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """Lines that make tensors of the variables and look-ups in expressions."""
        local = dict(self.scope)
        lines: list[str] = []
        used = {name for expr in exprs for name in expr.names()}
        for place, d in enumerate(dims):
            if d == BATCH or d not in used:
                continue
            name = self.fresh("x")
            loop = next(loop for loop in self.loops if loop.name == d)
            low = single(loop.low)
            first = self.scope[d] if low is None else affine_code(low, self.scope)
            lines.append(f"{name} = batch.arange({first}, {self.counts[d]}, {place}, {len(dims)})")
            local[d] = name
        for lookup in lookups_in(exprs):
            name = self.fresh("y")
            index = ", ".join(self.tensor_code(i, local) for i in lookup.indices)
            lines.append(f"{name} = batch.look_up({lookup.table!r}, ({index},))")
            local[str(lookup)] = name
        return lines, local

    def tensor_code(self, expr: Expr, local: Mapping[str, str]) -> str:
        code = affine_code(expr, local)
        if any(True for _ in expr.atoms() if self.is_tensor(expr)):
            return code
        return f"torch.tensor({code}, device=batch.device)"

    def is_tensor(self, expr: Expr) -> bool:
        """Whether an expression's code is a tensor: it has a variable, a length or a look-up."""
        return any(
            isinstance(atom, Lookup) or atom in self.loop_dims or atom in self.plan.lengths
            for atom in expr.atoms()
        )

    def fresh(self, stem: str) -> str:
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
                index: list[str] = []
                for line, index in self.index_tensors(operand, origin):
                    if line:
                        lines.append(line)
                name = self.fresh("at")
                lines.append(f"{name} = ({', '.join(index)},)")
                self.arranged[str(number), ()] = name
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

    def diagonal(self, value: Value) -> Value:
        """A value with each axis once: where a node occurs twice, the diagonal."""
        while len(set(value.dims)) < len(value.dims):
            first = next(i for i, d in enumerate(value.dims) if d in value.dims[i + 1 :])
            second = value.dims.index(value.dims[first], first + 1)
            rest = [d for i, d in enumerate(value.dims) if i not in (first, second)]
            code = f"{value.code}.diagonal(0, {first}, {second})"
            value = Value(code, (*rest, value.dims[first]))
        return value

    # scales

    def scale(self, lines: list[str], scales: Sequence[Value]) -> Value | None:
        """The sum of the operands' scales at each point, -inf where a mask says so."""
        extra = f" + {log(self.step.free)!r}" if self.step.free > 1 else ""
        if not scales and not self.step.masks:
            if not extra:
                return None
            plain = f"torch.tensor({log(self.step.free)!r}, dtype=torch.float64"
            return Value(f"{plain}, device=batch.device)", ())
        full = bool(self.step.masks)
        if full:
            dims: tuple[str, ...] = self.point_dims
        else:
            dims = tuple(d for d in self.point_dims if any(d in s.dims for s in scales))
        name = self.fresh("e")
        if scales:
            total = " + ".join(aligned(s, dims) for s in scales)
            if len(scales) == 1 and scales[0].dims == dims and not (full or extra):
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
                inner, code = self.mask(mask.expr, dims)
                inner.append(f"{name} = {name}.masked_fill(~({code}), NEGATIVE)")
                if mask.mixed:
                    lines.append("if batch.mixed:")
                    inner = [f"    {line}" for line in inner]
                lines += inner
        return Value(name, dims)

    def mask(self, expr: Expr, dims: Sequence[str]) -> tuple[list[str], str]:
        """Where `expr >= 0` holds; never where a table has no entry."""
        lines, local = self.tensors([expr], dims)
        code = f"{affine_code(expr, local)} >= 0"
        if not self.is_tensor(expr):
            code = f"torch.tensor({code}, device=batch.device)"
        for lookup in lookups_in([expr]):
            code = f"({code}) & ({local[str(lookup)]} != OUTSIDE)"
        return lines, code

    # contraction

    def carrier(self, values: Sequence[Value | None]) -> int | None:
        """The operand that the weights of the scales are multiplied into: the smallest."""
        found = [
            (len(set(value.dims) - {*self.point_dims}), number)
            for number, value in enumerate(values)
            if value is not None and self.depends(self.step.operands[number])
        ]
        return min(found)[1] if found else None

    def contract(
        self, lines: list[str], values: list[Value | None]
    ) -> tuple[Value | None, list[tuple[int, int, int]], list[Value | None]]:
        """Carries out the path; the result, what was multiplied, and all values."""
        live = {n: v for n, v in enumerate(values) if v is not None}
        done: list[tuple[int, int, int]] = []
        everything: list[Value | None] = list(values)
        alias: dict[int, int] = {}

        def real(number: int) -> int:
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
            name = self.fresh("v")
            lines.append(f"{name} = {product_code(one, two, dims)}")
            value = Value(name, dims)
            everything.append(value)
            live[result] = value
            done.append((left, right, result))
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
            name = self.fresh("v")
            lines.append(f"{name} = {product_code(one, two, dims)}")
            result = len(everything)
            everything.append(Value(name, dims))
            live[result] = Value(name, dims)
            done.append((left, right, result))
            left_over = sorted(live)
        if not live:
            return None, done, everything
        (last,) = live
        final = live[last]
        extra = [d for d in final.dims if d not in self.cell_dims and d not in self.step.head_axes]
        if extra:
            dims = tuple(d for d in final.dims if d not in extra)
            name = self.fresh("v")
            axes_text = ", ".join(str(final.dims.index(d)) for d in extra)
            lines.append(f"{name} = {final.code}.sum(({axes_text},))")
            result = len(everything)
            everything.append(Value(name, dims))
            done.append((last, -1, result))
            final = Value(name, dims)
        return final, done, everything

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

    def head(self, tensor: str) -> str:
        """A view of the head's cells in a tensor."""
        operand = Operand(kind="chart", name=self.step.head, index=self.step.head_index)
        return self.place(tensor, operand, self.step.head)

    def ones(self) -> Value:
        """The value of a rule without operands."""
        return Value("torch.ones((), dtype=batch.dtype, device=batch.device)", ())

    def inside(self, *, terms: bool = False) -> list[str]:
        """The lines that compute the step and put the result into the head's chart.

        With `terms` the result is kept, to be added to others of its group.
        """
        self.terms = terms
        step, lines = self.step, list[str]()
        chart = self.plan.chart[step.head]
        values, scales = self.read(lines, scales=True)
        if step.linear:
            result, _, _ = self.contract(lines, values)
            assert result is not None
            result = self.masked(lines, result)
            place = self.head(self.names.get("v_", step.head))
            code = self.fitted(result)
            last = f"{code} = "
            if lines and lines[-1].startswith(last) and " @ " in lines[-1]:
                left, right = lines.pop()[len(last) :].split(" @ ")
                lines.append(f"torch.matmul({left}, {right}, out={place})")
            else:
                lines.append(f"{place}.copy_({code})")
            return lines
        scale = self.scale(lines, scales)
        splits = [d for d in self.split_dims if scale is not None and d in scale.dims]
        cell_scale = scale
        if splits:
            assert scale is not None
            axes = ", ".join(str(scale.dims.index(d)) for d in splits)
            dims = tuple(d for d in scale.dims if d not in splits)
            head = self.names.get("e_", step.head)
            if chart.is_scalar and all(v is None for v in values):
                lines.append(f"e = torch.logsumexp({scale.code}, ({axes},))")
                lines += self.put_scale(head, Value("e", dims))
                return lines
            top = self.fresh("top")
            lines.append(f"{top} = {scale.code}.amax(({axes},), keepdim=True)")
            weight = self.fresh("w")
            lines.append(f"{weight} = weights({scale.code}, {top}, batch.dtype)")
            flat = f"{top}.squeeze(({axes},))"
            cell_scale = Value(flat, dims)
            self.carry(lines, values, Value(weight, scale.dims))
        result, _, _ = self.contract(lines, values)
        if result is None and chart.is_scalar and cell_scale is not None:
            lines += self.put_scale(self.names.get("e_", step.head), cell_scale)
            return lines
        lines += self.put(result or self.ones(), cell_scale)
        return lines

    def masked(self, lines: list[str], value: Value) -> Value:
        """A value that is zero at the cells which only some items of a batch have."""
        if not self.step.masks or self.whole:
            return value
        for mask in self.step.masks:
            inner, code = self.mask(mask.expr, self.cell_dims)
            lines.append("if batch.mixed:")
            # A mask may be one of items alone; the axes it lacks come first.
            states = "".join(", None" for d in value.dims if d not in self.cell_dims)
            inner.append(f"{value.code} = {value.code}.masked_fill(~({code})[...{states}], 0.0)")
            lines += [f"    {line}" for line in inner]
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
        name = self.fresh("v")
        lines.append(f"{name} = {product_code(before, weight, dims)}")
        values[number] = Value(name, dims)
        return number, before

    def cell_scale_code(self, scale: Value) -> str:
        code = aligned(scale, self.cell_dims)
        if set(scale.dims) != set(self.cell_dims):
            sizes = [self.counts[d] for d in self.position_dims] + ["batch.size"]
            code = f"{code}.expand({', '.join(sizes)})"
        return code

    def put_scale(self, head: str, scale: Value) -> Iterator[str]:
        """Puts the logarithms of scalars into the head's cells."""
        code = self.cell_scale_code(scale)
        if self.terms:
            yield f"terms.append({code})"
            return
        yield from self.write_scale(head, code)

    def write_scale(self, head: str, code: str) -> Iterator[str]:
        """Writes logarithms into the head's cells, or adds to what is there."""
        place = self.head(head)
        if self.step.mode == "write":
            yield f"{place}.copy_({code})"
            return
        yield f"e = {code}"
        yield f"out = {place}"
        more = "out.copy_(torch.logaddexp(out, e))"
        if self.step.mode == "mixed":
            yield f"{more} if batch.mixed else out.copy_(e)"
        else:
            yield more

    def put(self, result: Value, scale: Value | None) -> Iterator[str]:
        """Puts values with scales into the head's cells."""
        chart = self.plan.chart[self.step.head]
        scale_head = self.names.get("e_", self.step.head)
        scale_code = "None" if scale is None else self.cell_scale_code(scale)
        if chart.is_scalar:
            code = f"log_of({self.fitted(result)}, {scale_code})"
            yield from self.put_scale(scale_head, Value(f"({code})", self.cell_dims))
            return
        if self.terms:
            yield f"terms.append(({self.fitted(result)}, {scale_code}))"
        else:
            yield self.write(f"{self.fitted(result)}, {scale_code}")

    def write(self, what: str) -> str:
        """Writes values with scales into the head's cells, or adds to what is there."""
        function = {"write": "put", "add": "put_more"}.get(
            self.step.mode, "(put_more if batch.mixed else put)"
        )
        values = self.head(self.names.get("v_", self.step.head))
        scales = self.head(self.names.get("e_", self.step.head))
        return f"{function}({values}, {scales}, {what})"

    def put_terms(self) -> Iterator[str]:
        """Adds the results of a group and puts the sum into the head's cells."""
        if self.plan.chart[self.step.head].is_scalar:
            yield from self.write_scale(self.names.get("e_", self.step.head), "log_total(terms)")
        else:
            yield self.write(f"*total(terms, {len(self.cell_dims)})")

    # reverse

    def outside(self, *, charts: bool, parameters: bool) -> list[str]:
        """The lines that pass the head's gradient on to the operands."""
        step, lines = self.step, list[str]()
        head = self.plan.chart[step.head]
        axes = tuple(dict.fromkeys(step.head_axes))
        values, scales = self.read(lines, scales=True)
        gradient = self.diagonal(
            Value(self.head(self.names.get("a_", step.head)), (*self.cell_dims, *step.head_axes))
        )
        name = self.fresh("a")
        # The masked points of a box may be cells of the head: those are read before any is added to.
        same = step.masks and any(o.kind == "chart" and o.name == step.head for o in step.operands)
        lines.append(f"{name} = {gradient.code}{'.clone()' if same else ''}")
        gradient = Value(name, gradient.dims)
        if step.linear:
            gradient = self.masked(lines, gradient)
            if step.masks and not self.whole:
                lines.append("if batch.mixed:")
                place = self.head(self.names.get("a_", step.head))
                lines.append(f"    {place}.copy_({gradient.code})")
        weight: Value | None = None
        carried: tuple[int | None, Value | None] = (None, None)
        scalars = [o for o in step.operands if self.is_scalar(o)]
        alone = self.is_product(values)
        if not step.linear and not alone:
            scale = self.scale(lines, scales)
            inverse = Value(self.head(self.names.get("i_", step.head)), self.cell_dims)
            splits = [d for d in self.split_dims if scale is not None and d in scale.dims]
            name = self.fresh("w")
            dims = self.cell_dims
            if splits and scale is not None:
                dims = tuple(d for d in self.point_dims if d in scale.dims or d in self.cell_dims)
            scale_code = "None" if scale is None else aligned(scale, dims)
            lines.append(f"{name} = ratio({scale_code}, {aligned(inverse, dims)}, batch.dtype)")
            weight = Value(name, dims)
            if splits:
                carried = self.carry(lines, values, weight)
            else:
                name = self.fresh("a")
                lines.append(f"{name} = {product_code(gradient, weight, gradient.dims)}")
                gradient = Value(name, gradient.dims)
                weight = None
        result, done, everything = self.contract(lines, values)
        grads: dict[int, Value] = {}
        if result is None:
            # Scales alone: what the head has goes to each of them.
            self.give_scalars(lines, self.reduced(lines, gradient, axes), scalars)
            return lines
        if scalars and weight is None:
            whole = self.reduced(
                lines, Value(*_product(self, lines, gradient, result, gradient.dims)), axes
            )
            self.give_scalars(lines, whole, scalars)
        last = done[-1][2] if done else next(i for i, v in enumerate(everything) if v is not None)
        keep = tuple(d for d in gradient.dims if d in result.dims)
        grads[last] = self.summed(lines, gradient, keep)
        for left, right, target in reversed(done):
            if target not in grads:
                continue  # nothing in it depends on a parameter or a chart
            upper = grads[target]
            if right == -1:
                grads[left] = upper  # a sum over axes: broadcast when it is used
                continue
            one, two = everything[left], everything[right]
            assert one is not None and two is not None
            for number, value, other in ((left, one, two), (right, two, one)):
                if not self.wanted(number, done, carried[0], charts, parameters, scalars):
                    continue
                together = set(upper.dims) | set(other.dims)
                dims = tuple(d for d in value.dims if d in together)
                grads[number] = Value(*_product(self, lines, upper, other, dims))
        if weight is not None:
            number, before = carried
            if number is None:
                # The weights were an operand of their own, the last one read.
                number = len(step.operands)
                if scalars and number in grads:
                    full = Value(
                        *_product(
                            self, lines, self.stretched(grads[number], weight), weight, weight.dims
                        )
                    )
                    self.give_scalars(lines, full, scalars)
            elif number in grads:
                assert before is not None
                upper = grads[number]
                if scalars:
                    dims = weight.dims
                    moved = everything[number]
                    assert moved is not None
                    full = Value(*_product(self, lines, upper, moved, dims))
                    self.give_scalars(lines, full, scalars)
                dims = tuple(d for d in before.dims if d in upper.dims or d in weight.dims)
                grads[number] = Value(*_product(self, lines, upper, weight, dims))
        for number, operand in enumerate(step.operands):
            if number in grads and values[number] is not None:
                if operand.kind == "parameter" and not parameters:
                    continue
                if operand.kind != "parameter" and not charts:
                    continue
                lines += self.give(number, operand, grads[number])
        return lines

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

    def stretched(self, value: Value, like: Value) -> Value:
        """A value with at least one axis, so that a product has something to align."""
        del like
        return value

    def wanted(
        self,
        number: int,
        done: Sequence[tuple[int, int, int]],
        carrier: int | None,
        charts: bool,
        parameters: bool,
        scalars: Sequence[Operand],
    ) -> bool:
        """Whether anything asks for the gradient of a value."""
        if number >= len(self.step.operands):
            if number == len(self.step.operands) and not any(t == number for _, _, t in done):
                return bool(scalars)  # the weights as an operand
            inner = next((d for d in done if d[2] == number), None)
            if inner is None:
                return False
            return any(
                self.wanted(n, done, carrier, charts, parameters, scalars)
                for n in inner[:2]
                if n >= 0
            )
        operand = self.step.operands[number]
        if operand.kind == "parameter":
            return parameters
        if operand.kind == "table" and operand.name in self.constant_tables():
            return number == carrier and bool(scalars)
        return charts

    def constant_tables(self) -> set[str]:
        """Tables that depend on no parameter and no potential."""
        from fgg.plan import OneHot

        return {p.name for p in self.plan.preparations if isinstance(p, OneHot)}

    def reduced(self, lines: list[str], value: Value, axes: Sequence[str]) -> Value:
        """A value summed over state axes."""
        gone = [d for d in value.dims if d in axes]
        return self.summed(lines, value, tuple(d for d in value.dims if d not in gone))

    def summed(self, lines: list[str], value: Value, keep: tuple[str, ...]) -> Value:
        """A value summed to some of its axes."""
        gone = [d for d in value.dims if d not in keep]
        if not gone:
            return value
        name = self.fresh("a")
        axes = ", ".join(str(value.dims.index(d)) for d in gone)
        lines.append(f"{name} = {value.code}.sum(({axes},))")
        return Value(name, tuple(d for d in value.dims if d in keep))

    def give_scalars(self, lines: list[str], value: Value, scalars: Sequence[Operand]) -> None:
        """Adds what every point of a rule contributes to the operands that are scales alone."""
        for number, operand in enumerate(self.step.operands):
            if operand in scalars and self.is_scalar(operand):
                lines += self.give(number, operand, value)

    def give(self, number: int, operand: Operand, gradient: Value) -> list[str]:
        """Adds a gradient to an operand's own."""
        lines: list[str] = []
        _, _, tensor, origin = self.storage(operand)
        dims = (*self.index_dims(operand), *dict.fromkeys(operand.axes))
        if operand.kind == "table" and operand.name in self.constant_tables():
            return lines
        value = self.summed(lines, gradient, tuple(d for d in gradient.dims if d in dims))
        if operand.kind == "parameter":
            place = self.diagonal(Value(tensor, operand.axes))
            lines.append(f"{place.code}.add_({aligned(value, place.dims)})")
            return lines
        if (operand.view and operand.distinct) or self.whole:
            place = self.diagonal(
                Value(
                    self.place(tensor, operand, origin),
                    (*self.index_dims(operand), *operand.axes),
                )
            )
            lines.append(f"{place.code}.add_({aligned(value, place.dims)})")
            return lines
        index = self.arranged.get((str(number), ()))
        if index is None:
            made: list[str] = []
            for line, made in self.index_tensors(operand, origin):
                if line:
                    lines.append(line)
            index = self.fresh("at")
            lines.append(f"{index} = ({', '.join(made)},)")
        code = aligned(value, dims)
        if len(set(operand.axes)) < len(operand.axes):
            axes = tuple(dict.fromkeys(operand.axes))
            order = tuple(axes.index(a) for a in operand.axes)
            # A diagonal has every entry, also where all are the same.
            states = self.states(operand)
            sizes = [self.counts.get(d, "batch.size") for d in self.index_dims(operand)]
            sizes += [str(states[operand.axes.index(a)]) for a in axes]
            code = f"{code}.expand({', '.join(sizes)})"
            code = f"undiagonal({code}, {len(self.index_dims(operand))}, {order})"
        lines.append(f"give({tensor}, {index}, {code})")
        return lines


def _product(
    writer: StepWriter, lines: list[str], left: Value, right: Value, dims: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """Writes a product under a new name."""
    dims = tuple(d for d in dims if d in left.dims or d in right.dims)
    name = writer.fresh("a")
    if len(dims) == 2:
        writer.matrices.add(name)
    lines.append(f"{name} = {product_code(left, right, dims)}")
    return name, dims


def single(bound: Bound) -> Expr | None:
    """A bound that is one expression."""
    if len(bound.terms) == 1 and bound.terms[0][1] == 1:
        return bound.terms[0][0]
    return None


def scaled_sum(numbers: Sequence[int | str], names: Sequence[str]) -> str:
    """The code of a sum of products; numbers that are code are bracketed where need be."""
    parts = []
    for number, name in zip(numbers, names, strict=True):
        code = str(number)
        if code == "0":
            continue
        parts.append(name if code == "1" else f"{_bracketed(code)} * {name}")
    return " + ".join(parts).replace("+ -", "- ") or "0"


def _bracketed(code: str) -> str:
    return f"({code})" if " " in code else code
