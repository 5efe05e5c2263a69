"""From a plan to C++: two functions, `inside` and `outside`, over tensors that are handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import prod
from pathlib import Path

from fgg.compiler.emit.cpp.inside import NativeInside, Part
from fgg.compiler.emit.cpp.loops import INDENT
from fgg.compiler.emit.cpp.memory import Memory
from fgg.compiler.emit.cpp.outside import NativeOutside
from fgg.compiler.emit.cpp.tensors import Tensors
from fgg.compiler.emit.python.module import at_once
from fgg.compiler.emit.python.names import plain
from fgg.grammar.printer import print_rule
from fgg.plan import Plan, PlanStage, Step
from fgg.plan.cpp_source import Argument, Native, told_charts

TITLE = """\
// Inside and outside passes for the grammar {name}, for numbers of the type T:
//   c++ -std=c++17 -O2 -march=native -fopenmp-simd -fPIC -shared -DT=float program.cpp
// Both functions take whole numbers N (the batch, whether lengths differ, the least and greatest
// of each length, then strides and extents of every tensor's indices), pointers P (the tensors, in
// the order of the fields below), a matrix product of BLAS or null, functions of Python or null.
// They return the bytes that intermediate results took; -1: not enough memory; -2: stopped.
"""


def native(plan: Plan) -> Native:
    """The program of a plan in C++; `T`, the type of its numbers, is given to the compiler."""
    inside, first = _pass(plan, "inside", _inside)
    outside, second = _pass(plan, "outside", _outside)
    prelude = (Path(__file__).parent / "prelude.hpp").read_text(encoding="utf-8")
    title = TITLE.format(name=plain(plan.grammar.name))
    source = "\n".join([title, prelude, *inside, "", *outside, ""])
    return Native(source, first, second)


class _Steps:
    """The functions of a pass: one for each step, so that compilers have small ones to think of."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tensors = Tensors(plan)
        self.lines: list[str] = []
        self.count = 0

    def function(self, title: str, body: Iterable[str]) -> str:
        """The call of a function with some lines."""
        self.count += 1
        self.lines += ["", f"// {title}", f"SEPARATE void step{self.count}(const I level) {{"]
        self.lines += [f"{INDENT}(void)level;", f"{INDENT}room.reset();"]
        self.lines += [INDENT + line for line in body]
        self.lines.append("}")
        return f"step{self.count}(level);"

    def title(self, steps: Sequence[Step]) -> str:
        """The rules of steps."""
        return "; ".join(plain(print_rule(self.plan.grammar, step.rule)) for step in steps)


def _pass(
    plan: Plan, name: str, write: Callable[[_Steps], list[str]]
) -> tuple[list[str], tuple[Argument, ...]]:
    """A pass as a structure with a function for each step, and a function that runs it.

    That returns how many bytes it took for intermediate results, -1 if there were not enough, -2 if
    it was stopped.
    """
    steps = _Steps(plan)
    body = write(steps)
    sizes = [prod(chart.states) for chart in plan.charts]
    sizes += [prod(table.states) for table in plan.tables]
    fields = [
        "const int64_t* N;",
        "void* const* P;",
        "Product blas;",
        "Watch watch;",
        *steps.tensors.head(),
        *([f"Range range{{{steps.tensors.get('range', '')}, B}};"] if name == "inside" else []),
        "Room kept, room;",
        "// What is read and written in place of cells that there are not.",
        f"const T* const nothing = kept.zeros<T>({max([1, *sizes])});",
        f"T* const nowhere = kept.zeros<T>({max([1, *sizes])});",
    ]
    lines = [
        f"struct {name}_pass {{",
        *(INDENT + line for line in (*fields, *steps.lines, "")),
        f"{INDENT}void run() {{",
        f"{INDENT * 2}const I level = 0;",
        f"{INDENT * 2}(void)level;",
        *(INDENT * 2 + line for line in body),
        f"{INDENT}}}",
        "};",
        "",
        f'extern "C" int64_t {name}(const int64_t* N, void* const* P, Product blas, '
        "const Python* python) try {",
        f"{INDENT}{name}_pass found{{N, P, blas, {{python}}}};",
        f"{INDENT}found.run();",
        f"{INDENT}return found.kept.most + found.room.most;",
        "} catch (const std::bad_alloc&) {",
        f"{INDENT}return -1;",
        "} catch (const Stopped&) {",
        f"{INDENT}return -2;",
        "}",
    ]
    return lines, tuple(steps.tensors.found.values())


