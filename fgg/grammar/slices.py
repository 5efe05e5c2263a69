"""Variants of domains, and slices: what is left of an array when its unions are decided.

A variant of a domain decides every union in it for one of its parts, so that its values are tuples
of values of atomic domains. Written `C(NH(N, H))`: a value of `C` in its part `NH`, a pair of an
`N` and an `H`. A slice `binary(N, C(N), C(P))` is the array of `binary` where each node's value
lies in a variant, with an axis for every atomic domain. Where it lies follows from the sizes, so
slices stay right when sizes are set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol, TypeVar, cast

from fgg.grammar import Factor, Grammar, InputFactor, Product, Union
from fgg.grammar.definitions import Slice, Variant
from fgg.grammar.domains import domain_size, parts
from fgg.grammar.memo import per_grammar


@per_grammar
def variants(
    grammar: Grammar, domain: str, whole: frozenset[str] = frozenset()
) -> tuple[Variant, ...]:
    """The variants of a domain, in the order of its values (of those of their first parts).

    Unions in `whole` are not decided: they count as atomic.
    """
    shape = grammar.domain[domain].shape
    if domain in whole or not isinstance(shape, Union | Product):
        return (Variant(domain),)
    inner = [variants(grammar, part, whole) for part in shape.parts]
    if isinstance(shape, Union):
        return tuple(Variant(domain, (chosen,)) for options in inner for chosen in options)
    return tuple(Variant(domain, chosen) for chosen in product(*inner))


@per_grammar
def extent(grammar: Grammar, domain: str, whole: frozenset[str] = frozenset()) -> tuple[int, int]:
    """The number of variants of a domain, and the most atomic domains that one of them has."""
    shape = grammar.domain[domain].shape
    if domain in whole or not isinstance(shape, Union | Product):
        return 1, 1
    counts = [extent(grammar, part, whole) for part in shape.parts]
    if isinstance(shape, Union):
        return sum(count for count, _ in counts), max(leaves for _, leaves in counts)
    return prod(count for count, _ in counts), sum(leaves for _, leaves in counts)


def is_variant(grammar: Grammar, variant: Variant, domain: str) -> bool:
    """Whether this is a variant of a domain."""
    shape = grammar.domain[domain].shape
    if variant.domain != domain:
        return False
    chosen = tuple(item.domain for item in variant.inner)
    if isinstance(shape, Union):
        fits = len(chosen) == 1 and chosen[0] in shape.parts
    else:
        fits = chosen == (shape.parts if isinstance(shape, Product) else ())
    return fits and all(is_variant(grammar, item, item.domain) for item in variant.inner)


def is_slice(grammar: Grammar, item: Factor | InputFactor, source: Factor | InputFactor) -> bool:
    """Whether a factor that is defined as a slice of `source` can be one."""
    cut = item.definition
    if not isinstance(cut, Slice) or len(cut.axes) != len(source.domains):
        return False
    axes = zip(cut.axes, source.domains, strict=True)
    if not all(is_variant(grammar, axis, domain) for axis, domain in axes):
        return False
    if isinstance(item, Factor):
        free = item.value is None
    else:
        free = isinstance(source, InputFactor) and len(item.indices) == len(source.indices)
    return free and item.domains == cut.domains


@dataclass(frozen=True)
class Narrow:
    """Keep the entries `[offset : offset + size]` of an axis: a part of a union."""

    axis: int
    offset: int
    size: int


@dataclass(frozen=True)
class Unfold:
    """Replace an axis by axes of these sizes, the last one fastest: components of a product."""

    axis: int
    sizes: tuple[int, ...]


SliceStep = Narrow | Unfold


def steps(grammar: Grammar, axes: Iterable[Variant]) -> tuple[SliceStep, ...]:
    """The steps that cut a slice out of its source's array, in order.

    Axes are numbered as they are when a step is taken, so nested unions and products are cut and
    unfolded from the outside to the inside.
    """
    taken: list[SliceStep] = []
    axis = 0
    for variant in axes:
        axis = _steps(grammar, variant, axis, taken)
    return tuple(taken)


def _steps(grammar: Grammar, variant: Variant, axis: int, taken: list[SliceStep]) -> int:
    """Add the steps of one axis. Returns the number of the axis that follows its results."""
    if not variant.inner:
        return axis + 1
    if isinstance(grammar.domain[variant.domain].shape, Union):
        part = parts(grammar, variant.domain)[variant.inner[0].domain]
        taken.append(Narrow(axis, part.offset, part.size))
    else:
        sizes = tuple(domain_size(grammar, item.domain) for item in variant.inner)
        taken.append(Unfold(axis, sizes))
    for item in variant.inner:
        axis = _steps(grammar, item, axis, taken)
    return axis


class _Sliceable(Protocol):
    @property
    def shape(self) -> Iterable[int]: ...

    def __getitem__(self, key: tuple[slice, ...], /) -> _Sliceable: ...

    def reshape(self, shape: tuple[int, ...], /) -> _Sliceable: ...


A = TypeVar("A")


def take(array: A, wanted: Iterable[SliceStep]) -> A:
    """The slice of an array: of numpy, of torch, or of anything with their `reshape`.

    `array` has an axis for each axis of the source, the result one for each atomic domain.
    """
    result = cast(_Sliceable, array)
    for step in wanted:
        if isinstance(step, Narrow):
            whole = (slice(None),) * step.axis
            result = result[(*whole, slice(step.offset, step.offset + step.size))]
        else:
            shape = tuple(result.shape)
            result = result.reshape((*shape[: step.axis], *step.sizes, *shape[step.axis + 1 :]))
    return cast(A, result)


def source_value(grammar: Grammar, variant: Variant, values: Iterable[int]) -> int:
    """The value of the whole domain that values of a variant's atomic domains stand for.

    An offset for the part of a union, mixed radix for the components of a product.
    """
    return _source_value(grammar, variant, iter(values))


def _source_value(grammar: Grammar, variant: Variant, values: Iterator[int]) -> int:
    if not variant.inner:
        return next(values)
    if isinstance(grammar.domain[variant.domain].shape, Union):
        part = parts(grammar, variant.domain)[variant.inner[0].domain]
        return part.offset + _source_value(grammar, variant.inner[0], values)
    total = 0
    for item in variant.inner:
        total = total * domain_size(grammar, item.domain) + _source_value(grammar, item, values)
    return total
