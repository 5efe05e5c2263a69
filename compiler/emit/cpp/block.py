"""A block of a kernel as C++: the loops of its operations.

Loads are places in memory. Products and sums are not carried out before something needs them:
`fgg.compiler.emit.cpp.loops` then writes one loop, or a matrix product, for several of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from fgg.compiler.emit.cpp.layout import nested
from fgg.compiler.emit.cpp.loops import Loops
from fgg.compiler.emit.cpp.memory import Later, Memory, Term, Value, strides_of
from fgg.compiler.emit.cpp.names import Names, Scope
from fgg.compiler.plan.affine import coefficient_of
from fgg.plan import Mask, Operand, Plan
from fgg.plan.kernel import (
    BATCH,
    Block,
    Erase,
    Give,
    Greatest,
    Hide,
    Keep,
    Load,
    LogSum,
    Multiply,
    Operation,
    Put,
    Relative,
    Scale,
    Sum,
    Weigh,
    reads,
)


@dataclass(frozen=True)
class Tensors:
    """The identifiers of the program's tensors, and how index expressions are written."""

    plan: Plan
    identifiers: Mapping[str, str]
    scope: Scope

    @property
    def parameters(self) -> set[str]:
        """The identifiers of parameters."""
        leaves = self.plan.leaves.items()
        return {self.identifiers[name] for name, kind in leaves if kind == "parameter"}


@dataclass(frozen=True)
class Result:
    """What a block puts into the cells of its head, at a point: values, and their scale."""

    values: Memory | None
    scale: str
    depth: int


