"""Arrays over a semiring with a name for each axis, and what a plan does with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from fgg.runtime.interpret.semirings import Semiring
from fgg.runtime.interpret.semirings.base import Array, Bools, Indices
from fgg.runtime.reference.chart import diagonal


@dataclass(frozen=True)
class Named(Generic[Array]):
    """An array and the names of its axes; it is constant along every axis that it lacks."""

    array: Array
    dims: tuple[str, ...]


class Algebra(Generic[Array]):
    """A semiring's operations on named arrays and on the cells of charts."""

    def __init__(self, semiring: Semiring[Array]) -> None:
        self.semiring = semiring
        self._letters: dict[str, int] = {}

    def letters(self, dims: Iterable[str]) -> tuple[int, ...]:
        """The numbers by which the semiring knows the axes."""
        return tuple(self._letters.setdefault(d, len(self._letters)) for d in dims)

    def named(self, array: Array, dims: Sequence[str]) -> Named[Array]:
        """A named array; where a name occurs twice, the diagonal."""
        names = dict(zip(self.letters(dims), dims, strict=True))
        once, letters = diagonal(array, self.letters(dims))
        return Named(once, tuple(names[letter] for letter in letters))

    def contract(self, x: Named[Array], y: Named[Array], keep: Collection[str]) -> Named[Array]:
        """The product of two arrays, summed over the axes that are not kept."""
        out = tuple(d for d in dict.fromkeys((*x.dims, *y.dims)) if d in keep)
        array = self.semiring.contract(
            x.array, self.letters(x.dims), y.array, self.letters(y.dims), self.letters(out)
        )
        return Named(array, out)

    def product(self, x: Named[Array], y: Named[Array]) -> Named[Array]:
        """The product of two arrays."""
        return self.contract(x, y, (*x.dims, *y.dims))

    def sum(self, x: Named[Array], keep: Collection[str]) -> Named[Array]:
        """An array summed to the axes that are kept."""
        axes = tuple(i for i, d in enumerate(x.dims) if d not in keep)
        if not axes:
            return x
        return Named(self.semiring.reduce(x.array, axes), tuple(d for d in x.dims if d in keep))

    def fit(self, x: Named[Array], dims: Sequence[str], sizes: Mapping[str, int]) -> Array:
        """The array with exactly these axes, repeated along those it lacks."""
        present = [d for d in dims if d in x.dims]
        array = self.semiring.permute(x.array, [x.dims.index(d) for d in present])
        shape = tuple(sizes[d] if d in x.dims else 1 for d in dims)
        return self.semiring.expand(array.reshape(shape), [sizes[d] for d in dims])

    def ones(self, mask: Bools) -> Array:
        """One where a mask holds, zero elsewhere."""
        return self.where(mask, self.semiring.full(mask.shape, one=True))

    def where(self, mask: Bools, array: Array) -> Array:
        """An array with zero where a mask over its first axes is false."""
        if bool(mask.all()):
            return array
        mask = mask.reshape(mask.shape + (1,) * (len(array.shape) - mask.ndim))
        return self.semiring.where(mask, array)

    def add(self, x: Array, y: Array) -> Array:
        """The sum of two arrays of one shape."""
        return self.semiring.reduce(self.semiring.stack([x, y]), (0,))

    # cells

    def take(self, chart: Array, index: Sequence[Indices], valid: Bools) -> Array:
        """The cells `[*valid's axes, *values]` at index arrays; zero where `valid` is false."""
        shape = tuple(chart.shape)
        if 0 in shape[: len(index)]:
            return self.semiring.full((*valid.shape, *shape[len(index) :]), one=False)
        return self.where(valid, self.semiring.cells(chart, index))

    def add_to(
        self,
        chart: Array,
        index: Sequence[Indices],
        valid: Bools,
        values: Array,
        *,
        distinct: bool,
    ) -> Array:
        """The chart with `values` added to its valid cells; `distinct` if no cell occurs twice.

        Tensors are not changed in place, so that gradients can flow.
        """
        semiring = self.semiring
        shape = tuple(chart.shape)
        rank = len(index)
        if not bool(valid.any()):
            return chart
        rows: Indices = np.ravel_multi_index(
            tuple(np.broadcast_to(i, valid.shape)[valid] for i in index), shape[:rank]
        )
        chosen = semiring.cells(values, np.nonzero(valid))
        if not distinct:
            once, inverse = np.unique(rows, return_inverse=True)
            if len(once) < len(rows):
                chosen = semiring.accumulate([(inverse, chosen)], (len(once), *chosen.shape[1:]))
                rows = once
        whole = chart.reshape((-1, *shape[rank:]))
        total = self.add(semiring.cells(whole, (rows,)), chosen)
        return semiring.put(whole, rows, total).reshape(shape)
