"""Variants of domains, and slices: what is left of an array when its unions are decided.

A variant of a domain decides every union in it for one of its parts, so that its values are tuples
of values of atomic domains. Written `C(NH(N, H))`: a value of `C` in its part `NH`, a pair of an
`N` and an `H`. A slice `binary(N, C(N), C(P))` is the array of `binary` where each node's value
lies in a variant, with an axis for every atomic domain. Where it lies follows from the sizes, so
slices stay right when sizes are set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from fgg.grammar import Attribute, Factor, Grammar, InputFactor, Product, Union
from fgg.grammar.domains import domain_size, parts
from fgg.grammar.memo import per_grammar
from fgg.grammar.values import AttributeValue, Call, Word

Path = tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A domain with its unions decided.

    `inner` is empty for an atomic domain, the variant of the chosen part for a union, and a
    variant for each component for a product.
    """

    domain: str
    inner: tuple[Variant, ...] = ()

    def at(self, path: Sequence[str]) -> Variant | None:
        """The variant of the part that `path` names, or None where another part is chosen."""
        found = self
        for name in path:
            inner = next((item for item in found.inner if item.domain == name), None)
            if inner is None:
                return None
            found = inner
        return found

    def leaves(self) -> tuple[tuple[Path, str], ...]:
        """The atomic domains that a value consists of, with the paths that lead to them."""
        if not self.inner:
            return (((), self.domain),)
        return tuple(
            ((item.domain, *path), domain) for item in self.inner for path, domain in item.leaves()
        )


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
        return tuple(Variant(domain, (chosen,)) for found in inner for chosen in found)
    return tuple(Variant(domain, chosen) for chosen in product(*inner))


@per_grammar
def extent(grammar: Grammar, domain: str, whole: frozenset[str] = frozenset()) -> tuple[int, int]:
    """How many variants a domain has, and how many atomic domains the largest consists of."""
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
    found = tuple(item.domain for item in variant.inner)
    if isinstance(shape, Union):
        fits = len(found) == 1 and found[0] in shape.parts
    else:
        fits = found == (shape.parts if isinstance(shape, Product) else ())
    return fits and all(is_variant(grammar, item, item.domain) for item in variant.inner)


@dataclass(frozen=True)
class Slice:
    """What a derived factor is: a variant for each axis of its source."""

    source: str
    axes: tuple[Variant, ...]

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the derived factor."""
        return tuple(domain for axis in self.axes for _, domain in axis.leaves())

    def attribute(self) -> Attribute:
        """The slice as a factor carries it, `slice = binary(N, C(N), C(P))`."""
        return Attribute(key="slice", value=Call(self.source, tuple(map(_write, self.axes))))


def slice_of(item: Factor | InputFactor) -> Slice | None:
    """The slice that a factor is, or None if it is no derived factor."""
    value = next((a.value for a in item.attributes if a.key == "slice"), None)
    return None if value is None else read_slice(value)


def is_slice(grammar: Grammar, item: Factor | InputFactor, source: Factor | InputFactor) -> bool:
    """Whether what a factor says of itself, that it is a slice of `source`, can be true."""
    found = slice_of(item)
    if found is None or len(found.axes) != len(source.domains):
        return False
    axes = zip(found.axes, source.domains, strict=True)
    if not all(is_variant(grammar, axis, domain) for axis, domain in axes):
        return False
    if isinstance(item, Factor):
        free = item.value is None and item.attribute("tied") is None
    else:
        free = isinstance(source, InputFactor) and len(item.indices) == len(source.indices)
    return free and item.domains == found.domains


def read_slice(value: AttributeValue) -> Slice | None:
    """The slice that an attribute's value stands for, or None if it stands for none."""
    if not isinstance(value, Call) or not value.arguments or value.keywords:
        return None
    axes = tuple(map(_read, value.arguments))
    found = tuple(axis for axis in axes if axis is not None)
    return Slice(value.name, found) if len(found) == len(axes) else None


def _write(variant: Variant) -> AttributeValue:
    inner = tuple(map(_write, variant.inner))
    return Call(variant.domain, inner) if inner else Word(variant.domain)


def _read(value: AttributeValue) -> Variant | None:
    if isinstance(value, Word):
        return Variant(value.name)
    if not isinstance(value, Call) or not value.arguments or value.keywords:
        return None
    inner = tuple(map(_read, value.arguments))
    found = tuple(item for item in inner if item is not None)
    return Variant(value.name, found) if len(found) == len(inner) else None


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


Step = Narrow | Unfold


def steps(grammar: Grammar, axes: Iterable[Variant]) -> tuple[Step, ...]:
    """What makes a slice of its source's array, one after the other.

    Axes are numbered as they are when a step is taken, so nested unions and products are cut and
    unfolded from the outside to the inside.
    """
    found: list[Step] = []
    axis = 0
    for variant in axes:
        axis = _steps(grammar, variant, axis, found)
    return tuple(found)


def _steps(grammar: Grammar, variant: Variant, axis: int, found: list[Step]) -> int:
    """Add the steps of one axis; the number of the axis after those that it becomes."""
    if not variant.inner:
        return axis + 1
    if isinstance(grammar.domain[variant.domain].shape, Union):
        part = parts(grammar, variant.domain)[variant.inner[0].domain]
        found.append(Narrow(axis, part.offset, part.size))
    else:
        sizes = tuple(domain_size(grammar, item.domain) for item in variant.inner)
        found.append(Unfold(axis, sizes))
    for item in variant.inner:
        axis = _steps(grammar, item, axis, found)
    return axis


def take(array: Any, wanted: Iterable[Step]) -> Any:
    """The slice of an array: of numpy, of torch, or of anything with their `reshape`."""
    for step in wanted:
        if isinstance(step, Narrow):
            whole = (slice(None),) * step.axis
            array = array[(*whole, slice(step.offset, step.offset + step.size))]
        else:
            shape = tuple(array.shape)
            array = array.reshape((*shape[: step.axis], *step.sizes, *shape[step.axis + 1 :]))
    return array


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
