"""A launch as a Triton kernel, and the statement that starts it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log, prod

from fgg.compiler.emit.python.expressions import Scope
from fgg.compiler.emit.python.names import Names
from fgg.compiler.emit.triton.launches import Facts, Launch, computed, padded, programs_cells
from fgg.grammar.index import Expr
from fgg.plan import HIGH, LEVEL, LOW, Mask, Operand, Plan
from fgg.plan.kernel import (
    BATCH,
    Effect,
    Erase,
    Give,
    Greatest,
    Hide,
    Keep,
    Load,
    LogSum,
    Multiply,
    Named,
    Put,
    Relative,
    Scale,
    Sum,
    Weigh,
    reads,
)

INDENT = "    "
ROWS, COLUMNS, DEPTH = 32, 64, 32
"""The tile of a product of matrices: rows and columns of the result, and how far a round sums."""
TAKEN = """
    at there points B b T R WATCHED MIXED tl triton gap top total hold new acc start rows columns
    cell0 cell1 cell2 cell3 cell4 has1 has2 has3 has4 worth relative log_add number apart
    note scale_of unit_of add here NOTHING LEAST range float print old scale unit batch
""".split()


@dataclass
class Host:
    """What the printers of all launches share: host code by parameter, and lines before a pass."""

    plan: Plan
    scope: Scope
    names: Names
    chart: dict[str, str]
    leaf: dict[str, str]
    level: str = ""
    # Tensors as kernels take them: code by name, made once a pass.
    views: dict[str, str] = field(default_factory=dict)
    uses_range: bool = False


class Frame:
    """The tile that values are computed on: an axis of points, then an axis for each node."""

    def __init__(
        self,
        facts: Facts,
        rows: int,
        groups: Sequence[tuple[str, Sequence[str], int]],
        *,
        shaped: bool = True,
    ) -> None:
        self.rows = rows
        self.rank = len(groups)
        self.index: dict[str, str] = {}
        self.inside: dict[str, str] = {}
        self.widths: dict[str, int] = {}
        sizes = facts.block.sizes
        # The mask of all nodes, if it has a name.
        self.here: tuple[frozenset[str], str] | None = None
        for axis, (name, nodes, width) in enumerate(groups):
            shape = ", ".join(["None", *(":" if i == axis else "None" for i in range(self.rank))])
            whole = prod(sizes[node] for node in nodes)
            place = f"{name}[{shape}]" if shaped else name
            after = whole
            for node in nodes:
                after //= sizes[node]
                code = place if after == 1 else f"({place} // {after})"
                self.index[node] = code if len(nodes) == 1 else f"({code} % {sizes[node]})"
                self.inside[node] = f"({place} < {whole})" if width != whole else ""
                self.widths[node] = width if len(nodes) == 1 else 0

    @property
    def spread(self) -> str:
        """What makes a number for each point one for the whole tile."""
        return f"[:{', None' * self.rank}]" if self.rank else ""


@dataclass(frozen=True)
class Value:
    """The code of a value, and whether it has the axes of nodes."""

    code: str
    full: bool
    nodes: frozenset[str] = frozenset()


class KernelPrinter:
    """Writes the kernel of one launch and the call."""

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

    # text

    def say(self, line: str) -> None:
        """Append a line."""
        self.lines.append(INDENT * self.depth + line)

    def kernel(self) -> list[str]:
        """The function of the launch."""
        match self.launch.kind:
            case "cells":
                self.cells()
            case "product":
                self.product()
            case _:
                self.weights()
        own = [f"{name}" for name in self.parameters]
        flags = [f for f in ("WATCHED", "MIXED") if any(f in line for line in self.lines)]
        head = [*own, *(f"{flag}: tl.constexpr" for flag in ("T", *flags))]
        varying = [n for n in own if n == "points" or n == "level" or n.endswith(("_first", "_n"))]
        quoted = ", ".join(f'"{name}"' for name in varying)
        self.flags = flags
        return [
            f"@triton.jit(do_not_specialize=[{quoted}])",
            f"def {self.title}({', '.join(head)}):",
            *self.lines,
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

    def open(self, rows: int, place: str) -> None:
        """The points of a program: their loop variables, items and lengths."""
        self.parameter("points", "points")
        self.parameter("B", "batch.size")
        self.say(f"at = {place} + tl.arange(0, {rows})")
        self.say("there = at < points")
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
        return " & ".join(f"({self.scope.condition(mask.expr)})" for mask in masks)

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
            self.say(f"total = tl.zeros([{rows}], tl.float64)")
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
            self.say(f"total = total * tl.exp(top - hold) + tl.exp({code} - hold)")
            self.say("top = new")
        else:
            self.say(f"{name} += {self.term(op, frame).code}")
        self.depth = start
        for other in needed:
            del self.values[other]
        if isinstance(op, LogSum):
            self.say(f"{name} = tl.log(total) + tl.maximum(top, LEAST)")
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
                cond = f"({self.conditions(op.masks)})"
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
        place = f"{buffer} + ({point} * {size}){frame.spread}{self.states(nodes, frame)}"
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

    # cells

    def cells(self) -> None:
        """The kernel of a launch of cells."""
        launch, sizes = self.launch, self.block.sizes
        names = computed(self.block, launch, set(self.known))
        read = [n for n in self.known if self.is_read(n, names)]
        nodes: list[str] = []
        for name in (*names, *read):
            nodes += self.facts.nodes(name)
        for effect in launch.effects:
            nodes += effect.cells.axes
        nodes = list(dict.fromkeys(nodes))
        volume = max([1, *(self.volume(name) for name in names)])
        for effect in launch.effects:
            volume = max(volume, prod(padded(sizes[n]) for n in {*effect.cells.axes}))
        self.rows = rows = programs_cells(launch, volume)
        self.warps = 8 if volume > 4096 else 4
        self.grid = f"blocks(points, {rows})"
        self.open_depth = 1
        groups = [(self.node(n), [n], padded(sizes[n])) for n in nodes]
        frame = Frame(self.facts, rows, groups, shaped=False)
        self.open(rows, f"tl.program_id(0).to(tl.int64) * {rows}")
        for place, node in enumerate(nodes):
            shape = ", ".join(["None", *(":" if i == place else "None" for i in range(len(nodes)))])
            self.say(f"{self.node(node)} = tl.arange(0, {padded(sizes[node])})[{shape}]")
        if len(nodes) == 1 and frame.inside[nodes[0]]:
            self.say(f"here = {self.mask('there', nodes, frame)}")
            frame.here = frozenset(nodes), "here"
        self.after_open = len(self.lines)
        for name in read:
            if not self.facts.loops(name) & set(launch.inner):
                self.values[name] = self.assign(name, self.buffered(name, frame))
        self.compute([n for n in self.block.value if n in {*names, *read}], frame)
        for effect in launch.effects:
            self.effect(effect, frame)
        for name in launch.kept:
            self.store_buffer(name, self.values[name], frame)
        if self.watches:
            self.say("if WATCHED:")
            self.say(f"{INDENT}tl.atomic_min({self.range()}[3] + b, gap, there)")
        self.close()

    def is_read(self, name: str, names: Sequence[str]) -> bool:
        """Whether a launch reads what another one has computed."""
        users = [reads(self.block.value[n]) for n in names] + [tuple(self.launch.targets)]
        return any(name in user for user in users)

    def volume(self, name: str) -> int:
        """How many numbers a point has of what an operation multiplies."""
        op = self.block.value[name]
        nodes = {n for other in (name, *reads(op)) for n in self.facts.nodes(other)}
        return prod(padded(self.block.sizes[n]) for n in nodes)

    def node(self, name: str) -> str:
        """The identifier of the values of a node."""
        return self.names.get("node", name)

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

    # effects

    def effect(self, effect: Effect, frame: Frame) -> None:
        """The lines of an effect."""
        match effect:
            case Put():
                self.put(effect, frame)
            case Keep():
                self.keep(effect, self.values[effect.value], frame, "there")
            case Give():
                self.give(effect, self.values[effect.value], frame)
            case Erase():
                self.erase(effect, frame)

    def fitted(self, value: Value | None, axes: Sequence[str], frame: Frame) -> str:
        """A value with the axes of its cells; it is zero outside of them."""
        if not axes:
            return "1.0" if value is None else value.code
        shape = ", ".join(str(w if n in axes else 1) for n, w in frame.widths.items())
        code = "1.0" if value is None else self.full(value, frame)
        if value is not None and value.nodes >= set(axes):
            return code  # it is zero where there are no nodes
        mask = self.mask("there", axes, frame)
        return f"tl.where({mask}, {code} + tl.zeros([{frame.rows}, {shape}], T), 0.0)"

    def put(self, op: Put, frame: Frame) -> None:
        """Fill the head's cells."""
        chart = self.plan.chart[op.cells.name]
        value = None if op.value is None else self.values[op.value]
        if op.scale is None:
            self.say(f"scale = tl.zeros([{frame.rows}], tl.float64)")
        else:
            self.say(f"scale = {self.values[op.scale].code}")
        place_e = self.place(op.cells, "e")
        if chart.is_scalar:
            if value is not None:
                self.say(f"top = number({value.code})")
                self.say(f"note({self.range()}, {op.depth}, B, b, top, scale, there)")
                self.say("scale = tl.log(top.to(tl.float64)) + scale")
            self.meet(op, [f"scale = log_add(scale, tl.load({place_e}, there, NOTHING))"])
            self.say(f"tl.store({place_e}, scale, there)")
            return
        self.say(f"new = {self.fitted(value, op.cells.axes, frame)}")
        place = f"{self.place(op.cells, 'v')}{frame.spread}{self.states(op.cells.axes, frame)}"
        mask = self.mask("there", op.cells.axes, frame)
        spread = frame.spread
        self.meet(
            op,
            [
                f"old = tl.load({place_e}, there, NOTHING)",
                "top = tl.maximum(scale, old)",
                "if WATCHED:",
                f"{INDENT}gap = apart(apart(gap, scale, top), old, top)",
                f"new = new * worth(scale, top, T){spread}",
                f"new += tl.load({place}, {mask}, 0.0) * worth(old, top, T){spread}",
                "scale = top",
            ],
        )
        code = "number(new)"
        for axis in range(frame.rank, 0, -1):
            code = f"tl.max({code}, {axis})"
        self.say(f"top = {code}")
        self.say(f"note({self.range()}, {op.depth}, B, b, top, scale, there)")
        self.say(f"unit = unit_of(R, top, scale, T){spread}")
        self.say(f"tl.store({place_e}, scale_of(R, top, scale), there)")
        self.say(f"tl.store({place}, new / unit, {mask})")

    def meet(self, op: Put, lines: Sequence[str]) -> None:
        """How what is put meets what the cells have."""
        if op.mode == "write":
            return
        if any("WATCHED" in line for line in lines) and not self.watches:
            self.watches = True
            line = f"{INDENT * self.open_depth}gap = tl.zeros([{self.rows}], tl.float64)"
            self.lines.insert(self.after_open, line)
        if op.mode == "mixed":
            self.say("if MIXED:")
            self.depth += 1
        for line in lines:
            self.say(line)
        if op.mode == "mixed":
            self.depth -= 1

    def keep(self, op: Keep, value: Value, frame: Frame, there: str) -> None:
        """Write cells with the scales of what they are mapped from."""
        axes = op.cells.axes
        place, mask = self.place(op.cells, "v"), self.mask("there", axes, frame)
        if axes:
            place = f"{place}{frame.spread}{self.states(axes, frame)}"
        self.say(f"tl.store({place}, {self.fitted(value, axes, frame)}, {mask})")
        if op.source is not None:
            place = self.place(op.cells, "e")
            self.say(f"tl.store({place}, {self.scale_at(op.source)}, {there})")

    def give(self, op: Give, value: Value, frame: Frame) -> None:
        """Add to adjoints."""
        cells = op.cells
        if cells.kind == "parameter":
            self.give_parameter(cells, value, frame)
            return
        place, there = self.place(cells, "d"), self.exists(cells, "d")
        code = value.code
        if cells.axes:
            place = f"{place}{frame.spread}{self.states(cells.axes, frame)}"
            code = self.fitted(value, tuple(dict.fromkeys(cells.axes)), frame)
            there = self.mask(there, cells.axes, frame)
        if cells.distinct:
            self.say(f"add({place}, {code}, {there})")
        else:
            self.say(f"tl.atomic_add({place}, {code}, {there})")

    def give_parameter(self, cells: Operand, value: Value, frame: Frame) -> None:
        """Add the sum over a program's points to the gradient of a parameter."""
        place = f"{self.view(cells, 'd')}{self.states(cells.axes, frame)}"
        zeros = f"tl.zeros([{frame.rows}], T)"
        if not cells.axes:
            code = f"tl.where(there, {value.code} + {zeros}, 0.0)"
            self.say(f"tl.atomic_add({place}, tl.sum({code}, 0))")
            return
        code = self.fitted(value, tuple(dict.fromkeys(cells.axes)), frame)
        code = f"tl.where(there{frame.spread}, {code}, 0.0)"
        mask = self.mask("", cells.axes, frame)
        more = f", {mask}" if mask else ""
        self.say(f"tl.atomic_add({place}, tl.sum({code}, 0, keep_dims=True){more})")

    def erase(self, op: Erase, frame: Frame) -> None:
        """Write zeros where a mask does not hold."""
        gone = f"(there & ~({self.conditions(op.masks)}))"
        place = self.place(op.cells, "d")
        if op.cells.axes:
            place = f"{place}{frame.spread}{self.states(op.cells.axes, frame)}"
            shape = ", ".join(str(w if n in op.cells.axes else 1) for n, w in frame.widths.items())
            zeros = f"tl.zeros([{frame.rows}, {shape}], T)"
        else:
            zeros = f"tl.zeros([{frame.rows}], T)"
        self.say(f"tl.store({place}, {zeros}, {self.mask(gone, op.cells.axes, frame)})")

    # products of matrices

    def product(self) -> None:
        """The kernel of cells times a parameter."""
        launch, facts, op = self.launch, self.facts, self.launch.matrix
        assert op is not None
        found = facts.matrix(op)
        assert found is not None
        rows, matrix = found
        source = self.block.value[matrix]
        assert isinstance(source, Load)
        summed = [n for n in source.cells.axes if n in facts.nodes(rows)]
        kept = [n for n in source.cells.axes if n not in summed]
        height, width = facts.size(summed), facts.size(kept)
        deep, wide = min(DEPTH, padded(height)), min(COLUMNS, padded(width))
        self.rows, self.warps, self.open_depth = ROWS, 4, 1
        self.grid = f"blocks(points, {ROWS}, {width}, {wide})"
        self.open(ROWS, f"tl.program_id(0).to(tl.int64) * {ROWS}")
        self.say(f"p = tl.program_id(1) * {wide} + tl.arange(0, {wide})")
        self.say(f"acc = tl.zeros([{ROWS}, {wide}], T)")
        self.after_open = len(self.lines)
        # A mask is needed where a tile is not full.
        inner = Frame(facts, ROWS, [("q", summed, deep if height % deep == 0 else -1)])
        inner = self.fit_mask(inner, summed, height, deep)
        outer = Frame(facts, ROWS, [("p", kept, wide)])
        outer = self.fit_mask(outer, kept, width, wide)
        self.say(f"for start in range(0, {height}, {deep}):")
        self.depth += 1
        self.say(f"q = start + tl.arange(0, {deep})")
        names = [n for n in computed(self.block, launch, set(self.known)) if self.is_side(n, rows)]
        self.simple(names, rows, inner)
        x = self.full(self.values[rows], inner)
        turned = Frame(facts, deep, [("q", summed, deep), ("p", kept, wide)])
        place = f"{self.view(source.cells, 'v')}{self.states(source.cells.axes, turned)}"
        place = place.replace("q[None, :, None]", "q[:, None]").replace(
            "p[None, None, :]", "p[None, :]"
        )
        tests = [f"(q[:, None] < {height})"] if height % deep else []
        tests += [f"(p[None, :] < {width})"] if width % wide else []
        more = f", {' & '.join(tests)}, 0.0" if tests else ""
        self.say(f"y = tl.load({place}{more})")
        self.say(f'acc = tl.dot({x}, y, acc, input_precision="ieee")')
        self.depth -= 1
        self.values = {op.name: Value("acc", True)}
        outer.widths = {n: (wide if number == 0 else 0) for number, n in enumerate(kept)}
        last = op.name
        for other in self.block.value.values():
            if isinstance(other, Hide) and other.source == last and launch.effects:
                cond = f"({self.conditions(other.masks)})"
                self.say(f"acc = tl.where({cond}[:, None], acc, 0.0)")
                last = other.name
                self.values[last] = Value("acc", True)
        for effect in launch.effects:
            self.matrix_effect(effect, outer)
        for name in launch.kept:
            self.store_buffer(name, self.values[name], outer)
        self.close()

    def fit_mask(self, frame: Frame, nodes: Sequence[str], whole: int, width: int) -> Frame:
        """A frame whose tiles are parts of what nodes have."""
        name = next(iter(frame.index.values())).split("[")[0].lstrip("(")
        test = f"({name}[None, :] < {whole})" if whole % width else ""
        frame.inside = dict.fromkeys(nodes, test)
        return frame

    def is_side(self, name: str, side: str) -> bool:
        """Whether a side of a product is computed from a value."""
        return name == side or any(
            self.is_side(name, other) for other in reads(self.block.value[side])
        )

    def simple(self, names: Sequence[str], side: str, frame: Frame) -> None:
        """A side of a product of matrices, entry by entry."""
        if side in self.known:
            self.values[side] = self.buffered(side, frame)
            return
        for name in names:
            self.values[name] = self.assign(name, self.value(self.block.value[name], frame))

    def matrix_effect(self, effect: Effect, frame: Frame) -> None:
        """Write a tile of a product of matrices to cells, or add it to adjoints."""
        assert isinstance(effect, Keep | Give)
        cells = effect.cells
        what = "v" if isinstance(effect, Keep) else "d"
        place = f"{self.place(cells, what)}[:, None]{self.states(cells.axes, frame)}"
        mask = self.mask(self.exists(cells, what), cells.axes, frame)
        if isinstance(effect, Keep):
            self.say(f"tl.store({place}, acc, {mask})")
            if effect.source is not None:
                first = "there & (at * 0 + tl.program_id(1) == 0)"
                place = self.place(cells, "e")
                self.say(f"tl.store({place}, {self.scale_at(effect.source)}, {first})")
        elif cells.distinct:
            self.say(f"add({place}, acc, {mask})")
        else:
            self.say(f"tl.atomic_add({place}, acc, {mask})")

    def weights(self) -> None:
        """The kernel of a parameter's gradient."""
        launch, facts, op = self.launch, self.facts, self.launch.matrix
        assert op is not None
        (effect,) = launch.effects
        sides = [(op.left, "p"), (op.right, "q")]
        sizes = [facts.size(facts.nodes(name)) for name, _ in sides]
        widths = [min(COLUMNS, padded(size)) for size in sizes]
        self.rows, self.warps, self.open_depth = DEPTH, 4, 2
        self.grid = f"blocks({sizes[0]}, {widths[0]}, {sizes[1]}, {widths[1]})"
        for axis, ((_, name), width) in enumerate(zip(sides, widths, strict=True)):
            self.say(f"{name} = tl.program_id({axis}) * {width} + tl.arange(0, {width})")
        self.say(f"acc = tl.zeros([{widths[0]}, {widths[1]}], T)")
        self.parameter("points", "points")
        self.say(f"for start in range(0, points, {DEPTH}):")
        self.depth += 1
        self.open(DEPTH, "start")
        every = [
            n for n in self.block.value if any(self.is_side(n, s) for s in (op.left, op.right))
        ]
        for (side, name), size, width, out in zip(sides, sizes, widths, "xy", strict=True):
            nodes = list(facts.nodes(side))
            frame = self.fit_mask(Frame(facts, DEPTH, [(name, nodes, width)]), nodes, size, width)
            names = [n for n in every if self.is_side(n, side)]
            self.simple(names, side, frame)
            self.say(f"{out} = {self.full(self.values[side], frame)}")
            self.values = {}
        self.say('acc = tl.dot(tl.trans(x), y, acc, input_precision="ieee")')
        self.depth -= 1
        both = [*facts.nodes(op.left), *facts.nodes(op.right)]
        turned = Frame(
            facts,
            1,
            [("p", facts.nodes(op.left), widths[0]), ("q", facts.nodes(op.right), widths[1])],
        )
        assert set(both) == set(effect.cells.axes)
        place = f"{self.view(effect.cells, 'd')}{self.states(effect.cells.axes, turned)}"
        place = place.replace("p[None, :, None]", "p[:, None]").replace(
            "q[None, None, :]", "q[None, :]"
        )
        tests = [f"(p[:, None] < {sizes[0]})"] if sizes[0] % widths[0] else []
        tests += [f"(q[None, :] < {sizes[1]})"] if sizes[1] % widths[1] else []
        mask = " & ".join(tests)
        old = f"tl.load({place}{f', {mask}, 0.0' if mask else ''})"
        self.say(f"tl.store({place}, {old} + acc{f', {mask}' if mask else ''})")
        self.close()
