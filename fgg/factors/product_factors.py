"""Joint factors: a factor that is the product of others, as merging makes it.

`factor emit_trans(T -> W, T) with product = of(emit(0, 1), trans(0, 2))` says

    emit_trans(x0, x1, x2)  =  emit(x0, x1) trans(x0, x2),

where the numbers are those of the joint factor's nodes. No node is summed out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fgg.grammar import Attribute, Factor, Grammar
from fgg.grammar.values import AttributeValue, Call

WORD = "of"


@dataclass(frozen=True)
class Part:
    """A factor that is multiplied in, and which nodes of the joint factor it touches."""

    source: str
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Joint:
    """What a derived factor is: the product of its parts."""

    parts: tuple[Part, ...]

    def attribute(self) -> Attribute:
        """The joint as a factor carries it, `product = of(emit(0, 1), trans(0, 2))`."""
        calls = tuple(Call(part.source, tuple(map(float, part.axes))) for part in self.parts)
        return Attribute(key="product", value=Call(WORD, calls))


def joint_of(factor: Factor) -> Joint | None:
    """The product that a factor is, or None if it is no joint factor."""
    value = factor.attribute("product")
    return None if value is None else read_joint(value)


def read_joint(value: AttributeValue) -> Joint | None:
    """The product that an attribute's value stands for, or None if it stands for none."""
    if not isinstance(value, Call) or value.name != WORD or value.keywords:
        return None
    parts = [_read(item) for item in value.arguments]
    found = tuple(part for part in parts if part is not None)
    return Joint(found) if len(found) == len(parts) >= 2 else None


def _read(value: AttributeValue) -> Part | None:
    if not isinstance(value, Call) or value.keywords or not value.arguments:
        return None
    axes = []
    for number in value.arguments:
        if not isinstance(number, float | Fraction) or number < 0 or number != int(number):
            return None
        axes.append(int(number))
    # A part that touches a node twice would be a diagonal, which merging does not make.
    return Part(value.name, tuple(axes)) if len(set(axes)) == len(axes) else None


def is_joint(grammar: Grammar, item: Factor) -> bool:
    """Whether what a factor says of itself, that it is a product of others, can be true."""
    found = joint_of(item)
    if found is None or item.value is not None or item.rank is not None:
        return False
    touched: set[int] = set()
    for part in found.parts:
        source = grammar.factor[part.source]
        wanted = [item.domains[axis] for axis in part.axes if axis < len(item.domains)]
        if tuple(wanted) != source.domains or joint_of(source) is not None:
            return False
        touched.update(part.axes)
    if touched != set(range(len(item.domains))):
        return False
    return item.given is None or given_axes(grammar.factor, found.parts) == set(range(item.given))


def given_axes(factors: Mapping[str, Factor], parts: Sequence[Part]) -> set[int] | None:
    """The nodes that a product is a distribution given; None where it need not be one.

    It is one if each part is, no node is right of two arrows, and no arrows lead in a circle: then
    the nodes that are right of arrows can be summed out one part after the other, the last first.
    Given are the nodes that are right of none.
    """
    left: list[set[int]] = []
    right: list[set[int]] = []
    for part in parts:
        given = factors[part.source].given
        if given is None:
            return None
        left.append(set(part.axes[:given]))
        right.append(set(part.axes[given:]))
    made = set[int]().union(*right)
    if len(made) != sum(map(len, right)):
        return None
    waiting = set(range(len(parts)))
    while waiting:
        open_axes = set[int]().union(*(right[i] for i in waiting))
        ready = {i for i in waiting if not left[i] & open_axes}
        if not ready:
            return None
        waiting -= ready
    return set[int]().union(*left) - made


def multiplied(einsum: Any, joint: Joint, arrays: Mapping[str, Any]) -> Any:
    """The array of a joint factor, by the `einsum` of numpy or of torch."""
    operands: list[Any] = []
    for part in joint.parts:
        operands += [arrays[part.source], list(part.axes)]
    count = 1 + max(axis for part in joint.parts for axis in part.axes)
    return einsum(*operands, list(range(count)))
