"""Jets over a field as an algebra of the interpreter.

An element is an array itself: `FUNCTIONAL` counts functionals, `JET` the coefficients of a
truncated polynomial. An array without these axes is constant: the same for all functionals, and in
ε and δ. A derivative by what is constant is wanted at the ring's targets alone: it has the axis
`TARGET` instead of `JET`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from fgg.plan.kernel import BATCH
from fgg.runtime.identify.fields import Field
from fgg.runtime.identify.jets import Pairs, Ring
from fgg.runtime.interpret.algebra import Algebra, Named, chosen
from fgg.runtime.interpret.frame import CellIndex
from fgg.runtime.interpret.semirings.base import Indices, Letters, Numbers
from fgg.runtime.interpret.semirings.real import TensorSemiring

FUNCTIONAL = "@f"
JET = "@j"
TARGET = "@t"


class FieldSemiring(TensorSemiring):
    """A field, on tensors of its elements; charts are changed in place."""

    name = "field"

    def __init__(self, field: Field) -> None:
        super().__init__()
        self.field = field

    def convert(self, weights: Numbers) -> Tensor:
        """Weights are elements of the field already."""
        return self.real(weights)

    def convert_logs(self, logs: Numbers) -> Tensor:
        """A field has no logarithms."""
        raise NotImplementedError

    def reduce(self, array: Tensor, axes: tuple[int, ...]) -> Tensor:
        """The sum over some axes."""
        return self.field.reduce(array.sum(axes)) if axes else array

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int] | Indices, Tensor]], shape: Sequence[int]
    ) -> Tensor:
        """A tensor of the given shape whose row r is the sum of all entries for row r."""
        total = self.full(shape, one=False)
        for rows, values in parts:
            total.index_add_(0, torch.as_tensor(rows), values)
        return self.field.reduce(total)

    def put(self, array: Tensor, rows: Indices, values: Tensor) -> Tensor:
        """The tensor itself, changed: it has other rows at some places of its first axis."""
        return array.index_copy_(0, torch.as_tensor(rows), values)

    def contract(self, x: Tensor, xs: Letters, y: Tensor, ys: Letters, out: Letters) -> Tensor:
        """The product of two tensors, summed over the letters that `out` lacks.

        Both have these letters.
        """
        if x.numel() > y.numel():
            x, xs, y, ys = y, ys, x, xs
        shared = [a for a in xs if a in ys]
        both = [a for a in shared if a in out]
        summed = [a for a in shared if a not in out]
        ours = [a for a in xs if a not in shared]
        theirs = [a for a in ys if a not in shared]
        sizes = dict(zip((*xs, *ys), (*x.shape, *y.shape), strict=True))
        if not summed:
            letters = [*ys, *ours]
            left = _ordered(x, xs, [*(a for a in ys if a in xs), *ours])
            left = left.reshape([sizes[a] if a in xs else 1 for a in letters])
            result = self.field.multiply(left, y.reshape(y.shape + (1,) * len(ours)))
            return _ordered(result, letters, out)
        batch, rows, columns, terms = (
            prod(sizes[a] for a in letters) for letters in (both, ours, theirs, summed)
        )
        letters = [*both, *ours, *theirs]
        if rows == 1 and columns == 1:
            left = _ordered(x, xs, [*summed, *both, *ours]).reshape(terms, batch)
            right = _ordered(y, ys, [*summed, *both, *theirs]).reshape(terms, batch)
            result = self.field.dot(left, right)
        else:
            left = _ordered(x, xs, [*both, *ours, *summed]).reshape(batch, rows, terms)
            if y.stride(ys.index(summed[-1])) == 1:  # no copy is needed for this
                right = _ordered(y, ys, [*both, *theirs, *summed])
                right = right.reshape(batch, columns, terms).transpose(1, 2)
            else:
                right = _ordered(y, ys, [*both, *summed, *theirs]).reshape(batch, terms, columns)
            if batch == 1:
                left, right = left[0], right[0]
            result = self.field.matmul(left, right)
        return _ordered(result.reshape([sizes[a] for a in letters]), letters, out)


def _ordered(array: Tensor, letters: Sequence[object], order: Sequence[object]) -> Tensor:
    """The array with its axes in another order."""
    if [*letters] == [*order]:
        return array
    return array.permute([letters.index(letter) for letter in order])


class JetAlgebra(Algebra[Tensor]):
    """Jets over a field, for a number of functionals.

    Nothing but derivatives by constants is summed over the batch, which has one item: so where that
    axis goes, coefficients are needed at the targets alone.
    """

    element = (FUNCTIONAL, JET)
    slope = (FUNCTIONAL, TARGET)

    def __init__(self, field: Field, ring: Ring, functionals: int = 1) -> None:
        sizes = {FUNCTIONAL: functionals, JET: ring.size, TARGET: len(ring.targets)}
        super().__init__(FieldSemiring(field), sizes)
        self.field = field
        self.ring = ring

    def sum(self, x: Named[Tensor], dims: Collection[str]) -> Named[Tensor]:
        """An array summed over the axes that are not among `dims`; elements stay whole."""
        total = super().sum(x, dims)
        gone = BATCH in x.dims and BATCH not in total.dims
        return self.at_targets(total) if gone else total

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum, not in normal form."""
        return x + y

    def settled(self, slopes: Tensor) -> Tensor:
        """Sums in normal form."""
        return self.field.reduce(slopes)

    def collect(self, storage: Tensor, place: CellIndex, values: Tensor, distinct: bool) -> Tensor:
        """Add values to cells, in place."""
        rows, listed = chosen(place, values, self.semiring)
        whole = storage.view(-1, *storage.shape[place.rank :])
        whole.index_add_(0, torch.as_tensor(rows), listed)
        return storage

    def fit(self, x: Named[Tensor], dims: tuple[str, ...], sizes: Mapping[str, int]) -> Tensor:
        """The array with exactly these axes, repeated along those it lacks.

        A constant has no other coefficient than that of 1.
        """
        array = super().fit(x, dims, sizes)
        if JET in dims and JET not in x.dims and self.ring.size > 1:
            array = array.clone()
            array.narrow(dims.index(JET), 1, self.ring.size - 1).zero_()
        return array

    def at_targets(self, x: Named[Tensor]) -> Named[Tensor]:
        """The coefficients of a jet at the targets."""
        if JET not in x.dims:
            return x
        axis = x.dims.index(JET)
        dims = (*x.dims[:axis], TARGET, *x.dims[axis + 1 :])
        if self.ring.size == 1:
            return Named(x.array, dims)
        return Named(x.array.index_select(axis, self.ring.places), dims)

    def product(self, x: Named[Tensor], y: Named[Tensor], keep: Collection[str]) -> Named[Tensor]:
        """The product of two arrays that both have the axes to be summed."""
        targets = BATCH in x.dims and BATCH not in keep
        if JET in x.dims and JET in y.dims:
            if self.ring.size > 1:
                pairs = self.ring.target_products if targets else self.ring.products
                return self._jets(x, y, keep, pairs, TARGET if targets else JET)
            axis = y.dims.index(JET)
            y = Named(y.array.squeeze(axis), (*y.dims[:axis], *y.dims[axis + 1 :]))
        product = super().product(x, y, keep)
        return self.at_targets(product) if targets else product

    def _jets(
        self, x: Named[Tensor], y: Named[Tensor], keep: Collection[str], pairs: Pairs, name: str
    ) -> Named[Tensor]:
        """The product of two jets."""
        shared = [d for d in x.dims if d in y.dims and d != JET]
        both = [d for d in shared if d in keep]
        summed = [d for d in shared if d not in keep]
        ours = [d for d in x.dims if d not in shared and d != JET]
        theirs = [d for d in y.dims if d not in shared and d != JET]
        sizes = {**x.sizes, **y.sizes}
        batch, rows, columns, terms = (
            prod(sizes[d] for d in dims) for dims in (both, ours, theirs, summed)
        )
        dims = (*both, *ours, *theirs)
        shape = [sizes[d] for d in dims]
        jets = self.ring.size
        if rows == 1 and columns == 1:
            left = _ordered(x.array, x.dims, [*summed, JET, *both, *ours])
            right = _ordered(y.array, y.dims, [*summed, JET, *both, *theirs])
            products = self.field.dot(
                left.reshape(terms, jets, batch).index_select(1, pairs.left),
                right.reshape(terms, jets, batch).index_select(1, pairs.right),
            )
            total = self.field.reduce(torch.matmul(pairs.sums.T, products))
            return Named(total.reshape([len(total), *shape]), (name, *dims))
        left = _ordered(x.array, x.dims, [*both, *ours, JET, *summed])
        left = left.reshape(batch, rows, jets, terms)
        right = _ordered(y.array, y.dims, [*both, JET, *summed, *theirs])
        right = right.reshape(batch, jets, terms, columns)
        results = []
        for one, two in pairs.one_by_one:
            count = len(one) * terms
            a = left.index_select(2, one).reshape(batch, rows, count)
            b = right.index_select(1, two).reshape(batch, count, columns)
            results.append(self.field.matmul(a, b).reshape(shape))
        return Named(torch.stack(results), (name, *dims))
