"""What a semiring must offer to the reference engine, and what arrays offer of it already.

To add a semiring, take `ArraySemiring` (numpy) and give `zero`, `one`, `convert`, `multiply`,
`reduce` and `accumulate`; everything else follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import exp, inf, prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.grammar.values import MAX_LOG, exact

Letters = tuple[int, ...]
"""The axes of an array, by name: nodes of a fragment are numbered, -1 is the batch."""


BLOCK = 2**18
"""The entries of a product that are made at a time, so that they stay in a processor's cache."""


MAX_EXACT_LOG = 20_000.0
"""The greatest logarithm whose exponential is written out as a fraction."""


def exponentials(logs: Any) -> NDArray[Any]:
    """What logarithms stand for, as fractions.

    They are exponentials in double precision where these are normal numbers, else with 28 digits.
    Raises GrammarError (F417) beyond `MAX_EXACT_LOG`.
    """

    def exponential(log: float) -> Fraction:
        if log == -inf:
            return Fraction(0)
        return exact(exp(log)) if abs(log) <= MAX_LOG else Fraction(Decimal(log).exp())

    array = np.asarray(logs, dtype=float)
    if bool((np.abs(array[np.isfinite(array)]) > MAX_EXACT_LOG).any()):
        message = f"a logarithm beyond {MAX_EXACT_LOG:g}: its exponential has too many digits"
        help = "use the semiring `log` or `max`"
        refuse("F417", message, help)
    return np.asarray(np.frompyfunc(exponential, 1, 1)(array), dtype=object).reshape(array.shape)


class Semiring(Protocol):
    """Arrays over a semiring. Every method is pure."""

    name: str
    exactly: bool
    """Whether weights are wanted as fractions."""

    def convert(self, weights: NDArray[Any]) -> Any:
        """The array of semiring values that real weights stand for."""

    def convert_logs(self, logs: Any) -> Any:
        """The array of semiring values that weights stand for which are given by logarithms."""

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

    def convert_logs(self, logs: Any) -> NDArray[Any]:
        """The array of semiring values that weights stand for which are given by logarithms."""
        return self.convert(exponentials(logs))

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
        axes = tuple(range(len(out), len(order)))
        shape = tuple(sizes[letter] for letter in out)
        entries = prod(sizes[letter] for letter in order)
        if entries <= BLOCK or not out:
            return self.reduce(self.multiply(left, right), axes)
        result = np.empty(shape, dtype=self.dtype)
        for block in _blocks(shape, entries):
            part = [
                a[tuple(s if n > 1 else slice(None) for s, n in zip(block, a.shape, strict=False))]
                for a in (left, right)
            ]
            result[block] = self.reduce(self.multiply(*part), axes)
        return result

    @staticmethod
    def _align(array: NDArray[Any], letters: Letters, order: Letters) -> NDArray[Any]:
        present = [letter for letter in order if letter in letters]
        moved = array.transpose([letters.index(letter) for letter in present])
        shape = iter(moved.shape)
        return moved.reshape([next(shape) if letter in letters else 1 for letter in order])


def _blocks(shape: Sequence[int], entries: int) -> Iterator[tuple[slice, ...]]:
    """Parts of an array, in order, each of which stands for at most about `BLOCK` entries."""
    ranges: list[list[slice]] = []
    for size in shape:
        entries //= max(size, 1)
        step = max(BLOCK // max(entries, 1), 1)
        ranges.append([slice(first, first + step) for first in range(0, size, step)])
        if step > 1:
            break
    yield from product(*ranges)