class BlockWriter:
    """Writes the operations of a block.

    `variables` are the identifiers of its axes, `spans` those of the ranges of its loops and of the
    items. The loops over `fused` axes stand around what it writes.
    """

    def __init__(
        self,
        tensors: Tensors,
        block: Block,
        variables: Mapping[str, str],
        spans: Mapping[str, str],
        names: Names,
        fused: Iterable[str] = (),
    ) -> None:
        self.tensors = tensors
        self.plan = tensors.plan
        self.block = block
        self.variables = variables
        self.scope = tensors.scope.with_variables(variables)
        self.loops = Loops(spans, variables, block.sizes, names, fused)
        # Room for intermediate results, and what is done.
        self.arrays = self.loops.arrays
        self.body = self.loops.body
        self.values: dict[str, Value] = {}
        self.scales: dict[str, Scale] = {}
        # The scales of points and of cells, once they are computed.
        self.numbers: dict[str, Memory] = {}
        self.hidden: dict[str, tuple[Mask, ...]] = {}
        self.results: list[Result] = []
        # Threads wait for each other before they add to a tensor again.
        self.waits = False
        self.given: set[str] = set()

    def write(self) -> None:
        """Write all operations; what is put is a result."""
        for op in self.block.body:
            self.visit(op)

    def visit(self, op: Operation) -> None:
        """Write one operation."""
        match op:
            case Load():
                self.load(op)
            case Multiply():
                left, right = self.values[op.left], self.values[op.right]
                self.values[op.name] = Later(op.dims, left, right)
            case Sum():
                source = self.values[op.source]
                self.values[op.name] = (
                    Later(op.dims, source.left, source.right)
                    if isinstance(source, Later)
                    else Term(op.dims, source.left, source.right)
                )
            case Hide():
                self.hide(op)
            case Scale():
                self.scales[op.name] = op
            case Greatest() | LogSum() | Weigh():
                self.over_splits(op)
            case Relative():
                self.relative(op)
            case Put():
                self.results.append(self.result(op))
            case Keep():
                self.keep(op)
            case Give():
                self.give(op)
            case Erase():
                self.clear(self.place(op.cells, "adjoint"), op.masks)
            case _:
                raise AssertionError(f"{type(op).__name__} is not part of the scaled form")

    # memory

    def place(self, cells: Operand, part: str = "") -> Memory:
        """Cells in a tensor: its values, or its `scale` or `adjoint`."""
        name = self.tensors.identifiers[cells.name]
        owner = f"{name}.{part}" if part else name
        strides, width = strides_of(() if part == "scale" else cells.axes, self.block.sizes)
        if cells.kind == "parameter":
            return Memory(owner if width else f"{owner}[0]", (), strides, width)
        used = {name for expr in cells.index for name in expr.names()}
        index = tuple(d for d in self.block.point_dims if d in used or d == BATCH)
        # Where there may be no cell, zeros are read, and what is written is lost.
        call = owner if cells.view else f"{owner}.{'spot' if part == 'adjoint' else 'find'}"

        def at(variables: Mapping[str, str]) -> str:
            scope = self.scope.with_variables(variables)
            indices = [scope.expression(expr) for expr in cells.index]
            return f"{call}({', '.join([*indices, variables[BATCH]])})"

        steps = {} if not cells.view else self.steps(owner, cells, index)
        if cells.view:
            steps[BATCH] = str(max(width, 1))
        return Memory(
            at(self.variables),
            index,
            strides,
            width,
            steps,
            affine=cells.view,
            shared=not cells.distinct or not cells.view,
            at=at,
        )

    def steps(self, owner: str, cells: Operand, index: Sequence[str]) -> dict[str, str]:
        """How far cells are apart along the loops."""
        steps = {}
        for d in index:
            moves = [
                (coefficient_of(expr, d), f"{owner}.stride[{axis}]")
                for axis, expr in enumerate(cells.index)
            ]
            terms = [stride if c == 1 else f"{c} * {stride}" for c, stride in moves if c]
            steps[d] = " + ".join(terms)
        return steps

    def load(self, op: Load) -> None:
        """Cells are read where they lie."""
        term = Term(op.dims, (self.place(op.cells, "adjoint" if op.adjoint else ""),))
        self.values[op.name] = self.loops.computed(term) if op.copy else term

    # masks

    def mask(self, masks: Sequence[Mask]) -> str:
        """The test whether masks hold."""
        tests = [self.scope.holds(mask.expr) for mask in masks if not mask.mixed]
        mixed = " && ".join(self.scope.holds(mask.expr) for mask in masks if mask.mixed)
        if mixed:
            tests.append(f"(!mixed || ({mixed}))" if "&&" in mixed else f"(!mixed || {mixed})")
        return " && ".join(tests)

    def hide(self, op: Hide) -> None:
        """A value with zeros: they are written where the value is kept or erased."""
        self.values[op.name] = self.values[op.source]
        readers = [other for other in self.block.body if op.name in reads(other)]
        erased = any(
            isinstance(other, Erase) and other.masks == op.masks for other in self.block.body
        )
        if all(isinstance(reader, Keep) for reader in readers):
            self.hidden[op.name] = op.masks
        elif not erased or not isinstance(self.block.value[op.source], Load):
            term = self.loops.computed(self.loops.term(self.values[op.source]))
            self.clear(term.left[0], op.masks)
            self.values[op.name] = term

    def clear(self, cells: Memory, masks: Sequence[Mask]) -> None:
        """Writes zeros to cells where a mask does not hold."""
        heads = [self.loops.loop(d) for d in cells.index if d not in self.loops.fused]
        zeros = f"zero<{cells.width}>({cells.text});" if cells.width else f"{cells.text} = 0;"
        only = ["if (mixed)"] if all(mask.mixed for mask in masks) else []
        fails = [
            self.scope.fails(mask.expr)
            if only or not mask.mixed
            else f"(mixed && ({self.scope.fails(mask.expr)}))"
            for mask in masks
        ]
        self.body += nested([*only, *heads, f"if ({' || '.join(fails)})"], (zeros,))

    # scales

    def scale_at(self, name: str | None) -> str:
        """The scale of a point or of a cell."""
        if name is None:
            return "0.0"
        if name in self.numbers:
            return self.numbers[name].text
        op = self.scales[name]
        parts = [self.place(cells, "scale").text for cells in op.cells]
        if op.count > 1:
            parts.append(repr(log(op.count)))
        code = " + ".join(parts) or "0.0"
        return f"{self.mask(op.masks)} ? {code} : NEGATIVE" if op.masks else code

    def over_splits(self, op: Greatest | Weigh | LogSum) -> None:
        """What is made of the scales of all points of a cell: prelude functions do it."""
        if isinstance(op, Greatest):
            return  # comes with the weights
        scale = self.scales[op.scale]
        cells = self.block.value[op.top] if isinstance(op, Weigh) else op
        outer = [d for d in cells.dims if d != BATCH and d not in self.loops.fused]
        splits = [d for d in scale.dims if d not in cells.dims]
        every = self.loops.array("e", (*splits, BATCH), "double")
        total = self.loops.array("top", cells.dims, "double")
        self.numbers[cells.name] = total
        heads = [self.loops.loop(d) for d in splits]
        heads.append(f"LOOP {self.loops.loop(BATCH)}")
        code = f"raise_to({total.text}, {every.text} = {self.scale_at(op.scale)});"
        body = list(nested(heads, (code,)))
        arguments = [self.loops.count(splits), self.loops.start(every), self.first_item(total)]
        if isinstance(op, Weigh):
            weights = self.loops.array("w", (*outer, *splits, BATCH))
            arguments.append(self.first_item(weights, splits))
            body.append(f"weigh({', '.join(arguments)});")
            self.values[op.name] = Term(op.dims, (weights,))
        else:
            body.append(f"log_sum({', '.join(arguments)});")
        self.body.append(f"{total.array}.fill(NEGATIVE);")
        self.body += nested([self.loops.loop(d) for d in outer], body)

    def first_item(self, numbers: Memory, splits: Sequence[str] = ()) -> str:
        """A pointer to the numbers of a cell's items."""
        if all(d in (*splits, BATCH) for d in numbers.index):
            return f"{numbers.array}.at"
        firsts = {d: f"{self.loops.spans[d]}.first" for d in (*splits, BATCH)}
        return f"&{numbers.at({**self.variables, **firsts})}"

    def relative(self, op: Relative) -> None:
        """What each point's scale is worth beside that of its cell."""
        dims = [d for d in self.loops.order_of(op.dims) if d not in self.loops.fused]
        weights = self.loops.array("w", dims)
        head = self.place(op.head, "scale").text
        heads = [self.loops.loop(d) for d in dims]
        if heads:
            heads[-1] = f"LOOP {heads[-1]}"
        code = f"{weights.text} = ratio({self.scale_at(op.scale)}, {head});"
        self.body += nested(heads, (code,))
        self.values[op.name] = Term(op.dims, (weights,))

    # results

    def result(self, op: Put) -> Result:
        """The values of the head's cells, before they are put."""
        scale = self.scale_at(op.scale)
        if op.value is None and self.plan.chart[op.cells.name].is_scalar and op.scale is not None:
            return Result(None, scale, op.depth)
        value: Value = Term(()) if op.value is None else self.values[op.value]
        term = self.loops.term(value)
        memory = term.left[0] if len(term.factors) == 1 and not term.summed else None
        strides, width = strides_of(op.cells.axes, self.block.sizes)
        if memory is not None and memory.width == width and dict(memory.strides) == strides:
            return Result(memory, scale, op.depth)  # it lies as the cell does
        dims = (*self.block.cell_dims, *op.cells.axes)
        target = self.loops.array("v", dims)
        if len({*op.cells.axes}) < len(op.cells.axes):
            self.body.append(f"{target.array}.fill(0);")
        self.loops.assign(target, term)
        return Result(target, scale, op.depth)

    def give(self, op: Give) -> None:
        """Add to the adjoint of cells."""
        term = self.loops.term(self.values[op.value])
        if self.waits and op.cells.name in self.given:
            self.body.append("meet();")
        self.given.add(op.cells.name)
        self.loops.assign(self.place(op.cells, "adjoint"), term, add=True)

    def keep(self, op: Keep) -> None:
        """Map each cell of a chart; its scale is kept."""
        target = self.place(op.cells)
        self.loops.assign(target, self.loops.term(self.values[op.value]))
        if op.value in self.hidden:
            self.clear(target, self.hidden[op.value])
        if op.source is not None:
            own, other = self.place(op.cells, "scale"), self.place(op.source, "scale")
            heads = [self.loops.loop(d) for d in own.index if d not in self.loops.fused]
            self.body += nested(heads, (f"{own.text} = {other.text};",))
