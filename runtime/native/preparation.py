"""What comes before the charts, made by machine code; gradients go back through it the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from fgg.runtime.native.engine import NativeEngine
    from fgg.runtime.prelude.batch import Batch

Tensors = Mapping[str, Tensor]
SETTINGS = 8
"""How many numbers come first in the room for the range: as in the prelude of programs in C++."""


@dataclass(eq=False)
class Preparation:
    """Tensors that were made from parameters, tokens and log-potentials.

    `sources` are parameters and log-potentials, `tokens` those of inputs; `made` and `scales` are
    what was made. `ends` are the least and the greatest entry of every leaf among it.
    """

    engine: NativeEngine
    batch: Batch
    sources: Tensors
    tokens: Tensors
    made: dict[str, Tensor]
    scales: dict[str, Tensor]
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, engine: NativeEngine, batch: Batch, sources: Tensors, inputs: Tensors
    ) -> Preparation:
        """Make everything that comes before the charts."""
        whole = {name: source.detach().contiguous() for name, source in sources.items()}
        names = {a.name for a in engine.native.sources if a.kind == "tokens"}
        tokens = {name: inputs[name].contiguous() for name in names}
        axes = {**whole, **tokens}
        made: dict[str, Tensor] = {}
        scales: dict[str, Tensor] = {}
        for item in engine.native.made:
            if item.source:
                source = made[item.source] if item.source in made else whole[item.source]
                made[item.name] = source.view(item.states)
                continue
            if item.positions is None:
                made[item.name] = torch.empty(item.states, dtype=batch.dtype)
                continue
            cells = (*(axes[name].shape[axis + 1] for name, axis in item.positions), batch.size)
            made[item.name] = torch.empty((*cells, *item.states), dtype=batch.dtype)
            if item.scaled:
                scales[item.name] = torch.empty(cells, dtype=torch.float64)
        own = cls(engine, batch, whole, tokens, made, scales)
        own.make()
        return own

    @property
    def constants(self) -> frozenset[str]:
        """The leaves that depend on no weight and no log-potential."""
        return self.engine.constants

    def make(self) -> None:
        """Fill the tensors, and keep what is told about them."""
        batch = self.batch
        leaves = [item.name for item in self.engine.native.made if item.name in self.leaves]
        room = np.zeros(SETTINGS + 3 * batch.size + 2 * len(leaves) + 2)
        room[6] = 2 * len(leaves)
        self.call("prepare", {}, room.ctypes.data)
        told = room[SETTINGS + 3 * batch.size : -2].tolist()
        self.ends |= zip(leaves, zip(told[::2], told[1::2], strict=True), strict=True)
        tensors = {**self.sources, **self.made}
        batch.parts = {name: tensors[name] for name in self.engine.multiplied_before}
        if self.scales:
            lost = room[SETTINGS + 2 * batch.size :][: batch.size]
            if lost.any():
                batch.lost.append(torch.from_numpy(lost > 0))

    @cached_property
    def leaves(self) -> Tensors:
        """What the passes read."""
        tensors = {**self.sources, **self.made}
        return {name: tensors[name] for name in self.engine.plan.leaves}

    def through(self, slopes: Tensors, sources: Tensors) -> dict[str, Tensor]:
        """The gradients of sources, from those of leaves."""
        gradients: dict[str, Tensor] = {}
        given: dict[str, Tensor] = {}
        for name, source in sources.items():
            if name not in self.engine.prepared_from:
                if name in slopes:
                    gradients[name] = slopes[name]
                continue
            # More is added to it: a copy.
            slope = slopes[name].clone() if name in slopes else torch.zeros_like(source)
            gradients[name] = given[name] = slope.detach()
        if given:
            for item in self.engine.native.made:
                if item.constant:
                    continue
                own, there = slopes.get(item.name), given.get(item.source)
                if there is not None:  # where its source has its own
                    if own is not None:
                        there.view(item.states).add_(own)
                    own = there
                given[item.name] = torch.zeros_like(self.made[item.name]) if own is None else own
            self.call("through", given, 0)
        return gradients

    def call(self, name: str, gradients: Tensors, room: int) -> None:
        """Hand tensors over, as the types of the prelude take them."""
        batch = self.batch
        numbers = [batch.size, int(batch.mixed), 1, 1]
        pointers = [room]
        for argument in self.engine.native.sources:
            match argument.kind:
                case "length":
                    pointers.append(batch.item[argument.name].data_ptr())
                    numbers += (batch.low[argument.name], batch.high[argument.name])
                case "tokens":
                    tokens = self.tokens[argument.name]
                    pointers.append(tokens.data_ptr())
                    numbers += tokens.shape[1:]
                case "made":
                    made, gradient = self.made[argument.name], gradients.get(argument.name)
                    pointers.append(made.data_ptr())
                    item = self.engine.made[argument.name]
                    if item.positions is not None:
                        scale = self.scales.get(argument.name)
                        pointers.append(0 if scale is None else scale.data_ptr())
                        numbers += made.shape[: argument.rank]
                    pointers.append(0 if gradient is None else gradient.data_ptr())
                case kind:
                    source, gradient = self.sources[argument.name], gradients.get(argument.name)
                    pointers.append(source.data_ptr())
                    pointers.append(0 if gradient is None else gradient.data_ptr())
                    if kind == "logs":
                        numbers += source.shape[1 : argument.rank + 1]
        self.engine.run(name, batch.dtype, numbers, pointers)
