"""Minimum Bayes risk from marginals alone, for programs that never multiply their factors out.

The *outline* of a grammar has no states. The search runs on it, with each cell worth its marginal;
then each cell gets its most probable state. Where states of cells are independent (no rule is
`entangled`) and no factor has zeros, this is what `fgg.runtime.derive.mbr` finds. With zeros, the
states may exclude each other, and the derivation's weight is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log, nan

import numpy as np
import torch
from torch import Tensor

from fgg.grammar import Attachment, Edge, Grammar
from fgg.grammar.domains import select
from fgg.grammar.provenance import families_of
from fgg.plan import Plan
from fgg.runtime.derive import search
from fgg.runtime.derive.assemble import PlanAssembler, Source
from fgg.runtime.derive.choices import Floats
from fgg.runtime.derive.decode import items
from fgg.runtime.derive.derivation import Derivation, Step
from fgg.runtime.derive.frontier import BatchSearch
from fgg.runtime.derive.mbr import wanted_families
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.charts import ends as ends_of
from fgg.runtime.interpret.frame import Scope
from fgg.runtime.interpret.semirings.base import to_numpy
from fgg.runtime.program.chart_reader import DerivationModules, best_charts
from fgg.runtime.program.chart_views import Refinement
from fgg.runtime.program.inputs import Lengths

Pieces = Callable[[str], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Outline:
    """The plan of a grammar without states, and its emitted programs."""

    plan: Plan
    modules: DerivationModules


def mbr_on_outline(
    outline: Outline,
    source: Source,
    worths: Mapping[str, Floats],
    inputs: Mapping[str, object],
    lengths: Lengths,
    *,
    families: Sequence[str] | None,
) -> list[Derivation]:
    """The derivation of each item whose cells have the greatest sum of worths, without states.

    `worths` are those of the user's families, `[batch, *indices]`; a cell whose worth is 0 is not
    used. Nodes of cells have no values. Raises GrammarError if an item has no derivation.
    """
    outline_source = Source(source.grammar)
    batch = batch_of(outline.plan, inputs, lengths)
    chosen = wanted_families(source, families)
    flat = {
        name: torch.where(torch.isfinite(logs), 0.0, -inf)
        for name, logs in batch.potentials.items()
    }
    batch = replace(batch, potentials=flat)
    marks = _marks(outline.plan, source.grammar, worths, chosen, batch)
    charts = best_charts(outline.plan, outline.modules, {}, batch, marks)
    all_choices = list(items(charts, outline_source, rounded=True))
    together = BatchSearch(all_choices[0].steps, outline_source)
    paths = together.paths() if together.is_possible() else map(search.best, all_choices)
    return [
        PlanAssembler(outline_source, choices).derivation(path, nan)
        for choices, path in zip(all_choices, paths, strict=True)
    ]


def with_best_states(
    bare: Sequence[Derivation],
    marginals: Mapping[str, Floats],
    log_weight: Callable[[Derivation], float],
) -> list[Derivation]:
    """Derivations with the most probable values at the nodes of their cells, and their weights.

    `marginals` are those of the user's families, `[batch, *indices, *values]`.
    """
    full = [_with_states(derivation, item, marginals) for item, derivation in enumerate(bare)]
    return [replace(derivation, log_weight=log_weight(derivation)) for derivation in full]


def entangled(grammar: Grammar) -> str | None:
    """The name of a rule that makes states of cells depend on each other or on an input, if any."""
    for rule in grammar.rules:
        edges = [e for e in rule.rhs.edges if e.label in grammar.nonterminal]
        touched = [a.node for e in edges for a in e.attachments] + list(rule.rhs.externals)
        clamped = {clamp.attachment.node for clamp in rule.rhs.clamps}
        if len(set(touched)) < len(touched) or clamped & set(touched):
            return rule.name
    return None


def cell_worths(marginals: Mapping[str, Tensor], grammar: Grammar) -> dict[str, Floats]:
    """The worth of each cell together with its values: the greatest marginal among them."""
    worths = {}
    for name, table in marginals.items():
        item = grammar.nonterminal[name]
        cells = table.flatten(1 + len(item.indices)).amax(-1) if item.domains else table
        worths[name] = np.asarray(cells.double().cpu().numpy())
    return worths


def _marks(
    plan: Plan,
    grammar: Grammar,
    worths: Mapping[str, Floats],
    chosen: set[str],
    batch: Batch,
) -> dict[str, Floats]:
    """The score of each cell of the outline's charts, `[*axes, batch]`; -inf if it is not used."""
    scope = Scope(plan, batch)
    sources = families_of(plan.grammar)
    marks: dict[str, Floats] = {}
    for chart in plan.charts:
        source = sources[chart.family].family if chart.family in sources else chart.family
        low, high = ends_of(chart, scope)
        extents = tuple(max(b - a + 1, 0) for a, b in zip(low, high, strict=True))
        shape = (*extents, batch.size)
        if source not in worths:
            marks[chart.family] = np.zeros(shape)
            continue
        table = np.moveaxis(worths[source], 0, -1)  # [*indices, batch]
        places = Refinement(chart.family, source, grammar, ()).places(plan, list(low), extents)
        cells = [np.array(column, dtype=np.int64) for column in places]
        inside = np.ones(int(np.prod(extents)), dtype=bool)
        for column, extent in zip(cells, table.shape, strict=False):
            inside &= (column >= 0) & (column < extent)
        worth = np.zeros((len(inside), batch.size))
        worth[inside] = table[tuple(column[inside] for column in cells)]
        used = worth if source in chosen else np.zeros_like(worth)
        marks[chart.family] = np.where(worth > 0.0, used, -inf).reshape(shape)
    return marks


