"""From a plan to a Python module: `prepare`, `inside`, `result`, `outside`, `log_z`.

The text is deterministic. It imports what it needs from `fgg.runtime.prelude`, or has it in it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from fgg.check.describe import equation
from fgg.compiler.emit.python.block import BlockPrinter, Program
from fgg.compiler.emit.python.expressions import Scope
from fgg.compiler.emit.python.layout import WIDTH, fitted, indented
from fgg.compiler.emit.python.names import Names, identifier
from fgg.compiler.emit.python.prelude import (
    definitions,
    import_lines,
    standalone_lines,
    used_names,
)
from fgg.compiler.emit.python.prepare import PreparePrinter
from fgg.compiler.emit.readable import (
    SHORT,
    Linked,
    belongs,
    formula_lines,
    level_name,
    plain,
    quoted,
)
from fgg.compiler.emit.simplify import passes
from fgg.factors.maps import is_map, map_values
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.printer import print_rule
from fgg.plan import HIGH, LEVEL, LOW, Chart, Contract, Gather, Indicator, OneHot, Plan
from fgg.plan.kernel import Block, Kernel, Levels, Put, Stage

LOCAL = """
    batch leaves scales values charts gradient weights inputs missing torch marks terms
    layouts prepare inside result outside log_z PASSES MAPS PARAMETERS
    scale share top slope
