"""What an exported program prepares before its charts: parameters, and tables of evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor

from fgg.grammar.domains import domain_size
from fgg.grammar.slices import Narrow, Unfold, take
from fgg.inputs.tokens import IMPOSSIBLE, MISSING
from fgg.plan import Gather, OneHot, Plan, Potential
from fgg.runtime.export.algebra import TracedAlgebra
from fgg.runtime.export.frame import Frame, Tensors
from fgg.runtime.interpret.prepare import Preparations, moved_steps, part_tokens
from fgg.runtime.prelude.batch import Batch
from fgg.runtime.prelude.cells import NEGATIVE, spread
from fgg.runtime.prelude.evidence import gather, one_hot, potentials, shifted


class Tables(Preparations[Tensor]):
    """The parameters and tables of a plan; a table is `[*indices, batch, *states]`."""

    def __init__(
        self,
        plan: Plan,
        weights: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        given: Tensors,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(plan, TracedAlgebra(dtype))
        self.inputs = inputs
        self.given = given
        self.dtype = dtype
        # Which items have log-potentials that are too small beside others.
        self.lost: list[Tensor] = []
        self.scales: dict[str, Tensor] = {}
        self.weights = weights

    def weight(self, name: str) -> Tensor:
        """A parameter."""
        return self.weights[name]

    def frame(self, indices: Sequence[str], extents: Sequence[int]) -> Frame:
        """Indices from 0 on, and the batch."""
        frame = Frame(self.plan, self.given, indices)
        for index, extent in zip(indices, extents, strict=True):
            frame.values[index] = frame.along(index, torch.arange(extent))
        return frame

    # evidence

    def beyond(self, name: str) -> Tensor:
        """Where a position of an input, `[*indices, batch]`, lies beyond the item's own lengths."""
        shape = self.plan.grammar.input[name].shape
        indices = [f"#{axis}" for axis in range(len(shape))]
        frame = self.frame(indices, self.inputs[name].shape[1:])
        ends = (
            frame.values[i] >= frame.evaluate(e)[0] for i, e in zip(indices, shape, strict=True)
        )
        return reduce(torch.logical_or, ends, torch.zeros((), dtype=torch.bool))

    def wrong(self, name: str) -> Tensor:
        """Which items have a token that is no value of the input's domain."""
        tokens = self.inputs[name].movedim(0, -1)
        size = domain_size(self.plan.grammar, self.plan.grammar.input[name].domain)
        bad = ((tokens < IMPOSSIBLE) | (tokens >= size)) & ~self.beyond(name)
        if name in self.plan.known:
            bad = bad | (tokens == MISSING)
        return bad.flatten(0, -2).any(0) if bad.dim() > 1 else bad

    def tokens(self, name: str, path: Sequence[str]) -> Tensor:
        """The tokens of an input as `[*indices, batch]`, impossible beyond an item's lengths."""
        grammar = self.plan.grammar
        domain = grammar.input[name].domain
        tokens = self.inputs[name].movedim(0, -1)
        bad = (tokens >= domain_size(grammar, domain)) | self.beyond(name)
        return part_tokens(grammar, domain, path, torch.where(bad, IMPOSSIBLE, tokens))

    def one_hot(self, step: OneHot) -> Tensor:
        """Tokens as weights of all values."""
        return one_hot(self.tokens(step.input, step.path), step.size, self.dtype)

    def gathered(self, step: Gather) -> Tensor:
        """The entries of a parameter at tokens: its sum where one is missing."""
        source = self.arrays[step.source]
        found = [(t.axis, shifted(self.tokens(t.input, t.path), t.shift)) for t in step.tokens]
        if len(found) > 1:
            missing = any(t.input not in self.plan.known for t in step.tokens)
            return gather(source, found, missing, tuple(t.group for t in step.tokens))
        # One axis is read where it lies: no copy of a large vocabulary with two more rows.
        ((axis, tokens),) = found
        front = source.movedim(axis, 0)
        rows = front.index_select(0, tokens.clamp(min=0).reshape(-1))
        rows = rows.reshape((*tokens.shape, *front.shape[1:]))
        rows = torch.where(spread(tokens == MISSING, rows), front.sum(0), rows)
        return torch.where(spread(tokens <= IMPOSSIBLE, rows), 0.0, rows)

    def potential(self, step: Potential) -> Tensor:
        """An input factor's values; zero outside its range. Its scales are kept beside it."""
        factor = self.plan.grammar.input_factor[step.factor]
        rank = len(factor.indices)
        logs = cut(self.inputs[step.source], step.steps, rank + 1).movedim(0, rank)
        frame = self.frame(factor.indices, logs.shape[:rank])
        for condition in factor.conditions:
            for expr in condition.inequalities():
                value, valid = frame.evaluate(expr)
                inside = torch.ones((1,) * (rank + 1), dtype=torch.bool) & (value >= 0) & valid
                logs = torch.where(spread(inside, logs), logs, NEGATIVE)
        noted = Batch(logs.shape[rank], {}, {}, self.dtype, logs.device)
        values, self.scales[step.name] = potentials(noted, logs.movedim(rank, 0), rank)
        self.lost += noted.lost
        return values


def cut(tensor: Tensor, steps: tuple[Narrow | Unfold, ...], before: int) -> Tensor:
    """A part of a tensor; `before` axes come before those of the factor."""
    found: Tensor = take(tensor, moved_steps(steps, before))
    return found