def _stage(
    tensors: Tensors, stage: PlanStage, body: Sequence[str], *, reverse: bool
) -> Iterator[str]:
    """The steps of a stage, level by level if it has levels."""
    if not stage.has_levels:
        yield from body
        return
    first = tensors.extreme(stage.first, low=True)
    last = tensors.extreme(stage.last, low=False)
    ends = (last, first, ">=", "--") if reverse else (first, last, "<=", "++")
    yield f"for (I level = {ends[0]}, end = {ends[1]}; level {ends[2]} end; {ends[3]}level) {{"
    yield f"{INDENT}watch.look();"
    yield from (INDENT + line for line in body)
    yield "}"


def _inside(steps: _Steps) -> list[str]:
    lines: list[str] = []
    steps.tensors.get("range", "")
    for stage in steps.plan.stages:
        body = []
        for _, members in groupby(stage.steps, key=lambda step: (step.head, step.group)):
            group = list(members)
            found = _group(steps.plan, steps.tensors, group)
            body.append(steps.function(steps.title(group), ["range.begin();", *found]))
        lines += _stage(steps.tensors, stage, body, reverse=False)
    return [*lines, *_least_values(steps.plan, steps.tensors)]


def _least_values(plan: Plan, tensors: Tensors) -> Iterator[str]:
    """Tell the least positive value of each chart that has states and at most two indices."""
    for number, name in enumerate(told_charts(plan)):
        chart = plan.chart[name]
        at, rank, count = tensors.get("values", name), len(chart.axes), prod(chart.states)
        sizes = [f"{at}_n[{axis}]" for axis in range(rank)]
        sizes = [*["1"] * (2 - rank), *sizes]
        steps = [str(s) for s in tensors.strides("values", name, chart.states)]
        steps = [*["0"] * (2 - rank), *steps]
        yield (
            f"range.chart({number}, {at}, {sizes[0]}, {steps[0]}, {sizes[1]}, {steps[1]}, "
            f"B * {count});"
        )


def _group(plan: Plan, tensors: Tensors, steps: Sequence[Step]) -> Iterator[str]:
    """Steps that fill the same cells: their results are added, then put."""
    parts: list[tuple[str, Part]] = []
    for number, step in enumerate(steps):
        writer = NativeInside(plan, step, tensors)
        part = writer.inside()
        kept = []
        if part is not None:
            given = (("T", part.values), ("double", part.scales))
            kept = [(kind, f"part{number}_{kind[0]}", m) for kind, m in given if m is not None]
            yield f"bool part{number} = false;"
            yield from (f"{kind}* {name} = nullptr;" for kind, name, _ in kept)
        yield "{"
        yield from (INDENT + line for line in writer.box())
        yield f"{INDENT}if ({writer.condition()}) {{"
        yield from (INDENT * 2 + line for line in writer.written)
        if part is not None:
            yield f"{INDENT * 2}part{number} = true;"
            yield from (f"{INDENT * 2}{name} = {memory.base};" for _, name, memory in kept)
            parts.append((f"part{number}", part))
        yield f"{INDENT}}}"
        yield "}"
    if parts:
        yield f"if ({' || '.join(name for name, _ in parts)}) {{"
        yield from (INDENT + line for line in _put(plan, writer, parts))
        yield "}"


