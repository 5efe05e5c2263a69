"""Draws of derivations as counts: how often each entry of each factor was used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.grammar import Edge, Rule
from fgg.grammar.domains import select
from fgg.runtime.derive.decode import items, start_of
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.trees import build
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.prepare import plain
from fgg.runtime.learn.items import Ready
from fgg.runtime.program.chart_reader import log_charts
from fgg.runtime.program.prepared_batch import suited_to
from fgg.runtime.program.program import Program
from fgg.runtime.program.reference import ReferenceProgram

Entry = tuple[str, tuple[int, ...]]
"""A factor and the place of one of its entries."""


@dataclass(frozen=True)
class Used:
    """An edge of a rule that touches a factor: which nodes, and which parts of them."""

    label: str
    nodes: tuple[tuple[str, str, tuple[str, ...]], ...]  # node, its domain, path


class Drawer:
    """Draws from the posterior of single items of a program."""

    def __init__(self, program: Program, generator: torch.Generator) -> None:
        self.program = program
        self.generator = generator
        self.used: dict[str, tuple[Used, ...]] = {}
        self.ready: dict[tuple[int, ...], Batch] = {}

    @cached_property
    def source(self) -> Any:
        """Where the rules of the plan of derivations come from."""
        return self.program.compiled.origin

    def draw(self, weights: Mapping[str, Tensor], item: Ready) -> Counter[Entry]:
        """The entries that a draw uses, with how often; the rank nodes of pieces are drawn too.

        Raises GrammarError (F421) if there is no derivation.
        """
        found: Counter[Entry] = Counter()
        arrays = {name: plain(w) for name, w in weights.items()}
        for label, place in self.entries(weights, item):
            for entry in self.pieces(label, place, arrays):
                found[entry] += 1
        return found

    def entries(self, weights: Mapping[str, Tensor], item: Ready) -> Iterator[Entry]:
        """The entries of whole factors that a draw uses."""
        program = self.program
        if isinstance(program, ReferenceProgram):
            own = item.collated
            seed = int(torch.randint(2**31, (), generator=self.generator))
            ((drawn,),) = program.posterior(weights, own.inputs, dict(own.lengths) or None).sample(
                seed=seed
            )
            yield from entries_of(drawn, program)
            return
        suited = suited_to(program.compiled, item.collated)
        plan = suited.trees
        batch = self.ready.get(item.ids)
        if batch is None:
            batch = batch_of(plan, item.collated.inputs, dict(item.collated.lengths) or None)
            self.ready[item.ids] = batch
        whole = program.whole(weights, plan.parameters)
        charts = log_charts(plan, suited.tree_modules, whole, batch)
        (cells,) = items(charts)
        start_of(cells)
        values = np.array([cells.inside(cell) for cell in cells.start])
        first = cells.start[self.place(np.cumsum(np.exp(values - values.max())))]
        for _, choice in build(cells, first, lambda choices: self.place(choices.sums)):
            rule = self.source.of_rule(choice.step.rule)
            values_of = self.source.values(choice)
            for used in self.uses(rule):
                yield used.label, self.index(used, values_of)

    def place(self, sums: NDArray[np.float64]) -> int:
        """A place drawn in proportion to the weights that running sums are of."""
        drawn = torch.rand((), dtype=torch.float64, generator=self.generator).item() * sums[-1]
        return min(int(sums.searchsorted(drawn, side="right")), len(sums) - 1)

    def uses(self, rule: Rule) -> tuple[Used, ...]:
        """The edges of a rule that touch factors."""
        if rule.name not in self.used:
            factors = self.program.grammar.factor
            self.used[rule.name] = tuple(
                used_by(edge, rule) for edge in rule.rhs.edges if edge.label in factors
            )
        return self.used[rule.name]

    def index(self, used: Used, values: Mapping[str, int]) -> tuple[int, ...]:
        """The place of the entry that an edge uses."""
        grammar = self.program.grammar
        found = []
        for node, domain, path in used.nodes:
            value = values[node] if not path else select(grammar, domain, path, values[node])
            assert value is not None, "a derivation has no edges of weight 0"
            found.append(value)
        return tuple(found)

    def pieces(
        self, label: str, place: tuple[int, ...], arrays: Mapping[str, NDArray[Any]]
    ) -> list[Entry]:
        """The entries of a factor's pieces, at a rank that is drawn given the rest."""
        names = self.program.pieces(label)
        if label in arrays or names == (label,):
            return [(label, place)]
        given = self.program.weighted.factor[label].given or 0
        left, right = place[:given], place[given:]
        scores = np.asarray(arrays[names[0]][left], dtype=float)
        for name, value in zip(names[1:], right, strict=True):
            scores = scores * arrays[name][:, value]
        rank = self.place(np.cumsum(scores))
        pairs = zip(names[1:], right, strict=True)
        return [(names[0], (*left, rank)), *((name, (rank, value)) for name, value in pairs)]


def used_by(edge: Edge, rule: Rule) -> Used:
    """An edge as what it uses of a factor."""
    domain: Callable[[str], str] = lambda node: rule.rhs.by_name[node].domain  # noqa: E731
    return Used(edge.label, tuple((a.node, domain(a.node), a.path) for a in edge.attachments))


def entries_of(derivation: Derivation, program: Program) -> Iterator[Entry]:
    """The entries of the program's factors that a derivation uses."""
    for step in derivation.steps:
        for edge in step.rule.rhs.edges:
            if edge.label in program.grammar.factor:
                place = tuple(
                    select(
                        program.grammar,
                        step.rule.rhs.by_name[a.node].domain,
                        a.path,
                        step.values[a.node],
                    )
                    for a in edge.attachments
                )
                assert None not in place
                yield edge.label, tuple(int(i) for i in place if i is not None)
