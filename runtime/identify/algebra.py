"""Arrays with a name for each axis, over a field and its jets, and their contractions.

Two axes are special: `BATCH` counts functionals, `JET` the coefficients of a truncated polynomial.
An array without `JET` is constant in ε and δ. A derivative by what is constant is wanted at the
ring's targets alone: then it has the axis `TARGET` instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from fgg.plan import Pair
from fgg.runtime.identify.fields import Field
from fgg.runtime.identify.jets import Pairs, Ring

BATCH = "@b"
JET = "@j"
TARGET = "@t"


@dataclass(frozen=True)
class NamedJets:
    """An array and the names of its axes, which differ."""

    array: Tensor
    dims: tuple[str, ...]

    def size(self, dim: str) -> int:
        """The extent of an axis."""
        return int(self.array.shape[self.dims.index(dim)])

    def order(self, dims: Sequence[str]) -> Tensor:
        """The array with its axes in this order."""
        if tuple(dims) == self.dims:
            return self.array
        return self.array.permute([self.dims.index(d) for d in dims])


class JetAlgebra:
    """Sums and products of named arrays in a ring of jets over a field."""

    def __init__(self, field: Field, ring: Ring) -> None:
        self.field = field
        self.ring = ring

    def sum_to(self, x: NamedJets, keep: Collection[str]) -> NamedJets:
        """The array summed to the axes that are kept."""
        gone = [i for i, d in enumerate(x.dims) if d not in keep]
        if not gone:
            return x
        dims = tuple(d for d in x.dims if d in keep)
        return NamedJets(self.field.reduce(x.array.sum(gone)), dims)

    def at_targets(self, x: NamedJets) -> NamedJets:
        """The coefficients of a jet at the targets."""
        if JET not in x.dims:
            return x
        axis = x.dims.index(JET)
        dims = (*x.dims[:axis], TARGET, *x.dims[axis + 1 :])
        if self.ring.size == 1:
            return NamedJets(x.array, dims)
        return NamedJets(x.array.index_select(axis, self.ring.places), dims)

    def contract(
        self, x: NamedJets, y: NamedJets, keep: Collection[str], *, targets: bool = False
    ) -> NamedJets:
        """The product, summed over the axes that are not kept; with `targets`, only there."""
        special = {BATCH, JET, TARGET}
        x = self.sum_to(x, {*keep, *y.dims, *special})
        y = self.sum_to(y, {*keep, *x.dims, *special})
        if JET in x.dims and JET in y.dims:
            if self.ring.size > 1:
                pairs = self.ring.target_products if targets else self.ring.products
                return self._jets(x, y, keep, pairs, TARGET if targets else JET)
            axis = y.dims.index(JET)
            y = NamedJets(y.array.squeeze(axis), (*y.dims[:axis], *y.dims[axis + 1 :]))
        product = self._plain(x, y, keep)
        return self.at_targets(product) if targets else product

    def _plain(self, x: NamedJets, y: NamedJets, keep: Collection[str]) -> NamedJets:
        """The product where at most one side is a jet."""
        if x.array.numel() > y.array.numel():
            x, y = y, x
        shared = [d for d in x.dims if d in y.dims]
        both = [d for d in shared if d in keep or d == BATCH]
        summed = [d for d in shared if d not in both]
        ours = [d for d in x.dims if d not in shared]
        theirs = [d for d in y.dims if d not in shared]
        if not summed:
            dims = (*(d for d in y.dims), *ours)
            left = x.order([*(d for d in y.dims if d in x.dims), *ours])
            shape = [x.size(d) if d in x.dims else 1 for d in dims]
            right = y.array.reshape(y.array.shape + (1,) * len(ours))
            return NamedJets(self.field.multiply(left.reshape(shape), right), dims)
        sizes = {d: n for a in (x, y) for d, n in zip(a.dims, a.array.shape, strict=True)}
        batch, rows, columns, terms = (
            prod(sizes[d] for d in dims) for dims in (both, ours, theirs, summed)
        )
        dims = (*both, *ours, *theirs)
        shape = [sizes[d] for d in dims]
        if rows == 1 and columns == 1:
            left = x.order([*summed, *both, *ours]).reshape(terms, batch)
            right = y.order([*summed, *both, *theirs]).reshape(terms, batch)
            return NamedJets(self.field.dot(left, right).reshape(shape), dims)
        left = x.order([*both, *ours, *summed]).reshape(batch, rows, terms)
        right = _matrix(y, both, summed, theirs, batch, terms, columns)
        if batch == 1:
            left, right = left[0], right[0]
        return NamedJets(self.field.matmul(left, right).reshape(shape), dims)

    def _jets(
        self, x: NamedJets, y: NamedJets, keep: Collection[str], pairs: Pairs, name: str
    ) -> NamedJets:
        """The product of two jets."""
        shared = [d for d in x.dims if d in y.dims and d != JET]
        both = [d for d in shared if d in keep or d == BATCH]
        summed = [d for d in shared if d not in both]
        ours = [d for d in x.dims if d not in shared and d != JET]
        theirs = [d for d in y.dims if d not in shared and d != JET]
        sizes = {d: n for a in (x, y) for d, n in zip(a.dims, a.array.shape, strict=True)}
        batch, rows, columns, terms = (
            prod(sizes[d] for d in dims) for dims in (both, ours, theirs, summed)
        )
        dims = (*both, *ours, *theirs)
        shape = [sizes[d] for d in dims]
        jets = self.ring.size
        if rows == 1 and columns == 1:
            left = x.order([*summed, JET, *both, *ours]).reshape(terms, jets, batch)
            right = y.order([*summed, JET, *both, *theirs]).reshape(terms, jets, batch)
            products = self._products(left, right, pairs)
            return NamedJets(products.reshape([len(products), *shape]), (name, *dims))
        left = x.order([*both, *ours, JET, *summed]).reshape(batch, rows, jets, terms)
        right = y.order([*both, JET, *summed, *theirs]).reshape(batch, jets, terms, columns)
        results = []
        for one, two in pairs.one_by_one:
            count = len(one) * terms
            a = left.index_select(2, one).reshape(batch, rows, count)
            b = right.index_select(1, two).reshape(batch, count, columns)
            results.append(self.field.matmul(a, b).reshape(shape))
        return NamedJets(torch.stack(results), (name, *dims))

    def _products(self, x: Tensor, y: Tensor, pairs: Pairs) -> Tensor:
        """Products of jets `[term, jet, entry]`, summed over terms, `[result, entry]`."""
        products = self.field.dot(x.index_select(1, pairs.left), y.index_select(1, pairs.right))
        return self.field.reduce(torch.matmul(pairs.sums.T, products))


def _matrix(
    y: NamedJets,
    both: Sequence[str],
    summed: Sequence[str],
    theirs: Sequence[str],
    batch: int,
    terms: int,
    columns: int,
) -> Tensor:
    """An array as matrices `[batch, terms, columns]`, without a copy where its axes allow that."""
    if y.dims and y.dims[-1] in summed:
        wide = y.order([*both, *theirs, *summed]).reshape(batch, columns, terms)
        return wide.transpose(1, 2)
    return y.order([*both, *summed, *theirs]).reshape(batch, terms, columns)


class JetProduct:
    """A contraction of operands in a given order, and its derivatives."""

    def __init__(
        self,
        algebra: JetAlgebra,
        operands: Sequence[NamedJets],
        path: Sequence[Pair],
        keep: Collection[str],
    ) -> None:
        self.algebra = algebra
        self.count = len(operands)
        self.values = list(operands)
        self.pairs: list[tuple[int, int]] = []
        self.keep = {*keep, BATCH, JET}
        live = dict(enumerate(self.values))
        pending = [(pair.left, pair.right) for pair in path]
        while len(live) > 1:
            left, right = pending.pop(0) if pending else tuple(sorted(live))[:2]
            one, two = live.pop(left), live.pop(right)
            needed = self.keep | {d for value in live.values() for d in value.dims}
            value = algebra.contract(one, two, needed)
            live[len(self.values)] = value
            self.values.append(value)
            self.pairs.append((left, right))
        self.result = algebra.sum_to(self.values[-1], self.keep)

    def gradients(self, gradient: NamedJets, wanted: Collection[int]) -> dict[int, NamedJets]:
        """The derivative by each wanted operand; along axes that it lacks it is constant."""
        needed = self._needed(wanted)
        pending = {len(self.values) - 1: gradient}
        for place in range(len(self.pairs) - 1, -1, -1):
            upper = pending.pop(self.count + place, None)
            if upper is None:
                continue
            left, right = self.pairs[place]
            for one, other in ((left, right), (right, left)):
                if one in needed:
                    pending[one] = self._through(upper, self.values[one], self.values[other])
        return {i: self._settled(g, self.values[i]) for i, g in pending.items() if i in wanted}

    def _through(self, gradient: NamedJets, operand: NamedJets, other: NamedJets) -> NamedJets:
        keep = {*operand.dims, BATCH, TARGET}
        constant = JET not in operand.dims
        if not constant:
            keep.add(JET)
        return self.algebra.contract(gradient, other, keep, targets=constant)

    def _settled(self, gradient: NamedJets, operand: NamedJets) -> NamedJets:
        """A gradient of the only operand has not been through a product yet."""
        keep = {*operand.dims, BATCH, TARGET, JET}
        gradient = self.algebra.sum_to(gradient, keep)
        return gradient if JET in operand.dims else self.algebra.at_targets(gradient)

    def _needed(self, wanted: Collection[int]) -> set[int]:
        """The values that a wanted operand takes part in."""
        needed = set(wanted)
        for place, pair in enumerate(self.pairs):
            if needed & set(pair):
                needed.add(self.count + place)
        return needed
