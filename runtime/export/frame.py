"""Index arithmetic of an exported program: everything is a tensor, the level too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fgg.grammar.index import Expr, Lookup
from fgg.plan import HIGH, LEVEL, LOW, Bound, Loop, Plan
from fgg.runtime.export.extents import bound_terms
from fgg.runtime.export.values import BATCH, Named, aligned
from fgg.runtime.prelude.batch import OUTSIDE

Tensors = Mapping[str, Tensor]
"""All tensors of a run by what they are: `v:X` values, `e:X` scales, `t:T` tables and `s:T` their
scales, `p:f` parameters, `own:n` the items' lengths, `high:n` the greatest, `look:left` tables of
indices, `low:X:0` and `room:X:0` where an axis of a chart begins and how long it is."""


class Frame:
    """The values of index expressions over the loops of a step, at the level of a run."""

    def __init__(self, plan: Plan, tensors: Tensors, loops: Sequence[tuple[Loop, Tensor]]) -> None:
        self.plan = plan
        self.tensors = tensors
        self.order = (*(loop.name for loop, _ in loops), BATCH)
        self.loops: dict[str, Named] = {}
        self.inside: dict[str, Named] = {}
        for loop, points in loops:
            first = self.bound(loop.low, low=True)
            last = self.bound(loop.high, low=False)
            values = points + first
            self.loops[loop.name] = Named(values, (loop.name,))
            self.inside[loop.name] = Named(values <= last, (loop.name,))

    def bound(self, bound: Bound, *, low: bool) -> Tensor:
        """An end of a loop: a number that may depend on the level."""
        return bound_terms(bound, lambda expr: self.value(expr).tensor, low=low)

    def dims(self, *values: Named) -> tuple[str, ...]:
        """The axes that some values have together, in order."""
        return tuple(d for d in self.order if any(d in v.dims for v in values))

    def value(self, expr: Expr) -> Named:
        """An index expression as a tensor of whole numbers."""
        total: Named | None = None
        constant = 0
        for monomial, coefficient in expr.terms:
            if any(isinstance(a, str) and a.endswith(LOW) for a in monomial):
                continue  # the least length is 0
            if not monomial:
                constant = coefficient
                continue
            term = self.atom(monomial[0])
            for other in monomial[1:]:
                term = self.join(torch.mul, term, self.atom(other))
            if coefficient != 1:
                term = Named(term.tensor * coefficient, term.dims)
            total = term if total is None else self.join(torch.add, total, term)
        if total is None:
            return Named(torch.full((), constant, dtype=torch.int64), ())
        return Named(total.tensor + constant, total.dims) if constant else total

    def join(self, function: object, left: Named, right: Named) -> Named:
        """A function of two values, axis by axis."""
        assert callable(function)
        dims = self.dims(left, right)
        return Named(function(aligned(left, dims), aligned(right, dims)), dims)

    def atom(self, atom: str | Lookup) -> Named:
        """A variable, the level, a length or an entry of a table."""
        if isinstance(atom, Lookup):
            return self.look_up(atom)
        if atom == LEVEL:
            return Named(self.tensors["level"], ())
        if atom in self.loops:
            return self.loops[atom]
        if atom.endswith(HIGH):
            return Named(self.tensors[f"high:{atom.removesuffix(HIGH)}"], ())
        return Named(self.tensors[f"own:{atom}"], (BATCH,))

    def look_up(self, atom: Lookup) -> Named:
        """The entries of a table of indices, `OUTSIDE` where there are none."""
        table = self.tensors[f"look:{atom.table}"]
        rank = table.dim() - 1
        rooms = [torch.full((), table.shape[i], dtype=torch.int64) for i in range(rank)]
        flat, inside = self.flat([self.value(i) for i in atom.indices], rooms)
        held = Named(torch.where(inside.tensor, flat.tensor, 0), flat.dims)
        found = taken(table.flatten(0, rank - 1) if rank else table.unsqueeze(0), held)
        return self.join(lambda known, value: torch.where(known, value, OUTSIDE), inside, found)

    def holds(self, expr: Expr) -> Named:
        """Where `expr >= 0`; never where a table has no entry."""
        value = self.value(expr)
        found = Named(value.tensor >= 0, value.dims)
        for lookup in expr.lookups():
            entry = self.look_up(lookup)
            known = Named(entry.tensor != OUTSIDE, entry.dims)
            found = self.join(torch.logical_and, found, known)
        return found

    def flat(self, index: Sequence[Named], rooms: Sequence[Tensor]) -> tuple[Named, Named]:
        """The numbers of cells in storage, and where there are such cells."""
        total = Named(torch.zeros((), dtype=torch.int64), ())
        inside = Named(torch.ones((), dtype=torch.bool), ())
        for value, room in zip(index, rooms, strict=True):
            here = Named((value.tensor >= 0) & (value.tensor < room), value.dims)
            inside = self.join(torch.logical_and, inside, here)
            total = self.join(torch.add, Named(total.tensor * room, total.dims), value)
        return total, inside

    def cells(self, family: str, index: Sequence[Expr], rank: int) -> tuple[Named, Named]:
        """The cells of a chart or table at an index, and where there are such cells."""
        values = [self.value(expr) for expr in index]
        shifted = [
            Named(v.tensor - self.tensors[f"low:{family}:{i}"], v.dims)
            for i, v in enumerate(values)
        ]
        assert len(shifted) == rank
        return self.flat(shifted, [self.tensors[f"room:{family}:{i}"] for i in range(rank)])


def taken(storage: Tensor, cells: Named) -> Named:
    """The entries of `[cell, batch, *states]` at cells that may differ from item to item."""
    dims = cells.dims
    count = storage.shape[1]
    if BATCH not in dims:
        found = storage.index_select(0, cells.tensor.reshape(-1))
        shape = (*cells.tensor.shape, *storage.shape[1:])
        return Named(found.reshape(shape), (*dims, BATCH))
    assert dims[-1] == BATCH
    numbers = cells.tensor * count + torch.arange(count)
    found = storage.flatten(0, 1).index_select(0, numbers.reshape(-1))
    return Named(found.reshape((*numbers.shape, *storage.shape[2:])), dims)
