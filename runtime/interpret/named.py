"""Arrays over a semiring with a name for each axis, and what a plan does with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.runtime.interpret.semirings import Semiring
from fgg.runtime.reference.chart import diagonal


@dataclass(frozen=True)
class Named:
    """An array and the names of its axes; one that an array lacks stands for any extent."""

    array: Any
    dims: tuple[str, ...]


class Algebra:
    """A semiring's operations on named arrays and on the cells of charts."""

    def __init__(self, semiring: Semiring) -> None:
        self.semiring = semiring
        self._letters: dict[str, int] = {}

    def letters(self, dims: Iterable[str]) -> tuple[int, ...]:
        """The semiring's names for axes."""
        return tuple(self._letters.setdefault(d, len(self._letters)) for d in dims)

    def named(self, array: Any, dims: Sequence[str]) -> Named:
        """A named array; where a name occurs twice, the diagonal."""
        names = dict(zip(self.letters(dims), dims, strict=True))
        once, letters = diagonal(array, self.letters(dims))
        return Named(once, tuple(names[letter] for letter in letters))

    def contract(self, x: Named, y: Named, keep: Collection[str]) -> Named:
        """The product of two arrays, summed over the axes that are not kept."""
        out = tuple(d for d in dict.fromkeys((*x.dims, *y.dims)) if d in keep)
        found = self.semiring.contract(
            x.array, self.letters(x.dims), y.array, self.letters(y.dims), self.letters(out)
        )
        return Named(found, out)

    def product(self, x: Named, y: Named) -> Named:
        """The product of two arrays."""
        return self.contract(x, y, (*x.dims, *y.dims))

    def sum(self, x: Named, keep: Collection[str]) -> Named:
        """An array summed to the axes that are kept."""
        axes = tuple(i for i, d in enumerate(x.dims) if d not in keep)
        if not axes:
            return x
        return Named(self.semiring.reduce(x.array, axes), tuple(d for d in x.dims if d in keep))

    def fit(self, x: Named, dims: Sequence[str], sizes: Mapping[str, int]) -> Any:
        """The array with exactly these axes, repeated along those it lacks."""
        present = [d for d in dims if d in x.dims]
        array = self.semiring.permute(x.array, [x.dims.index(d) for d in present])
        shape = [sizes[d] if d in x.dims else 1 for d in dims]
        return self.semiring.expand(array.reshape(shape), [sizes[d] for d in dims])

    def ones(self, mask: NDArray[np.bool_]) -> Any:
        """One where a mask holds, zero elsewhere."""
        return self.where(mask, self.semiring.full(mask.shape, one=True))

    def where(self, mask: NDArray[np.bool_], array: Any) -> Any:
        """An array with zero where a mask over its first axes does not hold."""
        if bool(mask.all()):
            return array
        mask = mask.reshape(mask.shape + (1,) * (len(array.shape) - mask.ndim))
        zero = self.semiring.full((), one=False)
        if isinstance(array, Tensor):
            return torch.where(torch.tensor(np.array(mask), device=array.device), array, zero)
        return np.where(mask, array, zero)

    def add(self, x: Any, y: Any) -> Any:
        """The sum of two arrays of one shape."""
        return self.semiring.reduce(self.semiring.stack([x, y]), (0,))

    # cells

    def take(self, chart: Any, index: Sequence[NDArray[Any]], valid: NDArray[np.bool_]) -> Any:
        """The cells at index arrays; zero where these do not mean anything."""
        shape = tuple(chart.shape)
        if 0 in shape[: len(index)]:
            return self.semiring.full((*valid.shape, *shape[len(index) :]), one=False)
        return self.where(valid, chart[_indices(chart, index)])

    def add_to(
        self,
        chart: Any,
        index: Sequence[NDArray[Any]],
        valid: NDArray[np.bool_],
        values: Any,
        *,
        distinct: bool,
    ) -> Any:
        """The chart with values added to its cells; `distinct` if no cell occurs twice.

        Tensors are not changed in place, so that gradients can flow.
        """
        shape = tuple(chart.shape)
        rank = len(index)
        if not bool(valid.any()):
            return chart
        flat = np.ravel_multi_index(
            tuple(np.broadcast_to(i, valid.shape)[valid] for i in index), shape[:rank]
        )
        chosen = values[_indices(values, np.nonzero(valid))]
        if not distinct:
            rows, inverse = np.unique(flat, return_inverse=True)
            if len(rows) < len(flat):
                states = tuple(chosen.shape[1:])
                parts: list[tuple[Any, Any]] = [(inverse, chosen)]
                chosen = self.semiring.accumulate(parts, (len(rows), *states))
                flat = rows
        whole = chart.reshape((-1, *shape[rank:]))
        (place,) = _indices(chart, (flat,))
        total = self.add(whole[place], chosen)
        if isinstance(chart, Tensor):
            whole = whole.index_put((place,), total)
        else:
            whole[place] = total
        return whole.reshape(shape)


def _indices(array: Any, index: Sequence[NDArray[Any]]) -> tuple[Any, ...]:
    """Index arrays as the kind of array they are used on."""
    if not isinstance(array, Tensor):
        return tuple(index)
    return tuple(torch.tensor(np.array(i), device=array.device) for i in index)
