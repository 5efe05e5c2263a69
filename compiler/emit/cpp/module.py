"""From a plan to C++: the kernels of its two passes as functions over tensors handed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

from fgg.check.describe import equation
from fgg.compiler.emit.cpp.block import Tensors
from fgg.compiler.emit.cpp.layout import INDENT, comment
from fgg.compiler.emit.cpp.loops import MANY
from fgg.compiler.emit.cpp.names import Names, Scope, identifier_like
from fgg.compiler.emit.cpp.prepare import PrepareWriter
from fgg.compiler.emit.cpp.step import StepWriter, roughly, work_of
from fgg.compiler.emit.readable import LETTERS, SHORT, Linked, belongs, level_name, plain
from fgg.compiler.emit.simplify import passes
from fgg.plan import HIGH, LOW, Contract, Plan
from fgg.plan.cpp_source import Argument, Native, told_charts
from fgg.plan.kernel import BATCH, Block, Effect, Give, Kernel, Stage

FOLDER = Path(__file__).parent
"""Where `prelude.hpp` is, which every program includes."""

TITLE = """\
// Inside and outside passes for the grammar {name}, for numbers of the type T:
//
//   c++ -std=c++17 -O2 -march=native -fopenmp-simd -fPIC -shared -DT=float -I PRELUDE program.cpp
//
// where PRELUDE is the folder of prelude.hpp. Every rule adds to the value on its left:
//"""


def native(plan: Plan) -> Native:
    """The program of a plan in C++; `T`, the type of its numbers, is given to the compiler."""
    return linked(plan)[0]


def linked(plan: Plan) -> tuple[Native, Linked]:
    """The same, and its text with lines that know their rules."""
    program = _Program(plan)
    prelude = (FOLDER / "prelude.hpp").read_text(encoding="utf-8")
    source = Linked.of("\n".join(program.lines()) + "\n")
    preparing = program.preparing
    sources = tuple(preparing.arguments)
    made = Native(source.text, prelude, tuple(program.arguments), sources, preparing.made)
    return made, source


