"""Checks of kernels: whatever makes or changes a kernel must give one without problems.

Checked are the names of values (each is given once, before it is taken), their kinds (numbers or
scales) and axes, which operations a pass may have, and what is stored: that it is there, with as
many indices and states as it is read with. Linear arithmetic shows that indices stay inside their
charts, that different points are different cells where a kernel says so, and that no block reads
cells which it also changes, unless it says that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from fgg.compiler.plan.affine import batch_rows, box_rows, moved, row_of
from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr
from fgg.grammar.linear import Row, implies, is_feasible
from fgg.grammar.slices import Narrow
from fgg.plan import (
    HIGH,
    LEVEL,
    LOW,
    Bound,
    Contract,
    Cut,
    Indicator,
    Loop,
    Mask,
    Operand,
    Plan,
)
from fgg.plan.kernel import (
    BATCH,
    Block,
    Effect,
    Erase,
    Give,
    Greatest,
    Hide,
    Keep,
    Kernel,
    Load,
    LogSum,
    Multiply,
    Operation,
    Presence,
    Put,
    Relative,
    Scale,
    Stage,
    Sum,
    Weigh,
    reads,
    stored,
)

SCALES = Scale | Greatest | LogSum
"""What gives scales; all other values are numbers."""
SCALED = Scale | Greatest | LogSum | Weigh | Relative | Hide | Keep | Erase
"""What only scaled kernels have."""
INSIDE = Put | Keep | Greatest | Weigh | LogSum
"""What only inside passes have."""
OUTSIDE = Give | Erase | Relative
"""What only outside passes have."""
PRIME = "*"
"""Marks the variables of a second point of a box."""


def problems(kernel: Kernel) -> list[str]:
    """What is wrong with a kernel, a line each: the pass, the rule, the fact."""
    shapes = parameter_shapes(kernel.plan)
    found: list[str] = []
    for number, stage in enumerate(kernel.stages):
        found += _stage_problems(kernel, stage, number)
        for block in stage.blocks:
            found += _BlockCheck(kernel, stage, block, shapes).run()
    form = ("scaled" if kernel.scaled else "plain") + (" outside" if kernel.outside else " inside")
    return [f"{form}: {text}" for text in found]


def parameter_shapes(plan: Plan) -> dict[str, tuple[int, ...]]:
    """The sizes of all parameters, given or prepared."""

    def given(name: str) -> tuple[int, ...]:
        return tuple(domain_size(plan.grammar, d) for d in plan.grammar.factor[name].domains)

    shapes = {name: given(name) for name in plan.parameters}
    for item in plan.preparations:
        if isinstance(item, Indicator):
            shapes[item.name] = given(item.name)
        elif isinstance(item, Cut):
            sizes = list(shapes[item.source])
            for cut in item.steps:
                inner = (cut.size,) if isinstance(cut, Narrow) else cut.sizes
                sizes[cut.axis : cut.axis + 1] = inner
            shapes[item.name] = tuple(sizes)
        elif isinstance(item, Contract) and not item.tables:
            size = {
                axis: extent
                for name, axes in item.operands
                for axis, extent in zip(axes, shapes[name], strict=True)
            }
            shapes[item.name] = tuple(size[axis] for axis in item.axes)
    return shapes


def _stage_problems(kernel: Kernel, stage: Stage, number: int) -> Iterator[str]:
    """What is wrong with the levels and groups of a stage."""
    if stage.levels is not None:
        for bound in (*stage.levels.first, *stage.levels.last):
            for name in _unknown([e for e, _ in bound.terms], _ends(kernel.plan)):
                yield f"stage {number + 1}: its levels depend on `{name}`"
    for group in stage.groups:
        puts = [(b.positions, op) for b in group for op in b.body if isinstance(op, Put)]
        for (one, left), (two, right) in combinations(puts, 2):
            if (one, left.cells, left.mode) != (two, right.cells, right.mode):
                if (left.cells.name, left.cells.index) != (right.cells.name, right.cells.index):
                    yield f"the blocks of one group fill {_text(left.cells)}, {_text(right.cells)}"
                elif one != two or left.mode != right.mode:
                    yield f"the blocks of one group differ in how they fill {_text(left.cells)}"


def _ends(plan: Plan) -> set[str]:
    """The names of the least and greatest lengths of a batch."""
    return {name + end for name in plan.lengths for end in (LOW, HIGH)}


def _unknown(exprs: Iterable[Expr], known: Iterable[str]) -> list[str]:
    """The names and look-ups in expressions that are not known; tables never are."""
    names = dict.fromkeys(n for e in exprs for n in (*e.names(), *map(str, e.lookups())))
    return [name for name in names if name not in {*known}]


def _text(cells: Operand) -> str:
    """Cells as messages show them."""
    return f"`{cells.name}[{', '.join(map(str, cells.index))}]`".replace("[]", "")


def _shown(dims: Iterable[str]) -> str:
    """Axes as messages show them; the batch is a star."""
    return f"({', '.join('*' if d == BATCH else d for d in dims)})"


class _BlockCheck:
    """Collects the problems of one block."""

    def __init__(
        self, kernel: Kernel, stage: Stage, block: Block, shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.kernel = kernel
        self.plan = kernel.plan
        self.block = block
        self.shapes = shapes
        self.found: list[str] = []
        self.dims: dict[str, tuple[str, ...]] = {}
        self.scales: set[str] = set()
        level = () if stage.levels is None else (LEVEL,)
        self.outer = {*_ends(self.plan), *level}
        self.loops = {loop.name for loop in block.loops}
        self.rows = self.system(stage)

    def run(self) -> list[str]:
        """All problems, with the rule they are in."""
        self.frame()
        for op in self.block.body:
            self.names(op)
            self.place(op)
            self.axes(op)
            if not isinstance(op, Effect):
                self.dims[op.name] = op.dims
                if isinstance(op, SCALES):
                    self.scales.add(op.name)
        for cells in dict.fromkeys(c for op in self.block.body for c in stored(op)):
            self.operand(cells)
        self.aliasing()
        return [f"rule `{self.block.rule.name}`: {text}" for text in self.found]

    def say(self, problem: str) -> None:
        """Note a problem."""
        if problem not in self.found:
            self.found.append(problem)

    # The block

    def frame(self) -> None:
        """Loops have names of their own, and ends that are known before the block."""
        block = self.block
        names = [loop.name for loop in block.loops]
        for name in dict.fromkeys(n for n in names if names.count(n) > 1):
            self.say(f"two loops over `{name}`")
        for name in self.loops & block.sizes.keys():
            self.say(f"`{name}` is a loop and a node")
        for loop in block.loops:
            ends = [e for bound in (loop.low, loop.high) for e, _ in bound.terms]
            for name in _unknown(ends, self.outer):
                self.say(f"the loop over `{loop.name}` depends on `{name}`")
        for name in _unknown(block.guards, self.outer):
            self.say(f"a guard depends on `{name}`")
        loops = {loop.name: loop for loop in block.loops}
        for name in block.sure:
            if name not in loops:
                self.say(f"`{name}`, which is said not to be empty, is no loop")
            elif not self.is_sure(loops[name]):
                self.say(f"the loop over `{name}` may be empty though all guards hold")
        counted = {d for op in block.value.values() for d in op.dims}
        for loop in () if self.kernel.outside else block.splits:
            if loop.name not in counted:
                self.say(f"the terms over `{loop.name}` are not counted")
        last = [op for op in block.body if isinstance(op, Put | Keep)]
        if not self.kernel.outside and (len(last) != 1 or last[0] is not block.body[-1]):
            self.say("its last operation does not fill cells, or others do")

    def system(self, stage: Stage) -> list[Row]:
        """What holds at all points of the block."""
        rows = [r for loop in self.block.loops for r in box_rows(loop)]
        rows += [row_of(guard) for guard in self.block.guards if _is_affine(guard)]
        return rows + self.outer_rows(stage)

    def outer_rows(self, stage: Stage) -> list[Row]:
        """What holds of the level and of the lengths."""
        rows = batch_rows(self.plan.lengths)
        if stage.levels is not None:
            # The levels begin at the least of several bounds: only a single one holds everywhere.
            level = Expr.of(LEVEL)
            for bounds, sign in ((stage.levels.first, 1), (stage.levels.last, -1)):
                if len(bounds) == 1:
                    rows += [row_of((level * d - e) * sign) for e, d in bounds[0].terms]
        self.outside_rows = rows
        return rows

    def is_sure(self, loop: Loop) -> bool:
        """Whether a loop has a point if all guards hold."""
        rows = [*self.outside_rows, *map(row_of, self.block.guards)]
        return all(
            d == c == 1 and implies(rows, row_of(high - low))
            for low, d in loop.low.terms
            for high, c in loop.high.terms
        )

    # Operations

    def names(self, op: Operation) -> None:
        """Values are given once, and before they are taken, as what they are."""
        for name in reads(op):
            if name not in self.dims:
                self.say(f"`{name}` is taken before it is given")
        if not isinstance(op, Effect) and op.name in self.dims:
            self.say(f"`{op.name}` is given twice")
        wanted = set[str]()
        if isinstance(op, Greatest | LogSum | Weigh | Relative):
            wanted = {*reads(op)}
        elif isinstance(op, Put) and op.scale is not None:
            wanted = {op.scale}
        for name in reads(op):
            if name in self.dims and (name in self.scales) != (name in wanted):
                kind, other = ("numbers", "scales") if name in wanted else ("scales", "numbers")
                self.say(f"`{name}` is {kind} where {type(op).__name__} takes {other}")

    def place(self, op: Operation) -> None:
        """An operation stands in a pass that may have it."""
        kernel, what = self.kernel, type(op).__name__
        if isinstance(op, SCALED) and not kernel.scaled:
            self.say(f"{what} in a plain kernel")
        if isinstance(op, Presence) and kernel.scaled:
            self.say(f"{what} in a scaled kernel")
        if isinstance(op, INSIDE) and kernel.outside:
            self.say(f"{what} in an outside pass")
        if isinstance(op, OUTSIDE) and not kernel.outside:
            self.say(f"{what} in an inside pass")
        if isinstance(op, Load):
            if op.adjoint and not kernel.outside:
                self.say(f"the adjoint of {_text(op.cells)} is read in an inside pass")
            elif not op.adjoint and kernel.scaled and self.is_scale(op.cells):
                self.say(f"{_text(op.cells)} is its scale alone, and has no values to read")
        if isinstance(op, Scale):
            for cells in op.cells:
                if not self.exists(cells) or not self.plan.has_scale(cells):
                    self.say(f"{_text(cells)} has no scale")

    def axes(self, op: Operation) -> None:
        """The axes of a value follow from what it is made of."""
        if isinstance(op, Effect):
            self.effect_axes(op)
            return
        dims, known, points = {*op.dims}, {*op.dims}, self.block.point_dims
        rank = {d: number for number, d in enumerate((*points, *self.block.sizes))}
        for dim in op.dims:
            if dim not in rank:
                self.say(f"`{op.name}`: `{dim}` is no loop and no node")
        places = [rank[d] for d in op.dims if d in points]
        if places != sorted(set(places)) or any(d in points for d in op.dims[len(places) :]):
            self.say(f"`{op.name}` has its axes out of order: {_shown(op.dims)}")
        if len(dims) < len(op.dims):
            self.say(f"`{op.name}` has an axis twice: {_shown(op.dims)}")
        match op:
            case Load():
                known = {*self.index_dims(op.cells), *op.cells.axes}
            case Multiply():
                known = self.of(op.left) | self.of(op.right)
            case Sum():
                known = self.of(op.source)
            case Greatest() | LogSum():
                known = self.of(op.scale)
            case Hide():
                known = self.of(op.source)
            case Weigh():
                known = self.of(op.scale)
                self.within(op.name, self.of(op.top), dims)
            case Relative():
                self.within(op.name, {*self.block.cell_dims}, dims)
                self.within(op.name, set() if op.scale is None else self.of(op.scale), dims)
            case Scale():
                for cells in op.cells:
                    self.within(op.name, {*self.index_dims(cells)}, dims)
        exact = isinstance(op, Load | Hide | Weigh)
        if dims - known or (exact and dims != known):
            self.say(f"`{op.name}` has the axes {_shown(op.dims)}, made of {_shown(sorted(known))}")
        if isinstance(op, Presence | Scale):
            self.within(op.name, dims, {*points})
        if isinstance(op, Presence | Scale | Hide):
            self.masks(op.masks, op.name, dims)

    def effect_axes(self, op: Effect) -> None:
        """What is written or added has no axes that the cells do not have."""
        cells = {*self.index_dims(op.cells), *op.cells.axes}
        if isinstance(op, Erase):
            self.masks(op.masks, f"Erase {op.cells.name}", cells)
            return
        for name in reads(op):
            scale = isinstance(op, Put) and name == op.scale
            self.within(name, self.of(name), {*self.block.cell_dims} if scale else cells)
        if isinstance(op, Give):
            if op.cells.name in self.plan.constants:
                self.say(f"{_text(op.cells)} is constant, and has no adjoint")
            return
        charts = [o for o in self.block.operands if o.kind == "chart"]
        depth = sum(not self.plan.is_scale(o) for o in charts if self.exists(o))
        if isinstance(op, Put):
            if not self.kernel.scaled and (op.scale is not None or op.mode != "add"):
                self.say("a plain kernel adds numbers, without scales")
            if self.kernel.scaled and op.depth != depth:
                self.say(f"it multiplies {depth} charts with states, not {op.depth}")
            if op.mode not in ("write", "mixed", "add"):
                self.say(f"there is no mode `{op.mode}`")
        elif self.exists(op.cells):
            chart = self.plan.chart[op.cells.name]
            if chart.is_scalar:
                self.say(f"{_text(op.cells)} is its scale alone: it cannot be kept")
            if (chart.scale_of == chart.family) == (op.source is None):
                shared = "has scales of its own" if op.source is None else "shares its scales"
                self.say(f"{_text(op.cells)} {shared}")

    def of(self, name: str) -> set[str]:
        """The axes of a value."""
        return {*self.dims.get(name, ())}

    def within(self, name: str, dims: set[str], known: set[str]) -> None:
        """Note axes of a value that are not known."""
        if dims - known:
            order = dict.fromkeys((*self.block.point_dims, *sorted(dims)))
            extra = _shown(d for d in order if d in dims - known)
            self.say(f"`{name}` lacks a place for {extra}")

    def masks(self, masks: Sequence[Mask], name: str, dims: set[str]) -> None:
        """Masks depend on the axes of what they hide, on the level and on lengths."""
        for mask in masks:
            names = {*mask.expr.names()}
            for other in names - self.outer - {*self.plan.lengths} - dims:
                self.say(f"`{name}` has a mask over `{other}`, which is none of its axes")
            varies = names & {*self.plan.lengths} or any(True for _ in mask.expr.lookups())
            if varies and BATCH not in dims:
                self.say(f"`{name}` has a mask that differs between items, and no axis for them")

    # What is stored

    def exists(self, cells: Operand) -> bool:
        """Whether there is such a chart, table or parameter."""
        stores: dict[str, Mapping[str, object]] = {
            "chart": self.plan.chart,
            "table": self.plan.table,
            "parameter": self.shapes,
        }
        return cells.name in stores.get(cells.kind, {})

    def is_scale(self, cells: Operand) -> bool:
        """Whether cells are scales alone."""
        return self.exists(cells) and self.plan.is_scale(cells)

    def index_dims(self, cells: Operand) -> tuple[str, ...]:
        """The loops that cells depend on, and the batch."""
        if cells.kind == "parameter":
            return ()
        used = {name for expr in cells.index for name in expr.names()}
        return (*(d for d in self.block.point_dims if d in used), BATCH)

    def operand(self, cells: Operand) -> None:
        """What is stored is there, and read as it is stored."""
        if not self.exists(cells):
            self.say(f"there is no {cells.kind} `{cells.name}`")
            return
        axes: tuple[Loop, ...] = ()
        states = self.shapes.get(cells.name, ())
        if cells.kind != "parameter":
            store = (self.plan.chart if cells.kind == "chart" else self.plan.table)[cells.name]
            axes, states = store.axes, store.states
        if len(cells.index) != len(axes):
            self.say(f"{_text(cells)} has {len(cells.index)} indices, not {len(axes)}")
            return
        sizes = tuple(self.block.sizes.get(node) for node in cells.axes)
        if sizes != states:
            self.say(f"{_text(cells)} has states {states}, read as {_shown(map(str, sizes))}")
        known = {*self.outer, *self.loops} | (set() if cells.view else {*self.plan.lengths})
        lookups = [] if cells.view else [str(x) for e in cells.index for x in e.lookups()]
        for name in _unknown(cells.index, {*known, *lookups}):
            self.say(f"{_text(cells)} depends on `{name}`")
        if cells.view:
            self.in_range(cells, axes)
        if cells.distinct and not self.is_distinct(cells):
            self.say(f"{_text(cells)} may be one cell at several points")

    def in_range(self, cells: Operand, axes: Sequence[Loop]) -> None:
        """A view lies inside its storage at all points of the box."""
        for expr, axis in zip(cells.index, axes, strict=True):
            for bound, sign, end in ((axis.low, 1, "below"), (axis.high, -1, "beyond")):
                rows = [row_of((expr * d - e) * sign) for e, d in bound.terms]
                if not all(implies(self.rows, r) for r in rows):
                    text = _bound_text(bound)
                    self.say(f"{_text(cells)}: `{expr}` may lie {end} the chart's end {text}")

    def is_distinct(self, cells: Operand) -> bool:
        """Whether points that differ in the index's variables are different cells."""
        rows = self.common(cells, cells)
        used = {n for expr in cells.index for n in expr.names()} & self.loops
        return not any(
            is_feasible([*rows, row_of(Expr.of(name) - Expr.of(name + PRIME) - 1)]) for name in used
        )

    def common(self, one: Operand, two: Operand) -> list[Row]:
        """Inequalities for two points of the block whose cells are the same."""
        renamed = {name: Expr.of(name + PRIME) for name in self.loops}
        rows = [*self.rows, *moved(self.rows, renamed)]
        for left, right in zip(one.index, two.index, strict=True):
            gap = left - right.substitute(renamed)
            rows += [row_of(gap), row_of(-gap)]
        return rows

    def aliasing(self) -> None:
        """No block reads cells that it changes, unless it says so."""
        writes = [op for op in self.block.body if isinstance(op, Put | Keep | Give)]
        for load in self.block.body:
            if not isinstance(load, Load):
                continue
            for write in writes:
                one, two = load.cells, write.cells
                same = (one.kind, one.name, len(one.index)) == (two.kind, two.name, len(two.index))
                if not same or load.adjoint != isinstance(write, Give):
                    continue
                said = load.copy if load.adjoint else self.block.overlaps
                if not said and is_feasible(self.common(one, two)):
                    self.say(f"{_text(one)} is read where {_text(two)} is changed")


def _is_affine(expr: Expr) -> bool:
    """Whether linear arithmetic can speak of an expression."""
    return all(len(monomial) < 2 for monomial, _ in expr.terms)


def _bound_text(bound: Bound) -> str:
    """A bound as messages show it."""
    return ", ".join(str(e) if d == 1 else f"({e}) / {d}" for e, d in bound.terms)
