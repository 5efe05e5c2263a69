"""The protocol of a semiring over arrays, and its common half for numpy arrays.

To add a semiring, derive from `ArraySemiring` (numpy) and give `zero`, `one`, `dtype`, the ufuncs
`plus` and `times`, and `convert`. Everything else follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import exp, inf, prod
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar.values import MAX_LOG, exact

Letters = tuple[int, ...]
"""The names of an array's axes: the nodes of a fragment are numbered, -1 is the batch."""

NumpyArray = NDArray[Any]
"""A numpy array of any element type: floats, residues, booleans, or Python objects."""

Numbers = Tensor | NumpyArray
"""Real weights or logarithms, before a semiring converts them."""

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Indices = NDArray[np.signedinteger[Any]]
"""Positions along one axis of an array."""


BLOCK = 2**18
"""The entries of a product that are made at a time, so that they stay in a processor's cache."""


MAX_EXACT_LOG = 20_000.0
"""The greatest logarithm whose exponential is written out as a fraction."""


class TensorLike(Protocol):
    """The operations that torch tensors and numpy arrays have in common."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    def reshape(self, shape: tuple[int, ...], /) -> Self:
        """The same entries with other axes."""

    def diagonal(self, offset: int, first: int, second: int, /) -> Self:
        """The entries where two axes agree, along a new last axis."""

    def __getitem__(self, key: Any, /) -> Self: ...


Array = TypeVar("Array", bound=TensorLike)
"""The arrays that a semiring computes with: torch tensors or numpy arrays."""

Scalar = TypeVar("Scalar", bound=np.generic)


def to_numpy(array: object) -> NumpyArray:
    """A tensor, an array or nested numbers as a numpy array, without derivatives."""
    if isinstance(array, Tensor):
        array = array.detach().cpu().numpy()
    return np.asarray(array)


def exponentials(logs: Numbers) -> NDArray[np.object_]:
    """The exponentials of logarithms, as fractions.

    They have double precision where that gives normal numbers, else 28 digits.
    Raises GrammarError (F417) beyond `MAX_EXACT_LOG`.
    """

    def exponential(log: float) -> Fraction:
        if log == -inf:
            return Fraction(0)
        return exact(exp(log)) if abs(log) <= MAX_LOG else Fraction(Decimal(log).exp())

    array = np.asarray(logs, dtype=float)
    if bool((np.abs(array[np.isfinite(array)]) > MAX_EXACT_LOG).any()):
        message = f"a logarithm beyond {MAX_EXACT_LOG:g}: its exponential has too many digits"
        refuse("F417", message, "use the semiring `log` or `max`")
    return np.asarray(np.frompyfunc(exponential, 1, 1)(array), dtype=object).reshape(array.shape)


class Semiring(Protocol[Array]):
    """Arrays over a semiring. No method changes its arguments, except `put`."""

    name: str
    exactly: bool
    """Whether `convert` expects fractions."""
    on_tensors: bool
    """Whether the arrays are torch tensors, through which gradients flow."""

    def convert(self, weights: Numbers) -> Array:
        """Real weights as values of the semiring."""

    def convert_logs(self, logs: Numbers) -> Array:
        """Logarithms of weights as values of the semiring."""

    def full(self, shape: Sequence[int], *, one: bool) -> Array:
        """An array of ones or of zeros."""

    def stack(self, arrays: Sequence[Array]) -> Array:
        """The arrays along a new first axis."""

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        """The arrays along their first axis."""

    def take(self, array: Array, rows: Sequence[int] | Indices, axis: int = 0) -> Array:
        """The given rows of an array."""

    def put(self, array: Array, rows: Indices, values: Array) -> Array:
        """The array with other rows at some places of its first axis.

        Numpy arrays are changed in place. Tensors are not, so that gradients can flow.
        """

    def where(self, mask: Bools, array: Array) -> Array:
        """The array, with zeros where a mask that broadcasts to its shape is false."""

    def permute(self, array: Array, axes: Sequence[int]) -> Array:
        """The array with its axes in another order."""

    def expand(self, array: Array, shape: Sequence[int]) -> Array:
        """The array broadcast to a shape."""

    def contract(self, x: Array, xs: Letters, y: Array, ys: Letters, out: Letters) -> Array:
        """The product of two arrays, summed over the letters that `out` lacks."""

    def reduce(self, array: Array, axes: tuple[int, ...]) -> Array:
        """The sum over some axes."""

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int] | Indices, Array]], shape: Sequence[int]
    ) -> Array:
        """An array of the given shape whose row r is the sum of all entries for row r."""

    def nonzero(self, array: Array) -> Bools:
        """Where an array differs from the semiring's zero."""


AnySemiring = Semiring[Any]
"""A semiring that is chosen by name, at run time."""


