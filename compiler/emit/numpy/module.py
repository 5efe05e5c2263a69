"""From a plan to a NumPy module: `prepare`, `inside`, `outside`, `log_z`, `gradients`.

The passes are printed from the plan's scaled kernel and its adjoint, an operation a line. What they
are built on (`fgg.compiler.emit.numpy.prelude`) follows them, as far as they use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from textwrap import wrap

from fgg.compiler.emit.python.expressions import Scope
from fgg.compiler.emit.python.layout import fitted, indented
from fgg.compiler.emit.python.names import Names
from fgg.compiler.emit.python.prelude import definitions_in, needed, used_names
from fgg.compiler.emit.readable import Linked, belongs, formula_lines, plain, quoted
from fgg.compiler.emit.simplify import passes
from fgg.factors.maps import map_values
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.printer import print_rule
from fgg.inputs.clamps import path_steps
from fgg.plan import HIGH, LEVEL, LOW, Loop, Mask, Operand, Plan, Preparation, kernel
from fgg.plan.plan import Contract, Cut, Gather, Indicator, OneHot, Potential

TAKEN = "b batch cells level max min np prepare inside outside range seeds x".split()
CELLS = "cells: dict[str, Cells], batch: Batch"
EXAMPLE = "    weights = {name: np.ones(shape) for name, shape in PARAMETERS.items()}"
REST = "# What follows is the same for all grammars."
FRONT = """\
RUN = Program(prepare, inside, outside, LENGTHS, PARAMETERS, INPUTS, POTENTIALS, KNOWN, PRODUCTS)
log_z, gradients = RUN.log_z, RUN.gradients
"""


def emit(plan: Plan) -> str:
    """The program of a plan, as a module that needs NumPy alone."""
    return linked(plan).text


def linked(plan: Plan) -> Linked:
    """The same with lines that know their rules."""
    text = Path(__file__).with_name("prelude.py").read_text(encoding="utf-8")
    imports, first, helpers = text[text.index("from __future__") :].partition("TINY = ")
    known = definitions_in("prelude", first + helpers)
    printer = _Printer(plan, known)
    pieces = ["\n".join(fitted(f())) for f in (printer.prepare, printer.inside, printer.outside)]
    used = needed(used_names("\n".join((*pieces, FRONT))), known)
    head = "\n".join([*printer.docstring(), "", imports.strip(), "", *fitted(printer.constants())])
    return Linked.of("\n\n\n".join([head, *pieces, REST, *(item.text for item in used), FRONT]))


class _Printer:
    """Writes the parts of a module."""

    def __init__(self, plan: Plan, taken: Iterable[str]) -> None:
        self.plan, self.kernels = plan, passes(plan)
        self.sizes = dict(size_values(plan.grammar))
        self.maps: dict[str, str] = {}
        operations = [[op for block in item.blocks for op in block.body] for item in self.kernels]
        self.stored = [
            dict.fromkeys(x.name for op in ops for x in kernel.stored(op)) for ops in operations
        ]
        potentials = (p.source for p in plan.preparations if isinstance(p, Potential))
        self.potentials = list(dict.fromkeys(potentials))
        blocks = [block for item in self.kernels for block in item.blocks]
        self.names = Names({*TAKEN, *taken, *(name for block in blocks for name in block.value)})
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
        names = (*(item.name for item in grammar.observed), *self.potentials)
        given = ", ".join(f'"{plain(name)}": …' for name in names)
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
            "POTENTIALS": self.potentials,
            "KNOWN": plan.known,
            "PRODUCTS": list(dict.fromkeys(names for names, _ in plan.products)),
        }
        yield from (f"{name} = {quoted(x)}" for name, x in values.items())
        for name, constant in self.maps.items():
            numbers = wrap(" ".join(map(str, map_values(grammar, name))), 96)
            yield from (f'{constant} = """', *numbers, '"""')

    def function(self, head: str, about: str, body: list[str]) -> list[str]:
        """A function, with the lengths that it speaks of."""
        lines = [f"def {head}:", f'    """{about}"""']
        for length in self.plan.lengths:
            for end, method in (("", "item"), (LOW, "least"), (HIGH, "most")):
                if length + end in self.scope.used:
                    code = f"batch.{method}({quoted(length)})"
                    lines.append(f"    {self.scope.names[length + end]} = {code}")
        self.scope.used.clear()
        return [*lines, *indented(body)]

    def prepare(self) -> list[str]:
        """The function that makes what the charts are computed from."""
        body = []
        for item in self.plan.grammar.observed:
            kind = "tables" if item.name in self.plan.grammar.table else "tokens"
            extents = [self.scope.affine(e.substitute(self.sizes)) for e in item.shape]
            given = ", ".join((f"batch.inputs[{quoted(item.name)}]", *extents))
            body.append(f"batch.{kind}[{quoted(item.name)}] = {kind}_of({given})")
        for step in self.plan.preparations:
            body.append(f"cells[{quoted(step.name)}] = {self.preparation(step)}")
        about = "Make what the charts are computed from."
        return self.function(f"prepare({CELLS}) -> None", about, body)

    def preparation(self, step: Preparation) -> str:
        """The code of one preparation."""
        match step:
            case Contract():
                items = [f"(cells[{quoted(n)}], {quoted(' '.join(x))})" for n, x in step.operands]
                return f"contract({', '.join((quoted(' '.join(step.axes)), *items))})"
            case Cut():
                return f"cut(cells[{quoted(step.source)}], {quoted([*map(astuple, step.steps)])})"
            case Gather():
                items = [f"cells[{quoted(step.source)}]"]
                for t in step.tokens:
                    items.append(f"({t.axis}, {self.tokens(t.input, t.path, t.shift)}, {t.group})")
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
        yield from [f"lambda {', '.join(names.values())}: [{', '.join(tests)}]"] if tests else []
        yield from [f"cuts={quoted([*map(astuple, step.steps)])}"] if step.steps else []

    def blocks(self, name: str) -> str:
        """The blocks that a map has for values."""
        self.maps.setdefault(name, self.names.get("map", name, f"{name}_blocks".upper()))
        return f"np.array({self.maps[name]}.split(), int)"

    def tokens(self, name: str, path: Sequence[str], shift: Sequence[int] = ()) -> str:
        """The tokens of an input, or of what a path leads to, some positions further."""
        items = [quoted(name)]
        for x in path_steps(self.plan.grammar, self.plan.grammar.input[name].domain, path):
            part = self.blocks(x) if isinstance(x, str) else (x.offset, x.size, x.stride, x.period)
            items.append(str(part))
        items += [f"shift={shift}"] if any(shift) else []
        return f"batch.read({', '.join(items)})"

    def inside(self) -> list[str]:
        """The function that fills the charts."""
        start, used, lines = self.plan.start, self.stored[0], list[str]()
        leaves = [name for name in used if name not in self.plan.chart]
        lines += [f"{self.id(name)} = cells[{quoted(name)}]" for name in leaves]
        for chart in sorted(self.plan.charts, key=lambda chart: chart.scale_of != chart.family):
            ends = ", ".join(f"({', '.join(self.ends(axis, self.scope))})" for axis in chart.axes)
            shared = f", {self.id(chart.scale_of)}" if chart.scale_of != chart.family else ""
            made = f"batch.chart(cells, {quoted(chart.family)}, [{ends}], {chart.states}{shared})"
            lines.append(f"{self.id(chart.family)} = {made}")
        last = f"{self.place(start)}.scale" if start.name in self.plan.chart else "Named(-np.inf)"
        lines += [*self.stages(0), f"return {last}"]
        return self.function(f"inside({CELLS}) -> Named", "Fill the charts; return log Z.", lines)

    def outside(self) -> list[str]:
        """The function that passes slopes on."""
        start, lines = self.plan.start, list[str]()
        if start.name in self.plan.chart:
            names = {start.name: None, **self.stored[1]}
            lines += [f"{self.id(name)} = cells[{quoted(name)}]" for name in names]
            lines += [f'{self.place(start)}.give("", seeds)', *self.stages(1)]
        about = "Add the derivatives of log Z, times `seeds`, to the slopes of all cells."
        return self.function(f"outside({CELLS}, seeds: Named) -> None", about, lines)

    def id(self, name: str) -> str:
        """The variable of a factor, a table or a chart."""
        return self.names.get("cells", name)

    def ends(self, loop: Loop, scope: Scope) -> tuple[str, str]:
        """The ends of a loop or of an axis."""
        return scope.bound(loop.low, low=True), scope.bound(loop.high, low=False)

    def stages(self, number: int) -> Iterator[str]:
        """The lines of a pass."""
        for stage in self.kernels[number].stages:
            self.scope.used.discard(LEVEL)
            blocks = [(block, len(group)) for group in stage.groups for block in group]
            lines = [x for b, n in blocks for x in belongs(b.rule.name, self.block(b, n))]
            if stage.levels is None:
                yield from lines
                continue
            back = stage.levels.reverse
            low = self.scope.extreme(stage.levels.first, low=True, more=-1 if back else 0)
            high = self.scope.extreme(stage.levels.last, low=False, more=0 if back else 1)
            ends = f"{high}, {low}, -1" if back else f"{low}, {high}"
            name = "level" if LEVEL in self.scope.used else "_"
            yield from (f"for {name} in range({ends}):", *indented(lines))

    def block(self, block: kernel.Block, members: int) -> Iterator[str]:
        """The lines of a block; `members` is how many fill the same cells."""
        scope = self.scope.extended({loop.name: self.axis[loop.name] for loop in block.loops})
        tests, lines = [scope.condition(guard) for guard in block.guards], list[str]()
        rule = print_rule(self.plan.grammar, block.rule).removeprefix("rule ")
        yield from formula_lines(plain(rule), 90, "# ", "# ")
        for loop in block.loops:
            name, ends = self.axis[loop.name], ", ".join(self.ends(loop, scope))
            lines.append(f"{name} = span({quoted(name)}, {ends})")
            if loop.name not in block.sure:
                yield lines.pop()
                tests.append(f"{name}.array.size")
        lines += [self.operation(op, scope, alone=members == 1) for op in block.body]
        yield from (f"if {' and '.join(tests)}:", *indented(lines)) if tests else lines

    def operation(self, op: kernel.Operation, scope: Scope, *, alone: bool) -> str:
        """The line of an operation."""
        match op:
            case kernel.Put():
                how = ".put" if op.mode == "write" and alone else ".add"
                return f"{self.place(op.cells, scope, how)}, batch, {op.value}, {op.scale})"
            case kernel.Keep():
                scale = "" if op.source is None else f", {self.place(op.source, scope)}.scale"
                return f"{self.place(op.cells, scope, '.keep')}, {op.value}{scale})"
            case kernel.Give():
                return f"{self.place(op.cells, scope, '.give')}, {op.value})"
            case kernel.Erase():
                return f"{self.place(op.cells, scope, '.erase')}{self.masks(op.masks, scope)})"
        return f"{op.name} = {self.value(op, scope)}"

    def value(self, op: kernel.Named, scope: Scope) -> str:
        """What an operation gives."""
        axes = quoted(" ".join(self.axis[d] for d in op.dims))
        match op:
            case kernel.Load():
                return f"{self.place(op.cells, scope, '.slope' if op.adjoint else '')})"
            case kernel.Scale():
                return self.scale(op, scope)
            case kernel.Greatest() | kernel.LogSum():
                how = "greatest" if isinstance(op, kernel.Greatest) else "log_sum"
                return f"{how}({axes}, {op.scale})"
            case kernel.Weigh():
                return f"batch.weigh({op.scale}, {op.top})"
            case kernel.Relative():
                return f"relative({op.scale}, {self.place(op.head, scope)}.scale)"
            case kernel.Hide():
                return f"where({op.source}, 0.0{self.masks(op.masks, scope)})"
        return f"product({axes}, {', '.join(kernel.reads(op))})"

    def scale(self, op: kernel.Scale, scope: Scope) -> str:
        """The scale of each point, with all axes that it is said to have."""
        terms = [f"{self.place(cells, scope)}.scale" for cells in op.cells]
        terms += [f"np.log({op.count})"] if op.count > 1 else []
        exprs = [*(e for cells in op.cells for e in cells.index), *(mask.expr for mask in op.masks)]
        seen = {kernel.BATCH, *(name for expr in exprs for name in expr.names())}
        terms += [f"0 * {self.axis[d]}" for d in op.dims if d not in seen]
        total = " + ".join(terms) or "0.0"
        plain = op.cells and not op.masks
        return total if plain else f"where({total}, -np.inf{self.masks(op.masks, scope)})"

    def masks(self, masks: Sequence[Mask], scope: Scope) -> str:
        """Masks as further arguments."""
        return "".join(f", {scope.condition(mask.expr)}" for mask in masks)

    def place(self, cells: Operand, scope: Scope | None = None, method: str | None = None) -> str:
        """Cells, `X[i, i + level]`, and the beginning of what is done to them."""
        index = ", ".join((scope or self.scope).affine(e) for e in cells.index) or "()"
        states = quoted(" ".join(self.axis[d] for d in cells.axes)) if method is not None else ""
        return f"{self.id(cells.name)}[{index}]" + (f"{method}({states}" if states else "")
