"""Derivations from a plan's charts: the best, the k best, and draws from the posterior.

Plans are those of a grammar that has been split but not folded, so that its rules are the user's.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.plan import Plan
from fgg.progress import steps
from fgg.runtime.derive.choices import Cell, Choice, Choices, Floats
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.plan_choices import Cells, Shared
from fgg.runtime.derive.trees import Source, Writer, build
from fgg.runtime.interpret.batch import batch_of
from fgg.runtime.interpret.charts import AnyCharts
from fgg.runtime.interpret.prepare import checked_weights
from fgg.runtime.program.chart_reader import Modules, best_charts, log_charts
from fgg.runtime.program.inputs import Lengths

MAX_TIES = 512
"""Up to how many choices of equal weight are put into the reference engine's order."""

ROUNDING = 1e-13
"""What sums of logarithms may be off, where they were made by an emitted program."""

Inputs = Mapping[str, Any]


def items(charts: AnyCharts) -> Iterator[Cells]:
    """The cells of each item."""
    shared = Shared(charts)
    for number in steps(range(charts.batch.size), "item"):
        yield Cells(shared, number)


def start_of(cells: Cells) -> Cell:
    """The start symbol's best cell. Raises GrammarError if an item has no derivation."""
    best = max(cells.start, key=cells.inside)
    if cells.inside(best) == -np.inf:
        message = f"item {cells.item} has no derivation of weight other than 0"
        refuse("F421", message)
    return best


def best_choice(source: Source, rounding: float, choices: Choices) -> int:
    """The place of the best choice of a cell; the first one under ties.

    Numbers that differ by no more than `rounding`, relative to the greatest, are ties.
    """
    scores = choices.scores
    best = int(scores.argmax())
    ties = np.flatnonzero(scores >= scores[best] - rounding * (1.0 + abs(scores[best])))
    if 1 < len(ties) <= MAX_TIES:
        return int(min(ties, key=lambda place: source.key(choices.decode(int(place)))))
    return best


def weight_of(cells: Cells, made: Sequence[tuple[Cell, Choice]]) -> float:
    """The log-weight of a derivation."""
    return float(sum(cells.edge_weight(choice) for _, choice in made))


def viterbi(
    plan: Plan,
    weights: Mapping[str, Any],
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
    found = []
    choose = partial(best_choice, source, 0.0 if modules is None else ROUNDING)
    for cells in items(charts):
        made = build(cells, start_of(cells), choose)
        found.append(Writer(source, cells).derivation(made, weight_of(cells, made)))
    return found


def k_best(
    plan: Plan,
    weights: Mapping[str, Any],
    inputs: Inputs,
    lengths: Lengths = None,
    *,
    number: int,
    source: Source | None = None,
    modules: Modules | None = None,
) -> list[list[Derivation]]:
    """The derivations of greatest weight of each item, at most so many, best first."""
    source = source or Source.of(plan.grammar)
    batch = batch_of(plan, inputs, lengths)
    charts = best_charts(plan, modules, checked_weights(plan, weights), batch)
    found = []
    for cells in items(charts):
        start_of(cells)
        best: list[Derivation] = []
        for derivation in enumerate_best(cells, source):
            if len(best) >= number:
                break
            best.append(derivation)
        found.append(best)
    return found


@dataclass(frozen=True)
class _Chain:
    """A partial derivation as a linked list of the choices made so far, newest first."""

    cell: Cell
    choice: Choice
    before: _Chain | None


def enumerate_best(cells: Cells, source: Source) -> Iterator[Derivation]:
    """All derivations of an item, best first, as far as asked for.

    Lazy, as in Huang & Chiang 2005: a partial derivation is valued at what it has, times the
    best completions of its open cells, which are known; taking a choice puts the next best choice
    for the same cell aside.
    """
    writer = Writer(source, cells)
    ticket = count()
    orders: dict[Cell, NDArray[np.int64]] = {}

    def ranked(cell: Cell) -> NDArray[np.int64]:
        if cell not in orders:
            scores = cells.choices(cell).scores
            order = np.argsort(-scores, kind="stable")
            orders[cell] = order[np.isfinite(scores[order])]
        return orders[cell]

    # (minus value, minus depth, ticket, open cells as a linked list, rank of choice, history)
    heap: list[tuple[float, int, int, Any, int, _Chain | None]] = []
    for cell in cells.start:
        if np.isfinite(cells.inside(cell)):
            heapq.heappush(heap, (-cells.inside(cell), 0, next(ticket), (cell, None), 0, None))
    while heap:
        value, depth, _, agenda, rank, chain = heapq.heappop(heap)
        if agenda is None:
            made = _unrolled(chain)
            yield writer.derivation(made, weight_of(cells, made))
            continue
        cell, rest = agenda
        order = ranked(cell)
        choices = cells.choices(cell)
        if rank + 1 < len(order):
            lost = float(choices.scores[order[rank]] - choices.scores[order[rank + 1]])
            heapq.heappush(heap, (value + lost, depth, next(ticket), agenda, rank + 1, chain))
        choice = choices.decode(int(order[rank]))
        for child in reversed(cells.children(choice)):
            rest = (child, rest)
        following = _Chain(cell, choice, chain)
        heapq.heappush(heap, (value, depth - 1, next(ticket), rest, 0, following))


def _unrolled(chain: _Chain | None) -> list[tuple[Cell, Choice]]:
    made = []
    while chain is not None:
        made.append((chain.cell, chain.choice))
        chain = chain.before
    made.reverse()
    return made


def sample(
    plan: Plan,
    weights: Mapping[str, Any],
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
    batch = batch_of(plan, inputs, lengths)
    charts = log_charts(plan, modules, checked_weights(plan, weights), batch)
    return [_draws(cells, source, number, generator) for cells in items(charts)]


def _draws(
    cells: Cells, source: Source, number: int, generator: torch.Generator
) -> list[Derivation]:
    start_of(cells)
    writer = Writer(source, cells)

    def place(sums: Floats) -> int:
        drawn = torch.rand((), dtype=torch.float64, generator=generator).item() * sums[-1]
        return min(int(sums.searchsorted(drawn, side="right")), len(sums) - 1)

    starts = cells.start
    values = np.array([cells.inside(cell) for cell in starts])
    first_sums = np.cumsum(np.exp(values - values.max()))
    found = []
    for _ in steps(range(number), "draw"):
        first = starts[place(first_sums)]
        made = build(cells, first, lambda choices: place(choices.sums))
        found.append(writer.derivation(made, weight_of(cells, made)))
    return found
