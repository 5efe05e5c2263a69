"""Product factors: a factor that is the product of others, as merging makes it.

`factor emit_trans(T -> W, T) with product = of(emit(0, 1), trans(0, 2))` says

    emit_trans(x0, x1, x2)  =  emit(x0, x1) trans(x0, x2),

where the numbers are those of the product factor's nodes. No node is summed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from fgg.grammar import Factor, Grammar
from fgg.grammar.definitions import ProductOf, ProductPart

A = TypeVar("A")


def is_product(grammar: Grammar, item: Factor) -> bool:
    """Whether a factor that is defined as a product of others can be one."""
    product = item.definition
    if not isinstance(product, ProductOf) or item.value is not None or item.rank is not None:
        return False
    touched: set[int] = set()
    for part in product.parts:
        source = grammar.factor[part.source]
        wanted = [item.domains[axis] for axis in part.axes if axis < len(item.domains)]
        if tuple(wanted) != source.domains or isinstance(source.definition, ProductOf):
            return False
        touched.update(part.axes)
    if touched != set(range(len(item.domains))):
        return False
    return item.given is None or given_axes(grammar.factor, product.parts) == set(range(item.given))


def given_axes(factors: Mapping[str, Factor], parts: Sequence[ProductPart]) -> set[int] | None:
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


def multiplied(einsum: Callable[..., A], product: ProductOf, arrays: Mapping[str, A]) -> A:
    """The array of a product factor, `[*nodes]`, by the `einsum` of numpy or of torch."""
    operands: list[object] = []
    for part in product.parts:
        operands += [arrays[part.source], list(part.axes)]
    count = 1 + max(axis for part in product.parts for axis in part.axes)
    return einsum(*operands, list(range(count)))
