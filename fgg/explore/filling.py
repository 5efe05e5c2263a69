"""The inside pass, level by level: which cells of which charts each level fills, and with what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from fgg.compiler.emit.readable import level_name
from fgg.explore.asked import Answer, Json
from fgg.plan import Chart, Plan
from fgg.plan.kernel import Stage
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import batch_of
from fgg.runtime.interpret.charts import AnyCharts, empty_charts
from fgg.runtime.interpret.frame import Scope
from fgg.runtime.interpret.interpret import semiring_of
from fgg.runtime.interpret.prepare import Prepared, checked_weights
from fgg.runtime.interpret.walk import Walk
from fgg.runtime.program.inputs import Lengths

MAX_CELLS = 20_000
"""The most cells that are shown."""


@dataclass(frozen=True)
class Filling:
    """The charts of one item before its inside pass."""

    plan: Plan
    charts: AnyCharts

    @staticmethod
    def of(
        plan: Plan,
        weights: Mapping[str, object],
        inputs: Mapping[str, object],
        lengths: Lengths,
    ) -> Filling:
        """Empty charts for a batch of one item. Raises GrammarError for what does not fit."""
        scope = Scope(plan, batch_of(plan, inputs, lengths))
        checked = checked_weights(plan, weights)
        algebra = Algebra(semiring_of("log", checked))
        prepared = Prepared(plan, scope, algebra, checked)
        return Filling(plan, empty_charts(plan, scope, algebra, prepared))

    @property
    def cells(self) -> int:
        """How many cells are shown."""
        return sum(prod(self._shape(chart)) for chart in self.plan.charts)

    def _shape(self, chart: Chart) -> tuple[int, ...]:
        """The extents of the axes that are shown: the first two."""
        return tuple(self.charts.arrays[chart.family].shape[: min(len(chart.axes), 2)])

    def described(self) -> Iterator[Answer]:
        """What the charts are: their axes, the first index and the extent of each."""
        grammar = self.plan.grammar
        for chart in self.plan.charts:
            family = grammar.nonterminal[chart.family]
            names = [family.indices[place] for place in chart.stored]
            in_ranks = any(grammar.domain[domain].rank for domain in family.domains)
            yield {
                "family": chart.family,
                "axes": names[:2],
                "summed": names[2:],
                "low": list(self.charts.low[chart.family])[:2],
                "extents": list(self._shape(chart)),
                "states": prod(chart.states),
                "kind": "rank" if in_ranks else "state",
            }

    def levels(self) -> Iterator[Answer]:
        """Carry out the pass: for each level its name, its rules, and the cells that it changed.

        A cell is its place in the chart and the logarithm of its sum over all values.
        """
        walk = Walk(self.charts, {}, None)
        before = {chart.family: self._totals(walk, chart) for chart in self.plan.charts}
        scope = self.charts.scope
        for stage in self.plan.plain_kernel.stages:
            for level in scope.levels(stage.levels):
                rules = []
                for block in stage.blocks:
                    frame = scope.frame(block, level)
                    if frame is not None:
                        walk.block(block, frame)
                        rules.append(block.rule.name)
                if not rules:
                    continue
                cells: list[Json] = []
                for number, chart in enumerate(self.plan.charts):
                    now = self._totals(walk, chart)
                    changed = now != before[chart.family]
                    for place in changed.nonzero().tolist():
                        cells.append([number, place, _rounded(float(now[tuple(place)]))])
                    before[chart.family] = now
                yield {**_name(stage, level), "rules": rules, "cells": cells}

    def _totals(self, walk: Walk[Tensor], chart: Chart) -> Tensor:
        """The logarithm of the sum over the values of each cell that is shown."""
        array = walk.arrays[chart.family].detach()
        shown = self._shape(chart)
        return array.reshape(*shown, -1).logsumexp(-1) if array.numel() else torch.zeros(shown)


def _name(stage: Stage, level: int) -> Answer:
    """What a level is called: `width 3`."""
    if stage.levels is None:
        return {"name": "", "at": None}
    return {"name": level_name(stage)[0], "at": level}


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
