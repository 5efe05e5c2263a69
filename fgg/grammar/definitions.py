"""Definitions: where a factor's weights come from, if they are neither learned nor a value.

A factor with a definition follows from other factors (it is a slice, a piece, a product or a
stationary distribution) or from an input. Source text writes a definition as an attribute:

    factor binary_0(N -> R) with piece = binary(0)

`read_definition` reads this form; `key` and `written` of a definition give it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Self

from fgg.grammar.spans import Span
from fgg.grammar.values import AttributeValue, Call, Word

Names = Mapping[str, str]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A domain with its unions decided, `C(NH(N, H))`.

    `inner` is empty for an atomic domain, the variant of the chosen part for a union, and a
    variant for each component for a product.
    """

    domain: str
    inner: tuple[Variant, ...] = ()

    def at(self, path: Sequence[str]) -> Variant | None:
        """The variant of the part that `path` names, or None where another part is chosen."""
        variant = self
        for name in path:
            inner = next((item for item in variant.inner if item.domain == name), None)
            if inner is None:
                return None
            variant = inner
        return variant

    def leaves(self) -> tuple[tuple[Path, str], ...]:
        """The atomic domains that a value consists of, with the paths that lead to them."""
        if not self.inner:
            return (((), self.domain),)
        return tuple(
            ((item.domain, *path), domain) for item in self.inner for path, domain in item.leaves()
        )

    def renamed(self, domains: Names) -> Variant:
        """The variant with new names of domains."""
        inner = tuple(item.renamed(domains) for item in self.inner)
        return Variant(domains.get(self.domain, self.domain), inner)

    @property
    def written(self) -> AttributeValue:
        """The variant as source text writes it."""
        inner = tuple(item.written for item in self.inner)
        return Call(self.domain, inner) if inner else Word(self.domain)


@dataclass(frozen=True)
class _Definition:
    """The base of all definitions; `key` is the attribute that writes them."""

    key: ClassVar[str]
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def sources(self) -> tuple[str, ...]:
        """The factors that the defined one follows from."""
        return ()

    def renamed(self, labels: Names, domains: Names) -> Self:
        """The definition with new names of factors and domains; names of inputs stay."""
        return self


@dataclass(frozen=True)
class _FromFactor(_Definition):
    """The definition of a factor that follows from one other."""

    source: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The factor that the defined one follows from."""
        return (self.source,)

    def renamed(self, labels: Names, domains: Names) -> Self:
        """The definition with a new name of its source."""
        return replace(self, source=labels.get(self.source, self.source))


@dataclass(frozen=True)
class Slice(_FromFactor):
    """The entries of `source` where each node's value lies in a variant of its domain.

    Written `slice = binary(N, C(N), C(P))`, with a variant for each axis of the source.
    """

    key = "slice"
    axes: tuple[Variant, ...]

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the slice: the atomic domains of its variants."""
        return tuple(domain for axis in self.axes for _, domain in axis.leaves())

    @property
    def written(self) -> Call:
        """The slice as source text writes it, `binary(N, C(N), C(P))`."""
        return Call(self.source, tuple(axis.written for axis in self.axes))

    def renamed(self, labels: Names, domains: Names) -> Slice:
        """The slice with new names of its source and of domains."""
        axes = tuple(axis.renamed(domains) for axis in self.axes)
        return replace(super().renamed(labels, domains), axes=axes)


@dataclass(frozen=True)
class Piece(_FromFactor):
    """The piece of `source`, a factor of low rank, with this number, `piece = binary(0)`."""

    key = "piece"
    number: int

    @property
    def written(self) -> Call:
        """The piece as source text writes it, `binary(0)`."""
        return Call(self.source, (float(self.number),))


@dataclass(frozen=True)
class Tied(_FromFactor):
    """The stationary distribution of a transition factor, `tied = stationary(trans)`."""

    key = "tied"

    @property
    def written(self) -> Call:
        """The tie as source text writes it, `stationary(trans)`."""
        return Call("stationary", (Word(self.source),))


@dataclass(frozen=True)
class ProductPart:
    """A factor that is multiplied in, and the numbers of the product's nodes that it touches."""

    source: str
    axes: tuple[int, ...]