class _Program:
    """Writes the tensors of a program and its two passes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = Names()
        self.arguments: list[Argument] = []
        tables = {t.name: self.names.get(("table", t.name), t.name) for t in plan.grammar.tables}
        variables = {BATCH: "b"}
        lengths = {name: self.names.get(("length", name), name) for name in plan.lengths}
        for length, name in lengths.items():
            variables |= {length + LOW: f"{name}.least", length + HIGH: f"{name}.most"}
        families = [chart.family for chart in plan.charts]
        identifiers = {name: self.names.get(("tensor", name), name) for name in families}
        for name in plan.leaves:
            letters = LETTERS if len(name) > SHORT else ()
            identifiers[name] = self.names.get(("tensor", name), *letters, name)
        self.tensors = Tensors(plan, identifiers, Scope(variables, lengths, tables))
        self.preparing = PrepareWriter(self.tensors, self.names)

    def lines(self) -> Iterator[str]:
        """The whole text."""
        inside, outside = passes(self.plan)
        yield TITLE.format(name=plain(self.plan.grammar.name))
        for rule in self.plan.grammar.rules:
            lines = comment(plain(equation(self.plan.grammar, rule)), 0, INDENT)
            yield from belongs(rule.name, lines)
        yield from self.legend()
        yield '#include "prelude.hpp"'
        yield ""
        yield from self.preparing.lines()
        yield from self.tensor_lines()
        yield from self.pass_lines(inside, "Inside")
        yield from self.pass_lines(outside, "Outside")
        for name in ("prepare", "inside", "outside", "through"):
            yield (
                f'extern "C" I {name}(const I* numbers, void* const* pointers, const Host* host) {{'
            )
            yield f"{INDENT}return call<{name.capitalize()}>(numbers, pointers, host);"
            yield "}"

    def legend(self) -> Iterator[str]:
        """What the tensors are whose names were too long."""
        names = {n: x for n, x in self.tensors.identifiers.items() if n in self.plan.leaves}
        steps = {step.name: step for step in self.plan.preparations if isinstance(step, Contract)}
        lines: list[str] = []
        for name, identifier in names.items():
            if len(name) > SHORT:
                step = steps.get(name)
                parts = [part for part, _ in step.operands] if step is not None else [name]
                lines += comment(plain(f"{identifier} = {' · '.join(parts)}"), 0, INDENT)
        if lines:
            yield from ("//", "// where", "//", *lines)

    # tensors

    def tensor_lines(self) -> Iterator[str]:
        """The tensors that a call takes, in order."""
        yield "struct Tensors : Pass {"
        yield f"{INDENT}using Pass::Pass;"
        for kind, name, declaration in self.declarations():
            yield f"{INDENT}const {declaration};"
            rank = 0
            if kind == "chart":
                rank = len(self.plan.chart[name].axes)
            elif kind == "table":
                rank = len(self.plan.table[name].axes)
            elif kind == "lookup":
                rank = next(len(t.shape) for t in self.plan.grammar.tables if t.name == name)
            self.arguments.append(Argument(kind, name, rank))
        yield f"{INDENT}const T* const seed = static_cast<const T*>(*pointers++);"
        yield "};"
        yield ""

    def declarations(self) -> Iterator[tuple[str, str, str]]:
        """The kind and the name of each tensor, and its declaration."""
        names = self.tensors.identifiers
        scope = self.tensors.scope
        for length, name in scope.lengths.items():
            yield "length", length, f"Length {name}{{*this}}"
        for table in self.plan.grammar.tables:
            name = scope.tables[table.name]
            yield "lookup", table.name, f"Lookup<{len(table.shape)}> {name}{{*this}}"
        for chart in self.plan.charts:
            width = prod(chart.states) if chart.states else 0
            first = [scope.bound(axis.low, low=True) for axis in chart.axes]
            yield (
                "chart",
                chart.family,
                f"Chart<{len(chart.axes)}, {width}> {names[chart.family]}"
                f"{{{', '.join(['*this', *first])}}}",
            )
        for leaf, kind in self.plan.leaves.items():
            if kind == "table":
                table_ = self.plan.table[leaf]
                width = prod(table_.states) if table_.states else 0
                text = f"Table<{len(table_.axes)}, {width}> {names[leaf]}{{*this}}"
            else:
                text = f"Parameter<{self.parameter_size(leaf)}> {names[leaf]}{{*this}}"
            yield kind, leaf, text

    def parameter_size(self, name: str) -> int:
        """How many weights a parameter has."""
        for block in passes(self.plan)[0].blocks:
            for operand in block.operands:
                if operand.name == name:
                    return prod(block.sizes[axis] for axis in operand.axes)
        raise AssertionError(name)

    # passes

    def pass_lines(self, kernel: Kernel, name: str) -> Iterator[str]:
        """A pass: a function for each step, and one that runs them."""
        names = Names(self.names)
        run: list[str] = []
        functions: list[str] = []
        shared = whole = 0.0
        if kernel.outside:
            run += self.seed()
        for stage in kernel.stages:
            calls = []
            level = self.level_name(stage)
            for group in stage.groups:
                rules = "_".join(dict.fromkeys(block.rule.name for block in group))
                others = (f"{rules}_rule", f"{rules}_weights")
                title = names.get(object(), rules, *others[gives_weights(group) :])
                step = StepWriter(self.tensors, group, title, names, level=level)
                functions += ["", *step.lines()]
                calls.append(f"{title}({level});")
                work = sum(roughly(work_of(block)) for block in group)
                work *= MANY if level else 1
                whole += work
                shared += work if step.sharing is not None else 0
            run += self.stage(stage, level, calls)
        if not kernel.outside:
            for number, chart in enumerate(told_charts(self.plan)):
                run.append(f"tell({number}, {self.tensors.identifiers[chart]});")
        yield f"struct {name} : Tensors {{"
        yield f"{INDENT}using Tensors::Tensors;"
        yield f"{INDENT}static constexpr bool SHARED = {'true' if shared > whole / 2 else 'false'};"
        yield from functions
        yield ""
        yield f"{INDENT}void run() override {{"
        yield from (INDENT * 2 + line for line in run)
        yield f"{INDENT}}}"
        yield "};"
        yield ""

    def stage(self, stage: Stage, level: str, calls: list[str]) -> Iterator[str]:
        """The steps of a stage, level by level if it has levels."""
        if stage.levels is None:
            yield from calls
            return
        first = self.tensors.scope.extreme(stage.levels.first, low=True)
        last = self.tensors.scope.extreme(stage.levels.last, low=False)
        if stage.levels.reverse:
            yield f"for (I {level} = {last}; {level} >= {first}; --{level}) {{"
        else:
            yield f"for (I {level} = {first}; {level} <= {last}; ++{level}) {{"
        yield f"{INDENT}look();"
        yield from (INDENT + line for line in calls)
        yield "}"

    def seed(self) -> Iterator[str]:
        """d log Z: what the start symbol's cell has, where it is not zero."""
        start = self.plan.start
        if start.name not in self.plan.chart:
            return
        chart = self.tensors.identifiers[start.name]
        index = [self.tensors.scope.expression(expr) for expr in start.index]
        at = ", ".join([*index, "b"])
        yield "if (begin(1))"
        yield f"{INDENT}for (I b : items)"
        yield f"{INDENT * 2}if ({chart}.scale.find({at}) > NEGATIVE)"
        yield f"{INDENT * 3}{chart}.adjoint.spot({at}) += seed[b];"

    def level_name(self, stage: Stage) -> str:
        """What the level is: an index, the width of a span, or a level; nothing without levels."""
        if stage.levels is None:
            return ""
        name, is_index = level_name(stage)
        if not is_index:
            return name
        return identifier_like(name) if self.names.is_free(identifier_like(name)) else "level"


def gives_weights(group: Sequence[Block]) -> bool:
    """Whether a step only adds to the gradients of parameters."""
    ops = [op for block in group for op in block.body if isinstance(op, Effect)]
    return all(isinstance(op, Give) and op.cells.kind == "parameter" for op in ops)
