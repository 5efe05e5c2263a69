"""What all Triton kernels have: points, cells, values, and the statement that starts them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

from fgg.compiler.emit.python.expressions import Scope
from fgg.compiler.emit.python.names import Names
from fgg.compiler.emit.triton.frame import Frame, Host, Value
from fgg.compiler.emit.triton.launches import Facts, Launch
from fgg.grammar.index import Expr
from fgg.plan import HIGH, LEVEL, LOW, Mask, Operand
from fgg.plan.kernel import (
    BATCH,
    Greatest,
    Hide,
    Load,
    LogSum,
    Multiply,
    Named,
    Relative,
    Scale,
    Sum,
    Weigh,
    reads,
)

INDENT = "    "
TAKEN = """
    at there points B b T R WATCHED MIXED tl triton gap top mass hold new acc start rows columns
    cell0 cell1 cell2 cell3 cell4 has1 has2 has3 has4 worth relative log_add number apart
    note scale_of unit_of add here step NOTHING LEAST range float print old stored scale unit
    batch
""".split()


def read_lines(lines: Sequence[str]) -> list[str]:
    """The lines of a function without assignments to names that nothing else mentions."""
    counts = Counter(name for line in lines for name in set(re.findall(r"\w+", line)))
    targets = [re.match(r"\s*(\w+) = ", line) for line in lines]
    kept = [
        line
        for line, target in zip(lines, targets, strict=True)
        if target is None or counts[target[1]] > 1
    ]
    return kept if len(kept) == len(lines) else read_lines(kept)


class KernelPrinter(ABC):
    """Writes the kernel of one launch and the call."""

    # Set by `body`: points of a program, its warps, the depth of the lines that find its points,
    # and the grid.
    rows: int
    warps: int
    open_depth: int
    grid: str

    def __init__(
        self,
        host: Host,
        launch: Launch,
        known: dict[str, Launch],
        title: str,
        variables: dict[str, str],
    ) -> None:
        self.host, self.plan, self.launch, self.title = host, host.plan, launch, title
        self.block = launch.block
        self.facts = Facts(self.block)
        self.known = {n: x for n, x in known.items() if n not in launch.kept}
        self.names = Names(set(TAKEN))
        self.parameters: dict[str, str] = {}  # and the host code of each
        self.values: dict[str, Value] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.watches = False
        self.effects_done: set[int] = set()
        names = {LEVEL: "level"}
        for loop in self.block.loops:
            names[loop.name] = self.names.get("loop", loop.name, variables[loop.name])
        for length in self.plan.lengths:
            names[length] = self.names.get("own", length, length)
            names[length + HIGH] = self.names.get("high", length, f"{length}_high")
            names[length + LOW] = self.names.get("low", length, f"{length}_low")
        self.scope = Scope(names)

    @abstractmethod
    def body(self) -> None:
        """Say the lines of the function."""

    # text

    def say(self, line: str) -> None:
        """Append a line."""
        self.lines.append(INDENT * self.depth + line)

    def kernel(self) -> list[str]:
        """The function of the launch."""
        self.body()
        own = [f"{name}" for name in self.parameters]
        flags = [f for f in ("WATCHED", "MIXED") if any(f in line for line in self.lines)]
        head = [*own, *(f"{flag}: tl.constexpr" for flag in ("T", *flags))]
        varying = [n for n in own if n == "points" or n == "level" or n.endswith(("_first", "_n"))]
        quoted = ", ".join(f'"{name}"' for name in varying)
        self.flags = flags
        return [
            f"@triton.jit(do_not_specialize=[{quoted}])",
            f"def {self.title}({', '.join(head)}):",
            *read_lines(self.lines),
        ]

    def call(self) -> list[str]:
        """The statements that start the launch; `kernel` has been called."""
        values = [*self.parameters.values(), "T=element(batch)"]
        values += ["WATCHED=batch.watched"] if "WATCHED" in self.flags else []
        values += ["MIXED=batch.mixed"] if "MIXED" in self.flags else []
        lines = [f"points = {self.point_count()}"]
        for name in self.launch.kept:
            sizes = "".join(f", {self.block.sizes[n]}" for n in self.facts.nodes(name))
            lines.append(f"{name} = room(batch, points{sizes})")
        if self.warps != 4:
            values.append(f"num_warps={self.warps}")
        return [*lines, f"{self.title}[{self.grid}]({', '.join(values)})"]

    def parameter(self, name: str, code: str) -> str:
        """A parameter of the kernel, and what it gets."""
        self.parameters.setdefault(name, code)
        return name

    def point_count(self) -> str:
        """How many points the grid has."""
        counts = [f"len({self.scope.names[d]})" for d in self.launch.grid if d != BATCH]
        return " * ".join([*counts, "batch.size"])

    # points

    def open(self, rows: int, place: str, there: str = "at < points") -> None:
        """The points of a program: their loop variables, items and lengths."""
        self.parameter("points", "points")
        self.parameter("B", "batch.size")
        self.say(f"at = {place} + tl.arange(0, {rows})")
        self.say(f"there = {there}")
        self.say("b = at % B")
        rest = "at // B"
        grid = [d for d in self.launch.grid if d != BATCH]
        for number, loop in enumerate(reversed(grid)):
            name = self.scope.names[loop]
            first = self.parameter(f"{name}_first", f"{name}.start")
            if number + 1 < len(grid):
                count = self.parameter(f"{name}_n", f"len({name})")
                self.say(f"{name} = {rest} % {count} + {first}")
                rest += f" // {count}"
            else:
                self.say(f"{name} = {rest} + {first}")
        self.after_open = len(self.lines)

    def close(self) -> None:
        """Put the lengths that index expressions speak of behind the loop variables."""
        early = []
        for length in self.plan.lengths:
            if length in self.scope.used:
                name = self.scope.names[length]
                source = self.parameter(f"{name}_of", f'batch.item["{length}"]')
                early.append(f"{INDENT * self.open_depth}{name} = tl.load({source} + b, there, 0)")
            for end, where in ((HIGH, "high"), (LOW, "low")):
                if length + end in self.scope.used:
                    self.parameter(self.scope.names[length + end], f'batch.{where}["{length}"]')
        if LEVEL in self.scope.used:
            self.parameter("level", self.host.level)
        self.lines[self.after_open : self.after_open] = early

    def point_of(self, loops: Iterable[str]) -> str:
        """The number of a point among those of some loops."""
        inner = [d for d in self.block.point_dims if d in set(loops) and d != BATCH]
        if (*inner, BATCH) == self.launch.grid:
            return "at"
        code = ""
        for loop in inner:
            name = self.scope.names[loop]
            own = f"({name} - {self.parameter(f'{name}_first', f'{name}.start')})"
            count = self.parameter(f"{name}_n", f"len({name})")
            code = own if not code else f"({code} * {count} + {own})"
        return f"({code} * B + b)" if code else "b"

    # stored tensors

    def view(self, cells: Operand, what: str) -> str:
        """The parameter of a stored tensor: its values, scales (`e`) or adjoints (`d`)."""
        plan, host = self.plan, self.host
        if cells.kind == "parameter":
            ident = host.leaf[cells.name]
            if what == "d":
                return self.parameter(f"d_{ident}", f"d_{ident}")
            view = host.names.get("view", f"w_{ident}")
            host.views.setdefault(view, f"whole({ident})")
            return self.parameter(view, view)
        if cells.kind == "chart":
            name = plan.chart[cells.name].scale_of if what == "e" else cells.name
            ident = host.chart[name]
        else:
            ident = host.leaf[cells.name]
        suffix = {"v": "", "e": ".scale", "d": ".adjoint"}[what]
        view = host.names.get("view", f"{what}_{ident}")
        host.views.setdefault(view, f"at({ident}{suffix})")
        return self.parameter(view, view)

    def place(self, cells: Operand, what: str) -> str:
        """Where cells are, for each point."""
        index = [self.scope.affine(expr) for expr in cells.index]
        items = ", ".join([self.view(cells, what), *index, "b"])
        return f"cell{len(index)}({items})"

    def exists(self, cells: Operand, what: str) -> str:
        """At which points there are cells."""
        if cells.view or cells.kind == "parameter" or not cells.index:
            return "there"
        index = []
        for expr in cells.index:
            code = self.scope.affine(expr)
            # A number for each point, also if it is the same for all.
            index.append(code if self.varies(expr) else f"b * 0 + {code}")
        items = ", ".join([self.view(cells, what), *index])
        return f"(there & has{len(cells.index)}({items}))"

    def varies(self, expr: Expr) -> bool:
        """Whether an index differs from point to point."""
        fixed = {LEVEL, *self.launch.inner}
        fixed |= {n + end for n in self.plan.lengths for end in (HIGH, LOW)}
        return bool(set(expr.names()) - fixed)

    def states(self, axes: Sequence[str], frame: Frame) -> str:
        """Where the values of nodes are within a cell."""
        stride, terms = 1, []
        for node in reversed(axes):
            code = frame.index[node]
            terms.append(code if stride == 1 else f"{code} * {stride}")
            stride *= self.block.sizes[node]
        return "".join(f" + {term}" for term in reversed(terms))

    def mask(self, there: str, nodes: Iterable[str], frame: Frame) -> str:
        """Which entries of a tile there are."""
        nodes = list(nodes)
        if there == "there" and frame.here is not None and frame.here[0] == set(nodes):
            return frame.here[1]
        tests = [f"{there}{frame.spread}"] if there else []
        inside = dict.fromkeys(frame.inside[node] for node in nodes)
        tests += [test for test in inside if test]
        return " & ".join(tests)

    def read(self, cells: Operand, what: str, frame: Frame) -> str:
        """The code that reads cells."""
        if cells.kind == "parameter":
            place = f"{self.view(cells, what)}{self.states(cells.axes, frame)}"
            mask = self.mask("", cells.axes, frame)
            return f"tl.load({place}{f', {mask}, 0.0' if mask else ''})"
        place, there = self.place(cells, what), self.exists(cells, what)
        if not cells.axes:
            return f"tl.load({place}, {there}, 0.0)"
        place = f"{place}{frame.spread}{self.states(cells.axes, frame)}"
        return f"tl.load({place}, {self.mask(there, cells.axes, frame)}, 0.0)"

    def scale_at(self, cells: Operand) -> str:
        """The code that reads scales."""
        return f"tl.load({self.place(cells, 'e')}, {self.exists(cells, 'e')}, NOTHING)"

    # values

    def conditions(self, masks: Sequence[Mask]) -> str:
        """Where masks hold."""
        tests = [f"({self.scope.condition(mask.expr)})" for mask in masks]
        return tests[0] if len(tests) == 1 else f"({' & '.join(tests)})"

    def full(self, value: Value, frame: Frame) -> str:
        """A value on the whole tile."""
        return value.code if value.full or not frame.rank else f"{value.code}{frame.spread}"

    def compute(self, names: Sequence[str], frame: Frame) -> None:
        """The lines of values, in order; sums over inner loops have loops of their own."""
        inner = set(self.launch.inner)
        for name in names:
            if name in self.values:
                continue
            op = self.block.value[name]
            before = {d for other in reads(op) for d in self.facts.loops(other)} & inner
            if self.facts.loops(name) & inner:
                continue  # it is computed where it is summed
            if before:
                self.summed(op, [n for n in names if self.facts.loops(n) & inner], before, frame)
            else:
                self.values[name] = self.assign(name, self.value(op, frame))

    def assign(self, name: str, value: Value) -> Value:
        """Give a value its name."""
        code = value.code
        if not self.block.value[name].dims:
            code += f" + tl.zeros([{self.rows}], T)"  # one number, for each point
        self.say(f"{name} = {code}")
        return Value(name, value.full, frozenset(self.facts.nodes(name)))

    def summed(self, op: Named, inside: Sequence[str], loops: set[str], frame: Frame) -> None:
        """A sum over loops that the program runs through."""
        needed = self.closure(op, inside)
        name, rows = op.name, frame.rows
        full = bool(self.facts.nodes(name)) and frame.rank > 0
        if isinstance(op, Greatest):
            self.say(f"{name} = tl.full([{rows}], NOTHING, tl.float64)")
        elif isinstance(op, LogSum):
            self.say(f"top = tl.full([{rows}], NOTHING, tl.float64)")
            self.say(f"mass = tl.zeros([{rows}], tl.float64)")
        else:
            own = set(self.facts.nodes(name))
            shape = [str(frame.widths[n] if n in own else 1) for n in frame.widths] if full else []
            self.say(f"{name} = tl.zeros([{', '.join([str(rows), *shape])}], T)")
        start = self.depth
        for loop in self.block.loops:
            if loop.name in loops:
                ident = self.scope.names[loop.name]
                first = self.parameter(f"{ident}_first", f"{ident}.start")
                count = self.parameter(f"{ident}_n", f"len({ident})")
                self.say(f"for {ident} in range({first}, {first} + {count}):")
                self.depth += 1
        for other in needed:
            self.values[other] = self.assign(other, self.value(self.block.value[other], frame))
        if isinstance(op, Greatest):
            self.say(f"{name} = tl.maximum({name}, {self.values[op.scale].code})")
        elif isinstance(op, LogSum):
            code = self.values[op.scale].code
            self.say(f"new = tl.maximum(top, {code})")
            self.say("hold = tl.maximum(new, LEAST)")
            self.say(f"mass = mass * tl.exp(top - hold) + tl.exp({code} - hold)")
            self.say("top = new")
        else:
            self.say(f"{name} += {self.term(op, frame).code}")
        self.depth = start
        for other in needed:
            del self.values[other]
        if isinstance(op, LogSum):
            self.say(f"{name} = tl.log(mass) + tl.maximum(top, LEAST)")
        self.values[name] = Value(name, full, frozenset(self.facts.nodes(name)))

    def closure(self, op: Named, inside: Sequence[str]) -> list[str]:
        """What a sum needs of the values that differ within its loops."""
        found: set[str] = set()

        def visit(name: str) -> None:
            if name in inside and name not in found:
                found.add(name)
                for other in reads(self.block.value[name]):
                    visit(other)

        for name in reads(op):
            visit(name)
        return [name for name in inside if name in found]

    def value(self, op: Named, frame: Frame) -> Value:
        """The code of a value."""
        if op.name in self.known:
            return self.buffered(op.name, frame)
        match op:
            case Load():
                what = "d" if op.adjoint else "v"
                return Value(self.read(op.cells, what, frame), bool(op.cells.axes))
            case Scale():
                return Value(self.scale(op), False)
            case Weigh():
                scale, top = self.values[op.scale].code, self.values[op.top].code
                self.watch(scale, top)
                return Value(f"worth({scale}, {top}, T)", False)
            case Relative():
                scale = "0.0" if op.scale is None else self.values[op.scale].code
                return Value(f"relative({scale}, {self.scale_at(op.head)}, T)", False)
            case Hide():
                source = self.values[op.source]
                cond = self.conditions(op.masks)
                if source.full:
                    return Value(f"tl.where({cond}{frame.spread}, {source.code}, 0.0)", True)
                return Value(f"tl.where({cond}, {source.code}, 0.0)", False)
            case Multiply() | Sum():
                return self.term(op, frame)
        raise AssertionError(op)

    def watch(self, scale: str, top: str) -> None:
        """Keep how far terms are apart."""
        if not self.watches:
            self.watches = True
            line = f"{INDENT * self.open_depth}gap = tl.zeros([{self.rows}], tl.float64)"
            self.lines.insert(self.after_open, line)
        self.say("if WATCHED:")
        self.say(f"{INDENT}gap = apart(gap, {scale}, {top})")

    def buffered(self, name: str, frame: Frame) -> Value:
        """What another launch has computed."""
        nodes = self.facts.nodes(name)
        point = self.point_of(self.facts.loops(name))
        buffer = self.parameter(f"{name}_of", name)
        if not nodes:
            return Value(f"tl.load({buffer} + {point}, there, 0.0)", False)
        size = self.facts.size(nodes)
        place = f"{buffer} + step({point}, {size}){frame.spread}{self.states(nodes, frame)}"
        return Value(f"tl.load({place}, {self.mask('there', nodes, frame)}, 0.0)", True)

    def scale(self, op: Scale) -> str:
        """The scale of each point."""
        terms = [self.scale_at(cells) for cells in op.cells]
        if op.count > 1 or not terms:
            # A plain number would be one of 32 bits.
            terms.append(f"tl.full([{self.rows}], {log(op.count)!r}, tl.float64)")
        total = " + ".join(terms)
        if op.masks:
            return f"tl.where({self.conditions(op.masks)}, {total}, NOTHING)"
        return total

    def term(self, op: Multiply | Sum | Named, frame: Frame) -> Value:
        """A product or a value, summed over nodes; loops are summed elsewhere."""
        sides = [self.values[name] for name in reads(op)]
        nodes = {n for name in reads(op) for n in self.facts.nodes(name)}
        full = bool(nodes) and frame.rank > 0
        code = " * ".join(self.full(x, frame) if full else x.code for x in sides)
        kept = set(self.facts.nodes(op.name))
        if not full:
            return Value(code, False)
        axes = [1 + place for place, node in enumerate(frame.widths) if node in nodes - kept]
        if not kept:
            for axis in range(frame.rank, 0, -1):
                code = f"tl.sum({code}, {axis})"
            return Value(code, False)
        for axis in axes:
            code = f"tl.sum({code}, {axis}, keep_dims=True)"
        return Value(code, True)

    def store_buffer(self, name: str, value: Value, frame: Frame) -> None:
        """Keep a value for other launches."""
        nodes = self.facts.nodes(name)
        buffer = self.parameter(f"{name}_of", name)
        place = f"{buffer} + (at * {self.facts.size(nodes)}){frame.spread if nodes else ''}"
        place += self.states(nodes, frame)
        self.say(f"tl.store({place}, {value.code}, {self.mask('there', nodes, frame)})")

    def range(self) -> str:
        """The parameter of the range certificate."""
        self.host.uses_range = True
        return self.parameter("R", "marks.all")
