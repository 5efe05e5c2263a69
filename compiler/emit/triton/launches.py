"""Launches: which operations of a block one GPU kernel does, over which grid.

Three kinds of launch do all the work. `cells`: a program has some points of the grid, and for each
of them all values of the nodes; it sums over the other loops itself. `product`: the cells of a
chart, as the rows of a matrix, times a parameter. `weights`: the gradient of a parameter, as the
product of two matrices whose rows are cells. What one launch needs of another is kept in a buffer.

A block that none of them can do is left to tensor operations, and `Unfit` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from fgg.grammar.index import Expr
from fgg.plan import LEVEL, Plan
from fgg.plan.kernel import (
    BATCH,
    Block,
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
    Operation,
    Presence,
    Put,
    Scale,
    Sum,
    reads,
    stored,
)

TILE = 16384
"""The most numbers that one value of a program may have, with sizes rounded up."""
NUMBERS = 256
"""How many numbers a program of small cells has of one value, as near as that can be."""
MATRIX = 16
"""The least number of rows and columns of a matrix that is multiplied as one."""
INDICES = 4
"""The most indices of a cell: `fgg.runtime.prelude.gpu` has `cell0` to `cell4`."""


class Unfit(Exception):
    """Why a block has no launches."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What one kernel does: its grid, the effects, and the values that it keeps for later ones.

    `grid` are the loops of its points, the items last. A `product` or `weights` launch has one
    product of matrices, `matrix`, of which `effects` take the result.
    """

    kind: str  # "cells", "product" or "weights"
    block: Block
    grid: tuple[str, ...]
    effects: tuple[Effect, ...] = ()
    kept: tuple[str, ...] = ()
    matrix: Multiply | None = None

    @property
    def targets(self) -> Iterator[str]:
        """The values that the launch has to compute."""
        yield from self.kept
        for effect in self.effects:
            yield from reads(effect)

    @property
    def only_erases(self) -> bool:
        """Whether there is nothing to do unless lengths differ."""
        return not self.kept and all(isinstance(effect, Erase) for effect in self.effects)

    @property
    def inner(self) -> tuple[str, ...]:
        """The loops that a program of cells sums over by itself."""
        return tuple(loop.name for loop in self.block.loops if loop.name not in self.grid)


def padded(size: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << (max(size, 1) - 1).bit_length()


class Facts:
    """What is known of the values of a block."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.points = {*block.point_dims}

    def loops(self, name: str) -> frozenset[str]:
        """The loops, and the items, that a value depends on."""
        return frozenset(d for d in self.block.value[name].dims if d in self.points)

    def nodes(self, name: str) -> tuple[str, ...]:
        """The nodes that a value has axes of."""
        return tuple(d for d in self.block.value[name].dims if d not in self.points)

    def size(self, nodes: Iterable[str]) -> int:
        """How many values nodes have together."""
        return prod(self.block.sizes[node] for node in nodes)

    def is_sum(self, op: Named) -> bool:
        """Whether an operation sums, or looks for a greatest, over any axis."""
        if isinstance(op, Greatest | LogSum):
            return True
        dims = {d for name in reads(op) for d in self.block.value[name].dims}
        return isinstance(op, Multiply | Sum) and bool(dims - set(op.dims))

    def is_simple(self, name: str) -> bool:
        """Whether a value is computed entry by entry from what is stored."""
        op = self.block.value[name]
        return not self.is_sum(op) and all(self.is_simple(other) for other in reads(op))

    def matrix(self, op: Named) -> tuple[str, str] | None:
        """The cells and the parameter, if an operation multiplies a matrix of cells with one."""
        if not isinstance(op, Multiply):
            return None
        for rows, other in ((op.left, op.right), (op.right, op.left)):
            source = self.block.value[other]
            if not isinstance(source, Load) or source.cells.kind != "parameter":
                continue
            summed = set(self.nodes(rows))
            kept = [node for node in self.nodes(other) if node not in summed]
            if (
                BATCH in self.loops(rows)
                and self.loops(rows) == self.loops(op.name)
                and summed <= set(self.nodes(other))
                and set(self.nodes(op.name)) == set(kept)
                and len(set(source.cells.axes)) == len(source.cells.axes)
                and min(self.size(summed), self.size(kept)) >= MATRIX
            ):
                return rows, other
        return None

    def is_outer(self, give: Give) -> bool:
        """Whether the gradient of a parameter is the product of two matrices of cells."""
        op = self.block.value[give.value]
        if not isinstance(op, Multiply) or give.cells.kind != "parameter" or op.dims == ():
            return False
        sides = [self.nodes(op.left), self.nodes(op.right)]
        return (
            not self.loops(op.name)
            and self.loops(op.left) == self.loops(op.right)
            and not set(sides[0]) & set(sides[1])
            and set(op.dims) == {*sides[0], *sides[1]}
            and len(set(give.cells.axes)) == len(give.cells.axes)
            and min(map(self.size, sides)) >= MATRIX
        )


