"""Kernels that are products of matrices: cells times a parameter, and gradients of parameters."""

from __future__ import annotations

from collections.abc import Sequence

from fgg.compiler.emit.triton.frame import Frame, Value
from fgg.compiler.emit.triton.kernels import KernelPrinter
from fgg.compiler.emit.triton.launches import computed, padded
from fgg.plan.kernel import Effect, Give, Hide, Keep, Load, reads

ROWS, COLUMNS, DEPTH = 32, 64, 16
"""The tile of a product of matrices: rows and columns of the result, and how far a round sums."""
STRIP = 32
"""How many cells a round sums in the gradient of a parameter."""


class MatrixPrinter(KernelPrinter):
    """What both kinds of kernels need."""

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


class ProductPrinter(MatrixPrinter):
    """Writes the kernel of cells times a parameter."""

    def body(self) -> None:
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
                cond = self.conditions(other.masks)
                self.say(f"acc = tl.where({cond}[:, None], acc, 0.0)")
                last = other.name
                self.values[last] = Value("acc", True)
        for effect in launch.effects:
            self.matrix_effect(effect, outer)
        for name in launch.kept:
            self.store_buffer(name, self.values[name], outer)
        self.close()

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


class WeightsPrinter(MatrixPrinter):
    """Writes the kernel of a parameter's gradient."""

    def body(self) -> None:
        """The kernel of a parameter's gradient."""
        launch, facts, op = self.launch, self.facts, self.launch.matrix
        assert op is not None
        (effect,) = launch.effects
        sides = [(op.left, "p"), (op.right, "q")]
        sizes = [facts.size(facts.nodes(name)) for name, _ in sides]
        widths = [min(COLUMNS, padded(size)) for size in sizes]
        self.rows, self.warps, self.open_depth = STRIP, 8, 2
        self.grid = f"blocks({sizes[0]}, {widths[0]}, {sizes[1]}, {widths[1]})"
        for axis, ((_, name), width) in enumerate(zip(sides, widths, strict=True)):
            self.say(f"{name} = tl.program_id({axis}) * {width} + tl.arange(0, {width})")
        self.say(f"acc = tl.zeros([{widths[0]}, {widths[1]}], T)")
        self.parameter("points", "points")
        # Strips are counted, and numbers below 0 left out: with 32 bits, what lies behind the last
        # point may be there. With 64 bits the division of points would spill registers.
        self.say(f"for strip in range((points - 1) // {STRIP} + 1):")
        self.depth += 1
        self.open(STRIP, f"strip * {STRIP}", "(at >= 0) & (at < points)")
        every = [
            n for n in self.block.value if any(self.is_side(n, s) for s in (op.left, op.right))
        ]
        for (side, name), size, width, out in zip(sides, sizes, widths, "xy", strict=True):
            nodes = list(facts.nodes(side))
            frame = self.fit_mask(Frame(facts, STRIP, [(name, nodes, width)]), nodes, size, width)
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
