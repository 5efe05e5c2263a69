"""Sides compared exactly: their values at random points of random prime fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgg.diagnostics import GrammarError
from fgg.runtime.interpret.semirings.modular import Modular
from fgg.runtime.verify.bounds import Bound, Size, random_prime, size_of
from fgg.runtime.verify.items import Item, is_answered, missing_item
from fgg.runtime.verify.points import Leaves, Point
from fgg.runtime.verify.sides import GroundSide, Side

FAILURES = (
    GrammarError,
    AssertionError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    RuntimeError,
)
"""What a wrong rewrite may raise when it is evaluated: arrays do not fit, names are missing."""

Tick = Callable[[], None]
"""Called once for each piece of work."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A prime, and a point of its field."""

    ring: Modular
    point: Point


@dataclass(frozen=True, eq=False)
class Difference:
    """An item and a trial at which values differ, or why there is none to compare."""

    item: Item
    trial: Trial
    wanted: Any
    found: Any
    failure: str = ""


class Exactly:
    """A source, its items, and its values at points of prime fields."""

    def __init__(
        self,
        source: GroundSide,
        items: Sequence[Item],
        free: Leaves,
        trials: int,
        rng: np.random.Generator,
    ) -> None:
        self.source = source
        self.free = free
        self.items = [item for item in items if source.flat(item) is not None]
        # With tokens missing, an item has all derivations that items of its lengths can have.
        kinds = {tuple(item.lengths.values()): item for item in self.items}
        varied = source.grammar.tables or source.grammar.input_factors
        chosen = self.items if varied else kinds.values()
        self.widest = [missing_item(source.grammar, item) for item in chosen]
        self.trials = [self.trial(rng) for _ in range(trials)]
        self.values: list[list[Any]] = []
        self.size = Size()

    def trial(self, rng: np.random.Generator) -> Trial:
        """A prime and a point, at random."""
        prime = random_prime(rng)
        return Trial(Modular(prime), self.free.in_field(prime, rng))

    @property
    def unbounded(self) -> str | None:
        """A nonterminal whose derivations have no bound, so that Z is not a polynomial."""
        found = (self.source.is_recursive(item) for item in self.widest)
        return next((name for name in found if name is not None), None)

    def prepare(self, tick: Tick) -> None:
        """Compute the values of the source, and the size of its polynomials."""
        self.size = size_of(self.source, self.widest, self.free)
        for trial in self.trials:
            tick()
            self.values.append(self.source.values(self.items, trial.point.weights, trial.ring))

    @property
    def alive(self) -> int:
        """How many items have derivations."""
        return sum(any(value[i] for value in self.values) for i in range(len(self.items)))

    def compare(self, side: Side, tick: Tick) -> Difference | Bound:
        """The first item at which a side differs from the source; or how sure it is that none does.

        Items are in order of length, so the first one is a shortest one.
        """
        found: list[Difference] = []
        for trial, wanted in zip(self.trials, self.values, strict=True):
            tick()
            difference = self.first(side, trial, wanted)
            if difference is not None:
                found.append(difference)
        if found:
            places = [next(i for i, x in enumerate(self.items) if x is d.item) for d in found]
            return found[places.index(min(places))]
        return self.bound(side)

    def bound(self, side: Side) -> Bound:
        """How sure it is that a side whose values agree is equal."""
        size = self.size.joined(size_of(side, self.widest, self.free))
        return Bound(size.degree, size.bits, len(self.trials))

    def first(self, side: Side, trial: Trial, wanted: Sequence[Any]) -> Difference | None:
        """The first item at which a side's value differs, in one trial."""
        pairs = [
            (item, want)
            for item, want in zip(self.items, wanted, strict=True)
            if is_answered(side.known(self.source.grammar), item)
        ]
        items = [item for item, _ in pairs]
        try:
            values = side.values(items, trial.point.weights, trial.ring) if items else []
        except FAILURES as error:
            return Difference(items[0], trial, pairs[0][1], None, said(error))
        for (item, want), value in zip(pairs, values, strict=True):
            if want != value:
                return Difference(item, trial, want, value)
        return None


def said(error: Exception) -> str:
    """What an error says, in one line."""
    if isinstance(error, GrammarError):
        return error.diagnostics[0].message
    return f"{type(error).__name__}: {error}".splitlines()[0]