def launches(plan: Plan, block: Block) -> tuple[Launch, ...]:
    """The launches of a block, in order. Raises Unfit if it has none."""
    return tuple(_Blocks(plan, block).launches())


class _Blocks:
    """Divides the operations of one block."""

    def __init__(self, plan: Plan, block: Block) -> None:
        self.plan = plan
        self.block = block
        self.facts = Facts(block)
        self.order = {name: place for place, name in enumerate(block.value)}
        # Values in buffers, and the launch that fills each.
        self.kept: dict[str, Launch] = {}

    def launches(self) -> Iterator[Launch]:
        self.check()
        effects = [op for op in self.block.body if isinstance(op, Effect)]
        made: list[Launch] = []
        rest: list[Effect] = []
        for op in self.block.value.values():
            if not isinstance(op, Multiply):
                continue
            matrix = self.facts.matrix(op)
            if matrix is None:
                continue
            made += self.keep_unless_simple(matrix[0])
            effect = self.consumer(op.name)
            launch = Launch(
                kind="product",
                block=self.block,
                grid=self.in_order(self.facts.loops(op.name)),
                effects=() if effect is None else (effect,),
                kept=(op.name,) if effect is None else (),
                matrix=op,
            )
            if effect is not None:
                effects.remove(effect)
            else:
                self.kept[op.name] = launch
            made.append(launch)
        for effect in effects:
            if isinstance(effect, Give) and self.facts.is_outer(effect):
                op = self.block.value[effect.value]
                assert isinstance(op, Multiply)
                for side in (op.left, op.right):
                    made += self.keep_unless_simple(side)
                grid = self.in_order(self.facts.loops(op.left))
                made.append(
                    Launch(
                        kind="weights", block=self.block, grid=grid, effects=(effect,), matrix=op
                    )
                )
            else:
                rest.append(effect)
        grids: dict[tuple[str, ...], list[Effect]] = {}
        for effect in rest:
            grids.setdefault(self.grid_of(effect), []).append(effect)
        made += [
            Launch(kind="cells", block=self.block, grid=grid, effects=tuple(some))
            for grid, some in grids.items()
        ]
        for launch in made:
            self.check_launch(launch)
        yield from made

    def keep_unless_simple(self, name: str) -> Iterator[Launch]:
        """The launch that computes one side of a product of matrices, if it takes one."""
        if self.facts.is_simple(name) or name in self.kept:
            return
        grid = self.in_order(self.facts.loops(name))
        self.kept[name] = Launch(kind="cells", block=self.block, grid=grid, kept=(name,))
        yield self.kept[name]

    def consumer(self, name: str) -> Effect | None:
        """The effect that alone takes a product, hidden where masks do not hold or as it is."""
        users = [op for op in self.block.body if name in reads(op)]
        if len(users) != 1:
            return None
        (user,) = users
        if isinstance(user, Hide):
            return self.consumer(user.name)
        grid = self.in_order(self.facts.loops(name))
        if isinstance(user, Keep) or (isinstance(user, Give) and user.cells.kind != "parameter"):
            fits = set(user.cells.axes) == set(self.facts.nodes(name))
            fits = fits and len(set(user.cells.axes)) == len(user.cells.axes)
            return user if fits and self.grid_of(user) == grid else None
        return None

    def grid_of(self, effect: Effect) -> tuple[str, ...]:
        """The loops over the points at which an effect happens."""
        if not isinstance(effect, Give):
            return self.block.cell_dims
        op = self.block.value[effect.value]
        if effect.cells.kind == "parameter":
            if self.facts.loops(effect.value):
                raise Unfit("a parameter's gradient is not summed")
            inner = {d for name in reads(op) for d in self.facts.loops(name)}
            if BATCH not in inner:
                raise Unfit("a parameter's gradient has several factors that are sums")
            return self.in_order(inner)
        names = {n for expr in effect.cells.index for n in expr.names()}
        grid = {d for d in self.block.point_dims if d in names} | {BATCH}
        if not self.facts.loops(effect.value) <= grid:
            raise Unfit("an adjoint is not summed")
        return self.in_order(grid)

    def in_order(self, dims: Iterable[str]) -> tuple[str, ...]:
        """Loops in their order, the items last."""
        wanted = set(dims)
        return tuple(d for d in self.block.point_dims if d in wanted)

    # what does not fit

    def check(self) -> None:
        """Raise Unfit for what no launch does."""
        block = self.block
        if block.overlaps:
            raise Unfit("some points read cells that others write")
        for op in block.body:
            if isinstance(op, Presence):
                raise Unfit("it is in the plain form")
            if isinstance(op, Load) and op.copy:
                raise Unfit("it changes cells that it reads")
            if isinstance(op, Put | Keep) and len(set(op.cells.axes)) < len(op.cells.axes):
                raise Unfit("the head touches a node twice")
            if any(len(cells.index) > INDICES for cells in stored(op)):
                raise Unfit(f"cells have more than {INDICES} indices")
            for expr in self.expressions(op):
                if any(True for _ in expr.lookups()):
                    raise Unfit("tables say where cells are")
        known = {LEVEL, *(f"{n}{end}" for n in self.plan.lengths for end in (".lo", ".hi"))}
        for loop in block.loops:
            for expr, _ in (*loop.low.terms, *loop.high.terms):
                if any(True for _ in expr.lookups()) or not set(expr.names()) <= known:
                    raise Unfit("the ends of a loop differ from point to point")

    def expressions(self, op: Operation) -> Iterator[Expr]:
        """The index expressions and conditions of an operation."""
        for cells in stored(op):
            yield from cells.index
        if isinstance(op, Scale | Hide | Erase):
            yield from (mask.expr for mask in op.masks)

    def check_launch(self, launch: Launch) -> None:
        """Raise Unfit if a program of cells cannot hold its values, or sums in parts."""
        if launch.kind != "cells":
            return
        for name in self.computed(launch):
            op = self.block.value[name]
            loops = self.facts.loops(name) - set(launch.grid)
            before = {d for other in reads(op) for d in self.facts.loops(other)} - set(launch.grid)
            is_last = any(isinstance(e, Give) and e.value == name for e in launch.effects)
            if before - loops and loops and not is_last:
                raise Unfit("a sum over several loops is taken one by one")
            nodes = {n for other in (name, *reads(op)) for n in self.facts.nodes(other)}
            if prod(padded(self.block.sizes[node]) for node in nodes) > TILE:
                raise Unfit(f"a product has more than {TILE} values a cell")
        for effect in launch.effects:
            nodes = set(effect.cells.axes)
            if prod(padded(self.block.sizes[node]) for node in nodes) > TILE:
                raise Unfit(f"a cell has more than {TILE} values")

    def computed(self, launch: Launch) -> list[str]:
        """The values that a launch computes, in order: those of other launches are read."""
        return computed(self.block, launch, set(self.kept) - set(launch.kept))


def computed(block: Block, launch: Launch, known: set[str]) -> list[str]:
    """The values that a launch computes in order; those that are known are read."""
    found: set[str] = set()

    def visit(name: str) -> None:
        if name in found or name in known:
            return
        found.add(name)
        if launch.matrix is not None and name == launch.matrix.name:
            return
        for other in reads(block.value[name]):
            visit(other)

    for name in launch.targets:
        visit(name)
    if launch.matrix is not None:
        found.discard(launch.matrix.name)
        for name in reads(launch.matrix):
            visit(name)
    return [name for name in block.value if name in found]


def programs_cells(launch: Launch, volume: int) -> int:
    """How many points of the grid a program of cells has, if each has so many numbers."""
    return max(NUMBERS // max(volume, 1), 1) if launch.kind == "cells" else 32
