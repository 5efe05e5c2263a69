"""Kernels of cells: a program has some points, and for each of them all values of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fgg.compiler.emit.triton.frame import Frame, Value
from fgg.compiler.emit.triton.kernels import INDENT, KernelPrinter
from fgg.compiler.emit.triton.launches import computed, padded, programs_cells
from fgg.plan import Operand
from fgg.plan.kernel import Effect, Erase, Give, Keep, Put, reads


class CellsPrinter(KernelPrinter):
    """Writes the kernel of a launch of cells."""

    def body(self) -> None:
        """The whole kernel."""
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
                f"stored = tl.load({place}, {mask}, 0.0)",
                f"new += stored * worth(old, top, T){spread}",
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
        gone = f"(there & ~{self.conditions(op.masks)})"
        place = self.place(op.cells, "d")
        if op.cells.axes:
            place = f"{place}{frame.spread}{self.states(op.cells.axes, frame)}"
            shape = ", ".join(str(w if n in op.cells.axes else 1) for n, w in frame.widths.items())
            zeros = f"tl.zeros([{frame.rows}, {shape}], T)"
        else:
            zeros = f"tl.zeros([{frame.rows}], T)"
        self.say(f"tl.store({place}, {zeros}, {self.mask(gone, op.cells.axes, frame)})")