def _put(plan: Plan, writer: NativeInside, parts: Sequence[tuple[str, Part]]) -> Iterator[str]:
    """Add the results of a group and put the sum into the head's cells."""
    step, head = writer.step, writer.head_operand()
    chart = plan.chart[step.head]
    dims = writer.cell_dims
    more = {"write": "false", "add": "true"}.get(step.mode, "mixed")
    scales = writer.offset(writer.memory(head, "scales", states=False), dims)
    yield from writer.box()

    def part_at(name: str, memory: object, kind: str) -> str:
        assert isinstance(memory, Memory)
        own = Memory(f"{name}_{kind}", memory.strides)
        return own.at(writer.loops_of.variables, dims)

    if chart.is_scalar:
        yield f"{writer.open_loops(dims)}{{"
        yield f"{INDENT}double* const e = {scales};"
        before = "" if more == "false" else f"{more} ? *e : "
        yield f"{INDENT}double sum = {before}NEGATIVE;"
        for name, part in parts:
            scale = "0.0" if part.scales is None else f"*({part_at(name, part.scales, 'd')})"
            if part.values is not None:
                value = f"*({part_at(name, part.values, 'T')})"
                scale = f"range.log({value}, {part.depth}, b, {scale})"
            yield f"{INDENT}if ({name}) sum = sum == NEGATIVE ? {scale} : log_add(sum, {scale});"
        yield f"{INDENT}*e = sum;"
        yield "}"
        return
    count = prod(chart.states)
    values = writer.offset(writer.memory(head, "values"), dims)
    yield f"T* const sum = room.some<T>({count});"
    yield f"{writer.open_loops(dims, free=False)}{{"
    yield f"{INDENT}T* const v = {values};"
    yield f"{INDENT}double* const e = {scales};"
    yield f"{INDENT}Part some[{len(parts) + 1}];"
    yield f"{INDENT}int count = 0;"
    if more != "false":
        yield f"{INDENT}if ({more} && *e > NEGATIVE) some[count++] = {{v, *e, 0}};"
    for name, part in parts:
        scale = "0.0" if part.scales is None else f"*({part_at(name, part.scales, 'd')})"
        value = part_at(name, part.values, "T")
        yield f"{INDENT}if ({name}) some[count++] = {{{value}, {scale}, {part.depth}}};"
    yield f"{INDENT}put_all(v, e, some, count, {count}, sum, range, b);"
    yield "}"


def _outside(steps: _Steps) -> list[str]:
    plan = steps.plan
    lines = list(_start(plan, steps.tensors))
    for stage in reversed(plan.stages):
        body: list[str] = []
        for step in reversed(stage.steps):
            writer = NativeOutside(plan, step, steps.tensors)
            writer.outside(charts=True, parameters=not at_once(plan, step))
            if writer.written:
                inner = [*writer.box(), f"if ({writer.condition()}) {{"]
                inner += [*(INDENT + line for line in writer.written), "}"]
                body.append(steps.function(steps.title([step]), inner))
        lines += _stage(steps.tensors, stage, body, reverse=True)
    for step in plan.steps:
        if at_once(plan, step):
            writer = NativeOutside(plan, step, steps.tensors, whole=True)
            writer.outside(charts=False, parameters=True)
            title = f"{steps.title([step])}: all cells at once"
            lines.append(steps.function(title, writer.written))
    return lines


def _start(plan: Plan, tensors: Tensors) -> Iterator[str]:
    """d log Z: what the start symbol's cell has, where it is not zero."""
    if plan.start.name not in plan.chart:
        return
    chart = plan.chart[plan.start.name]
    scales = tensors.get("scales", chart.family)
    adjoint = tensors.get("adjoint", chart.family)
    given = tensors.get("gradient", "")
    yield "for (I b = 0; b < B; ++b) {"
    tests = []
    moves: dict[str, list[str]] = {scales: ["b"], adjoint: ["b"]}
    roles = {scales: "scales", adjoint: "adjoint"}
    for number, (expr, low) in enumerate(
        zip(plan.start.index, tensors.origins[chart.family], strict=True)
    ):
        yield f"{INDENT}const I i{number} = {tensors.code(expr - low, tensors.scope)};"
        tests.append(f"i{number} >= 0 && i{number} < {scales}_n[{number}]")
        for ident, found in moves.items():
            stride = tensors.strides(roles[ident], chart.family, ())[number]
            found.append(f"i{number} * {stride}")
    place = {ident: f"{ident}[{' + '.join(found)}]" for ident, found in moves.items()}
    tests.append(f"{place[scales]} > NEGATIVE")
    yield f"{INDENT}if ({' && '.join(tests)}) {place[adjoint]} += {given}[b];"
    yield "}"