@dataclass(frozen=True)
class ProductOf(_Definition):
    """The product of other factors, `product = of(emit(0, 1), trans(0, 2))`."""

    key = "product"
    parts: tuple[ProductPart, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The factors that are multiplied."""
        return tuple(part.source for part in self.parts)

    @property
    def written(self) -> Call:
        """The product as source text writes it, `of(emit(0, 1), trans(0, 2))`."""
        return Call("of", tuple(Call(p.source, tuple(map(float, p.axes))) for p in self.parts))

    def renamed(self, labels: Names, domains: Names) -> ProductOf:
        """The product with new names of the factors that are multiplied."""
        parts = (replace(part, source=labels.get(part.source, part.source)) for part in self.parts)
        return replace(self, parts=tuple(parts))


@dataclass(frozen=True)
class InputEvidence(_Definition):
    """The value of an input at one position, `observed = w`. Grounding makes these factors."""

    key = "observed"
    input: str

    @property
    def written(self) -> Word:
        """The evidence as source text writes it, `w`."""
        return Word(self.input)


@dataclass(frozen=True)
class InputPotential(_Definition):
    """An input factor at one index, `observed = factor(phi)`. Grounding makes these factors."""

    key = "observed"
    input: str

    @property
    def written(self) -> Call:
        """The potential as source text writes it, `factor(phi)`."""
        return Call("factor", (Word(self.input),))


Definition = Slice | Piece | ProductOf | Tied | InputEvidence | InputPotential


def read_definition(key: str, value: AttributeValue, span: Span | None = None) -> Definition | None:
    """The definition that `with key = value` stands for, or None if it stands for none."""
    read = _READERS.get(key)
    definition = None if read is None else read(value)
    return None if definition is None else replace(definition, span=span)


def _slice(value: AttributeValue) -> Slice | None:
    if not isinstance(value, Call) or not value.arguments or value.keywords:
        return None
    axes = _variants(value.arguments)
    return None if axes is None else Slice(value.name, axes)


def _variants(values: Sequence[AttributeValue]) -> tuple[Variant, ...] | None:
    variants: list[Variant] = []
    for value in values:
        if isinstance(value, Word):
            variants.append(Variant(value.name))
        elif isinstance(value, Call) and value.arguments and not value.keywords:
            inner = _variants(value.arguments)
            if inner is None:
                return None
            variants.append(Variant(value.name, inner))
        else:
            return None
    return tuple(variants)


def _piece(value: AttributeValue) -> Piece | None:
    numbers = _numbers(value)
    if not isinstance(value, Call) or numbers is None or len(numbers) != 1:
        return None
    return Piece(value.name, numbers[0])


def _product(value: AttributeValue) -> ProductOf | None:
    if not isinstance(value, Call) or value.name != "of" or value.keywords:
        return None
    parts: list[ProductPart] = []
    for item in value.arguments:
        axes = _numbers(item)
        # A part that touches a node twice would be a diagonal, which merging does not make.
        if not isinstance(item, Call) or not axes or len(set(axes)) < len(axes):
            return None
        parts.append(ProductPart(item.name, axes))
    return ProductOf(tuple(parts)) if len(parts) > 1 else None


def _numbers(value: AttributeValue) -> tuple[int, ...] | None:
    """The arguments of a call, if all of them count something and there are no keywords."""
    if not isinstance(value, Call) or value.keywords:
        return None
    numbers = [
        int(number)
        for number in value.arguments
        if isinstance(number, float | Fraction) and number >= 0 and number == int(number)
    ]
    return tuple(numbers) if len(numbers) == len(value.arguments) else None


def _tied(value: AttributeValue) -> Tied | None:
    match value:
        case Call("stationary", (Word(source),), ()):
            return Tied(source)
    return None


def _observed(value: AttributeValue) -> InputEvidence | InputPotential | None:
    match value:
        case Word(name):
            return InputEvidence(name)
        case Call("factor", (Word(name),), ()):
            return InputPotential(name)
    return None


_READERS: Mapping[str, Callable[[AttributeValue], Definition | None]] = {
    "slice": _slice,
    "piece": _piece,
    "product": _product,
    "tied": _tied,
    "observed": _observed,
}

DEFINITION_KEYS = tuple(_READERS)
"""The attributes that define a factor, as they are written after `with`."""
