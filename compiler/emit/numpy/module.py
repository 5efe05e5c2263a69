"""From a plan to a NumPy module: `prepare`, `inside`, `outside`, `log_z`, `gradients`.

The passes are printed from the plan's scaled kernel and its adjoint, an operation a line. What they
are built on (`fgg.compiler.emit.numpy.prelude`) follows them, as far as they use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from textwrap import wrap

from fgg.compiler.emit.python.expressions import Scope
from fgg.compiler.emit.python.layout import fitted, indented
from fgg.compiler.emit.python.names import Names, plain
from fgg.compiler.emit.python.prelude import Definition, definitions_in, needed, used_names
from fgg.compiler.emit.simplify import passes
from fgg.compiler.plan.check_kernel import stored
from fgg.factors.maps import map_values
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.printer import print_rule
from fgg.grammar.slices import Narrow, Unfold
from fgg.inputs.clamps import path_steps
from fgg.plan import HIGH, LEVEL, LOW, Mask, Operand, Plan, Preparation, kernel
from fgg.plan.plan import Contract, Cut, Gather, Indicator, OneHot, Potential

TAKEN = "b batch cells level max min np prepare inside outside range seeds weights inputs x".split()
EXAMPLE = "    weights = {name: np.ones(shape) for name, shape in PARAMETERS.items()}"
REST = "# What follows is the same for all grammars."
PROGRAM = """\
PROGRAM = Program(
    prepare, inside, outside, LENGTHS, PARAMETERS, INPUTS, POTENTIALS, KNOWN, PRODUCTS
)
log_z = PROGRAM.log_z
gradients = PROGRAM.gradients
"""


def emit(plan: Plan) -> str:
    """The program of a plan, as a module that needs NumPy alone."""
    spec = find_spec("fgg.compiler.emit.numpy.prelude")
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    imports, first, helpers = text[text.index("from __future__") :].partition("TINY = ")
    known = definitions_in("prelude", first + helpers)
    printer = _Printer(plan, known)
    functions = [printer.prepare(), printer.inside(), printer.outside()]
    pieces = ["\n".join(fitted(lines)) for lines in functions]
    used = needed(used_names("\n".join((*pieces, PROGRAM))), known)
    head = [*printer.docstring(), "", imports.strip(), "", *fitted(printer.constants())]
    return "\n\n\n".join(["\n".join(head), *pieces, REST, *(d.text for d in used), PROGRAM])


class _Printer:
    """Writes the parts of a module."""

    def __init__(self, plan: Plan, prelude: Mapping[str, Definition]) -> None:
        self.plan, self.kernels = plan, passes(plan)
        self.sizes = dict(size_values(plan.grammar))
        self.maps: dict[str, str] = {}
        blocks = [block for item in self.kernels for block in item.blocks]
        self.names = Names({*TAKEN, *prelude, *(name for block in blocks for name in block.value)})
        scope = {LEVEL: "level"}
        for name in plan.lengths:
            for end, suffix in (("", ""), (LOW, "_lo"), (HIGH, "_hi")):
                scope[name + end] = self.names.get("length", name + end, name + suffix)
        self.scope = Scope(scope)
        # The variable of a loop is also the name of its axis.
        loops = dict.fromkeys(loop.name for block in blocks for loop in block.loops)
        self.axis = {n: self.names.get("loop", n, n.replace("@", "cell")) for n in loops}
        nodes = Names({"b", *self.axis.values()})
        self.axis |= {node: nodes.get("node", node) for block in blocks for node in block.sizes}
        self.axis[kernel.BATCH] = "b"

    def docstring(self) -> Iterator[str]:
        """What the module is, and how it is used."""
        grammar = self.plan.grammar
        yield f'"""log Z of `{plain(grammar.name)}` and its gradients, with NumPy alone.'
        for note in (*self.plan.notes, "Written by `fggc compile --emit numpy`."):
            yield from ("", *wrap(plain(note), 96))
        given = ", ".join(
            f'"{plain(x.name)}": …' for x in (*grammar.observed, *grammar.input_factors)
        )
        yield from ("", EXAMPLE, f"    log_z(weights, {{{given}}})", '"""')

    def constants(self) -> Iterator[str]:
        """What a program needs to know, and maps as lists of numbers."""
        plan, grammar = self.plan, self.plan.grammar
        shapes = {name: grammar.factor[name].domains for name in plan.parameters}
        extents = {item.name: item.shape for item in grammar.observed}
        values = {
            "LENGTHS": plan.lengths,
            "PARAMETERS": {n: [domain_size(grammar, d) for d in x] for n, x in shapes.items()},
            "INPUTS": {n: [str(e.substitute(self.sizes)) for e in x] for n, x in extents.items()},
            "POTENTIALS": [factor.name for factor in grammar.input_factors],
            "KNOWN": plan.known,
            "PRODUCTS": list(dict.fromkeys(names for names, _ in plan.products)),
        }
        yield from (f"{name} = {dumps(x, ensure_ascii=False)}" for name, x in values.items())
        for name, constant in self.maps.items():
            numbers = wrap(" ".join(map(str, map_values(grammar, name))), 96)
            yield from (f'{constant} = """', *numbers, '"""')

    def function(self, signature: str, about: str, body: Iterable[str]) -> list[str]:
        """A function, with the lengths that it speaks of."""
        lines, body = [f'"""{about}"""'], list(body)
        for name in self.plan.lengths:
            for end, method in (("", "item"), (LOW, "least"), (HIGH, "most")):
                if name + end in self.scope.used:
                    lines.append(f"{self.scope.names[name + end]} = batch.{method}({quoted(name)})")
        self.scope.used.clear()
        return [f"def {signature}:", *indented((*lines, *body))]

    # Before the charts

    def prepare(self) -> list[str]:
        """The function that makes what the charts are computed from."""
        body = ["cells: dict[str, Cells] = {}"]
        for name in map(quoted, self.plan.parameters):
            body.append(f"cells[{name}] = Cells(weights[{name}])")
        for name in (quoted(factor.name) for factor in self.plan.grammar.input_factors):
            body.append(f"cells[{name}] = Cells(np.asarray(inputs[{name}], float))")
        for item in self.plan.grammar.observed:
            kind = "tables" if item.name in self.plan.grammar.table else "tokens"
            extents = [self.scope.affine(e.substitute(self.sizes)) for e in item.shape]
            given = ", ".join((f"inputs[{quoted(item.name)}]", *extents))
            body.append(f"batch.{kind}[{quoted(item.name)}] = {kind}_of({given})")
        for step in self.plan.preparations:
            body.append(f"cells[{quoted(step.name)}] = {self.preparation(step)}")
        signature = "prepare(weights: Weights, inputs: Inputs, batch: Batch) -> dict[str, Cells]"
        about = "Return the factors, and what is computed from them before the charts."
        return self.function(signature, about, [*body, "return cells"])

    def preparation(self, step: Preparation) -> str:
        """The code of one preparation."""
        items = [f"cells[{quoted(step.source)}]"] if isinstance(step, Cut | Gather) else []
        match step:
            case Contract():
                items.append(prepared_axes(step.axes, bool(step.tables)))
                for name, axes in step.operands:
                    own = prepared_axes(axes, name in step.tables)
                    items.append(f"(cells[{quoted(name)}], {own})")
                return f"contract({', '.join(items)})"
            case Cut():
                return f"cut({items[0]}, lambda x: {cut_code(step.steps, 0)})"
            case Gather():
                for token in step.tokens:
                    code = self.tokens(token.input, token.path)
                    code = f"shifted({code}, {token.shift})" if any(token.shift) else code
                    items.append(f"({token.axis}, {code}, {token.group})")
                return f"gather({', '.join(items)})"
            case Indicator():
                return f"indicator({self.blocks(step.name)}, {step.blocks})"
            case OneHot():
                return f"one_hot({self.tokens(step.input, step.path)}, {step.size})"
            case Potential():
                return f"log_potential({', '.join(self.potential(step))})"

    def potential(self, step: Potential) -> Iterator[str]:
        """How log-potentials become weights with scales, zero outside the factor's range."""
        factor = self.plan.grammar.input_factor[step.factor]
        names = {index: self.names.get("index", index) for index in factor.indices}
        scope = self.scope.extended(names)
        exprs = [e.substitute(self.sizes) for c in factor.conditions for e in c.inequalities()]
        tests = [scope.condition(e) for e in exprs if not any(True for _ in e.lookups())]
        yield f"batch, cells[{quoted(step.source)}], {quoted(' '.join(names.values()))}"
        if tests:
            yield f"lambda {', '.join(names.values())}: [{', '.join(tests)}]"
        if step.steps:
            yield f"part=lambda x: {cut_code(step.steps, len(names) + 1)}"

    def blocks(self, name: str) -> str:
        """The blocks that a map has for values."""
        self.maps.setdefault(name, self.names.get("map", name, f"{name}_blocks".upper()))
        return f"numbers({self.maps[name]})"

    def tokens(self, name: str, path: Sequence[str]) -> str:
        """The tokens of an input, or of what a path leads to."""
        grammar, code = self.plan.grammar, f"batch.tokens[{quoted(name)}]"
        for part in path_steps(grammar, grammar.input[name].domain, path):
            if isinstance(part, str):
                code = f"mapped({code}, {self.blocks(part)})"
            else:
                code = f"part_of({code}, {part.offset}, {part.size}, {part.stride}, {part.period})"
        return code

    # Passes

    def inside(self) -> list[str]:
        """The function that fills the charts."""
        item, start, lines = self.kernels[0], self.plan.start, list[str]()
        used = {start.name, *self.stored(item), *(chart.scale_of for chart in self.plan.charts)}
        for chart in sorted(self.plan.charts, key=lambda chart: chart.scale_of != chart.family):
            ends = [
                [self.scope.bound(a.low, low=True), self.scope.bound(a.high, low=False)]
                for a in chart.axes
            ]
            code = f"batch.chart([{', '.join(f'({low}, {high})' for low, high in ends)}]"
            code += f", {chart.states}" if chart.states else ""
            code += f", {self.id(chart.scale_of)}" if chart.scale_of != chart.family else ""
            name = f"{self.id(chart.family)} = " if chart.family in used else ""
            lines.append(f"{name}cells[{quoted(chart.family)}] = {code})")
        leaves = self.named(name for name in self.stored(item) if name not in self.plan.chart)
        last = f"{self.place(start)}.scale" if start.name in self.plan.chart else "Named(-np.inf)"
        signature = "inside(cells: dict[str, Cells], batch: Batch) -> Named"
        body = [*leaves, *lines, *self.stages(item), f"return {last}"]
        return self.function(signature, "Fill the charts and return log Z of every item.", body)

    def outside(self) -> list[str]:
        """The function that passes slopes on."""
        item, start, lines = self.kernels[1], self.plan.start, list[str]()
        if start.name in self.plan.chart:
            lines += self.named(dict.fromkeys((start.name, *self.stored(item))))
            lines += [f'{self.place(start)}.give("", seeds)', *self.stages(item)]
        signature = "outside(cells: dict[str, Cells], batch: Batch, seeds: Named) -> None"
        about = "Add the derivatives of log Z, times `seeds`, to the slopes of all cells."
        return self.function(signature, about, lines)

    def stored(self, item: kernel.Kernel) -> dict[str, None]:
        """What a pass reads and writes."""
        return dict.fromkeys(c.name for b in item.blocks for op in b.body for c in stored(op))

    def named(self, names: Iterable[str]) -> list[str]:
        """The lines that give factors, tables and charts their names."""
        return [f"{self.id(name)} = cells[{quoted(name)}]" for name in names]

    def id(self, name: str) -> str:
        """The variable of a factor, a table or a chart."""
        return self.names.get("cells", name)

    def stages(self, item: kernel.Kernel) -> Iterator[str]:
        """The lines of a pass."""
        for stage in item.stages:
            lines = [x for group in stage.groups for b in group for x in self.block(b, len(group))]
            if stage.levels is None:
                yield from lines
                continue
            back = stage.levels.reverse
            low = self.scope.extreme(stage.levels.first, low=True, more=-1 if back else 0)
            high = self.scope.extreme(stage.levels.last, low=False, more=0 if back else 1)
            ends = f"{high}, {low}, -1" if back else f"{low}, {high}"
            yield from (f"for level in range({ends}):", *indented(lines))

    def block(self, block: kernel.Block, members: int) -> Iterator[str]:
        """The lines of a block; `members` is how many fill the same cells."""
        scope = self.scope.extended({loop.name: self.axis[loop.name] for loop in block.loops})
        tests, lines = [scope.condition(guard) for guard in block.guards], list[str]()
        for loop in block.loops:
            low, high = scope.bound(loop.low, low=True), scope.bound(loop.high, low=False)
            tests += [] if loop.name in block.sure else [f"{low} <= {high}"]
            name = self.axis[loop.name]
            lines.append(f"{name} = span({quoted(name)}, {low}, {high})")
        lines += [self.operation(op, scope, alone=members == 1) for op in block.body]
        rule = print_rule(self.plan.grammar, block.rule).removeprefix("rule ")
        yield from (f"# {line}" for line in wrap(plain(rule), 88, break_on_hyphens=False))
        yield from (f"if {' and '.join(tests)}:", *indented(lines)) if tests else lines

    def operation(self, op: kernel.Operation, scope: Scope, *, alone: bool) -> str:
        """The line of an operation."""
        if not isinstance(op, kernel.Effect):
            return f"{op.name} = {self.value(op, scope)}"
        place, states = self.place(op.cells, scope), self.states(op.cells)
        match op:
            case kernel.Put():
                how = "put" if op.mode == "write" and alone else "add"
                return f"{place}.{how}(batch, {states}, {op.value}, {op.scale})"
            case kernel.Keep():
                scale = "" if op.source is None else f", {self.place(op.source, scope)}.scale"
                return f"{place}.keep({states}, {op.value}{scale})"
            case kernel.Give():
                return f"{place}.give({states}, {op.value})"
            case kernel.Erase():
                return f"{place}.erase({states}{self.masks(op.masks, scope)})"

    def value(self, op: kernel.Named, scope: Scope) -> str:
        """What an operation gives."""
        axes = quoted(" ".join(self.axis[d] for d in op.dims))
        match op:
            case kernel.Load():
                slope = ".slope" if op.adjoint else ""
                return f"{self.place(op.cells, scope)}{slope}({self.states(op.cells)})"
            case kernel.Scale():
                return self.scale(op, scope)
            case kernel.Greatest():
                return f"greatest({axes}, {op.scale})"
            case kernel.LogSum():
                return f"log_sum({axes}, {op.scale})"
            case kernel.Weigh():
                return f"batch.weigh({op.scale}, {op.top})"
            case kernel.Relative():
                return f"relative({op.scale}, {self.place(op.head, scope)}.scale)"
            case kernel.Hide():
                return f"hide({op.source}{self.masks(op.masks, scope)})"
        return f"product({axes}, {', '.join(kernel.reads(op))})"

    def scale(self, op: kernel.Scale, scope: Scope) -> str:
        """The scale of each point, with all axes that it is said to have."""
        terms = [f"{self.place(cells, scope)}.scale" for cells in op.cells]
        terms += [f"np.log({op.count})"] if op.count > 1 else []
        exprs = [*(e for cells in op.cells for e in cells.index), *(mask.expr for mask in op.masks)]
        seen = {kernel.BATCH, *(name for expr in exprs for name in expr.names())}
        terms += [f"0 * {self.axis[d]}" for d in op.dims if d not in seen]
        total = " + ".join(terms) or "0.0"
        return f"where({total}{self.masks(op.masks, scope)})" if op.masks else total

    def masks(self, masks: Sequence[Mask], scope: Scope) -> str:
        """Masks as further arguments."""
        return "".join(f", {scope.condition(mask.expr)}" for mask in masks)

    def place(self, cells: Operand, scope: Scope | None = None) -> str:
        """Cells: `X[i, i + level]`."""
        index = ", ".join((scope or self.scope).affine(e) for e in cells.index) or "()"
        return f"{self.id(cells.name)}[{index}]"

    def states(self, cells: Operand) -> str:
        """The names of the state axes of cells."""
        return quoted(" ".join(self.axis[d] for d in cells.axes))


def quoted(name: str) -> str:
    """A string as Python."""
    return dumps(name, ensure_ascii=False)


def prepared_axes(axes: Sequence[str], table: bool) -> str:
    """The axes of a prepared tensor; in a table the items come after the indices."""
    rank = sum(axis.startswith("#") for axis in axes)
    names = (*axes[:rank], *("b" if table else ""), *axes[rank:])
    return quoted(" ".join(names).replace("#", "h"))


def cut_code(steps: Sequence[Narrow | Unfold], before: int) -> str:
    """A part of the array `x`, as a view; `before` axes come before those of the factor."""
    code = "x"
    for step in steps:
        axis = step.axis + before
        if isinstance(step, Narrow):
            code += f"[{':, ' * axis}{step.offset}:{step.offset + step.size}]"
        else:
            code = f"unfold({code}, {axis}, {step.sizes})"
    return code