""".split()
"""Names that emitted functions use themselves."""


LONG_CHART = 22
"""How long the name of a chart may be before it is cut."""


@dataclass(frozen=True)
class About:
    """What the docstring of a module says besides: its cost, and the command that made it."""

    cost: str = ""
    command: str = ""
    notes: tuple[str, ...] = ()


def emit(
    plan: Plan, *, best: bool = False, standalone: bool = False, about: About | None = None
) -> str:
    """The program of a plan, as a Python module.

    With `best` its inside pass has maxima instead of sums, and there is no outside pass. A
    `standalone` module has all that it needs in it and imports torch only.
    """
    return Module(plan, best=best).linked(standalone=standalone, about=about or About()).text


def linked(plan: Plan, *, about: About | None = None) -> Linked:
    """The program of a plan, as a Python module whose lines know their rules."""
    return Module(plan, best=False).linked(standalone=False, about=about or About())


class Module:
    """Writes a module."""

    imports: Sequence[str] = ()
    preludes: tuple[str, ...] = ()
    zeros = "torch.zeros_like"

    def __init__(self, plan: Plan, *, best: bool) -> None:
        self.plan = plan
        self.best = best
        names = Names({*definitions(self.preludes), *LOCAL, *dir(builtins)})
        scope: dict[str, str] = {}
        for length in plan.lengths:
            high = names.get("length", length)
            scope |= {length + HIGH: high}
            scope[length] = names.get("own", length, f"own_{high}")
            scope[length + LOW] = names.get("least", length, f"least_{high}")
        self.names = names
        self.scope = Scope(scope)
        self.program = Program(plan, names, self.scope, best)
        for chart in plan.charts:
            self.name_chart(chart.family)
        for name in self.leaf_names():
            self.name_leaf(name)
        inside, outside = passes(plan)
        self.inside_kernel, self.outside_kernel = inside, outside

    def leaf_names(self) -> Iterator[str]:
        """All parameters and prepared tensors."""
        yield from self.plan.parameters
        yield from (step.name for step in self.plan.preparations)

    def name_chart(self, name: str) -> None:
        """Call a chart by its own name, or by the beginning of that if it is long."""
        short = name if len(name) <= LONG_CHART else "_".join(name.split("_")[:2])
        self.names.get("chart", name, short)

    def name_leaf(self, name: str) -> None:
        """Call a leaf by its own name, or by a letter if that is long."""
        if name not in self.plan.leaves or len(name) <= SHORT:
            self.names.get("leaf", name)
        else:
            self.names.letter("leaf", name)

    def linked(self, *, standalone: bool, about: About) -> Linked:
        """The whole module, and the rules of its lines."""
        code = "\n".join(fitted(self.code())) + "\n"
        used = used_names(code)
        head = list(self.docstring(about))
        if standalone:
            start = ["", *standalone_lines(used)]
        else:
            start = [""]
            if "torch" in used:
                start.append("import torch")
            start += self.imports
            start += import_lines(used, self.preludes)
        return Linked.of("\n".join([*head, *start, "", ""]) + code)

    def code(self) -> Iterator[str]:
        """Everything behind the imports."""
        yield from self.declarations()
        sections = [self.layouts(), self.prepare(), self.inside(), self.result()]
        if not self.best:
            sections += [self.outside(), self.passes(), self.log_z()]
        for section in sections:
            yield ""
            yield ""
            yield from section

    # ------------------------------------------------------------------------------- docstring

    def docstring(self, about: About) -> Iterator[str]:
        """What the module computes, as equations, and how it is used."""
        plan, grammar = self.plan, self.plan.grammar
        what = "best derivations" if self.best else "inside, outside, log Z"
        yield f'"""Inference for the grammar `{plain(grammar.name)}`: {what}.'
        yield ""
        yield "Every rule adds to the value on its left:"
        yield ""
        for rule in dict.fromkeys(step.rule for step in plan.steps):
            text = plain(equation(grammar, rule))
            lines = formula_lines(text, WIDTH, "    ", " " * 8)
            yield from belongs(rule.name, lines)
        legend = list(self.legend())
        if legend:
            yield ""
            yield "where"
            yield ""
            for line in legend:
                yield from formula_lines(line, WIDTH, "    ", " " * 8)
        for note in about.notes:
            yield ""
            yield from wrap(plain(note), WIDTH)
        if about.cost or about.command:
            yield ""
        if about.cost:
            yield from wrap(f"Cost: {plain(about.cost)}", WIDTH, subsequent_indent="    ")
        if about.command:
            yield from wrap(f"Made by: {plain(about.command)}", WIDTH, subsequent_indent="    ")
        if not self.best:
            yield ""
            yield from self.example()
        yield '"""'

    def legend(self) -> Iterator[str]:
        """What short names stand for."""
        for chart in self.plan.charts:
            if len(chart.family) > LONG_CHART:
                yield f"{self.program.chart(chart.family)} = {plain(chart.family)}"
        for step in self.plan.preparations:
            name = self.program.leaf(step.name)
            if isinstance(step, Contract) and step.name in self.plan.leaves:
                factors = " · ".join(plain(other) for other, _ in step.operands)
                yield f"{name} = {factors}"

    def example(self) -> Iterator[str]:
        """Three lines that call the module."""
        names = [item.name for item in self.plan.grammar.observed]
        inputs = ", ".join(f"{plain(quoted(name))}: {identifier(name)}" for name in names)
        yield "Example (weights are probabilities or potentials, not logarithms):"
        yield ""
        yield "    weights = {name: torch.rand(shape) for name, shape in PARAMETERS.items()}"
        call = f"log_z(weights, {{{inputs}}})  # [batch], differentiable"
        yield from wrap(call, WIDTH, initial_indent="    ", subsequent_indent=" " * 8)

    # ------------------------------------------------------------------------------ description

    def declarations(self) -> Iterator[str]:
        """The shapes of factors, and maps of values."""
        grammar = self.plan.grammar
        if self.plan.parameters:
            yield "PARAMETERS = {"
            for name in self.plan.parameters:
                shape = tuple(domain_size(grammar, d) for d in grammar.factor[name].domains)
                yield f"    {quoted(name)}: {shape!r},"
            yield "}"
        else:
            yield "PARAMETERS = {}"
        yield '"""The factors and their shapes."""'
        yield from self.maps()

    def maps(self) -> Iterator[str]:
        """The maps that anything is computed from: a block for each value."""
        used = {step.name for step in self.plan.preparations if isinstance(step, Indicator)}
        for step in self.plan.preparations:
            if isinstance(step, OneHot):
                used.update(step.path)
            elif isinstance(step, Gather):
                used.update(name for token in step.tokens for name in token.path)
        maps = [f for f in self.plan.grammar.factors if f.name in used and is_map(f)]
        if not maps:
            return
        yield ""
        yield "# fmt: off"
        yield "MAPS = {"
        for factor in maps:
            numbers = ", ".join(map(str, map_values(self.plan.grammar, factor.name)))
            yield f"    {quoted(factor.name)}: ["
            yield from wrap(numbers, 96, initial_indent=" " * 8, subsequent_indent=" " * 8)
            yield "    ],"
        yield "}"
        yield '"""The block of each value."""'
        yield "# fmt: on"

    def layouts(self) -> Iterator[str]:
        """The function that says what charts are like."""
        lines = ["return {"]
        for chart in self.plan.charts:
            lines.append(f"    {quoted(chart.family)}: {self.layout(chart)},")
        lines.append("}")
        yield "def layouts(batch):"
        yield '    """The range of each index of a chart, and the sizes of its states."""'
        yield from self.function(lines)

    def layout(self, chart: Chart) -> str:
        """What a chart is like."""
        arguments = [self.scope.range(axis) for axis in chart.axes]
        if chart.states:
            arguments.append(f"states={chart.states!r}")
        if chart.half:
            arguments.append("half=True")
        if chart.scale_of != chart.family:
            arguments.append(f"scale_of={quoted(chart.scale_of)}")
        return f"Layout({', '.join(arguments)})"

    def function(self, lines: Sequence[str]) -> Iterator[str]:
        """The body of a function, with the lengths that it uses before it."""
        used, self.scope.used = set(self.scope.used), set()
        self.scope.used.clear()
        names = self.scope.names
        for length in self.plan.lengths:
            if length + HIGH in used:
                yield f"    {names[length + HIGH]} = batch.high[{quoted(length)}]"
            if length + LOW in used:
                yield f"    {names[length + LOW]} = batch.low[{quoted(length)}]"
            if length in used:
                yield f"    {names[length]} = batch.own({quoted(length)})"
        yield from indented(lines)

    # ------------------------------------------------------------------------------------ passes

    def prepare(self) -> Iterator[str]:
        """The function that prepares the leaves."""
        plan, leaf = self.plan, self.program.leaf
        lines = [f"{leaf(name)} = weights[{quoted(name)}]" for name in plan.parameters]
        lines += PreparePrinter(self.program).body()
        parts = {
            name: leaf(name)
            for step in plan.preparations
            if isinstance(step, Contract)
            for name, _ in step.operands
            if name not in plan.leaves
        }
        if parts:
            # What is multiplied before the charts: the range certificate looks at it.
            lines += ["batch.parts = {", *(f"    {quoted(n)}: {x}," for n, x in parts.items()), "}"]
        leaves = {name: leaf(name) for name in plan.leaves}
        scales = {
            name: f"{leaf(name)}_scale"
            for name, kind in plan.leaves.items()
            if kind == "table" and plan.table[name].scaled
        }
        lines += [*_dictionary("leaves", leaves), f"return leaves, {_inline(scales)}"]
        yield "def prepare(weights, inputs, batch, missing):"
        yield '    """What is computed before the charts, once a batch."""'
        yield from self.function(lines)

    def leaf_lines(self) -> Iterator[str]:
        """The leaves by name."""
        for name, kind in self.plan.leaves.items():
            ident = self.program.leaf(name)
            if kind == "parameter":
                yield f"{ident} = leaves[{quoted(name)}]"
            else:
                rank = len(self.plan.table[name].axes)
                yield f"{ident} = table(batch, leaves, scales, {quoted(name)}, {rank})"

    def chart_names(self) -> str:
        """The charts, as a target or as arguments."""
        return ", ".join(self.program.chart(chart.family) for chart in self.plan.charts)

    def inside(self) -> Iterator[str]:
        """The function that fills the charts."""
        lines = list(self.leaf_lines())
        names = self.chart_names()
        target = f"{names}," if len(self.plan.charts) == 1 else names
        make = "best_charts" if self.best else "new_charts"
        more = ", marks" if self.best else ""
        if names:
            lines.append(f"{target} = {make}(batch, layouts(batch){more})")
        lines += self.kernel(self.inside_kernel)
        lines.append(f"return filled({names})")
        yield f"def inside(leaves, scales, batch{more}):"
        yield '    """Fill the charts."""'
        yield from self.function(lines)

    def result(self) -> Iterator[str]:
        """The function that reads log Z."""
        start = self.plan.start
        if start.name not in self.plan.chart:
            lines = ["return batch.over(NEGATIVE).to(batch.dtype)"]
        else:
            place = "".join(f", {self.scope.affine(expr)}" for expr in start.index)
            name = quoted(start.name)
            lines = [f"return read_log_z(batch, layouts(batch)[{name}], charts[{name}]{place})"]
        yield "def result(charts, batch):"
        yield '    """Read log Z of every item."""'
        yield from self.function(lines)

    def outside(self) -> Iterator[str]:
        """The function that computes derivatives."""
        plan = self.plan
        lines = list(self.leaf_lines())
        slopes = {}
        for name, kind in plan.leaves.items():
            if name in plan.constants:
                continue
            ident = self.program.leaf(name)
            slopes[name] = f"{ident}.adjoint.all"
            if kind == "parameter":
                lines.append(f"d_{ident} = {self.zeros}({ident})")
                slopes[name] = f"d_{ident}"
        names = self.chart_names()
        target = f"{names}," if len(plan.charts) == 1 else names
        if names:
            lines.append(f"{target} = old_charts(batch, layouts(batch), values, charts)")
        if plan.start.name in plan.chart:
            place = "".join(f", {self.scope.affine(expr)}" for expr in plan.start.index)
            lines.append(f"seed(batch, {self.program.chart(plan.start.name)}, gradient{place})")
        lines += self.kernel(self.outside_kernel)
        lines += _dictionary("slopes", slopes)
        lines.append(f"return batch.settled(slopes), adjoints({names})")
        yield "def outside(leaves, scales, values, charts, batch, gradient):"
        yield '    """Compute the derivatives of log Z by the leaves, and all adjoints."""'
        yield from self.function(lines)

    def turned(self) -> Iterator[str]:
        """The statements that take the transposes of matrices."""
        for matrix, name in self.program.turned.items():
            yield f"{name} = {matrix}.mT"

    def kernel(self, kernel: Kernel) -> Iterator[str]:
        """The statements of a pass, behind those that turn matrices."""
        self.program.turned.clear()
        lines: list[str] = []
        for stage in kernel.stages:
            body = list(self.stage(stage))
            before = self.program.before
            lines += [f"{name} = {code}" for code, name in before.items()]
            before.clear()
            lines += body
        yield from self.turned()
        yield from lines

    def stage(self, stage: Stage) -> Iterator[str]:
        """The statements of a stage."""
        if stage.levels is None:
            yield from self.groups(stage, depth=1)
            return
        name = self.level_name(stage)
        self.scope.names[LEVEL] = name
        body = list(self.groups(stage, depth=2))
        yield f"for {name} in batch.levels({self.level_range(stage.levels)}):"
        yield from indented(body)
        del self.scope.names[LEVEL]

    def level_range(self, levels: Levels) -> str:
        """The levels, upwards or downwards."""
        if levels.reverse:
            first = self.scope.extreme(levels.last, low=False)
            last = self.scope.extreme(levels.first, low=True, more=-1)
            return f"{first}, {last}, -1"
        first = self.scope.extreme(levels.first, low=True)
        last = self.scope.extreme(levels.last, low=False, more=1)
        return f"{first}, {last}"

    def level_name(self, stage: Stage) -> str:
        """What the level is: an index, the width of a span, or a level."""
        name, is_index = level_name(stage)
        return self.names.get("loop", name if is_index else f"@{name}", name)

    def groups(self, stage: Stage, depth: int) -> Iterator[str]:
        """The statements of all groups; neighbours with the same condition share it."""
        pieces: list[tuple[str, Sequence[_Statements]]] = []
        for group in stage.groups:
            if len(group) == 1:
                piece = self.block(group[0], depth)
                pieces.append((piece.condition, [piece]))
            else:
                pieces.append(("", [_Statements("", (), list(self.several(group, depth)))]))
        for condition, members in groupby(pieces, key=lambda piece: piece[0]):
            body = list(_in_turn(piece for _, parts in members for piece in parts))
            if condition:
                yield f"if {condition}:"
                yield from indented(body)
            else:
                yield from body

    def several(self, group: Sequence[Block], depth: int) -> Iterator[str]:
        """The statements of blocks that fill the same cells: the sum is put."""
        yield "terms = []"
        for block in group:
            piece = self.block(block, depth, terms=True)
            body = [*piece.box, *piece.body]
            if piece.condition:
                body = [f"if {piece.condition}:", *indented(body)]
            yield from belongs(block.rule.name, [*piece.comment, *body])
        put = next(op for op in group[-1].body if isinstance(op, Put))
        printer = BlockPrinter(self.program, group[-1], inline=2, terms=True)
        yield "if terms:"
        yield from indented(printer.put_terms(put))

    def block(self, block: Block, depth: int, *, terms: bool = False) -> _Statements:
        """The statements of a block: few of them if these are not too long."""
        for inline in (2, 1, 0):
            printer = BlockPrinter(self.program, block, inline=inline, terms=terms)
            condition = printer.condition()
            body = printer.body()
            box = tuple(printer.box())
            indent = 4 * (depth + bool(condition))
            if all(len(line) + indent <= WIDTH for line in (*box, *body)):
                break
        comment = tuple(self.comment(block, depth))
        return _Statements(condition, box, body, comment, block.rule.name)

    def comment(self, block: Block, depth: int) -> Iterator[str]:
        """The rule of a block."""
        rule = plain(print_rule(self.plan.grammar, block.rule)).removeprefix("rule ")
        width = WIDTH - 4 * (depth + 2)
        yield from formula_lines(rule, width, "# ", "#     ")

    # ------------------------------------------------------------------------------------- front

    def passes(self) -> Iterator[str]:
        """The functions as one value, with what the inputs are and what is multiplied."""
        plan, grammar = self.plan, self.plan.grammar
        sizes = dict(size_values(grammar))
        lengths = Scope({name: name for name in plan.lengths})
        yield "PASSES = Passes("
        yield from (f"    {name}," for name in ("prepare", "inside", "result", "outside"))
        yield f"    lengths={_tuple(plan.lengths)},"
        shapes = {
            item.name: _tuple([lengths.affine(e.substitute(sizes)) for e in item.shape])
            for item in grammar.observed
        }
        yield from indented(_argument("inputs", shapes))
        yield f"    tables={_tuple([t.name for t in grammar.tables])},"
        yield f"    complete={_tuple(plan.known)},"
        if plan.products:
            yield "    products=["
            yield from (f"        ({_tuple(names)}, {depth})," for names, depth in plan.products)
            yield "    ],"
        else:
            yield "    products=[],"
        yield from indented(_argument("stored", {n: str(a) for n, a in plan.item_axes.items()}))
        yield f"    depth={plan.greatest_depth},"
        yield ")"

    def log_z(self) -> Iterator[str]:
        """The function that users call."""
        yield "def log_z(weights, inputs, lengths=None):"
        yield '    """Compute log Z of every item, `[batch]`, differentiable in all weights.'
        yield ""
        yield "    `weights` are the factors' values (not logarithms). `inputs` are token ids"
        yield "    `[batch, ...]` (-1 is missing, -2 impossible) and log-potentials. `lengths` has"
        yield "    a list for each length; without it, all items are as long as the inputs."
        yield '    """'
        yield "    return PASSES.log_z(weights, inputs, lengths)"


