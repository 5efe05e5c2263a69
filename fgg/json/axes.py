"""The axes of structured tensors: physical ones, products of axes, axes between zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from fgg.json.places import Fail, kind_of, whole_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

MAX_DEPTH = 100


@dataclass(frozen=True)
class Physical:
    """An axis of the physical tensor."""

    index: int
    size: int

    def used(self) -> Iterator[int]:
        """The physical axes that this axis is made of."""
        yield self.index

    def positions(self, column: Callable[[int], Column]) -> Column:
        """Where entries lie on this axis, given where they lie on each physical axis."""
        return column(self.index)


@dataclass(frozen=True)
class ProductAxis:
    """A product of axes, the last one varying fastest; without axes, of size 1."""

    parts: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """The number of positions."""
        return prod(part.size for part in self.parts)

    def used(self) -> Iterator[int]:
        """The physical axes that this axis is made of."""
        for part in self.parts:
            yield from part.used()

    def positions(self, column: Callable[[int], Column]) -> Column:
        """Where entries lie on this axis, given where they lie on each physical axis."""
        import numpy as np

        found: Column = np.zeros(1, dtype=np.int64)
        for part in self.parts:
            found = found * part.size + part.positions(column)
        return found


@dataclass(frozen=True)
class Embedded:
    """An axis that lies between entries that are left to the default."""

    before: int
    term: Axis
    after: int

    @property
    def size(self) -> int:
        """The number of positions."""
        return self.before + self.term.size + self.after

    def used(self) -> Iterator[int]:
        """The physical axes that this axis is made of."""
        return self.term.used()

    def positions(self, column: Callable[[int], Column]) -> Column:
        """Where entries lie on this axis, given where they lie on each physical axis."""
        return self.before + self.term.positions(column)


Axis = Physical | ProductAxis | Embedded


def read_axis(
    data: object, sizes: Sequence[int], path: str, fail: Fail, depth: int = 0
) -> Axis | None:
    """The axis that JSON describes, over physical axes of the given sizes; None if it is wrong."""
    if depth > MAX_DEPTH:
        fail(path, "the axis is nested too deep")
    elif isinstance(data, list):
        items = [(item, f"{path}[{number}]") for number, item in enumerate(data)]
        parts = [read_axis(item, sizes, place, fail, depth + 1) for item, place in items]
        found = tuple(part for part in parts if part is not None)
        if len(found) == len(parts):
            return ProductAxis(found)
    elif isinstance(data, dict):
        for key in ("before", "term", "after"):
            if key not in data:
                fail(path, f"there is no `{key}`")
                return None
        for key in ("before", "after"):
            if not whole_number(data[key]):
                fail(f"{path}.{key}", "a whole number from 0 up was expected")
                return None
        term = read_axis(data["term"], sizes, f"{path}.term", fail, depth + 1)
        if term is not None:
            return Embedded(data["before"], term, data["after"])
    elif not isinstance(data, int) or isinstance(data, bool):
        fail(path, f"an axis was expected, not {kind_of(data)}")
    elif not 0 <= data < len(sizes):
        fail(path, f"there is no physical axis {data}: there are {len(sizes)}")
    else:
        return Physical(data, sizes[data])
    return None
