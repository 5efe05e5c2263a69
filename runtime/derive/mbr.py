"""Marginals of cells, and derivations that agree best with them (minimum Bayes risk)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import did_you_mean, refuse
from fgg.plan import Plan
from fgg.plan.sizes import environment
from fgg.runtime.derive import search
from fgg.runtime.derive.assemble import PlanAssembler, Source
from fgg.runtime.derive.choices import Floats
from fgg.runtime.derive.decode import items
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.plan_choices import PlanChoices
from fgg.runtime.interpret.charts import AnyCharts, Charts
from fgg.runtime.interpret.interpret import outside
from fgg.runtime.interpret.semirings.base import to_numpy
from fgg.runtime.program.chart_reader import DerivationCharts, best_charts
from fgg.runtime.program.chart_views import Refinement, refinements

TIES = 1e-7
"""The factor for the marginals of states where they only break ties."""


@dataclass(frozen=True)
class Scored:
    """A derivation and its score: the expected number of its cells that are right."""

    derivation: Derivation
    score: float


def cell_marginals(charts: Charts[Tensor]) -> dict[str, Tensor]:
    """How often each cell of a plan's charts in `log` is used, `[*axes, batch, *values]`.

    An item without derivations has 0 everywhere.
    """
    above = outside(charts)
    z = charts.z.reshape(charts.batch.size, -1).logsumexp(-1)
    safe = torch.where(torch.isfinite(z), z, float("inf"))
    used = {}
    for family, array in charts.arrays.items():
        chart = charts.plan.chart[family]
        shape = (1,) * len(chart.axes) + (-1,) + (1,) * len(chart.states)
        used[family] = (array + above.arrays[family] - safe.reshape(shape)).exp()
    return used


def marginals(charts: Charts[Tensor], source: Source) -> dict[str, Tensor]:
    """How often each cell of the user's families is used, `[batch, *indices, *values]`."""
    result: dict[str, Tensor] = {}
    used = cell_marginals(charts)
    for part in _refinements(charts.plan, source):
        part.add_to(result, used[part.family], charts.plan, _ends(charts))
    return result


def best_through(charts: AnyCharts, above: AnyCharts, source: Source) -> dict[str, Tensor]:
    """The log-weight of the best derivation through each cell of the user's families.

    From charts in `max`, inside and outside; -inf where there is none.
    """
    total: dict[str, Tensor] = {}
    live: dict[str, Tensor] = {}
    for part in _refinements(charts.plan, source):
        family = part.family
        through = torch.as_tensor(np.asarray(charts.arrays[family]) + above.arrays[family])
        known = torch.isfinite(through)
        finite = torch.where(known, through, 0.0)
        part.add_to(total, finite, charts.plan, _ends(charts))
        part.add_to(live, known.to(through.dtype), charts.plan, _ends(charts))
    return {name: torch.where(live[name] > 0, total[name], -float("inf")) for name in total}


def _refinements(plan: Plan, source: Source) -> tuple[Refinement, ...]:
    return refinements(source.grammar, plan)


def _ends(charts: AnyCharts) -> dict[str, int]:
    return environment({n: v.tolist() for n, v in charts.batch.lengths.items()})


def mbr(
    charts: DerivationCharts,
    *,
    families: Sequence[str] | None = None,
    states: bool = False,
    source: Source | None = None,
) -> list[Scored]:
    """The derivation of each item whose cells have the greatest sum of marginals.

    A cell is a family of the user's and its index, with `states` also the values of its external
    nodes. `families` are those that count; all with indices, if none are named. Only derivations
    of weight other than 0 are considered. This is Viterbi with marginals as the weights of cells
    (Goodman 1996). Without `states`, the marginals of states break ties: they count a
    ten-millionth. Raises GrammarError if an item has no derivation.
    """
    plan, modules, batch = charts.plan, charts.modules, charts.batch
    source = source or Source.of(plan.grammar)
    wanted = wanted_families(source, families)
    with torch.no_grad():
        used = cell_marginals(charts.log) if charts.uses is None else charts.uses
        scores = _scores(charts.log, used, source, wanted, states=states)
        weights = charts.weights.items()
        support = {name: np.asarray(to_numpy(w) > 0, dtype=float) for name, w in weights}
        flat = {
            name: torch.where(torch.isfinite(logs), 0.0, -float("inf"))
            for name, logs in batch.potentials.items()
        }
        ties = scores
        if not states:
            # Where the score does not speak of states, the more probable ones break ties.
            ties = {name: array + TIES * to_numpy(used[name]) for name, array in scores.items()}
        judged = best_charts(plan, modules, support, replace(batch, potentials=flat), ties)
    judged_items = items(judged, source, rounded=modules is not None)
    return [
        _best(choices, true, source, scores)
        for choices, true in zip(judged_items, items(charts.log), strict=True)
    ]


def _best(
    choices: PlanChoices, true: PlanChoices, source: Source, scores: Mapping[str, Floats]
) -> Scored:
    """The best derivation of an item, with its own weight and score.

    `choices` are worth their scores, `true` ones their weights.
    """
    path = search.best(choices)
    derivation = PlanAssembler(source, choices).derivation(path, search.log_weight(true, path))
    total = sum(
        float(scores[cell.family][(*choices.place(cell), choices.item, *cell.values)])
        for cell, _, _ in path
        if cell.family in scores
    )
    return Scored(derivation, total)


def wanted_families(source: Source, families: Sequence[str] | None) -> set[str]:
    """The user's families whose cells count."""
    known = source.grammar.nonterminal
    if families is None:
        return {n.name for n in source.grammar.nonterminals if n.indices}
    for name in families:
        if name not in known:
            message = f"there is no nonterminal `{name}`"
            help = did_you_mean(name, known)
            refuse("F415", message, help)
    return set(families)


def _scores(
    charts: Charts[Tensor],
    used: Mapping[str, Tensor],
    source: Source,
    wanted: set[str],
    *,
    states: bool,
) -> dict[str, Floats]:
    """The score of each cell of each chart, `[*axes, batch, *values]`.

    `used` are the cells' marginals, of the same shape. Without `states`, a cell is worth the sum
    over the states of the user's family.
    """
    parts = [part for part in _refinements(charts.plan, source) if part.source in wanted]
    if states:
        return {part.family: to_numpy(used[part.family]) for part in parts}
    whole: dict[str, Tensor] = {}
    for part in parts:
        part.add_sums_to(whole, used[part.family], charts.plan, _ends(charts))
    result = {}
    for part in parts:
        array = to_numpy(used[part.family])
        rank = len(charts.plan.chart[part.family].axes)
        low = list(charts.low[part.family])
        places = part.places(charts.plan, low, array.shape[:rank])
        totals = to_numpy(whole[part.source])  # [batch, *indices]
        at_cells = np.moveaxis(totals, 0, -1)[tuple(np.array(p, dtype=int) for p in places)]
        cells = at_cells.reshape(array.shape[: rank + 1])
        spread = cells.reshape(cells.shape + (1,) * (array.ndim - rank - 1))
        result[part.family] = np.broadcast_to(spread, array.shape)
    return result
