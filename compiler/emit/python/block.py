"""The operations of a block as Python statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log

from fgg.compiler.emit.python.expressions import Scope
from fgg.compiler.emit.python.names import Names
from fgg.compiler.emit.python.products import (
    Product,
    Value,
    aligned,
    atomic,
    axes_code,
    best_product,
    product,
)
from fgg.grammar.index import Expr
from fgg.plan import Loop, Mask, Operand, Plan
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
)
from fgg.plan.kernelise import once

INDENT = "    "


@dataclass
class Program:
    """What the printers of all blocks share: names, and what has to stand before the loops."""

    plan: Plan
    names: Names
    scope: Scope
    best: bool = False
    # Lines before a level loop: what is known for all levels at once.
    before: dict[str, str] = field(default_factory=dict)
    # Matrices that are turned once, before everything else.
    turned: dict[str, str] = field(default_factory=dict)

    def chart(self, name: str) -> str:
        """The identifier of a chart."""
        return self.names.get("chart", name)

    def leaf(self, name: str) -> str:
        """The identifier of a parameter or a table: its own name, or a letter if that is long."""
        return self.names.get("leaf", name)


class BlockPrinter:
    """Writes the operations of one block.

    What is used once is written where it is used: everything with `inline` 2, what is read with 1,
    nothing with 0. What is used several times gets a name.
    """

    def __init__(self, program: Program, block: Block, *, inline: int, terms: bool) -> None:
        self.program = program
        self.plan = program.plan
        self.block = block
        self.inline = inline
        # Whether what is put is kept, to be added to what other blocks put.
        self.terms = terms
        self.forms = self.rule_variables()
        self.variables = {loop.name: self.variable(loop.name) for loop in block.loops}
        names = {f"={name}": program.names.get("loop", name) for name in self.forms}
        self.scope = program.scope.extended({**self.variables, **names}, self.forms)
        self.values: dict[str, Value] = {}
        self.products: dict[str, Product] = {}
        self.lines: list[str] = []
        self.guarded = False
        self.numbers: dict[str, int] = {}

    def rule_variables(self) -> dict[str, Expr]:
        """The rule's variables that are sums: `j` is `i + width`, `k` is `i + dk`."""
        loops = {loop.name for loop in self.block.loops}
        return {
            name: expr
            for name, expr in self.block.variables.items()
            if len([m for m, _ in expr.terms if m]) > 1
            and all(len(m) < 2 and isinstance(m[0], str) for m, _ in expr.terms if m)
            and any(m and m[0] in loops for m, _ in expr.terms)
            and name not in loops
        }

    def variable(self, name: str) -> str:
        """The identifier of a loop variable, which may be the distance of a rule's variable."""
        stem = name.rstrip("'")
        if stem in self.forms:
            stem = f"d{stem}"
        elif stem != name and any(loop.name == stem for loop in self.block.loops):
            stem += "_2"
        return self.program.names.get("loop", stem)

    # the box

    def condition(self) -> str:
        """When the block does anything; empty if always."""
        tests = [self.scope.condition(guard) for guard in self.block.guards]
        for loop in self.block.loops:
            if loop.name not in self.block.sure and not self.is_all:
                tests.append(f"len({self.scope.range(loop)}) > 0")
        return " and ".join(tests)

    @property
    def is_all(self) -> bool:
        """Whether the block maps all cells of a chart at once."""
        return any(loop.name.startswith("@") for loop in self.block.positions)

    def box(self) -> list[str]:
        """The statement that makes the loop variables."""
        loops: Sequence[Loop] = () if self.is_all else self.block.loops
        if not loops:
            return []
        names = ", ".join(self.variables[loop.name] for loop in loops)
        ranges = ", ".join(map(self.scope.range, loops))
        lines = [f"{names} = {'loop' if len(loops) == 1 else 'loops'}({ranges})"]
        used = [name for name in self.forms if name in self.scope.renamed]
        if used:
            plain = self.program.scope.extended(self.variables)
            forms = ", ".join(plain.affine(self.forms[name]) for name in used)
            lines.append(f"{', '.join(self.scope.names[f'={n}'] for n in used)} = {forms}")
        return lines

    def body(self) -> list[str]:
        """The statements of the block."""
        ops = list(self.block.body)
        if self.block.sparse:
            # Whether there is anything to do is known from the scales.
            ops.sort(key=lambda op: not isinstance(op, Scale))
        for op in ops:
            self.visit(op)
        return self.lines

    # statements

    def say(self, line: str) -> None:
        """Append a statement."""
        self.lines.append(INDENT + line if self.guarded else line)

    def named(self, name: str, value: Value, stem: str) -> None:
        """Give a value a name of its own."""
        number = self.numbers[stem] = self.numbers.get(stem, 0) + 1
        code = stem if number == 1 and stem not in ("x", "y") else f"{stem}{number}"
        self.say(f"{code} = {value.code}")
        self.values[name] = Value(code, value.dims, value.fresh)

    def keep(self, op: Operation, value: Value, stem: str, *, simple: bool = True) -> None:
        """Remember a value: as it is if it is used once, else under a name."""
        assert not isinstance(op, Put | Keep | Give | Erase)
        least = 1 if isinstance(op, Load | Scale | Hide) else 2
        single = self.block.uses(op.name) == 1
        value = Value(value.code, value.dims, value.fresh and single)
        if simple and single and (self.inline >= least or self.is_fused(op.name)):
            self.values[op.name] = value
        else:
            self.named(op.name, value, stem)

    def is_fused(self, name: str) -> bool:
        """Whether a product is computed by the operation that it is added with."""
        made = self.products.get(name)
        if made is None or made.kind not in ("multiply", "matmul", "outer"):
            return False
        for op in self.block.body:
            if isinstance(op, Keep) and op.value == name:
                return self.is_written_in_place(op)
            if (
                isinstance(op, Give)
                and op.value == name
                and len(set(op.cells.axes)) == len(op.cells.axes)
            ):
                if op.cells.kind == "parameter":
                    return self.is_added_matrix(made, op)
                in_place = op.cells.view and op.cells.distinct and bool(op.cells.index)
                return made.kind == "multiply" and in_place and not self.is_all
        return False

    def is_written_in_place(self, op: Keep) -> bool:
        """Whether a product of a row with a matrix is computed in the head's own cell."""
        made = self.products.get(op.value)
        matrix = made is not None and made.kind == "matmul" and self.block.uses(op.value) == 1
        single = op.source is None and not self.block.loops and not self.program.best
        return matrix and single and len(set(op.cells.axes)) == len(op.cells.axes)

    def is_added_matrix(self, made: Product, op: Give) -> bool:
        """Whether a product of matrices has the shape of the parameter that it is added to."""
        dims = self.block.value[op.value].dims
        return made.kind != "multiply" and len(dims) == 2 and dims == op.cells.axes

    def visit(self, op: Operation) -> None:
        """Write one operation."""
        match op:
            case Load():
                self.load(op)
            case Scale():
                self.scale(op)
            case Greatest():
                pass  # written with the weights
            case Weigh():
                self.weigh(op)
            case LogSum():
                self.log_sum(op)
            case Relative():
                self.relative(op)
            case Multiply():
                self.multiply(op)
            case Sum():
                self.keep(op, self.summed(self.values[op.source], op.dims), "y")
            case Hide():
                source = self.values[op.source]
                states = sum(d not in self.block.point_dims for d in source.dims)
                mask = self.mask(op.masks, mixed=True)
                code = f"hide({source.code}, {mask}, 0.0, {states})"
                self.keep(op, Value(code, source.dims), "y")
            case Put():
                self.put(op)
            case Keep():
                self.keep_cells(op)
            case Give():
                self.give(op)
            case Erase():
                place = self.place(op.cells)
                chart = self.program.chart(op.cells.name)
                self.say(f"{chart}.erase({place}, {self.mask(op.masks, mixed=True)})")
            case _:
                raise AssertionError(op)

    # cells

    def store(self, cells: Operand) -> str:
        """The identifier of a chart or a leaf."""
        program = self.program
        return program.chart(cells.name) if cells.kind == "chart" else program.leaf(cells.name)

    def place(self, cells: Operand) -> str:
        """The indices of cells as one argument."""
        index = [self.scope.affine(expr) for expr in cells.index]
        return index[0] if len(index) == 1 else f"({', '.join(index)})"

    def at(self, cells: Operand, store: str, zero: str = "") -> str:
        """Cells of a tensor that is read by its indices."""
        if not cells.index or self.is_all:
            return f"{store}.all"
        index = ", ".join(self.scope.affine(expr) for expr in cells.index)
        return f"{store}[{index}]" if cells.view else f"{store}.gather({index}{zero})"

    def index_dims(self, cells: Operand) -> tuple[str, ...]:
        """The axes of cells before their states."""
        if cells.kind == "parameter":
            return ()
        used = {name for expr in cells.index for name in expr.names()}
        return tuple(d for d in self.block.point_dims if d in used or d == BATCH)

    def load(self, op: Load) -> None:
        """Read cells, or a parameter."""
        cells, store = op.cells, self.store(op.cells)
        if cells.kind == "parameter":
            self.values[op.name] = self.diagonal(store, cells.axes)
            return
        if op.adjoint:
            code = self.at(cells, f"{store}.adjoint")
        elif cells.kind == "chart" and (self.is_all or not cells.index):
            code = f"{store}.all"
        else:
            code = self.at(cells, store)
        value = self.diagonal(code, (*self.index_dims(cells), *cells.axes))
        code = value.code
        if op.copy:
            code += ".clone()"
        elif op.adjoint and self.is_mapped(op):
            # Two matrix products read it: both want the cells next to each other.
            code += ".contiguous()"
        stem = "slope" if op.adjoint else "x"
        self.keep(op, Value(code, value.dims), stem, simple=not op.copy)

    def is_mapped(self, op: Load) -> bool:
        """Whether a block maps cells one by one, each by a matrix."""
        mapped = not any(isinstance(other, Relative) for other in self.block.body)
        return mapped and bool(self.block.loops) and not self.is_all and bool(op.cells.axes)

    def diagonal(self, code: str, dims: Sequence[str]) -> Value:
        """A value with each axis once: where a node occurs twice, the diagonal."""
        names = list(dims)
        while len(set(names)) < len(names):
            name = next(d for i, d in enumerate(names) if d in names[i + 1 :])
            first = names.index(name)
            second = names.index(name, first + 1)
            code = f"{code}.diagonal(0, {first}, {second})"
            names = [d for i, d in enumerate(names) if i not in (first, second)] + [name]
        return Value(code, tuple(names))

    # scales

    def scale(self, op: Scale) -> None:
        """The scale of each point."""
        parts = []
        dims = op.dims
        loops = [d for d in dims if d != BATCH]
        shapes = []
        for cells in op.cells:
            value = Value(
                self.at(cells, f"{self.store(cells)}.scale", ", zero=NEGATIVE"),
                self.index_dims(cells),
            )
            shapes.append(value.dims)
            parts.append(aligned(value, dims))
        if op.count > 1 and not self.program.best:
            parts.append(repr(log(op.count)))
        code = " + ".join(parts) or "0.0"
        if op.masks or (not op.cells and dims):
            if dims not in shapes:
                names = "".join(f", {self.variables[d]}" for d in loops)
                code = f"batch.over({code}{names})"
            for mixed in (False, True):
                masks = [mask for mask in op.masks if mask.mixed == mixed]
                if masks:
                    code = f"hide({code}, {self.mask(masks, mixed=mixed)}, NEGATIVE)"
        elif not op.cells:
            code = f"batch.over({code})"
        if self.block.sparse and not self.guarded:
            self.named(op.name, Value(code, dims), "scale")
            self.say(f"if alive({self.values[op.name].code}):")
            self.guarded = True
        else:
            self.keep(op, Value(code, dims), "scale")

    def mask(self, masks: Sequence[Mask], *, mixed: bool) -> str:
        """Where masks do not hold."""
        tests = ", ".join(self.scope.condition(mask.expr) for mask in masks)
        first = "batch.mixed and " if mixed else ""
        return f"{first}batch.fails({len(self.block.loops)}, {tests})"

    def weigh(self, op: Weigh) -> None:
        """What each point's scale is worth beside the greatest, and that one."""
        scale = self.values[op.scale]
        top = self.block.value[op.top]
        axes = [i for i, d in enumerate(op.dims) if d not in top.dims]
        number = self.numbers["share"] = self.numbers.get("share", 0) + 1
        ending = "" if number == 1 else str(number)
        self.say(f"share{ending}, top{ending} = shares(batch, {scale.code}, {axes_code(axes)})")
        self.values[op.name] = Value(f"share{ending}", op.dims)
        self.values[op.top] = Value(f"top{ending}", top.dims)

    def log_sum(self, op: LogSum) -> None:
        """The logarithm of a sum of exponentials, or the greatest."""
        scale = self.values[op.scale]
        axes = axes_code([i for i, d in enumerate(scale.dims) if d not in op.dims])
        code = f"torch.logsumexp({scale.code}, {axes})"
        if self.program.best:
            code = f"{atomic(scale.code)}.amax({axes})"
        self.keep(op, Value(code, op.dims), "scale")

    def relative(self, op: Relative) -> None:
        """What each point's scale is worth beside that of the head's cell."""
        chain = self.chain(op)
        if chain is not None:
            self.keep(op, Value(chain, op.dims), "share")
            return
        store = self.program.chart(self.plan.chart[op.head.name].scale_of)
        head = Value(self.at(op.head, f"{store}.inverse"), self.block.cell_dims)
        scale = "None"
        if op.scale is not None:
            scale = aligned(self.values[op.scale], op.dims)
        code = f"ratio({scale}, {aligned(head, op.dims)}, batch.dtype)"
        self.keep(op, Value(code, op.dims), "share", simple=False)

    def chain(self, op: Relative) -> str | None:
        """The weight from those of all cells of a chain, if the block is one of its links.

        All scales are known before the outside pass begins: so the weights of all levels are
        computed at once, before the loop, and a level takes its own.
        """
        scale = None if op.scale is None else self.block.value[op.scale]
        if self.block.loops or not isinstance(scale, Scale) or scale.masks or scale.count > 1:
            return None
        if len(scale.cells) != 1 or len(op.head.index) != 1:
            return None
        (cells,) = scale.cells
        if not cells.view or len(cells.index) != 1 or op.head.index[0].constant is not None:
            return None
        shift = (cells.index[0] - op.head.index[0]).constant
        if shift is None:
            return None
        store, head = self.store(cells), self.program.chart(op.head.name)
        code = f"ratios({store}.scale, {head}.inverse, {shift})"
        before = self.program.before
        if code not in before:
            before[code] = self.program.names.fresh(f"{head}_shares")
        return f"{before[code]}[{self.scope.affine(op.head.index[0])}]"

    # products

    def multiply(self, op: Multiply) -> None:
        """A product, summed to the axes of its result."""
        left, right = self.values[op.left], self.values[op.right]
        make = best_product if self.program.best else product
        made = self.turned(make(left, right, op.dims))
        self.products[op.name] = made
        self.keep(op, Value(made.code, op.dims, fresh=True), "y")

    def turned(self, made: Product) -> Product:
        """A product with a matrix whose transpose has a name: it is taken once."""
        matrix = made.right.removesuffix(".mT")
        parameters = {
            self.program.leaf(name)
            for name, kind in self.plan.leaves.items()
            if kind == "parameter"
        }
        if made.kind != "matmul" or matrix == made.right or matrix not in parameters:
            return made
        names = self.program.turned
        if matrix not in names:
            names[matrix] = self.program.names.get("turned", matrix, f"{matrix}_T")
        code = made.code.replace(f"{matrix}.mT", names[matrix])
        return replace(made, right=names[matrix], code=code)

    def summed(self, value: Value, dims: Sequence[str]) -> Value:
        """A value summed to some of its axes."""
        axes = axes_code([i for i, d in enumerate(value.dims) if d not in dims])
        how = "amax" if self.program.best else "sum"
        return Value(f"{atomic(value.code)}.{how}({axes})", tuple(dims), fresh=True)

    # effects

    def fitted(self, value: Value, axes: Sequence[str]) -> str:
        """A value over all cells and places of the head's edge, in their order."""
        nodes = tuple(dict.fromkeys(axes))
        code = aligned(value, (*self.block.cell_dims, *nodes))
        if len(nodes) == len(axes):
            return code
        order = tuple(nodes.index(axis) for axis in axes)
        sizes = tuple(self.block.sizes[node] for node in nodes)
        return f"undiagonal({code}, {len(self.block.cell_dims)}, {order}, {sizes})"

    def put(self, op: Put) -> None:
        """Fill the head's cells."""
        chart = self.plan.chart[op.cells.name]
        store = self.program.chart(op.cells.name)
        place = self.place(op.cells)
        scale = "None"
        if op.scale is not None:
            scale = aligned(self.values[op.scale], self.block.cell_dims)
        if chart.is_scalar:
            self.put_scalar(op, store, place, scale)
            return
        one = Value("batch.one()", ())
        value = self.fitted(one if op.value is None else self.values[op.value], op.cells.axes)
        if self.terms:
            self.say(f"terms.append(({value}, {scale}, {op.depth}))")
            return
        method = {"write": "put", "add": "put_more", "mixed": "put_mixed"}[op.mode]
        more = "" if scale == "None" else f", {scale}"
        more += f", depth={op.depth}" if op.depth else ""
        self.say(f"{store}.{method}({place}, {value}{more})")

    def put_scalar(self, op: Put, store: str, place: str, scale: str) -> None:
        """Fill cells that are scales alone."""
        if op.value is not None:
            value = aligned(self.values[op.value], self.block.cell_dims)
            more = f", depth={op.depth}" if op.depth else ""
            scale = f"{store}.log_of({place}, {value}, {scale}{more})"
        elif scale == "None":
            loops = "".join(f", {self.variables[d]}" for d in self.block.cell_dims[:-1])
            scale = f"batch.over(0.0{loops})"
        if self.terms:
            self.say(f"terms.append({scale})")
            return
        start = "torch.logsumexp("
        whole = op.scale is not None and self.values[op.scale].dims == self.block.cell_dims
        if op.mode == "write" and whole and scale.startswith(start) and op.cells.index:
            # What would only be copied to its place is computed there.
            self.say(f"{scale[:-1]}, out={self.at(op.cells, f'{store}.scale')})")
            return
        method = {"write": "put_scale", "add": "put_scale_more", "mixed": "put_scale_mixed"}
        self.say(f"{store}.{method[op.mode]}({place}, {scale})")

    def put_terms(self, op: Put) -> list[str]:
        """The statement that adds the terms of a group and puts the sum."""
        scalar = self.plan.chart[op.cells.name].is_scalar
        store, place = self.program.chart(op.cells.name), self.place(op.cells)
        method = "put_scale" if scalar else "put"
        ending = {"write": "", "add": "_more", "mixed": "_mixed"}[op.mode]
        mode = f', "{method}{ending}"' if ending else ""
        return [f"{store}.{method}_terms({place}, terms{mode})"]

    def keep_cells(self, op: Keep) -> None:
        """Write cells with the scales of what they are mapped from."""
        store, place = self.program.chart(op.cells.name), self.place(op.cells)
        if self.is_written_in_place(op):
            made = self.products[op.value]
            self.say(f"torch.matmul({made.left}, {made.right}, out={store}[{place}])")
            return
        code = self.fitted(self.values[op.value], op.cells.axes)
        scale = ""
        if op.source is not None:
            scale = f", {self.at(op.source, f'{self.store(op.source)}.scale')}"
        self.say(f"{store}.keep({place}, {code}{scale})")

    def give(self, op: Give) -> None:
        """Add to the adjoint of an operand."""
        cells, value = op.cells, self.values[op.value]
        store = self.store(cells)
        fused = self.block.uses(op.value) == 1 and self.is_fused(op.value)
        made = self.products[op.value] if fused else None
        if cells.kind == "parameter":
            if made is not None:
                self.say(f"d_{store}.addmm_({made.left}, {made.right})")
                return
            self.add_to(self.diagonal(f"d_{store}", cells.axes), value)
            return
        dims = once((*self.index_dims(cells), *cells.axes))
        repeated = len(set(cells.axes)) < len(cells.axes)
        if (cells.view and cells.distinct) or self.is_all:
            if repeated or not cells.index or self.is_all:
                code = self.at(cells, f"{store}.adjoint")
                target = self.diagonal(code, (*self.index_dims(cells), *cells.axes))
                self.add_to(target, value)
            elif made is not None:
                left, right = self.sides(op.value, dims)
                self.say(f"{store}.adjoint.addcmul({self.place(cells)}, {left}, {right})")
            else:
                self.say(f"{store}.adjoint.add({self.place(cells)}, {aligned(value, dims)})")
            return
        if repeated:
            nodes = tuple(dict.fromkeys(cells.axes))
            index_dims = self.index_dims(cells)
            order = tuple(nodes.index(axis) for axis in cells.axes)
            sizes = tuple(self.block.sizes[node] for node in nodes)
            code = aligned(value, (*index_dims, *nodes))
            code = f"undiagonal({code}, {len(index_dims)}, {order}, {sizes})"
        else:
            code = aligned(value, dims)
        place = ", ".join(self.scope.affine(expr) for expr in cells.index)
        place = f"({place}{',' if len(cells.index) == 1 else ''})"
        self.say(f"{store}.adjoint.scatter({place}, {code})")

    def sides(self, name: str, dims: Sequence[str]) -> tuple[str, str]:
        """The two sides of a product over the axes of what it is added to."""
        op = self.block.value[name]
        assert isinstance(op, Multiply)
        left, right = self.values[op.left], self.values[op.right]
        return aligned(left, dims), aligned(right, dims)

    def add_to(self, target: Value, value: Value) -> None:
        """Add to a tensor in place."""
        self.say(f"{target.code}.add_({aligned(value, target.dims)})")