def _with_states(bare: Derivation, item: int, marginals: Mapping[str, Floats]) -> Derivation:
    """A derivation with the most probable values at the nodes of its cells."""
    best = []
    for step in bare.steps:
        family, indices = bare.cell(step)
        cell = marginals[family][(item, *indices)]
        best.append(tuple(int(i) for i in np.unravel_index(int(cell.argmax()), cell.shape)))
    steps = []
    for number, step in enumerate(bare.steps):
        values = dict(step.values)
        values |= zip(step.rule.rhs.externals, best[number], strict=True)
        edges = [e for e in step.rule.rhs.edges if e.label in bare.grammar.nonterminal]
        for edge, child in zip(edges, step.children, strict=True):
            for attachment, value in zip(edge.attachments, best[child], strict=True):
                if not attachment.path:
                    values[attachment.node] = value
        steps.append(replace(step, values=values))
    return replace(bare, steps=tuple(steps))


def log_weight(
    derivation: Derivation, grammar: Grammar, weights: Mapping[str, object], pieces: Pieces
) -> float:
    """The log-weight of a derivation; NaN if a node has no value, or an edge is a log-potential.

    `pieces` gives the names of a factor's pieces, or the factor's own name if it has none. An entry
    of the whole factor is a sum over the rank.
    """
    arrays = {name: to_numpy(w) for name, w in weights.items()}
    total = 0.0
    for step in derivation.steps:
        for edge in step.rule.rhs.edges:
            if edge.label in derivation.grammar.nonterminal:
                continue
            entry = _entry(edge, step, grammar, arrays, pieces)
            if entry is None:
                return nan
            total += log(entry) if entry > 0 else -inf
    return total


def _entry(
    edge: Edge, step: Step, grammar: Grammar, arrays: Mapping[str, Floats], pieces: Pieces
) -> float | None:
    """The weight of an edge in a step; None where it is not known."""
    if edge.label not in grammar.factor:
        return None  # log-potentials
    values = [_value(a, step, grammar) for a in edge.attachments]
    index = [value for value in values if value is not None]
    if len(index) < len(values):
        return None
    names = pieces(edge.label)
    if any(name not in arrays for name in names):
        return None
    if names == (edge.label,):
        return float(arrays[edge.label][tuple(index)])
    given = grammar.factor[edge.label].given or 0
    product = np.asarray(arrays[names[0]][tuple(index[:given])], dtype=float)
    for name, i in zip(names[1:], index[given:], strict=True):
        product = product * arrays[name][:, i]
    return float(product.sum())


def _value(attachment: Attachment, step: Step, grammar: Grammar) -> int | None:
    """The value of the part of a node that an edge touches; None if the node has no value."""
    value = step.values.get(attachment.node)
    if value is None:
        return None
    domain = step.rule.rhs.by_name[attachment.node].domain
    return select(grammar, domain, attachment.path, value)
