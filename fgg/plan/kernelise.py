"""From a plan to the kernel of its inside pass.

A rule on one level is a sum of products (the *contraction* of its operands): over the points of a
box, the operands' cells are multiplied and summed to the head's cells. In the scaled form every
point also has a scale, the sum of its operands'. Where points are summed, each is weighed by its
scale beside the greatest of its cell:

    head · exp(top) = Σ over splits k of  Π operands(k) · exp(scale(k) - top)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fgg.grammar.domains import domain_size
from fgg.grammar.names import fresh
from fgg.plan.kernel import (
    BATCH,
    Block,
    Greatest,
    Hide,
    Keep,
    Kernel,
    Levels,
    Load,
    LogSum,
    Multiply,
    Named,
    Operation,
    Presence,
    Put,
    Scale,
    Stage,
    Sum,
    Weigh,
    live,
)
from fgg.plan.plan import Mask, Operand, Plan, Step


def kernelise(plan: Plan, *, scaled: bool) -> Kernel:
    """The kernel of a plan's inside pass, in the scaled or the plain form."""
    stages = []
    for stage in plan.stages:
        groups = tuple(
            tuple(
                _block(plan, step, scaled=scaled, first=number == 0)
                for number, step in enumerate(members)
            )
            for _, members in groupby(stage.steps, key=lambda step: (step.head, step.group))
        )
        levels = None
        if stage.has_levels:
            levels = Levels(first=stage.first, last=stage.last, forms=stage.level)
        stages.append(Stage(groups=groups, levels=levels))
    return Kernel(plan=plan, stages=tuple(stages), scaled=scaled)


def node_sizes(plan: Plan, step: Step) -> dict[str, int]:
    """The sizes of a rule's nodes."""
    return {node.name: domain_size(plan.grammar, node.domain) for node in step.rule.rhs.nodes}


def once(axes: Sequence[str]) -> tuple[str, ...]:
    """Axes without repetitions, in the order of repeated diagonals: what was double comes last."""
    names = list(axes)
    while len(set(names)) < len(names):
        name = next(a for i, a in enumerate(names) if a in names[i + 1 :])
        first = names.index(name)
        second = names.index(name, first + 1)
        names = [a for i, a in enumerate(names) if i not in (first, second)] + [name]
    return tuple(names)


@dataclass(frozen=True)
class Contracted:
    """The result of a contraction, and the products that lead to it, in order."""

    result: str | None
    products: tuple[Multiply | Sum, ...]


