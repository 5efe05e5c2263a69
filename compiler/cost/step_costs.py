"""The products that a step carries out, each over some loop variables and axes.

These are the multiplications of the emitted program. Scales, one number for each cell, do not
count, except that a step with nothing but scales counts one for each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgg.plan import Operand, Plan, Step


@dataclass(frozen=True)
class Work:
    """A product of two values at each point of some loops and axes, and the loops and axes kept."""

    loops: tuple[str, ...]
    axes: tuple[str, ...]
    kept_loops: tuple[str, ...]
    kept_axes: tuple[str, ...]


@dataclass(frozen=True)
class StepProducts:
    """The products of a step in order, and what else it writes: (loops, axes) of weights."""

    products: tuple[Work, ...]
    weights: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@dataclass(frozen=True)
class _Value:
    loops: frozenset[str]
    axes: frozenset[str]

    def __or__(self, other: _Value) -> _Value:
        return _Value(self.loops | other.loops, self.axes | other.axes)


def step_products(plan: Plan, step: Step) -> StepProducts:
    """The products of a step, in order, and its weights."""
    return _Contraction(plan, step).run()


def loop_names(step: Step, operand: Operand) -> frozenset[str]:
    """The loop variables that an operand's cell depends on."""
    used = {name for expr in operand.index for name in expr.names()}
    return frozenset(loop.name for loop in step.positions + step.splits if loop.name in used)


class _Contraction:
    def __init__(self, plan: Plan, step: Step) -> None:
        self.plan = plan
        self.step = step
        self.order = tuple(loop.name for loop in step.positions + step.splits)
        self.splits = {loop.name for loop in step.splits}
        self.done: list[Work] = []
        self.weights: list[_Value] = []

    def run(self) -> StepProducts:
        step = self.step
        values: list[_Value | None] = [
            None if self.plan.is_scale(o) else _Value(loop_names(step, o), frozenset(o.axes))
            for o in step.operands
        ]
        live = self.follow(values, self.weigh(values))
        while len(live) > 1:
            one, two = live.pop(0), live.pop(0)
            rest = frozenset().union(*(v.loops for v in live))
            axes = frozenset(step.head_axes).union(*(v.axes for v in live))
            live.insert(0, self.multiply(one, two, (one | two).axes & axes, rest))
        if not self.done:
            last = live[0] if live else _Value(frozenset(self.order), frozenset())
            self.add(last, _Value(last.loops - self.splits, last.axes & set(step.head_axes)))
        weights = tuple((self.ordered(v.loops), tuple(sorted(v.axes))) for v in self.weights)
        return StepProducts(tuple(self.done), weights)

    def ordered(self, loops: frozenset[str]) -> tuple[str, ...]:
        """Loop variables in the order of the box."""
        return tuple(name for name in self.order if name in loops)

    def follow(self, values: Sequence[_Value | None], weight: _Value | None) -> list[_Value]:
        """Multiply along the step's path. Returns the values that are left."""
        live = {**dict(enumerate(values)), -1: weight}
        alias: dict[int, int] = {}
        width = len(self.step.operands)
        for number, pair in enumerate(self.step.path, width):
            left, right = alias.get(pair.left, pair.left), alias.get(pair.right, pair.right)
            one, two = live[left], live[right]
            if one is None or two is None:
                alias[number] = right if one is None else left
                continue
            del live[left], live[right]
            rest = frozenset().union(*(v.loops for v in live.values() if v is not None))
            live[number] = self.multiply(one, two, (one | two).axes & set(pair.keep), rest)
        return [v for v in live.values() if v is not None]

    def multiply(
        self, one: _Value, two: _Value, axes: frozenset[str], rest: frozenset[str]
    ) -> _Value:
        both = one | two
        kept = _Value(frozenset(x for x in both.loops if x not in self.splits or x in rest), axes)
        self.add(both, kept)
        return kept

    def add(self, read: _Value, kept: _Value) -> None:
        self.done.append(
            Work(
                self.ordered(read.loops),
                tuple(sorted(read.axes)),
                self.ordered(kept.loops),
                tuple(sorted(kept.axes)),
            )
        )

    def weigh(self, values: list[_Value | None]) -> _Value | None:
        """Scales that differ along a sum become weights of the smallest value.

        Where no value depends on the input, the weights are a value of their own.
        """
        scaled = [o for o in self.step.operands if self.has_scale(o)]
        loops = frozenset().union(*(loop_names(self.step, o) for o in scaled))
        if self.step.masks:
            loops = frozenset(self.order)
        if not loops & self.splits:
            return None
        weight = _Value(loops, frozenset())
        self.weights.append(weight)
        if all(v is None for v in values):
            return None
        carriers = [
            (len(value.axes), number)
            for number, value in enumerate(values)
            if value is not None and self.step.operands[number].kind != "parameter"
        ]
        if not carriers:
            return weight
        number = min(carriers)[1]
        weighed = (values[number] or weight) | weight
        values[number] = weighed
        self.weights.append(weighed)
        return None

    def has_scale(self, operand: Operand) -> bool:
        """Whether an operand's scale counts: in a linear step it does not."""
        return not self.step.linear and self.plan.has_scale(operand)
