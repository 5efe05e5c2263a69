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
from fgg.plan import Contract, Cut, Gather, OneHot, Operand, Plan, Preparation
from fgg.plan.kernel import Effect, Load, Put
from fgg.runtime.identify.functionals import Words
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.charts import Charts, empty_charts, ends, extents_of
from fgg.runtime.interpret.frame import Frame, Scope
from fgg.runtime.interpret.prepare import Prepared, part_tokens
from fgg.runtime.interpret.semirings.base import Array, Ints, Numbers
from fgg.runtime.interpret.walk import Point, Tape, filled, points
from fgg.runtime.memory import require
from fgg.runtime.prelude.evidence import one_hot


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
        self.points = list(points(plan.plain_kernel, self.scope))
        self.entries = self._entries()

    @cached_property
    def outside(self) -> list[Point]:
        """What the outside pass does, step by step."""
        return list(points(self.given.plain_outside, self.scope))

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
                inner = part_tokens(grammar, domain, path, torch.arange(word.shape[-1]))
                part = one_hot(inner, self.size(item, path), word.dtype)
                word = torch.matmul(word, part)
            tables[name] = word.unsqueeze(-4)
        return tables

    def size(self, item: str, path: tuple[str, ...]) -> int:
        """How many values an input has, or the part of its domain that a path leads to."""
        grammar = self.plan.grammar
        return domain_size(grammar, path_end(grammar, grammar.input[item].domain, path))

    def degree(self, degrees: Mapping[str, int]) -> int:
        """A bound of the degree of Z, from those of the factors."""
        known = dict(degrees)
        for step in self.plan.preparations:
            if isinstance(step, Cut):
                known[step.name] = known[step.source]
            elif isinstance(step, Contract):
                # Maps and words are constants: they add nothing.
                known[step.name] = sum(known.get(name, 0) for name, _ in step.operands)
        ends_of = {chart.family: ends(chart, self.scope) for chart in self.plan.charts}
        shapes = {chart.family: extents_of(chart, self.scope) for chart in self.plan.charts}
        charts = {name: np.zeros(prod(shape)) for name, shape in shapes.items()}

        def rows(cells: Operand, frame: Frame) -> Ints:
            name = cells.name
            place = frame.places.get(id(cells))
            return (place or frame.place(cells.index, ends_of[name][0], shapes[name])).rows

        for block, frame in self.points:
            best = 0.0
            for op in block.body:
                if isinstance(op, Load) and op.cells.kind == "chart":
                    best += float(charts[op.cells.name][rows(op.cells, frame)].max(initial=0.0))
                elif isinstance(op, Load):
                    best += known.get(op.cells.name, 0)
                elif isinstance(op, Put):
                    np.maximum.at(charts[op.cells.name], rows(op.cells, frame), best)
        start = self.plan.start
        if start.name not in charts:
            return 0
        return int(charts[start.name][rows(start, Frame(self.scope, {}, 0))].max(initial=0.0))

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
