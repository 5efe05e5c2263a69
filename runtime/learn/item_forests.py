"""The derivation forests of the items that a method learns from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.forest.grow import Entries, Forests, ItemForest
from fgg.runtime.learn.distributions import Distributions
from fgg.runtime.learn.flat_layout import FlatLayout
from fgg.runtime.learn.item_batches import CheckedItems
from fgg.runtime.program.program import Program
from fgg.runtime.program.reference_program import ReferenceProgram

FOREST_BYTES = 2**31
"""The memory that the forests of all items may take, roughly."""
LARGEST_FOREST = 2**15
"""The most alternatives of a forest. The charts of larger ones cost less than their forest."""
ALTERNATIVE_BYTES = 48
"""About what an alternative takes."""


class ItemForests:
    """The forest of each item, grown when it is first asked for.

    The flat weights of forests are those of the learned factors, as in their `FlatLayout`, and
    then those of the factors in `constant`, weights by factor. `items` is the number of items to
    expect. Forests of more than `limit` alternatives are not grown. Methods that learn the same
    factors from the same items can share them: they hold no weights of learned factors.
    """

    def __init__(
        self,
        distributions: Mapping[str, Distributions],
        constant: Mapping[str, Tensor],
        items: int | None = None,
    ) -> None:
        self.layout = FlatLayout(distributions)
        self.constant = constant
        self.support = {
            n: torch.ones(d.shape, dtype=torch.float64)
            if d.alpha is None
            else d.alpha.view(d.shape).sign()
            for n, d in distributions.items()
        }
        self.limit = min(LARGEST_FOREST, FOREST_BYTES // (ALTERNATIVE_BYTES * (items or 1)))
        self.of_program: dict[Program, Forests] = {}
        self.of_item: dict[int, ItemForest | None] = {}

    def shared(self, own: ItemForests) -> ItemForests:
        """These forests in place of a method's `own` ones, which have not grown yet.

        Raises GrammarError (F476) if other factors are learned, or other entries are possible.
        """
        same = _equal(self.constant, own.constant) and _equal(self.support, own.support)
        if not same:
            message = "these forests are those of another model, or of other entries of prior 0"
            refuse("F476", message, "share forests between methods for one model and its data")
        return self

    def flat_logs(self, logs: Mapping[str, Tensor]) -> Tensor:
        """Log-weights of learned factors and those of constant ones, `[size + constants]`."""
        tables = {n: d.table(logs[n]) for n, d in self.layout.distributions.items()}
        constants = [weights.log().flatten() for weights in self.constant.values()]
        return torch.cat([self.layout.flat(tables), *constants])

    def of(
        self, batch: CheckedItems, check: Callable[[Program], object]
    ) -> list[ItemForest] | None:
        """The forest of each item of a batch, or None if one of them has none.

        `check` is called with each program before its first forest; it refuses other factors.
        """
        forests = []
        for place, number in enumerate(batch.ids):
            if number not in self.of_item:
                self.of_item[number] = self._grown(batch.item(place), check)
            forest = self.of_item[number]
            if forest is None:
                return None
            forests.append(forest)
        return forests

    def _grown(self, item: CheckedItems, check: Callable[[Program], object]) -> ItemForest | None:
        program = item.program
        if isinstance(program, ReferenceProgram):
            return None
        if program not in self.of_program:
            check(program)
            learned = {n: d.shape for n, d in self.layout.distributions.items()}
            constant = {n: tuple(weights.shape) for n, weights in self.constant.items()}
            self.of_program[program] = Forests(
                program.compiled,
                Entries.of({**learned, **constant}),
                {**self.constant, **self.support},
                self.limit,
            )
        return self.of_program[program].of(item.collated)


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return list(one) == list(other) and all(torch.equal(one[n], other[n]) for n in one)