class ArraySemiring(Generic[Scalar]):
    """A semiring on numpy arrays with elements of type `dtype`."""

    name = "array"
    exactly = False
    on_tensors = False
    zero: object = 0
    one: object = 1
    dtype: type[Scalar]
    plus: np.ufunc = np.add
    times: np.ufunc = np.multiply

    def convert(self, weights: Numbers) -> NDArray[Scalar]:
        """Real weights as values of the semiring."""
        return np.asarray(weights, dtype=self.dtype)

    def convert_logs(self, logs: Numbers) -> NDArray[Scalar]:
        """Logarithms of weights as values of the semiring."""
        return self.convert(exponentials(logs))

    def multiply(self, x: NDArray[Scalar], y: NDArray[Scalar]) -> NDArray[Scalar]:
        """The product, entry by entry, with broadcasting."""
        return np.asarray(self.times(x, y))

    def reduce(self, array: NDArray[Scalar], axes: tuple[int, ...]) -> NDArray[Scalar]:
        """The sum over some axes."""
        return np.asarray(self.plus.reduce(array, axis=axes), dtype=self.dtype)

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int] | Indices, NDArray[Scalar]]], shape: Sequence[int]
    ) -> NDArray[Scalar]:
        """An array of the given shape whose row r is the sum of all entries for row r."""
        total = self.full(shape, one=False)
        for rows, values in parts:
            self.plus.at(total, np.asarray(rows), values)
        return total

    def nonzero(self, array: NDArray[Scalar]) -> Bools:
        """Where an array differs from the semiring's zero."""
        return np.asarray(array != self.zero, dtype=bool)

    def full(self, shape: Sequence[int], *, one: bool) -> NDArray[Scalar]:
        """An array of ones or of zeros."""
        return np.full(tuple(shape), self.one if one else self.zero, dtype=self.dtype)

    def stack(self, arrays: Sequence[NDArray[Scalar]]) -> NDArray[Scalar]:
        """The arrays along a new first axis."""
        return np.stack(arrays)

    def concatenate(self, arrays: Sequence[NDArray[Scalar]]) -> NDArray[Scalar]:
        """The arrays along their first axis."""
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def take(
        self, array: NDArray[Scalar], rows: Sequence[int] | Indices, axis: int = 0
    ) -> NDArray[Scalar]:
        """The given rows of an array."""
        return np.take(array, np.asarray(rows, dtype=np.intp), axis=axis)

    def put(
        self, array: NDArray[Scalar], rows: Indices, values: NDArray[Scalar]
    ) -> NDArray[Scalar]:
        """The array itself, changed: it has other rows at some places of its first axis."""
        array[rows] = values
        return array

    def where(self, mask: Bools, array: NDArray[Scalar]) -> NDArray[Scalar]:
        """The array, with zeros where a mask that broadcasts to its shape is false."""
        return np.where(mask, array, self.full((), one=False))

    def permute(self, array: NDArray[Scalar], axes: Sequence[int]) -> NDArray[Scalar]:
        """The array with its axes in another order."""
        return array.transpose(tuple(axes))

    def expand(self, array: NDArray[Scalar], shape: Sequence[int]) -> NDArray[Scalar]:
        """The array broadcast to a shape."""
        return np.broadcast_to(array, tuple(shape))

    def contract(
        self, x: NDArray[Scalar], xs: Letters, y: NDArray[Scalar], ys: Letters, out: Letters
    ) -> NDArray[Scalar]:
        """The product of two arrays, summed over the letters that `out` lacks."""
        return blockwise(self, x, xs, y, ys, out, BLOCK)


class Multiplying(Semiring[Array], Protocol):
    """A semiring that can multiply arrays entry by entry."""

    def multiply(self, x: Array, y: Array) -> Array:
        """The product, entry by entry, with broadcasting."""


def align(semiring: Semiring[Array], array: Array, letters: Letters, order: Letters) -> Array:
    """The array with its axes in an order; letters that it lacks get extent 1."""
    present = [letter for letter in order if letter in letters]
    moved = semiring.permute(array, [letters.index(letter) for letter in present])
    shape = iter(moved.shape)
    return moved.reshape(tuple(next(shape) if letter in letters else 1 for letter in order))


def blockwise(
    semiring: Multiplying[Array],
    x: Array,
    xs: Letters,
    y: Array,
    ys: Letters,
    out: Letters,
    most: int,
) -> Array:
    """The product of two arrays, summed over the letters that `out` lacks.

    At most about `most` entries of the product are made at a time.
    """

    def part(array: Array, places: slice) -> Array:
        return array if array.shape[0] == 1 else array[places]

    def contracted(left: Array, right: Array, rank: int) -> Array:
        shape = [max(sizes) for sizes in zip(left.shape, right.shape, strict=True)]
        entries = prod(shape)
        if entries <= most or not rank:
            return semiring.reduce(semiring.multiply(left, right), tuple(range(rank, len(shape))))
        step = most * shape[0] // entries
        if not step:
            rows = range(shape[0])
            pairs = [[a[0 if a.shape[0] == 1 else i] for a in (left, right)] for i in rows]
            return semiring.stack([contracted(one, two, rank - 1) for one, two in pairs])
        blocks = [slice(first, first + step) for first in range(0, shape[0], step)]
        return semiring.concatenate(
            [contracted(part(left, block), part(right, block), rank) for block in blocks]
        )

    order = (*out, *dict.fromkeys(letter for letter in (*xs, *ys) if letter not in out))
    left, right = align(semiring, x, xs, order), align(semiring, y, ys, order)
    return contracted(left, right, len(out))
