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
from fgg.plan import Plan
from fgg.runtime.derive import search
from fgg.runtime.derive.assemble import PlanAssembler, Source
from fgg.runtime.derive.choices import Floats
from fgg.runtime.derive.decode import items
from fgg.runtime.derive.derivation import Derivation, Step
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
    marginals: Mapping[str, Tensor],
    inputs: Mapping[str, object],
    lengths: Lengths,
    *,
    families: Sequence[str] | None,
    states: bool,
    log_weight: Callable[[Derivation], float],
) -> list[Derivation]:
    """The derivation of each item whose cells have the greatest sum of marginals.

    `marginals` are those of the user's families, `[batch, *indices, *values]`; with `states` a cell
    counts together with its best values. Raises GrammarError if an item has no derivation.
    """
    outline_source = Source(source.grammar)
    batch = batch_of(outline.plan, inputs, lengths)
    tables = {
        name: FamilyMarginals(array.numpy(), len(source.grammar.nonterminal[name].indices))
        for name, array in marginals.items()
    }
    chosen = wanted_families(source, families)
    flat = {
        name: torch.where(torch.isfinite(logs), 0.0, -inf)
        for name, logs in batch.potentials.items()
    }
    batch = replace(batch, potentials=flat)
    worths = _worths(outline.plan, outline_source, tables, chosen, batch, states=states)
    charts = best_charts(outline.plan, outline.modules, {}, batch, worths)
    derivations = []
    for number, choices in enumerate(items(charts)):
        bare = PlanAssembler(outline_source, choices).derivation(search.best(choices), 0.0)
        full = _with_states(bare, number, tables)
        derivations.append(replace(full, log_weight=log_weight(full)))
    return derivations


def entangled(grammar: Grammar) -> str | None:
    """The name of a rule that makes states of cells depend on each other or on an input, if any."""
    for rule in grammar.rules:
        edges = [e for e in rule.rhs.edges if e.label in grammar.nonterminal]
        touched = [a.node for e in edges for a in e.attachments] + list(rule.rhs.externals)
        clamped = {clamp.attachment.node for clamp in rule.rhs.clamps}
        if len(set(touched)) < len(touched) or clamped & set(touched):
            return rule.name
    return None


@dataclass(frozen=True)
class FamilyMarginals:
    """The marginals of a family, `[batch, *indices, *values]`."""

    array: Floats
    indices: int

    def worth(self, item: int, index: Sequence[int], *, states: bool) -> float:
        """The score of a cell: its marginal, or that of its best values."""
        cell = self.at(item, index)
        if cell is None or not cell.size:
            return 0.0
        return float(cell.max() if states else cell.sum())

    def best(self, item: int, index: Sequence[int]) -> tuple[int, ...]:
        """The most probable values of a cell's external nodes."""
        cell = self.at(item, index)
        assert cell is not None
        return tuple(int(i) for i in np.unravel_index(int(cell.argmax()), cell.shape))

    def at(self, item: int, index: Sequence[int]) -> Floats | None:
        """The marginals of a cell, `[*values]`; None beyond the table's end."""
        extents = self.array.shape[1 : 1 + self.indices]
        if any(not 0 <= i < n for i, n in zip(index, extents, strict=True)):
            return None
        return np.asarray(self.array[(item, *index)])


def _worths(
    plan: Plan,
    source: Source,
    tables: Mapping[str, FamilyMarginals],
    chosen: set[str],
    batch: Batch,
    *,
    states: bool,
) -> dict[str, Floats]:
    """The score of each cell of the outline's charts, `[*axes, batch]`; -inf if it is not used."""
    scope = Scope(plan, batch)
    worths: dict[str, Floats] = {}
    for chart in plan.charts:
        part = Refinement(chart.family, chart.family, source.grammar, ())
        low, high = ends_of(chart, scope)
        extents = tuple(max(b - a + 1, 0) for a, b in zip(low, high, strict=True))
        places = part.places(plan, list(low), extents)
        marks = np.full((int(np.prod(extents)), batch.size), -inf)
        table, counts = tables.get(chart.family), chart.family in chosen
        for number in range(len(marks)):
            index = [place[number] for place in places]
            for item in range(batch.size):
                worth = 0.0 if table is None else table.worth(item, index, states=states)
                if worth > 0.0:
                    marks[number, item] = worth if counts else 0.0
        worths[chart.family] = marks.reshape((*extents, batch.size))
    return worths


def _with_states(
    bare: Derivation,
    item: int,
    tables: Mapping[str, FamilyMarginals],
) -> Derivation:
    """A derivation with the most probable values at the nodes of its cells."""
    cells = [bare.cell(step) for step in bare.steps]
    best = [tables[family].best(item, index) for family, index in cells]
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
