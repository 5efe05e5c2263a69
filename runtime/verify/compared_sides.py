"""The sides of a comparison: grammars and plans, with a value for each item in any semiring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from torch import Tensor

from fgg.grammar import Grammar
from fgg.inputs.readings import known_inputs
from fgg.plan import Plan
from fgg.progress import steps
from fgg.runtime.interpret.interpret import interpret
from fgg.runtime.interpret.semirings import SEMIRINGS, AnySemiring
from fgg.runtime.interpret.semirings.base import Numbers, NumpyArray
from fgg.runtime.program.bind import bind
from fgg.runtime.reference.solve import solve
from fgg.runtime.reference.system import system_of
from fgg.runtime.verify.items import Item, batch_of_items, flat_of

Weigh = Callable[[Grammar], Mapping[str, NumpyArray]]
"""Gives the weights of a grammar's factors; the others have the values in the grammar."""


Value = Fraction | float | None
"""The value of an item in a semiring; None if it cannot be compared."""


class Side(Protocol):
    """A grammar, or a plan, that has a value for each item."""

    @property
    def grammar(self) -> Grammar:
        """The grammar that weights are for."""

    def known(self, source: Grammar) -> tuple[str, ...]:
        """The inputs of which no token may be missing, for this side of a source."""

    def values(
        self,
        items: Sequence[Item],
        weigh: Weigh,
        semiring: str | AnySemiring,
        potential: Callable[[NumpyArray], NumpyArray] | None = None,
    ) -> list[Value]:
        """The value of each item: the sum of the start symbol's entries.

        None where the item needs log-potentials that do not exist. `potential` changes
        log-potentials first.
        """


@dataclass
class GroundSide:
    """A grammar on the reference engine, written out for each item."""

    grammar: Grammar
    flats: dict[int, tuple[Item, Grammar | None]] = field(default_factory=dict)

    def known(self, source: Grammar) -> tuple[str, ...]:
        """The inputs of which no token may be missing."""
        return known_of(source, self.grammar)

    def flat(self, item: Item) -> Grammar | None:
        """The ground grammar of an item, written out once."""
        if id(item) not in self.flats:
            self.flats[id(item)] = (item, flat_of(self.grammar, item))
        return self.flats[id(item)][1]

    def values(
        self,
        items: Sequence[Item],
        weigh: Weigh,
        semiring: str | AnySemiring,
        potential: Callable[[NumpyArray], NumpyArray] | None = None,
    ) -> list[Value]:
        """The value of each item."""
        ring = SEMIRINGS[semiring]() if isinstance(semiring, str) else semiring
        return [self.value(item, weigh, ring, potential) for item in steps(items, "item")]

    def value(
        self,
        item: Item,
        weigh: Weigh,
        ring: AnySemiring,
        potential: Callable[[NumpyArray], NumpyArray] | None = None,
    ) -> Value:
        """The value of one item."""
        changed = item if potential is None else _changed(item, potential)
        flat = self.flat(changed)
        if flat is None:
            return None
        return total(ring, solve(flat, ring, weights=weigh(flat)).value)

    def is_recursive(self, item: Item) -> str | None:
        """A nonterminal whose derivations have no bound, if there is one."""
        flat = self.flat(item)
        if flat is None:
            return None
        recursive = (c for c in system_of(flat).components if c.recursive)
        return next((c.nonterminals[0] for c in recursive), None)


@dataclass
class PlanSide:
    """A plan, carried out in a semiring on all items as one batch.

    If it is `tied`, it is a plan for missing tokens, too.
    """

    plan: Plan
    tied: bool = False

    @property
    def grammar(self) -> Grammar:
        """The grammar that weights are for."""
        return self.plan.grammar

    def known(self, source: Grammar) -> tuple[str, ...]:
        """The inputs of which no token may be missing."""
        return () if self.tied else known_of(source, self.grammar)

    def values(
        self,
        items: Sequence[Item],
        weigh: Weigh,
        semiring: str | AnySemiring,
        potential: Callable[[NumpyArray], NumpyArray] | None = None,
    ) -> list[Value]:
        """The value of each item."""
        ring = SEMIRINGS[semiring]() if isinstance(semiring, str) else semiring
        bound = bind(self.grammar, weigh(self.grammar), exactly=ring.exactly)
        weights = {name: bound[name] for name in self.plan.parameters}
        if potential is not None:
            items = [_changed(item, potential) for item in items]
        inputs, lengths = batch_of_items(items)
        z = interpret(self.plan, weights, inputs, lengths, ring).z
        return [total(ring, z[number, ...]) for number in range(len(items))]


def known_of(source: Grammar, grammar: Grammar) -> tuple[str, ...]:
    """The inputs of which no token may be missing, for a grammar that passes made of a source.

    Passes may make several rules of one that reads a position twice.
    """
    return tuple(dict.fromkeys((*known_inputs(source), *known_inputs(grammar))))


def total(ring: AnySemiring, value: Numbers) -> Value:
    """The sum of all entries, as a number."""
    if isinstance(value, Tensor):
        value = value.detach()
    result: Value = ring.reduce(value.reshape(-1), (0,)).item()
    return result


def _changed(item: Item, potential: Callable[[NumpyArray], NumpyArray]) -> Item:
    inputs = {
        name: potential(array) if array.dtype.kind == "f" else array
        for name, array in item.inputs.items()
    }
    return Item(item.lengths, inputs)
