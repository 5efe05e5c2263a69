"""Derivations from a plan's charts: the best, the k best, and draws from the posterior.

Plans are those of a grammar that has been split but not folded, so that its rules are the user's.
A `source` says where the plan's rules come from, if its grammar has been split. All functions raise
GrammarError (F421) if an item has no derivation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch

from fgg.diagnostics import refuse
from fgg.progress import steps
from fgg.runtime.derive import search
from fgg.runtime.derive.assemble import PlanAssembler, Source
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.plan_choices import BatchSteps, PlanChoices
from fgg.runtime.interpret.charts import AnyCharts
from fgg.runtime.program.chart_reader import DerivationCharts

ROUNDING = 1e-13
"""How far sums of logarithms may be off, where an emitted program made them."""


def items(
    charts: AnyCharts, source: Source | None = None, *, rounded: bool = False
) -> Iterator[PlanChoices]:
    """The choices of each item.

    With a `source`, ties are broken in the order of the reference engine. In charts that are
    `rounded`, as those of emitted programs are, values that differ by rounding alone are equal.
    """
    shared = BatchSteps(
        charts,
        tie_key=None if source is None else source.key,
        rounding=ROUNDING if rounded else 0.0,
    )
    for number in steps(range(charts.batch.size), "item"):
        choices = PlanChoices(shared, number)
        if all(choices.inside(cell) == -np.inf for cell in choices.start):
            refuse("F421", f"item {number} has no derivation of weight other than 0")
        yield choices


def viterbi(charts: DerivationCharts, *, source: Source | None = None) -> list[Derivation]:
    """The derivation of the greatest weight of each item; the first one under ties."""
    return [
        _derivation(assembler, choices, search.best(choices))
        for choices, assembler in _best_items(charts, source)
    ]


def k_best(
    charts: DerivationCharts, *, number: int, source: Source | None = None
) -> list[list[Derivation]]:
    """The derivations of greatest weight of each item, at most `number`, best first."""
    lists = []
    for choices, assembler in _best_items(charts, source):
        paths = islice(search.best_first(choices), number)
        lists.append([_derivation(assembler, choices, path) for path in paths])
    return lists


def _best_items(
    charts: DerivationCharts, source: Source | None
) -> Iterator[tuple[PlanChoices, PlanAssembler]]:
    source = source or Source.of(charts.plan.grammar)
    for choices in items(charts.best, source, rounded=charts.modules is not None):
        yield choices, PlanAssembler(source, choices)


def sample(
    charts: DerivationCharts,
    *,
    number: int = 1,
    seed: int | torch.Generator | None = None,
    source: Source | None = None,
) -> list[list[Derivation]]:
    """Independent draws of derivations of each item, with probability weight / Z.

    Draws of one item share what is known of its cells.
    """
    source = source or Source.of(charts.plan.grammar)
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator()
    if isinstance(seed, int):
        generator.manual_seed(seed)
    elif seed is None:
        generator.seed()

    def uniform() -> float:
        return torch.rand((), dtype=torch.float64, generator=generator).item()

    lists = []
    for choices in items(charts.log):
        assembler = PlanAssembler(source, choices)
        draws = zip(steps(range(number), "draw"), search.samples(choices, uniform), strict=False)
        lists.append([_derivation(assembler, choices, path) for _, path in draws])
    return lists


def _derivation(assembler: PlanAssembler, choices: PlanChoices, path: search.Path) -> Derivation:
    return assembler.derivation(path, search.log_weight(choices, path))
