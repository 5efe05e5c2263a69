"""Kernels: what a pass computes, as a flat list of typed operations.

A plan says which rules run on which level. A kernel says what is done there: which cells are read,
what is multiplied and summed, where results go. Every backend prints or carries out kernels, and
the outside pass is a kernel too, derived from that of the inside pass (`fgg.plan.adjoint`).

Every value of a kernel has named axes (`dims`): loop variables, `BATCH`, and the nodes of the rule.
A kernel comes in two forms. In the *plain* form a cell holds numbers of any semiring. In the
*scaled* form it holds numbers times one scale: `values · exp(scale)`. There charts without states
are scales alone, and operations on scales stand beside those on values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from fgg.grammar import Rule
from fgg.grammar.index import Expr
from fgg.plan.plan import Bound, Chart, Loop, Mask, Operand, Plan

BATCH = "@b"
"""The axis of the items."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """`name` is the cells of a stored tensor, or of its adjoint.

    Where an edge touches a node twice, it is the diagonal. `copy`: the cells are read before the
    block adds to them.
    """

    name: str
    cells: Operand
    dims: tuple[str, ...]
    adjoint: bool = False
    copy: bool = False


@dataclass(frozen=True, kw_only=True)
class Presence:
    """`name` is `count` at the points where the masks hold, and zero elsewhere (plain form)."""

    name: str
    masks: tuple[Mask, ...]
    count: int
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """`name` is the scale of each point: the sum of those of `cells` and of log `count`.

    It is minus infinity where a mask does not hold (scaled form).
    """

    name: str
    cells: tuple[Operand, ...]
    masks: tuple[Mask, ...]
    count: int
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Greatest:
    """`name` is the greatest scale over the axes that it lacks."""

    name: str
    scale: str
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Weigh:
    """`name` is what each point's scale is worth beside the greatest: `exp(scale - top)`.

    How far the least is below the greatest belongs to the range certificate.
    """

    name: str
    scale: str
    top: str
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LogSum:
    """`name` is the logarithm of the sum of `exp(scale)` over the axes that it lacks."""

    name: str
    scale: str
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Relative:
    """`name` is what each point's scale is worth beside that of the head's cell."""

    name: str
    scale: str | None
    head: Operand
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Multiply:
    """`name` is the product of two values, summed over the axes that it lacks."""

    name: str
    left: str
    right: str
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Sum:
    """`name` is a value summed over the axes that it lacks."""

    name: str
    source: str
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Hide:
    """`name` is a value with zeros in the cells where a mask does not hold."""

    name: str
    source: str
    masks: tuple[Mask, ...]
    dims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Put:
    """Fill cells of a chart: `value` (1 if it is None) times `exp(scale)` (1 if it is None).

    Where the head's nodes are the same, it is zero off the diagonal.

    `mode` says how that meets what the cells have: "write" (nothing), "mixed" (something if
    lengths differ) or "add". In the scaled form the greatest value of each cell goes into its
    scale, and the range certificate keeps it together with `depth`, the number of charts with
    states that the values are products of.
    """

    cells: Operand
    value: str | None
    scale: str | None = None
    mode: str = "write"
    depth: int = 0


@dataclass(frozen=True, kw_only=True)
class Keep:
    """Write cells whose scales are those of `source`, or shared with it (None)."""

    cells: Operand
    value: str
    source: Operand | None = None


@dataclass(frozen=True, kw_only=True)
class Give:
    """Add a value to the adjoints of cells, repeated along axes that it lacks.

    `hidden`: cells that only other items have get zero first.
    """

    cells: Operand
    value: str


@dataclass(frozen=True, kw_only=True)
class Erase:
    """Write zeros to adjoints of cells where a mask does not hold."""

    cells: Operand
    masks: tuple[Mask, ...]


Named = Load | Presence | Scale | Greatest | Weigh | LogSum | Relative | Multiply | Sum | Hide
"""An operation that gives a value."""
Effect = Put | Keep | Give | Erase
"""An operation that changes a stored tensor."""
Operation = Named | Effect


def reads(op: Operation) -> tuple[str, ...]:
    """The names of the values that an operation takes."""
    match op:
        case Multiply():
            return op.left, op.right
        case Sum() | Hide():
            return (op.source,)
        case Greatest() | LogSum():
            return (op.scale,)
        case Weigh():
            return op.scale, op.top
        case Relative():
            return () if op.scale is None else (op.scale,)
        case Put():
            return tuple(name for name in (op.value, op.scale) if name is not None)
        case Keep() | Give():
            return (op.value,)
        case _:
            return ()


def stored(op: Operation) -> Iterator[Operand]:
    """The cells that an operation reads or changes."""
    match op:
        case Load() | Give() | Erase() | Put():
            yield op.cells
        case Scale():
            yield from op.cells
        case Relative():
            yield op.head
        case Keep():
            yield op.cells
            if op.source is not None:
                yield op.source


@dataclass(frozen=True, kw_only=True)
class Block:
    """The work of one rule on one level, over the points of a box.

    `positions` are the loops over the head's cells and `splits` those over the terms of a cell.
    Nothing is done where a guard is negative or a loop is empty. `sparse`: tables say which cells
    are read, and it may be none. `sizes` are those of the rule's nodes. `overlaps`: some points, at
    which the rule is zero, read cells that others write.
    """

    rule: Rule
    positions: tuple[Loop, ...]
    splits: tuple[Loop, ...]
    guards: tuple[Expr, ...]
    body: tuple[Operation, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    sparse: bool = False
    # What the block contracts, and in which pairs: the adjoint is made from that.
    operands: tuple[Operand, ...] = ()
    path: tuple[tuple[int, int], ...] = ()
    overlaps: bool = False
    # The loops that are not empty if all guards hold.
    sure: tuple[str, ...] = ()
    # The rule's own index variables, in terms of the loops and the level: for people.
    variables: Mapping[str, Expr] = field(default_factory=dict)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops, positions first."""
        return self.positions + self.splits

    @cached_property
    def cell_dims(self) -> tuple[str, ...]:
        """The axes of the head's cells."""
        return (*(loop.name for loop in self.positions), BATCH)

    @cached_property
    def point_dims(self) -> tuple[str, ...]:
        """The axes of points."""
        return (*(loop.name for loop in self.loops), BATCH)

    @cached_property
    def value(self) -> Mapping[str, Named]:
        """The operations that give values, by name."""
        return {op.name: op for op in self.body if not isinstance(op, Effect)}

    def uses(self, name: str) -> int:
        """How often a value is taken."""
        return sum(reads(op).count(name) for op in self.body)


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The levels of a stage, from the least of `first` to the greatest of `last`."""

    first: tuple[Bound, ...]
    last: tuple[Bound, ...]
    forms: Mapping[str, Expr]
    reverse: bool = False


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Groups of blocks, carried out on each level, or once if there are no levels.

    The blocks of a group fill the same cells: what they put is added first.
    """

    groups: tuple[tuple[Block, ...], ...]
    levels: Levels | None = None

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks of all groups."""
        return (block for group in self.groups for block in group)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A pass of a plan: its stages, in the order in which they are carried out."""

    plan: Plan
    stages: tuple[Stage, ...]
    scaled: bool
    outside: bool = False

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks of all stages."""
        return (block for stage in self.stages for block in stage.blocks)


def live(body: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """The operations that an effect needs."""
    needed: set[str] = set()
    kept: list[Operation] = []
    for op in reversed(body):
        if isinstance(op, Effect) or op.name in needed:
            needed.update(reads(op))
            kept.append(op)
    return tuple(reversed(kept))


def whole_chart(chart: Chart) -> tuple[Loop, ...]:
    """Loops over all cells of a chart."""
    return tuple(replace(axis, name=f"@{number}") for number, axis in enumerate(chart.axes))
