"""Where numbers lie in memory, and products of them that have not been carried out yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Memory:
    """Numbers at a place that C++ can name.

    `text` is a pointer to the `width` numbers of a cell, or the number itself if `width` is 0. It
    depends on the variables of the axes in `index`; `strides` are those of the other axes, and
    `steps` tells how far cells are apart along axes of the index, as far as that is constant.
    `affine`: it is constant along all of them. `shared`: different points may be the same cell.
    """

    text: str
    index: tuple[str, ...] = ()
    strides: Mapping[str, int] = field(default_factory=dict)
    width: int = 0
    steps: Mapping[str, str] = field(default_factory=dict)
    affine: bool = True
    shared: bool = False
    # Room for an intermediate result: its name, and its axes as they lie.
    array: str = ""
    axes: tuple[str, ...] = ()
    # The same place for other values of variables.
    at: Callable[[Mapping[str, str]], str] = field(default=lambda _: "", compare=False)

    @property
    def dims(self) -> set[str]:
        """The axes that it has."""
        return {*self.index, *self.strides}

    @property
    def key(self) -> object:
        """What tells two places apart."""
        return self.text, self.index, tuple(self.strides.items())

    def entry(self, variables: Mapping[str, str]) -> str:
        """A number in it."""
        if not self.width:
            return self.text
        moves = [
            variables[d] if stride == 1 else f"{variables[d]} * {stride}"
            for d, stride in sorted(self.strides.items(), key=lambda item: -item[1])
        ]
        return f"{self.text}[{' + '.join(moves) or '0'}]"


@dataclass(frozen=True, eq=False)
class Term:
    """A product of memories, to be summed to the axes `dims`.

    Its factors are in two groups: a matrix product multiplies one with the other.
    """

    dims: tuple[str, ...]
    left: tuple[Memory, ...] = ()
    right: tuple[Memory, ...] = ()

    @property
    def factors(self) -> tuple[Memory, ...]:
        """All factors."""
        return self.left + self.right

    @property
    def summed(self) -> set[str]:
        """The axes that are still to be summed over."""
        return dims_of(self.factors) - set(self.dims)


@dataclass(frozen=True, eq=False)
class Later:
    """A product of two values, summed to the axes `dims`, of which nothing is computed yet."""

    dims: tuple[str, ...]
    left: Value
    right: Value


Value = Term | Later


def dims_of(factors: Iterable[Memory]) -> set[str]:
    """The axes that any factor has."""
    return {d for factor in factors for d in factor.dims}


def strides_of(axes: Sequence[str], sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """The strides of a cell's axes, and how many numbers it has; a node may occur twice."""
    strides: dict[str, int] = {}
    width = 1
    for axis in reversed(axes):
        # Where a node occurs twice, its diagonal.
        strides[axis] = strides.get(axis, 0) + width
        width *= sizes[axis]
    return dict(reversed(strides.items())), width if axes else 0