@dataclass(frozen=True)
class _Statements:
    """What is written for a block: when, the statements that make its variables, the others."""

    condition: str
    box: tuple[str, ...]
    body: Sequence[str]
    comment: tuple[str, ...] = ()
    rule: str | None = None


def _in_turn(pieces: Iterable[_Statements]) -> Iterator[str]:
    """The statements of blocks one after the other; variables that are there are not made again."""
    made: tuple[str, ...] = ()
    for piece in pieces:
        lines = list(piece.comment)
        if piece.box != made:
            same = bool(made and piece.box) and piece.box[0] == made[0]
            lines += piece.box[1:] if same else piece.box
        made = piece.box
        lines += piece.body
        yield from lines if piece.rule is None else belongs(piece.rule, lines)


def _tuple(names: Iterable[str]) -> str:
    """A tuple of strings."""
    strings = list(map(quoted, names))
    return f"({strings[0]},)" if len(strings) == 1 else f"({', '.join(strings)})"


def _inline(items: dict[str, str]) -> str:
    """A dictionary in one line."""
    return "{" + ", ".join(f"{quoted(name)}: {code}" for name, code in items.items()) + "}"


def _dictionary(name: str, items: dict[str, str]) -> Iterator[str]:
    """The assignment of a dictionary, an entry a line."""
    if not items:
        yield f"{name} = {{}}"
        return
    yield f"{name} = {{"
    yield from (f"    {quoted(key)}: {code}," for key, code in items.items())
    yield "}"


def _argument(name: str, items: dict[str, str]) -> Iterator[str]:
    """A dictionary as an argument, an entry a line."""
    lines = list(_dictionary(name, items))
    yield lines[0].replace(" = ", "=", 1) if len(lines) > 1 else f"{name}={{}},"
    if len(lines) > 1:
        yield from lines[1:-1]
        yield "},"
