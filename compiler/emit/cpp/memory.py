"""Where numbers lie in memory, and products of them that have not been carried out yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from fgg.compiler.emit.python.values import Value


@dataclass(frozen=True)
class Size:
    """A number of entries, as C++: a number times names."""

    number: int = 1
    names: tuple[str, ...] = ()

    def __mul__(self, other: Size) -> Size:
        return Size(self.number * other.number, tuple(sorted((*self.names, *other.names))))

    def __str__(self) -> str:
        parts = [str(self.number)] if self.number != 1 or not self.names else []
        return " * ".join([*parts, *self.names])


ONE = Size()


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes."""
    return prod(sizes, start=ONE)


@dataclass(frozen=True)
class Memory:
    """Numbers at a pointer, with a stride for each axis.

    Cells that are looked up have a pointer for each point: `points` are the axes that `base`
    itself depends on. `shared`: different points may be the same cell, so that what is added to
    it is added one after the other.
    """

    base: str
    strides: Mapping[str, Size]
    points: tuple[str, ...] = ()
    shared: bool = False

    @property
    def dims(self) -> set[str]:
        """The axes that it has."""
        return {*self.strides, *self.points}

    def at(self, variables: Mapping[str, str], fixed: Iterable[str]) -> str:
        """The pointer for given values of some axes."""
        moves = [
            f"{variables[d]} * {self.strides[d]}" if self.strides[d] != ONE else variables[d]
            for d in fixed
            if d in self.strides
        ]
        return " + ".join([self.base, *moves])

    def merged(self, dims: Sequence[str], sizes: Mapping[str, Size]) -> Size | None:
        """The stride of several axes taken as one, if they lie behind each other."""
        if any(d in self.points for d in dims):
            return None
        for outer, inner in pairwise(dims):
            if self.strides[outer] != self.strides[inner] * sizes[inner]:
                return None
        return self.strides[dims[-1]] if dims else ONE


@dataclass(frozen=True, eq=False)
class Term(Value):
    """A product of memories, to be summed to the axes `dims`.

    Its factors are in two groups: a matrix product multiplies one with the other.
    """

    code: str = ""
    dims: tuple[str, ...] = ()
    left: tuple[Memory, ...] = field(default=())
    right: tuple[Memory, ...] = field(default=())

    @property
    def factors(self) -> tuple[Memory, ...]:
        """All factors."""
        return self.left + self.right

    @property
    def summed(self) -> set[str]:
        """The axes that are still to be summed over."""
        return dims_of(self.factors) - set(self.dims)


@dataclass(frozen=True, eq=False)
class Later(Value):
    """A product of two values, summed to the axes `dims`, of which nothing is computed yet."""

    code: str = ""
    dims: tuple[str, ...] = ()
    left: Value = field(default=Value("", ()))
    right: Value = field(default=Value("", ()))


def dims_of(factors: Iterable[Memory]) -> set[str]:
    """The axes that any factor has."""
    return {d for factor in factors for d in factor.dims}
