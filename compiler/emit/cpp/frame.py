"""Where a step reads and writes, in C++: its box, its operands' cells, scales and masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log

from fgg.compiler.emit.python.contraction import Contraction
from fgg.compiler.emit.python.values import Value

from fgg.compiler.emit.cpp.loops import Loops
from fgg.compiler.emit.cpp.memory import ONE, Later, Memory, Size, Term, product
from fgg.compiler.emit.cpp.tensors import Tensors
from fgg.compiler.emit.python.names import BATCH, Names, lookups_in
from fgg.compiler.plan.affine import coefficient_of
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.plan import Operand, Plan, Step


class NativeFrame(Contraction):
    """A step whose values are memory: nothing is computed before it is written somewhere."""

    def __init__(self, plan: Plan, step: Step, tensors: Tensors, *, whole: bool = False) -> None:
        super().__init__(plan, step, Names(), {}, tensors.origins, whole=whole)
        self.given = tensors
        sizes = {BATCH: Size(1, ("B",))}
        nodes = {n.name: domain_size(plan.grammar, n.domain) for n in step.rule.rhs.nodes}
        self.local = dict(tensors.scope)
        points = []
        for number, d in enumerate(self.loop_dims):
            points.append(d)
            if whole:
                ident = tensors.get("values", step.head)
                sizes[d] = Size(1, (f"{ident}_n[{number}]",))
            else:
                sizes[d] = Size(1, (f"n{number}",))
                self.local[d] = f"(lo_x{number} + x{number})"
                self.local[f"@lo {d}"] = f"lo_x{number}"
        self.loops_of = Loops((*points, BATCH), sizes | {a: Size(n) for a, n in nodes.items()})
        # The lines so far, and terms that were carried out: kept, so that nothing else gets
        # their identity.
        self.written = self.loops_of.lines
        self.known: dict[int, tuple[Value, Term]] = {}

    def box(self) -> list[str]:
        """The first values and the numbers of values of the loops."""
        lines = []
        for number, loop in enumerate(self.loops):
            lines.append(f"const I lo_x{number} = {self.given.bound(loop.low, low=True)};")
            high = self.given.bound(loop.high, low=False)
            lines.append(f"const I n{number} = {high} - lo_x{number} + 1;")
        return lines

    def condition(self) -> str:
        """When the step has any points."""
        tests = [f"n{number} > 0" for number in range(len(self.loops))]
        tests += [f"{self.given.code(g, self.local)} >= 0" for g in self.step.guards]
        return " && ".join(tests) or "true"

    # memory

    def states(self, operand: Operand) -> tuple[int, ...]:
        """The sizes of an operand's state axes."""
        if operand.kind == "parameter":
            return tuple(self.loops_of.sizes[a].number for a in operand.axes)
        return super().states(operand)

    def memory(self, operand: Operand, role: str, *, states: bool = True) -> Memory:
        """An operand's cells in one of its tensors; scales have no states."""
        name = operand.name
        if operand.kind == "chart" and role == "scales":
            name = self.plan.chart[name].scale_of
        inner = self.states(operand) if states else ()
        ident = self.given.get(role, name)
        strides, stride = self.inner_strides(operand.axes if inner else ())
        if operand.kind == "parameter":
            return Memory(ident, strides)
        outer = self.given.strides(role, name, inner)
        if self.whole:
            strides |= {d: outer[i] for i, d in enumerate(self.position_dims)}
            return Memory(ident, {**strides, BATCH: stride})
        if not operand.view:
            return self.looked_up(operand, role, ident, outer, stride, strides)
        base = [ident]
        first = {d: Expr.of(f"@lo {d}") for d in self.loop_dims}
        origin = operand.name if operand.kind == "chart" else ""
        for number, expr in enumerate(operand.index):
            start = expr.substitute(first) - self.low(origin, number)
            if start.terms:
                base.append(f"{self.given.code(start, self.local)} * {outer[number]}")
        for d in self.index_dims(operand):
            if d != BATCH:
                moves = [
                    (coefficient_of(expr, d), outer[number])
                    for number, expr in enumerate(operand.index)
                ]
                strides[d] = _combined(moves)
        return Memory(" + ".join(base), {**strides, BATCH: stride}, shared=not operand.distinct)

    def inner_strides(self, axes: Sequence[str]) -> tuple[dict[str, Size], Size]:
        """The strides of a cell's states, and how many there are; a node may occur twice."""
        strides: dict[str, Size] = {}
        stride = ONE
        for axis in reversed(axes):
            # Where a node occurs twice, its diagonal.
            strides[axis] = _sum(strides[axis], stride) if axis in strides else stride
            stride = stride * self.loops_of.sizes[axis]
        return strides, stride

    def looked_up(
        self,
        operand: Operand,
        role: str,
        ident: str,
        outer: Sequence[Size],
        stride: Size,
        strides: dict[str, Size],
    ) -> Memory:
        """Cells at indices that differ from item to item; zeros where there are none."""
        dims = self.index_dims(operand)
        name = self.loops_of.fresh("at")
        origin = operand.name if operand.kind == "chart" else ""
        lines, tests, moves = [], [], [f"b * {stride}"]
        for number, expr in enumerate(operand.index):
            code = self.given.code(expr - self.low(origin, number), self.local)
            lines.append(f"const I i{number} = {code};")
            tests.append(f"i{number} >= 0 && i{number} < {ident}_n[{number}]")
            moves.append(f"i{number} * {outer[number]}")
        names = [self.loops_of.variables[d] for d in dims]
        parameters = ", ".join(f"I {x}" for x in names)
        test = " && ".join(tests) or "true"
        self.written.append(
            f"const auto {name} = [&]({parameters}) -> I {{ {' '.join(lines)} "
            f"return {test} ? {' + '.join(moves)} : -1; }};"
        )
        call = f"{name}({', '.join(names)})"
        if role in ("adjoint", "leaf gradient"):
            base = f"spot({ident}, {call}, nowhere)"
        elif role in ("scales", "leaf scales"):
            base = f"cell({ident}, {call}, &NEGATIVE)"
        else:
            base = f"cell({ident}, {call}, nothing)"
        return Memory(base, strides, points=dims, shared=True)

    def values_of(self, operand: Operand) -> Memory:
        """An operand's values."""
        return self.memory(operand, "values" if operand.kind == "chart" else "leaf")

    def scales_of(self, operand: Operand) -> Memory:
        """An operand's scales."""
        role = "scales" if operand.kind == "chart" else "leaf scales"
        return self.memory(operand, role, states=False)

    def gradient_of(self, operand: Operand) -> Memory:
        """Where an operand's gradient is added up."""
        return self.memory(operand, "adjoint" if operand.kind == "chart" else "leaf gradient")

    def head_operand(self) -> Operand:
        """The head's cells as if they were read."""
        step = self.step
        return Operand(kind="chart", name=step.head, index=step.head_index, axes=step.head_axes)

    # values

    def read(self, lines: list[str], scales: bool) -> tuple[list[Value | None], list[Value]]:
        """Every operand as a term (None where it is scale alone), and the scales as terms."""
        values: list[Value | None] = []
        found: list[Value] = []
        for operand in self.step.operands:
            if operand.kind == "parameter":
                memory = self.values_of(operand)
                values.append(Term(dims=tuple(dict.fromkeys(operand.axes)), left=(memory,)))
                continue
            dims = self.index_dims(operand)
            if self.is_scalar(operand):
                values.append(None)
            else:
                axes = (*dims, *dict.fromkeys(operand.axes))
                values.append(Term(dims=axes, left=(self.values_of(operand),)))
            if scales and self.has_scale(operand):
                found.append(Term(dims=dims, left=(self.scales_of(operand),)))
        return values, found

    def multiplied(
        self, lines: list[str], left: Value, right: Value, dims: tuple[str, ...], stem: str = "v"
    ) -> Value:
        """The product of two values, to be carried out when it is needed."""
        return Later(dims=dims, left=left, right=right)

    def summed(self, lines: list[str], value: Value, keep: tuple[str, ...]) -> Value:
        """A value summed to some of its axes, when it is needed."""
        if all(d in keep for d in value.dims):
            return value
        assert isinstance(value, Term | Later)
        return replace(value, dims=tuple(d for d in value.dims if d in keep))

    def term(self, value: Value) -> Term:
        """A value as a product of memories: what it is made from is carried out."""
        if isinstance(value, Later):
            left, right = self.forced(value.left).factors, self.forced(value.right).factors
            return Term(dims=value.dims, left=left, right=right)
        assert isinstance(value, Term)
        return value

    def forced(self, value: Value) -> Term:
        """A term without sums; carried out once."""
        if id(value) not in self.known:
            self.known[id(value)] = value, self.loops_of.forced(self.term(value))
        return self.known[id(value)][1]

    # scales

    def scale_code(self, scales: Sequence[Value], dims: Sequence[str]) -> str:
        """The scale of a point: the sum of the operands', -inf where a mask says so."""
        parts = []
        for scale in scales:
            assert isinstance(scale, Term)
            (memory,) = scale.left
            parts.append(f"*({self.offset(memory, dims)})")
        if self.step.free > 1:
            parts.append(repr(log(self.step.free)))
        code = " + ".join(parts) or "0.0"
        tests = [self.mask_code(mask.expr, mixed=mask.mixed) for mask in self.step.masks]
        return f"{' && '.join(tests)} ? {code} : NEGATIVE" if tests else code

    def mask_code(self, expr: Expr, *, mixed: bool) -> str:
        """Whether a mask leaves a point."""
        tests = [f"{self.given.code(expr, self.local)} >= 0"]
        for lookup in lookups_in([expr]):
            entry = Expr.of(lookup)
            tests.append(f"{self.given.code(entry, self.local)} != OUTSIDE")
        code = " && ".join(tests)
        return f"(!mixed || ({code}))" if mixed else f"({code})"

    def clear_masked(self, memory: Memory) -> None:
        """Writes zeros to the head's cells that only other items have."""
        count = product(self.loops_of.sizes[a] for a in self.step.head_axes)
        for mask in self.step.masks:
            test = self.mask_code(mask.expr, mixed=mask.mixed)
            self.written.append(
                f"{self.open_loops(self.cell_dims)}if (!{test}) "
                f"std::memset({self.offset(memory, self.cell_dims)}, 0, sizeof(T) * {count});"
            )

    def open_loops(self, dims: Sequence[str], *, free: bool = True) -> str:
        """Loops over points; if the innermost is `free`, none of its rounds reads from another."""
        text = []
        for number, d in enumerate(dims, 1):
            x = self.loops_of.variables[d]
            hint = "LOOP " if free and number == len(dims) else ""
            text.append(f"{hint}for (I {x} = 0; {x} < {self.loops_of.sizes[d]}; ++{x}) ")
        return "".join(text)

    def offset(self, memory: Memory, dims: Sequence[str]) -> str:
        """A pointer at a point."""
        return memory.at(self.loops_of.variables, dims)

    def cell_count(self) -> Size:
        """How many cells the box has."""
        return product(self.loops_of.sizes[d] for d in self.cell_dims)


def _sum(one: Size, two: Size) -> Size:
    """The sum of two strides."""
    if one.names == two.names:
        return Size(one.number + two.number, one.names)
    return Size(1, (f"({one} + {two})",))


def _combined(moves: Sequence[tuple[int, Size]]) -> Size:
    """Strides times whole numbers."""
    used = [(c, size) for c, size in moves if c]
    if len(used) == 1:
        ((c, size),) = used
        return Size(c * size.number, size.names)
    text = " + ".join(str(size) if c == 1 else f"{c} * {size}" for c, size in used)
    return Size(1, (f"({text})",))
