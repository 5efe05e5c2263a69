"""Minimum Bayes risk from marginals alone, for programs whose factors are not there as a whole.

The shape of a derivation is found on the *outline* of a grammar, which has no states: each cell is
worth its marginal. Then each cell gets its own most probable state. Where the states of cells are
independent (`entangled`) this is what `fgg.runtime.derive.mbr` finds, if no factor is zero:
zeros may say that states do not go together, and the weight is 0 then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log, nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.grammar import Attachment, Edge, Grammar
from fgg.grammar.domains import select
from fgg.grammar.slices import SplitRule
from fgg.plan import Plan
from fgg.runtime.derive import search
from fgg.runtime.derive.assemble import PlanAssembler, Source
from fgg.runtime.derive.decode import items
from fgg.runtime.derive.derivation import Derivation, Step
from fgg.runtime.derive.mbr import wanted_families
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.charts import ends as ends_of
from fgg.runtime.interpret.frame import Scope
from fgg.runtime.interpret.prepare import plain
from fgg.runtime.program.chart_reader import Modules, best_charts
from fgg.runtime.program.chart_views import Refinement
from fgg.runtime.program.inputs import Lengths

Floats = NDArray[np.float64]
Pieces = Callable[[str], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Outline:
    """The plan of a grammar without states, its emitted programs, and where its rules come from."""

    plan: Plan
    modules: Modules
    origins: Mapping[str, SplitRule]


def mbr_on_outline(
    outline: Outline,
    source: Source,
    marginals: Mapping[str, Tensor],
    inputs: Mapping[str, Any],
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
    own = Source(source.grammar, outline.origins)
    batch = batch_of(outline.plan, inputs, lengths)
    tables = {
        name: Table(found.numpy(), len(source.grammar.nonterminal[name].indices))
        for name, found in marginals.items()
    }
    chosen = wanted_families(source, families)
    flat = {
        name: torch.where(torch.isfinite(logs), 0.0, -inf)
        for name, logs in batch.potentials.items()
    }
    batch = replace(batch, potentials=flat)
    marks = _marks(outline.plan, own, tables, chosen, batch, states=states)
    charts = best_charts(outline.plan, outline.modules, {}, batch, marks)
    found = []
    for number, choices in enumerate(items(charts)):
        bare = PlanAssembler(own, choices).derivation(search.best(choices), 0.0)
        full = _with_states(bare, number, tables)
        found.append(replace(full, log_weight=log_weight(full)))
    return found


def entangled(grammar: Grammar) -> str | None:
    """A rule in which a cell's state decides another cell's, or an input decides it, if any."""
    for rule in grammar.rules:
        edges = [e for e in rule.rhs.edges if e.label in grammar.nonterminal]
        touched = [a.node for e in edges for a in e.attachments] + list(rule.rhs.externals)
        clamped = {clamp.attachment.node for clamp in rule.rhs.clamps}
        if len(set(touched)) < len(touched) or clamped & set(touched):
            return rule.name
    return None


@dataclass(frozen=True)
class Table:
    """The marginals of a family, `[batch, *indices, *values]`."""

    found: Floats
    indices: int

    def worth(self, item: int, index: Sequence[int], *, states: bool) -> float:
        """What a cell is worth: its marginal, or that of its best values."""
        own = self.at(item, index)
        return float(own.max() if states else own.sum()) if own is not None and own.size else 0.0

    def best(self, item: int, index: Sequence[int]) -> tuple[int, ...]:
        """The most probable values of a cell's external nodes."""
        own = self.at(item, index)
        assert own is not None
        return tuple(int(i) for i in np.unravel_index(int(own.argmax()), own.shape))

    def at(self, item: int, index: Sequence[int]) -> Floats | None:
        """The marginals of a cell, `[*values]`; None beyond the table's end."""
        extents = self.found.shape[1 : 1 + self.indices]
        if any(not 0 <= i < n for i, n in zip(index, extents, strict=True)):
            return None
        cell: Floats = self.found[(item, *index)]
        return cell


def _marks(
    plan: Plan,
    source: Source,
    tables: Mapping[str, Table],
    chosen: set[str],
    batch: Batch,
    *,
    states: bool,
) -> dict[str, Floats]:
    """What each cell of the outline's charts is worth, `[*axes, batch]`; -inf where it is not."""
    scope = Scope(plan, batch)
    found: dict[str, Floats] = {}
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
        found[chart.family] = marks.reshape((*extents, batch.size))
    return found


def _with_states(
    bare: Derivation,
    item: int,
    tables: Mapping[str, Table],
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
    derivation: Derivation, grammar: Grammar, weights: Mapping[str, Any], pieces: Pieces
) -> float:
    """The log-weight of a derivation; no number if a node has no value, or for log-potentials.

    `pieces` are the names of a factor's pieces, or its own; an entry of the whole factor is a sum
    over the rank.
    """
    arrays = {name: plain(w) for name, w in weights.items()}
    total = 0.0
    for step in derivation.steps:
        for edge in step.rule.rhs.edges:
            if edge.label in derivation.grammar.nonterminal:
                continue
            found = _entry(edge, step, grammar, arrays, pieces)
            if found is None:
                return nan
            total += log(found) if found > 0 else -inf
    return total


def _entry(
    edge: Edge, step: Step, grammar: Grammar, arrays: Mapping[str, Any], pieces: Pieces
) -> float | None:
    """The weight of an edge in a step."""
    if edge.label not in grammar.factor:
        return None  # log-potentials
    index = [_value(a, step, grammar) for a in edge.attachments]
    if any(i is None for i in index):
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
    """The value that an edge sees at a node: that of the part of it that a path names."""
    value = step.values.get(attachment.node)
    if value is None:
        return None
    domain = step.rule.rhs.by_name[attachment.node].domain
    return select(grammar, domain, attachment.path, value)