class Operations:
    """Collects the operations of one block; values are numbered in order."""

    def __init__(
        self, plan: Plan, loops: Sequence[str], positions: Sequence[str], head_axes: Sequence[str]
    ) -> None:
        self.plan = plan
        self.point_dims = (*loops, BATCH)
        self.cell_dims = (*positions, BATCH)
        self.splits = tuple(d for d in loops if d not in positions)
        self.head_axes = tuple(dict.fromkeys(head_axes))
        self.body: list[Operation] = []
        self.dims: dict[str, tuple[str, ...]] = {}

    def fresh(self, stem: str) -> str:
        """A new name."""
        number = len(self.body) + 1
        return f"{stem}{number}"

    def add(self, op: Named) -> str:
        """Append an operation; the name of its value."""
        self.body.append(op)
        self.dims[op.name] = op.dims
        return op.name

    def index_dims(self, operand: Operand) -> tuple[str, ...]:
        """The loop variables that an operand's cells depend on, and the batch."""
        if operand.kind == "parameter":
            return ()
        used = {name for expr in operand.index for name in expr.names()}
        return (*(d for d in self.point_dims if d in used), BATCH)

    def load(self, operand: Operand, *, adjoint: bool = False, copy: bool = False) -> str:
        """Read cells; a head's cells have all positions."""
        dims = once((*self.index_dims(operand), *operand.axes))
        name = self.fresh("d" if adjoint else "v")
        return self.add(Load(name=name, cells=operand, dims=dims, adjoint=adjoint, copy=copy))

    def multiply(self, left: str, right: str, dims: Iterable[str]) -> str:
        """A product, summed over the axes that are not in `dims`."""
        both = {*self.dims[left], *self.dims[right]}
        kept = self.ordered(d for d in dims if d in both)
        return self.add(Multiply(name=self.fresh("v"), left=left, right=right, dims=kept))

    def summed(self, value: str, keep: Iterable[str]) -> str:
        """A value summed over the axes that are not kept."""
        kept = set(keep)
        dims = tuple(d for d in self.dims[value] if d in kept)
        if dims == self.dims[value]:
            return value
        return self.add(Sum(name=self.fresh("v"), source=value, dims=dims))

    def ordered(self, dims: Iterable[str]) -> tuple[str, ...]:
        """Axes in order: points, then nodes, those of the head in its order."""
        names = tuple(dict.fromkeys(dims))
        nodes = [d for d in names if d not in self.point_dims]
        nodes.sort(key=lambda d: self.head_axes.index(d) if d in self.head_axes else -1)
        return (*(d for d in self.point_dims if d in names), *nodes)

    def carrier(self, values: Sequence[str | None], operands: Sequence[Operand]) -> int | None:
        """The operand that weights are multiplied into: the one with the fewest node axes."""
        sizes = [
            (len({*self.dims[value]} - {*self.point_dims}), number)
            for number, value in enumerate(values[: len(operands)])
            if value is not None and operands[number].kind != "parameter"
        ]
        return min(sizes)[1] if sizes else None

    def carry(
        self, values: list[str | None], weight: str, operands: Sequence[Operand]
    ) -> int | None:
        """Multiply weights into an operand and return its number.

        Where there are only parameters, the weights become an operand of their own: None.
        """
        number = self.carrier(values, operands)
        if number is None:
            values.append(weight)
            return None
        before = values[number]
        assert before is not None
        dims = (*self.dims[before], *self.dims[weight])
        values[number] = self.multiply(before, weight, dims)
        return number

    def contract(self, values: Sequence[str | None], path: Sequence[tuple[int, int]]) -> Contracted:
        """Multiply values pair by pair and sum them to the head's cells.

        Pairs count results after values; a value of None is one. What the path leaves is multiplied
        in order. An axis is summed as soon as no other value has it.
        """
        everything: list[str | None] = list(values)
        alias: dict[int, int] = {}
        live = {number: value for number, value in enumerate(values) if value is not None}
        products: list[Multiply | Sum] = []
        keep = {*self.cell_dims, *self.head_axes}
        pending = list(path)

        def real(number: int) -> int:
            while number in alias:
                number = alias[number]
            return number

        while pending or len(live) > 1:
            left, right = map(real, pending.pop(0)) if pending else sorted(live)[:2]
            one, two = everything[left], everything[right]
            if one is None or two is None:
                alias[len(everything)] = right if one is None else left
                everything.append(None)
                continue
            del live[left], live[right]
            others = {d for value in live.values() for d in self.dims[value]}
            dims = (*self.dims[one], *self.dims[two])
            result = self.multiply(one, two, (d for d in dims if d in keep or d in others))
            live[len(everything)] = result
            everything.append(result)
            products.append(self._last())
        if not live:
            return Contracted(None, ())
        (value,) = live.values()
        result = self.summed(value, keep)
        if result != value:
            products.append(self._last())
        return Contracted(result, tuple(products))

    def _last(self) -> Multiply | Sum:
        op = self.body[-1]
        assert isinstance(op, Multiply | Sum)
        return op


def path_of(step: Step, extra: int) -> list[tuple[int, int]]:
    """The pairs of a step's path; `extra` values stand between operands and results."""
    count = len(step.operands)

    def moved(number: int) -> int:
        return number + extra if number >= count else number

    return [(moved(pair.left), moved(pair.right)) for pair in step.path]


def head_operand(step: Step) -> Operand:
    """The cells that a step fills."""
    return Operand(kind="chart", name=step.head, index=step.head_index, axes=step.head_axes)


def _apart(step: Step) -> dict[str, str]:
    """New names for the nodes of a rule that are called as one of its loops is."""
    loops = {loop.name for loop in (*step.positions, *step.splits)}
    taken = loops | {node.name for node in step.rule.rhs.nodes}
    return {name: fresh(name, taken) for name in step.rule.rhs.by_name if name in loops}


