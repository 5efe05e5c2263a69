"""Weights that a network makes where they are read, in place of a tensor with all of them.

`model.readers()` gives such weights for large factors. `program.log_z` takes them: it finds out
which entries a batch reads (`runtime/entries/token_entries.py`) and asks for no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar.slices import SliceStep
from fgg.runtime.entries.scalar_products import ScalarProducts, side_indices
from fgg.runtime.memory import require

LARGE = 2**22
"""Factors with at least so many entries are read by readers."""


@dataclass(frozen=True, eq=False)
class FactorReader:
    """The weights of the factor `name`, of this shape: `entries` makes some, `whole` all.

    The first `given` axes are rows of the scalar products, the others are columns.
    """

    name: str
    shape: tuple[int, ...]
    given: int
    products: ScalarProducts
    make_whole: Callable[[], Tensor]

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return self.products.left.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.products.left.device

    def whole(self) -> Tensor:
        """All weights. Raises GrammarError (F420) if they do not fit into memory."""
        entries = prod(self.shape)
        needed = 3 * entries * self.dtype.itemsize
        require(needed, self.device, f"factor `{self.name}` with {entries:,} entries")
        return self.make_whole()

    def can_read(self, steps: Sequence[SliceStep], axes: Sequence[int]) -> bool:
        """Whether `entries` can be asked for these; with blocks, values decide the column."""
        left, right = side_indices(self.shape, self.given, steps)
        free = [a for a in range(left.dim(), left.dim() + right.dim()) if a not in axes]
        return self.products.blocks is None or not free

    def entries(self, steps: Sequence[SliceStep], axes: Sequence[int], values: Tensor) -> Tensor:
        """The weights at some values of the axes, `[sets, *other axes]`.

        `steps` cut the part out of the factor that the axes belong to; `values` is `[axes, sets]`.
        """
        left, right = side_indices(self.shape, self.given, steps)
        at = dict(zip(axes, values, strict=True))
        rows = _at(left, {a: v for a, v in at.items() if a < left.dim()})
        columns = _at(right, {a - left.dim(): v for a, v in at.items() if a >= left.dim()})
        shape = (*rows.shape[1:], *columns.shape[1:])
        rows = rows.reshape(len(rows), -1).to(self.device)
        columns = columns.reshape(len(columns), -1).to(self.device)
        if self.products.blocks is not None:
            rows = self.products.blocks[columns] * self.products.left.shape[1] + rows
        return self.products.weights(rows, columns).reshape(values.shape[1], *shape)

    def rows_times(self, numbers: Tensor, columns: Tensor | None = None) -> Tensor:
        """The product of `numbers` `[items, rows]` and the weights, as rows by columns.

        Only rows with numbers other than 0 are computed. With `columns`, `[items, some columns]`,
        only these columns of each item are, and the result is `[items, some columns]`.
        """
        assert self.products.blocks is None
        count = int((numbers != 0).sum(-1).max())
        rows = numbers.ne(0).to(torch.uint8).topk(max(count, 1), -1).indices
        kept = numbers.gather(-1, rows)
        if columns is not None:
            return torch.bmm(kept.unsqueeze(1), self.products.weights(rows, columns))[:, 0]
        every = torch.arange(len(self.products.right), device=self.device).unsqueeze(0)
        weights = (self.products.weights(row.unsqueeze(0), every)[0] for row in rows)
        return torch.stack([shares @ made for shares, made in zip(kept, weights, strict=True)])


def _at(numbers: Tensor, values: Mapping[int, Tensor]) -> Tensor:
    """The entries at values of some axes, `[sets or 1, *other axes]`."""
    if not values:
        return numbers.unsqueeze(0)
    rest = [axis for axis in range(numbers.dim()) if axis not in values]
    moved = numbers.permute(*values, *rest)
    return moved[tuple(value.cpu() for value in values.values())]


Weight = Tensor | FactorReader
"""The weights of a factor: all of them, or a reader."""


def whole_weights(weights: Mapping[str, object]) -> dict[str, object]:
    """Weights with tensors in place of readers. Raises GrammarError (F420) for large ones."""
    return {n: w.whole() if isinstance(w, FactorReader) else w for n, w in weights.items()}


def as_tensor(weight: object) -> Tensor:
    """All weights of a factor, which are a tensor or a reader."""
    if isinstance(weight, FactorReader):
        return weight.whole()
    if not isinstance(weight, Tensor):
        refuse("F417", "weights are not a tensor")
    return weight
