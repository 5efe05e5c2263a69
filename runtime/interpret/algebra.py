"""Arrays over a semiring with a name for each axis, and what kernels do with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import prod
from typing import Generic

import numpy as np

from fgg.plan import Pair
from fgg.runtime.interpret.frame import CellIndex
from fgg.runtime.interpret.semirings import Semiring
from fgg.runtime.interpret.semirings.base import Array, Bools, Ints
from fgg.runtime.reference.chart import diagonal


@dataclass(frozen=True, eq=False)
class Named(Generic[Array]):
    """An array and the names of its axes; it is constant along every axis that it lacks.

    One that `is_one` at all points need not be multiplied by.
    """

    array: Array
    dims: tuple[str, ...]
    is_one: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """The extents of the axes."""
        return dict(zip(self.dims, self.array.shape, strict=True))


class Algebra(Generic[Array]):
    """A semiring's operations on named arrays and on the cells of charts.

    An element of the semiring may be an array itself: `element` names its axes, which stand after
    that of the batch, and `slope` those of a derivative by a parameter. `sizes` has their extents.
    """

    element: tuple[str, ...] = ()
    slope: tuple[str, ...] = ()

    def __init__(self, semiring: Semiring[Array], sizes: Mapping[str, int] | None = None) -> None:
        self.semiring = semiring
        self.sizes = sizes or {}
        self._letters: dict[str, int] = {}

    def letters(self, dims: Iterable[str]) -> tuple[int, ...]:
        """The numbers by which the semiring knows the axes."""
        known = self._letters
        return tuple([known.setdefault(d, len(known)) for d in dims])

    def named(self, array: Array, dims: Sequence[str]) -> Named[Array]:
        """A named array; where a name occurs twice, the diagonal."""
        if len(set(dims)) == len(dims):
            return Named(array, tuple(dims))
        names = dict(zip(self.letters(dims), dims, strict=True))
        once, letters = diagonal(array, self.letters(dims))
        return Named(once, tuple(names[letter] for letter in letters))

    # sums and products

    def contract(self, x: Named[Array], y: Named[Array], dims: Collection[str]) -> Named[Array]:
        """The product of two arrays, summed over the axes that are not among `dims`."""
        if y.is_one and {*y.dims} <= {*x.dims}:
            return self.sum(x, dims)
        x = self.sum(x, {*dims, *y.dims})
        y = self.sum(y, {*dims, *x.dims})
        return self.product(x, y, {*dims, *self.element, *self.slope})

    def product(self, x: Named[Array], y: Named[Array], keep: Collection[str]) -> Named[Array]:
        """The product of two arrays that both have the axes to be summed."""
        out = tuple([d for d in dict.fromkeys((*x.dims, *y.dims)) if d in keep])
        array = self.semiring.contract(
            x.array, self.letters(x.dims), y.array, self.letters(y.dims), self.letters(out)
        )
        return Named(array, out)

    def sum(self, x: Named[Array], dims: Collection[str]) -> Named[Array]:
        """An array summed over the axes that are not among `dims`; elements stay whole."""
        keep = [d in dims or d in self.element or d in self.slope for d in x.dims]
        if all(keep):
            return x
        axes = tuple([i for i, kept in enumerate(keep) if not kept])
        return Named(self.semiring.reduce(x.array, axes), tuple(compress(x.dims, keep)))

    def add(self, x: Array, y: Array) -> Array:
        """The sum of two arrays of one shape."""
        return self.semiring.reduce(self.semiring.stack([x, y]), (0,))

    def fit(self, x: Named[Array], dims: tuple[str, ...], sizes: Mapping[str, int]) -> Array:
        """The array with exactly these axes, repeated along those it lacks."""
        if x.dims == dims:
            return x.array
        array = self.semiring.permute(x.array, [x.dims.index(d) for d in dims if d in x.dims])
        known = x.sizes
        wanted = [known[d] if d in known else sizes[d] for d in dims]
        return self.semiring.expand(array.reshape(tuple([known.get(d, 1) for d in dims])), wanted)

    def spread(
        self,
        x: Named[Array],
        front: tuple[str, ...],
        axes: tuple[str, ...],
        sizes: Mapping[str, int],
    ) -> Array:
        """The array over `front` and one axis for each of `axes`, which may repeat a node.

        Entries at which equal nodes have different values are zero.
        """
        once = tuple(dict.fromkeys(axes))
        values = self.fit(x, (*front, *once), sizes)
        if len(once) == len(axes):
            return values
        states = [sizes[axis] for axis in axes]
        grid = np.indices(states)
        agree = np.ones(states, dtype=bool)
        for number, axis in enumerate(axes):
            agree &= grid[number] == grid[axes.index(axis)]
        chosen = [grid[axes.index(axis)].reshape(-1) for axis in once]
        flat = np.ravel_multi_index(chosen, [sizes[axis] for axis in once])
        lead = values.shape[: len(front)]
        wide = self.semiring.take(values.reshape((*lead, -1)), flat, len(front))
        return self.semiring.where(agree, wide.reshape((*lead, *states)))

    # constants

    def ones(self, mask: Bools) -> Array:
        """One where a mask holds, zero elsewhere."""
        return self.where(mask, self.semiring.full(mask.shape, one=True))

    def where(self, mask: Bools | None, array: Array) -> Array:
        """An array with zero where a mask over its first axes is false."""
        if mask is None or bool(mask.all()):
            return array
        mask = mask.reshape(mask.shape + (1,) * (len(array.shape) - mask.ndim))
        return self.semiring.where(mask, array)

    def times_one(self, count: int) -> Array:
        """One, added up `count` times."""
        one = self.semiring.full((), one=True)
        total = self.semiring.full((), one=False)
        for digit in f"{count:b}":
            total = self.add(total, total)
            total = self.add(total, one) if digit == "1" else total
        return self.settled(total)

    # cells

    def zeros(self, extents: Sequence[int], states: Sequence[int]) -> Array:
        """Storage for cells `[*extents, *states]`, all of them zero."""
        shape = (*extents, *(self.sizes[d] for d in self.element), *states)
        return self.semiring.full(shape, one=False)

    def take(self, storage: Array, place: CellIndex) -> Array:
        """The cells `[*place's axes, *values]`; zero where there are none."""
        whole = _flat(storage, place.rank)
        shape = (*place.rows.shape, *whole.shape[1:])
        if not whole.shape[0]:
            return self.semiring.full(shape, one=False)
        cells = self.semiring.take(whole, place.rows.reshape(-1)).reshape(shape)
        return self.where(place.valid, cells)

    def add_to(
        self, storage: Array, place: CellIndex, values: Array, *, distinct: bool, empty: bool
    ) -> Array:
        """The storage with `values` added to its cells, where there are such cells.

        `distinct`: no cell occurs twice. `empty`: all these cells are zero. Tensors are not changed
        in place, so that gradients can flow.
        """
        rows, values = chosen(place, values, self.semiring)
        if not len(rows):
            return storage
        if not distinct:
            once, inverse = np.unique(rows, return_inverse=True)
            if len(once) < len(rows):
                shape = (len(once), *values.shape[1:])
                rows, values = once, self.semiring.accumulate([(inverse, values)], shape)
        whole = _flat(storage, place.rank)
        if not empty:
            values = self.settled(self.add(self.semiring.take(whole, rows), values))
        return self.semiring.put(whole, rows, values).reshape(storage.shape)

    def collect(self, storage: Array, place: CellIndex, values: Array, distinct: bool) -> Array:
        """As `add_to`, for sums of derivatives, which need `settled` before they are read."""
        return self.add_to(storage, place, values, distinct=distinct, empty=False)

    def settled(self, slopes: Array) -> Array:
        """Derivatives in normal form, after sums."""
        return slopes


def _flat(storage: Array, rank: int) -> Array:
    """Storage as a list of cells; it has `rank` axes of them."""
    shape = storage.shape
    return storage.reshape((prod(shape[:rank]), *shape[rank:]))


def chosen(place: CellIndex, values: Array, semiring: Semiring[Array]) -> tuple[Ints, Array]:
    """The numbers of the cells that exist, and the values `[*place's axes, …]` there, as lists."""
    rows, listed = place.rows.reshape(-1), _flat(values, len(place.dims))
    if place.valid is None:
        return rows, listed
    (valid,) = np.nonzero(place.valid.reshape(-1))
    return rows[valid], semiring.take(listed, valid)


class Product(Generic[Array]):
    """A contraction of operands in a given order, and its derivatives.

    What the path leaves is multiplied in order. `keep` are the axes of the result.
    """

    def __init__(
        self,
        algebra: Algebra[Array],
        operands: Sequence[Named[Array]],
        path: Sequence[Pair],
        keep: Collection[str],
    ) -> None:
        self.algebra = algebra
        self.values = list(operands)
        self.first = len(self.values)
        self.pairs: list[tuple[int, int]] = []
        live = dict(enumerate(self.values))
        pending = [(pair.left, pair.right) for pair in path]
        while len(live) > 1:
            left, right = pending.pop(0) if pending else tuple(sorted(live))[:2]
            one, two = live.pop(left), live.pop(right)
            needed = {*keep, *(d for value in live.values() for d in value.dims)}
            live[len(self.values)] = algebra.contract(one, two, needed)
            self.values.append(live[len(self.values)])
            self.pairs.append((left, right))
        self.result = algebra.sum(self.values[-1], keep)

    def gradients(self, gradient: Named[Array], wanted: Collection[int]) -> dict[int, Named[Array]]:
        """The derivative by each wanted operand; along axes that it lacks it is constant."""
        needed = set(wanted)
        for place, pair in enumerate(self.pairs, self.first):
            if needed & {*pair}:
                needed.add(place)
        slopes = {len(self.values) - 1: gradient}
        for place in range(len(self.pairs) - 1, -1, -1):
            upper = slopes.pop(self.first + place, None)
            if upper is not None:
                left, right = self.pairs[place]
                for one, other in ((left, right), (right, left)):
                    if one in needed:
                        dims = self.values[one].dims
                        slopes[one] = self.algebra.contract(upper, self.values[other], dims)
        return {i: self.algebra.sum(slopes[i], self.values[i].dims) for i in wanted if i in slopes}