def _block(plan: Plan, step: Step, *, scaled: bool, first: bool) -> Block:
    """The operations of a step; the `first` of its group."""
    sizes = node_sizes(plan, step)
    if renamed := _apart(step):
        sizes = {renamed.get(name, name): size for name, size in sizes.items()}
        axes = tuple(renamed.get(a, a) for a in step.head_axes)
        operands = tuple(
            replace(o, axes=tuple(renamed.get(a, a) for a in o.axes)) for o in step.operands
        )
        step = replace(step, head_axes=axes, operands=operands)
    loops = tuple(loop.name for loop in (*step.positions, *step.splits))
    positions = tuple(loop.name for loop in step.positions)
    ops = Operations(plan, loops, positions, step.head_axes)
    if not scaled:
        _plain(ops, step, step.mode if first else "add")
    elif step.linear:
        _linear(ops, step)
    else:
        _scaled(ops, step)
    sparse = any(
        operand.kind == "chart" and any(True for expr in operand.index for _ in expr.lookups())
        for operand in step.operands
    )
    return Block(
        rule=step.rule,
        positions=step.positions,
        splits=step.splits,
        guards=step.guards,
        body=live(tuple(ops.body)),
        sizes=sizes,
        sparse=sparse,
        operands=step.operands,
        path=tuple((pair.left, pair.right) for pair in step.path),
        overlaps=step.overlaps,
        variables=step.variables,
    )


def _plain(ops: Operations, step: Step, mode: str) -> None:
    """The product of all operands, zero where a mask does not hold."""
    values: list[str | None] = [ops.load(operand) for operand in step.operands]
    weight = presence(ops, values, step.masks, step.free)
    extra = 0
    if weight is not None:
        extra = ops.carry(values, weight, step.operands) is None
    result = ops.contract(values, path_of(step, extra)).result
    ops.body.append(Put(cells=head_operand(step), value=result, mode=mode))


def presence(
    ops: Operations, values: Sequence[str | None], masks: Sequence[Mask], count: int
) -> str | None:
    """How often each point counts: `count` times where the masks hold; None if always once."""
    seen = {d for value in values if value is not None for d in ops.dims[value]}
    wanted = {d for d in ops.splits if d not in seen}
    for mask in masks:
        wanted |= {BATCH, *mask.expr.names()}
    dims = tuple(d for d in ops.point_dims if d in wanted)
    if not dims and count == 1:
        return None
    name = ops.fresh("w")
    return ops.add(Presence(name=name, masks=tuple(masks), count=count, dims=dims))


def _linear(ops: Operations, step: Step) -> None:
    """Each cell of one chart, mapped by parameters; its scale stays."""
    values: list[str | None] = [ops.load(operand) for operand in step.operands]
    result = ops.contract(values, path_of(step, 0)).result
    assert result is not None
    if step.masks:
        name = ops.fresh("v")
        result = ops.add(Hide(name=name, source=result, masks=step.masks, dims=ops.dims[result]))
    (source,) = (operand for operand in step.operands if operand.kind == "chart")
    shared = ops.plan.shares_scale(step)
    ops.body.append(Keep(cells=head_operand(step), value=result, source=None if shared else source))


def _scaled(ops: Operations, step: Step) -> None:
    """The product of the operands' values, and the scale of each cell."""
    plan, head = ops.plan, head_operand(step)
    values = [None if plan.is_scale(o) else ops.load(o) for o in step.operands]
    scale = point_scale(ops, step.operands, step.masks, step.free)
    top, depth = scale, plan.depth(step)
    scalar = plan.chart[step.head].is_scalar
    splits = [d for d in ops.splits if scale is not None and d in ops.dims[scale]]
    extra = 0
    if scale is not None and splits:
        cells = tuple(d for d in ops.dims[scale] if d not in splits)
        if scalar and all(value is None for value in values):
            total = ops.add(LogSum(name=ops.fresh("e"), scale=scale, dims=cells))
            ops.body.append(Put(cells=head, value=None, scale=total, mode=step.mode))
            return
        top = ops.add(Greatest(name=ops.fresh("top"), scale=scale, dims=cells))
        weigh = Weigh(name=ops.fresh("w"), scale=scale, top=top, dims=ops.dims[scale])
        extra = ops.carry(values, ops.add(weigh), step.operands) is None
    result = ops.contract(values, path_of(step, extra)).result
    ops.body.append(Put(cells=head, value=result, scale=top, mode=step.mode, depth=depth))


def point_scale(
    ops: Operations, operands: Sequence[Operand], masks: Sequence[Mask], count: int
) -> str | None:
    """The scale of each point; None if it is 0 everywhere."""
    scaled = tuple(operand for operand in operands if ops.plan.has_scale(operand))
    if not scaled and not masks and count == 1:
        return None
    dims = ops.point_dims
    if not masks:
        used = {d for operand in scaled for d in ops.index_dims(operand)}
        dims = tuple(d for d in dims if d in used)
    name = ops.fresh("e")
    return ops.add(Scale(name=name, cells=scaled, masks=tuple(masks), count=count, dims=dims))
