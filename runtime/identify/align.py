"""Named arrays brought to the axes of storage, and derivatives added up there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fgg.runtime.identify.algebra import BATCH, JET, TARGET, NamedJets


def fit(x: NamedJets, dims: Sequence[str], sizes: Mapping[str, int]) -> Tensor:
    """The array with exactly these axes, repeated along those it lacks."""
    array = x.order([d for d in dims if d in x.dims])
    shape = [x.size(d) if d in x.dims else 1 for d in dims]
    wanted = [x.size(d) if d in x.dims else sizes[d] for d in dims]
    return array.reshape(shape).expand(wanted)


def picked(array: Tensor, front: tuple[str, ...], axes: tuple[str, ...]) -> NamedJets:
    """A named array; where a name of the last axes occurs twice, the diagonal."""
    once = tuple(dict.fromkeys(axes))
    if len(once) == len(axes):
        return NamedJets(array, (*front, *axes))
    states = array.shape[len(front) :]
    flat, shape = _diagonal(axes, states)
    cells = array.reshape(*array.shape[: len(front)], -1).index_select(len(front), flat)
    return NamedJets(cells.reshape(*array.shape[: len(front)], *shape), (*front, *once))


def put_back(array: Tensor, front: int, axes: tuple[str, ...], states: Sequence[int]) -> Tensor:
    """Values over distinct nodes as values over places; zero off the diagonal."""
    if len(set(axes)) == len(axes):
        return array
    flat, _ = _diagonal(axes, states)
    lead = array.shape[:front]
    full = torch.zeros(*lead, int(np.prod(states)), dtype=torch.float64)
    full.index_copy_(front, flat, array.reshape(*lead, -1))
    return full.reshape(*lead, *states)


def _diagonal(axes: tuple[str, ...], states: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """The numbers of the entries at which equal names have equal values."""
    sizes = dict(zip(axes, states, strict=True))
    grid = dict(zip(sizes, np.indices(tuple(sizes.values())), strict=True))
    flat = np.ravel_multi_index(tuple(grid[a] for a in axes), tuple(states))
    return torch.from_numpy(flat.reshape(-1)), tuple(sizes.values())


class Adjoints:
    """Derivatives of Z by tables `[cell, batch, jet, …]` and parameters `[batch, target, …]`."""

    def __init__(self, batch: int, jets: int, targets: int) -> None:
        self.batch = batch
        self.jets = jets
        self.targets = targets
        self.arrays: dict[str, Tensor] = {}

    def cells(self, name: str, count: int, states: Sequence[int]) -> Tensor:
        """The derivative by a chart or a table, to add to."""
        if name not in self.arrays:
            shape = (count, self.batch, self.jets, *states)
            self.arrays[name] = torch.zeros(shape, dtype=torch.float64)
        return self.arrays[name]

    def parameter(self, name: str, shape: Sequence[int]) -> Tensor:
        """The derivative by a parameter, to add to."""
        if name not in self.arrays:
            full = (self.batch, self.targets, *shape)
            self.arrays[name] = torch.zeros(full, dtype=torch.float64)
        return self.arrays[name]

    def add_parameter(
        self, name: str, gradient: NamedJets, axes: tuple[str, ...], shape: Sequence[int]
    ) -> None:
        """Add a derivative whose axes are nodes."""
        sizes = dict(zip(axes, shape, strict=True)) | {BATCH: self.batch, TARGET: self.targets}
        slope = fit(gradient, (BATCH, TARGET, *dict.fromkeys(axes)), sizes)
        self.parameter(name, shape).add_(put_back(slope, 2, axes, shape))

    def add_table(
        self, name: str, gradient: NamedJets, axes: tuple[str, ...], extents: Sequence[int]
    ) -> None:
        """Add a derivative by all cells of a table."""
        heads = tuple(a for a in axes if a.startswith("#"))
        rest = axes[len(heads) :]
        sizes = dict(zip(heads, extents, strict=True)) | {BATCH: self.batch, JET: self.jets}
        slope = fit(gradient, (*heads, BATCH, JET, *dict.fromkeys(rest)), sizes)
        states = [gradient.size(a) for a in rest]
        full = put_back(slope, len(heads) + 2, rest, states)
        count = int(np.prod(extents))
        self.cells(name, count, states).add_(full.reshape(count, *full.shape[len(heads) :]))
