"""Derivations from a plan's charts: the best, the k best, and draws from the posterior.

Plans are those of a grammar that has been split but not folded, so that its rules are the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
import torch

from fgg.diagnostics import refuse
from fgg.plan import Plan
from fgg.progress import steps
from fgg.runtime.derive import search
from fgg.runtime.derive.assemble import PlanAssembler, Source
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.plan_choices import BatchSteps, PlanChoices
from fgg.runtime.interpret.batch import batch_of
from fgg.runtime.interpret.charts import AnyCharts
from fgg.runtime.interpret.prepare import checked_weights
from fgg.runtime.program.chart_reader import Modules, best_charts, log_charts
from fgg.runtime.program.inputs import Lengths

ROUNDING = 1e-13
"""How far sums of logarithms may be off, where an emitted program made them."""

Weights = Mapping[str, object]
Inputs = Mapping[str, object]


def items(
    charts: AnyCharts, source: Source | None = None, modules: Modules | None = None
) -> Iterator[PlanChoices]:
    """The choices of each item. Raises GrammarError if an item has no derivation.

    With a `source`, ties are broken in the order of the reference engine; charts that emitted
    programs (`modules`) made are equal up to rounding only.
    """
    shared = BatchSteps(
        charts,
        tie_key=None if source is None else source.key,
        rounding=0.0 if modules is None else ROUNDING,
    )
    for number in steps(range(charts.batch.size), "item"):
        choices = PlanChoices(shared, number)
        if all(choices.inside(cell) == -np.inf for cell in choices.start):
            refuse("F421", f"item {number} has no derivation of weight other than 0")
        yield choices


def viterbi(
    plan: Plan,
    weights: Weights,
    inputs: Inputs,
    lengths: Lengths = None,
    *,
    source: Source | None = None,
    modules: Modules | None = None,
) -> list[Derivation]:
    """The derivation of the greatest weight of each item; the first one under ties.

    `source` says where the plan's rules come from, if its grammar has been split; `modules` are
    the plan's emitted programs. Raises GrammarError if an item has no derivation.
    """
    source = source or Source.of(plan.grammar)
    batch = batch_of(plan, inputs, lengths)
    charts = best_charts(plan, modules, checked_weights(plan, weights), batch)
    return [
        _derivation(PlanAssembler(source, choices), search.best(choices))
        for choices in items(charts, source, modules)
    ]


def k_best(
    plan: Plan,
    weights: Weights,
    inputs: Inputs,
    lengths: Lengths = None,
    *,
    number: int,
    source: Source | None = None,
    modules: Modules | None = None,
) -> list[list[Derivation]]:
    """The derivations of greatest weight of each item, at most `number`, best first."""
    source = source or Source.of(plan.grammar)
    batch = batch_of(plan, inputs, lengths)
    charts = best_charts(plan, modules, checked_weights(plan, weights), batch)
    lists = []
    for choices in items(charts, source, modules):
        assembler = PlanAssembler(source, choices)
        paths = islice(search.best_first(choices), number)
        lists.append([_derivation(assembler, path) for path in paths])
    return lists


def sample(
    plan: Plan,
    weights: Weights,
    inputs: Inputs,
    lengths: Lengths = None,
    *,
    number: int = 1,
    seed: int | torch.Generator | None = None,
    source: Source | None = None,
    modules: Modules | None = None,
) -> list[list[Derivation]]:
    """Independent draws of derivations of each item, with probability weight / Z.

    Draws of one item share what is known of its cells. Raises GrammarError if an item has no
    derivation.
    """
    source = source or Source.of(plan.grammar)
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator()
    if isinstance(seed, int):
        generator.manual_seed(seed)
    elif seed is None:
        generator.seed()

    def uniform() -> float:
        return torch.rand((), dtype=torch.float64, generator=generator).item()

    batch = batch_of(plan, inputs, lengths)
    charts = log_charts(plan, modules, checked_weights(plan, weights), batch)
    lists = []
    for choices in items(charts):
        assembler = PlanAssembler(source, choices)
        draws = zip(steps(range(number), "draw"), search.samples(choices, uniform), strict=False)
        lists.append([_derivation(assembler, path) for _, path in draws])
    return lists


def _derivation(assembler: PlanAssembler, path: search.Path) -> Derivation:
    return assembler.derivation(path, search.log_weight(assembler.choices, path))
