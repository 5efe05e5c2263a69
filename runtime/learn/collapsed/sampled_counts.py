"""Counts of sampled derivations: how often a draw uses each entry of each factor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.grammar.domains import select
from fgg.runtime.derive.assemble import FactorUse, Source
from fgg.runtime.derive.decode import items
from fgg.runtime.derive.derivation import Derivation
from fgg.runtime.derive.search import samples
from fgg.runtime.interpret.batch import Batch, batch_of
from fgg.runtime.interpret.semirings.base import to_numpy
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.program.chart_reader import log_charts
from fgg.runtime.program.prepared_batch import suited_to
from fgg.runtime.program.program import Program
from fgg.runtime.program.reference_program import ReferenceProgram

Entry = tuple[str, tuple[int, ...]]
"""A factor and the index of one of its entries."""


class EntrySampler:
    """Draws derivations of single items from their posterior, as the entries they use."""

    def __init__(self, program: Program, generator: torch.Generator) -> None:
        self.program = program
        self.generator = generator
        self.ready: dict[tuple[int, ...], Batch] = {}

    @cached_property
    def source(self) -> Source:
        """The origins of the rules in the plan of derivations."""
        return self.program.compiled.origin

    def draw(self, weights: Mapping[str, Tensor], item: CheckedItems) -> Counter[Entry]:
        """The entries that a drawn derivation uses, and how often, those of pieces included.

        Raises GrammarError (F421) if there is no derivation.
        """
        counts: Counter[Entry] = Counter()
        arrays = {name: to_numpy(w) for name, w in weights.items()}
        for label, place in self.entries(weights, item):
            for entry in self.pieces(label, place, arrays):
                counts[entry] += 1
        return counts

    def entries(self, weights: Mapping[str, Tensor], item: CheckedItems) -> Iterator[Entry]:
        """The entries of whole factors that a drawn derivation uses."""
        program = self.program
        if isinstance(program, ReferenceProgram):
            inputs, lengths = item.collated.inputs, dict(item.collated.lengths) or None
            seed = int(torch.randint(2**31, (), generator=self.generator))
            ((drawn,),) = program.posterior(weights, inputs, lengths).sample(seed=seed)
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
        (choices,) = items(charts)
        for _, choice, _ in next(samples(choices, self.uniform)):
            rule = self.source.of_rule(choice.rule)
            values_of = self.source.values(choice)
            for used in self.source.factor_uses[rule.name]:
                yield used.label, self.index(used, values_of)

    def place(self, sums: NDArray[np.float64]) -> int:
        """An index drawn in proportion to weights, given their running sums `[choices]`."""
        return min(int(sums.searchsorted(self.uniform() * sums[-1], side="right")), len(sums) - 1)

    def uniform(self) -> float:
        """A number drawn from [0, 1)."""
        return torch.rand((), dtype=torch.float64, generator=self.generator).item()

    def index(self, used: FactorUse, values: Mapping[str, int]) -> tuple[int, ...]:
        """The index of the entry that an edge uses, given the values of nodes."""
        grammar = self.program.grammar
        index = []
        for node, domain, path in used.nodes:
            value = values[node] if not path else select(grammar, domain, path, values[node])
            assert value is not None, "a derivation has no edges of weight 0"
            index.append(value)
        return tuple(index)

    def pieces(
        self, label: str, place: tuple[int, ...], arrays: Mapping[str, NDArray[np.float64]]
    ) -> list[Entry]:
        """The entries of a factor's pieces for an entry of it, at a rank drawn given the rest."""
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
