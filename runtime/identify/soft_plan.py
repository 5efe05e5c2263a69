"""A plan for strings of given lengths whose tokens are soft words.

A token that is read becomes a weight for each value of its domain. So a factor at a token is the
factor summed against the word: what a plan gathers is a product here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np
import torch
from torch import Tensor

from fgg.grammar.domains import domain_size, size_values
from fgg.inputs.clamps import path_end
from fgg.plan import Contract, Gather, OneHot, Plan, Preparation
from fgg.plan.adjoint import adjoint
from fgg.plan.kernel import Effect, Kernel, Load, Put
from fgg.plan.kernelise import kernelise
from fgg.runtime.identify.functionals import Words
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.charts import Charts, empty_charts, extents_of
from fgg.runtime.interpret.frame import Scope
from fgg.runtime.interpret.prepare import Prepared, inner_values
from fgg.runtime.interpret.semirings.base import Array, Numbers
from fgg.runtime.interpret.semirings.max_plus import Floats, MaxPlus
from fgg.runtime.interpret.walk import Point, Tape, filled, points
from fgg.runtime.memory import require


class SoftPlan:
    """A plan for given lengths, its kernels, and the tables that are made from soft words."""

    def __init__(self, plan: Plan, lengths: Mapping[str, int]) -> None:
        self.given = plan
        # The input, the part of its domain and the shift of each table of words.
        self.readings: dict[str, tuple[str, tuple[str, ...], tuple[int, ...]]] = {}
        self.plan = replace(plan, preparations=tuple(map(self._soft, plan.preparations)))
        values = {**size_values(plan.grammar), **lengths}
        self.inputs = {
            item.name: tuple(e.evaluate(values) or 0 for e in item.shape)
            for item in plan.grammar.inputs
        }
        own = {n: np.array([v], dtype=np.int64) for n, v in lengths.items()}
        self.scope = Scope(self.plan, Batch(1, own, {}, {}, {}), keep=True)
        self.kernel = kernelise(self.plan, scaled=False)
        self.points = list(points(self.kernel, self.scope))
        self.entries = self._entries()

    @cached_property
    def outside(self) -> tuple[Kernel, list[Point]]:
        """The kernel of the derivatives, and what it does for these lengths."""
        kernel = adjoint(self.kernel)
        return kernel, list(points(kernel, self.scope))

    def inside(
        self,
        algebra: Algebra[Array],
        parameters: Mapping[str, Numbers],
        tables: Mapping[str, Array],
        tape: Tape[Array] | None = None,
    ) -> Charts[Array]:
        """The inside values of every cell; `tables` are those of words."""
        prepared = Prepared(self.plan, self.scope, algebra, parameters, tables)
        charts = empty_charts(self.plan, self.scope, algebra, prepared)
        return filled(charts, self.points, tape=tape)

    def _soft(self, step: Preparation) -> Preparation:
        """A preparation that reads tables of words instead of tokens."""
        if isinstance(step, OneHot):
            self.readings[step.name] = (step.input, step.path, ())
        if not isinstance(step, Gather):
            return step
        rank = len(step.tokens) + len(self.given.table[step.name].states)
        axes = [f"x{i}" for i in range(rank)]
        operands = [(step.source, tuple(axes))]
        ranks = {token.group: len(token.shift) for token in step.tokens}
        for token in step.tokens:
            name = f"{step.name} at {token.axis}"
            self.readings[name] = (token.input, token.path, token.shift)
            before = sum(n for group, n in ranks.items() if group < token.group)
            heads = (f"#{before + i}" for i in range(len(token.shift)))
            operands.append((name, (*heads, axes[token.axis])))
        read = {token.axis for token in step.tokens}
        heads = (f"#{i}" for i in range(sum(ranks.values())))
        rest = (a for i, a in enumerate(axes) if i not in read)
        tables = frozenset(name for name, _ in operands[1:])
        return Contract(
            name=step.name,
            operands=tuple(operands),
            axes=(*heads, *rest),
            path=(),
            tables=tables,
        )

    def tables(self, words: Words) -> dict[str, Tensor]:
        """The tables of words, `[*indices, item, functional, jet, value]`."""
        grammar = self.plan.grammar
        tables = {}
        for name, (item, path, shift) in self.readings.items():
            word = moved(words[item], shift)
            if path:
                domain = grammar.input[item].domain
                inner = inner_values(grammar, domain, path, np.arange(word.shape[-1]))
                part = torch.from_numpy(inner[:, None] == np.arange(self.size(item, path)))
                word = torch.matmul(word, part.to(word))
            tables[name] = word.unsqueeze(-4)
        return tables

    def size(self, item: str, path: tuple[str, ...]) -> int:
        """How many values an input has, or the part of its domain that a path leads to."""
        grammar = self.plan.grammar
        return domain_size(grammar, path_end(grammar, grammar.input[item].domain, path))

    def degree(self, degrees: Mapping[str, int]) -> int:
        """The greatest degree of a derivation, from those of the factors: a value in max-plus."""
        grammar = self.plan.grammar
        weights = {
            name: np.full([domain_size(grammar, d) for d in grammar.factor[name].domains], degree)
            for name, degree in degrees.items()
        }
        words = {
            name: np.zeros((*self.inputs[item], 1, self.size(item, path)))
            for name, (item, path, _) in self.readings.items()
        }
        z = self.inside(Algebra(Degrees()), weights, words).z.max(initial=0.0)
        return int(z)

    def _entries(self) -> int:
        """How many numbers a pass keeps for each functional and coefficient of a jet.

        Raises GrammarError (F420) if index arrays would not fit.
        """
        charts = (
            prod(extents_of(chart, self.scope)) * prod(chart.states) for chart in self.plan.charts
        )
        total, indices = 2 * sum(charts), 0
        for block, frame in self.points:
            sizes = {**frame.sizes, **block.sizes}
            for op in block.body:
                if isinstance(op, Put):
                    indices += prod(sizes[d] for d in block.cell_dims)
                else:
                    assert not isinstance(op, Effect)
                    total += prod(sizes[d] for d in op.dims)
                    if isinstance(op, Load):
                        indices += prod(sizes[d] for d in op.dims if d in frame.sizes)
        # A cell's number, where it holds, and at least a weight for one functional.
        require(24 * indices, torch.device("cpu"), "the program for strings of this length")
        return total


class Degrees(MaxPlus):
    """Max-plus on degrees: that of a sum is the greatest, that of a product the sum."""

    def convert(self, weights: Numbers) -> Floats:
        """Weights are degrees."""
        return np.asarray(weights, dtype=np.float64)


def moved(word: Tensor, shift: Sequence[int]) -> Tensor:
    """Soft words `[*indices, …]` read `shift` positions further; zero beyond the ends."""
    for axis, by in enumerate(shift):
        if by:
            size = word.shape[axis]
            kept = max(size - abs(by), 0)
            further = torch.zeros_like(word)
            further.narrow(axis, max(-by, 0), kept).copy_(word.narrow(axis, max(by, 0), kept))
            word = further
    return word
