"""What a semiring must offer to the reference engine, and what arrays offer of it already.

To add a semiring, take `ArraySemiring` (numpy) and give `zero`, `one`, `convert`, `multiply`,
`reduce` and `accumulate`; everything else follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Letters = tuple[int, ...]
"""The axes of an array, by name: nodes of a fragment are numbered, -1 is the batch."""

MAX_PRODUCT = 2**24
"""The largest intermediate array, in entries, before a product is done in pieces."""


class Semiring(Protocol):
    """Arrays over a semiring. Every method is pure."""

    name: str
    exactly: bool
    """Whether weights are wanted as fractions."""

    def convert(self, weights: NDArray[Any]) -> Any:
        """The array of semiring values that real weights stand for."""

    def full(self, shape: Sequence[int], *, one: bool) -> Any:
        """An array of ones or of zeros."""

    def stack(self, arrays: Sequence[Any]) -> Any:
        """The arrays along a new first axis."""

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        """The arrays along their first axis."""

    def take(self, array: Any, rows: Sequence[int], axis: int = 0) -> Any:
        """The given rows of an array."""

    def permute(self, array: Any, axes: Sequence[int]) -> Any:
        """The array with its axes in another order."""

    def expand(self, array: Any, shape: Sequence[int]) -> Any:
        """The array broadcast to a shape."""

    def contract(self, x: Any, xs: Letters, y: Any, ys: Letters, out: Letters) -> Any:
        """The product of two arrays, summed over the letters that `out` does not have."""

    def reduce(self, array: Any, axes: tuple[int, ...]) -> Any:
        """The sum over some axes."""

    def accumulate(self, parts: Sequence[tuple[Sequence[int], Any]], shape: Sequence[int]) -> Any:
        """An array of the given shape whose row r is the sum of all entries for row r."""

    def nonzero(self, array: Any) -> NDArray[np.bool_]:
        """Where an array is not the semiring's zero."""


class ArraySemiring:
    """A semiring on numpy arrays."""

    name = "array"
    exactly = False
    zero: Any = 0
    one: Any = 1
    dtype: Any = np.float64

    def convert(self, weights: NDArray[Any]) -> NDArray[Any]:
        """The array of semiring values that real weights stand for."""
        return np.asarray(weights, dtype=self.dtype)

    def multiply(self, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        """The product, entry by entry, with broadcasting."""
        return np.asarray(x * y)

    def reduce(self, array: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
        """The sum over some axes."""
        return np.asarray(array.sum(axis=axes), dtype=self.dtype)

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int], NDArray[Any]]], shape: Sequence[int]
    ) -> NDArray[Any]:
        """An array of the given shape whose row r is the sum of all entries for row r."""
        total = self.full(shape, one=False)
        for rows, values in parts:
            np.add.at(total, np.asarray(rows), values)
        return total

    def nonzero(self, array: NDArray[Any]) -> NDArray[np.bool_]:
        """Where an array is not the semiring's zero."""
        return np.asarray(array != self.zero, dtype=bool)

    def full(self, shape: Sequence[int], *, one: bool) -> NDArray[Any]:
        """An array of ones or of zeros."""
        return np.full(tuple(shape), self.one if one else self.zero, dtype=self.dtype)

    def stack(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The arrays along a new first axis."""
        return np.stack(arrays)

    def concatenate(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The arrays along their first axis."""
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def take(self, array: NDArray[Any], rows: Sequence[int], axis: int = 0) -> NDArray[Any]:
        """The given rows of an array."""
        return np.take(array, np.asarray(rows, dtype=np.intp), axis=axis)

    def permute(self, array: NDArray[Any], axes: Sequence[int]) -> NDArray[Any]:
        """The array with its axes in another order."""
        return array.transpose(tuple(axes))

    def expand(self, array: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
        """The array broadcast to a shape."""
        return np.broadcast_to(array, tuple(shape))

    def contract(
        self, x: NDArray[Any], xs: Letters, y: NDArray[Any], ys: Letters, out: Letters
    ) -> NDArray[Any]:
        """The product of two arrays, summed over the letters that `out` does not have."""
        sizes = dict(zip(xs, x.shape, strict=True)) | dict(zip(ys, y.shape, strict=True))
        gone = tuple(letter for letter in sizes if letter not in out)
        order = (*out, *gone)
        left, right = self._align(x, xs, order), self._align(y, ys, order)
        entries = int(np.prod([sizes[letter] for letter in order], dtype=object))
        axes = tuple(range(len(out), len(order)))
        if entries <= MAX_PRODUCT or not out:
            return self.reduce(self.multiply(left, right), axes)
        pieces = min(sizes[out[0]], -(-entries // MAX_PRODUCT))
        found = []
        for rows in np.array_split(np.arange(sizes[out[0]]), pieces):
            part = [a if a.shape[0] == 1 else a[rows[0] : rows[-1] + 1] for a in (left, right)]
            found.append(self.reduce(self.multiply(*part), axes))
        return np.concatenate(found)

    @staticmethod
    def _align(array: NDArray[Any], letters: Letters, order: Letters) -> NDArray[Any]:
        present = [letter for letter in order if letter in letters]
        moved = array.transpose([letters.index(letter) for letter in present])
        shape = iter(moved.shape)
        return moved.reshape([next(shape) if letter in letters else 1 for letter in order])
