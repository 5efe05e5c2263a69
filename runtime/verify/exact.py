"""Sides compared exactly: their values at random points of random prime fields.

Z of an item is a polynomial in the weights: a sum over derivations and assignments of products of
weights. If two such polynomials differ, then so do they modulo p, unless p divides every
coefficient of the difference; and then they agree at a random point of GF(p) with a probability of
at most degree / p (Schwartz, Zippel). For a difference whose coefficients are fractions with
numerators below 2^b, at most b / 30 of the primes between 2^30 and 2^31 divide one of them. So with
p drawn from these, a trial is wrong with a probability of at most

    degree / 2^30  +  (b / 30) / (the number of these primes),

and all of several independent ones with the product of their probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import e, exp, lcm, log, log2

import numpy as np

from fgg.diagnostics import GrammarError
from fgg.factors.pieces import signatures
from fgg.grammar import Factor, Grammar
from fgg.grammar.values import exact
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.interpret.semirings.modular import Modular, random_prime
from fgg.runtime.program.bind import bind
from fgg.runtime.verify.compared_sides import GroundSide, Side, Value
from fgg.runtime.verify.items import Item, is_answered, missing_item
from fgg.runtime.verify.points import FreeWeights, WeightPoint
from fgg.runtime.verify.result import ErrorBound

FAILURES = (
    GrammarError,
    AssertionError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    RuntimeError,
)
"""The errors that evaluating a wrong rewrite may raise: shapes do not fit, names are missing."""

Tick = Callable[[], None]
"""Called once for each piece of work."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A prime, and a point of its field."""

    ring: Modular
    point: WeightPoint


@dataclass(frozen=True, eq=False)
class Difference:
    """An item and a trial at which values differ, or the reason why they cannot be compared."""

    item: Item
    trial: Trial
    wanted: Value
    found: Value
    failure: str = ""


class ExactCheck:
    """A source, its items, and its values at points of prime fields."""

    def __init__(
        self,
        source: GroundSide,
        items: Sequence[Item],
        free: FreeWeights,
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
        self.values: list[list[Value]] = []
        self.size = PolynomialSize()

    def trial(self, rng: np.random.Generator) -> Trial:
        """A prime and a point, at random."""
        prime = random_prime(rng)
        return Trial(Modular(prime), self.free.in_field(prime, rng))

    @property
    def unbounded(self) -> str | None:
        """A nonterminal whose derivations have no bound, so that Z is not a polynomial."""
        recursive = (self.source.is_recursive(item) for item in self.widest)
        return next((name for name in recursive if name is not None), None)

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

    def compare(self, side: Side, tick: Tick) -> Difference | ErrorBound:
        """The first item at which a side differs from the source, or a bound if none does.

        Items are in order of length, so the first one is a shortest one.
        """
        differences: list[Difference] = []
        for trial, wanted in zip(self.trials, self.values, strict=True):
            tick()
            difference = self.first(side, trial, wanted)
            if difference is not None:
                differences.append(difference)
        if differences:
            places = [next(i for i, x in enumerate(self.items) if x is d.item) for d in differences]
            return differences[places.index(min(places))]
        return self.bound(side)

    def bound(self, side: Side) -> ErrorBound:
        """The bound for a side whose values agree."""
        size = self.size.joined(size_of(side, self.widest, self.free))
        return ErrorBound(size.degree, size.bits, len(self.trials))

    def first(self, side: Side, trial: Trial, wanted: Sequence[Value]) -> Difference | None:
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
    """The message of an error, in one line."""
    if isinstance(error, GrammarError):
        return error.diagnostics[0].message
    return f"{type(error).__name__}: {error}".splitlines()[0]


# how sure an answer is


@dataclass(frozen=True)
class PolynomialSize:
    """Bounds on the polynomial of one side: its degree, and the digits of its coefficients."""

    degree: int = 0
    whole: float = 0.0  # log2 of the sum of all coefficients
    fixed: int = 0  # the most weights that are no whole numbers in one derivation
    denominator: int = 1  # a common one of all weights that are given

    def joined(self, other: PolynomialSize) -> PolynomialSize:
        """Bounds that hold for both polynomials."""
        return PolynomialSize(
            max(self.degree, other.degree),
            max(self.whole, other.whole),
            max(self.fixed, other.fixed),
            lcm(self.denominator, other.denominator),
        )

    @property
    def bits(self) -> float:
        """Binary digits of the numerators of a difference of two such polynomials.

        Times the common denominator once for each given weight of a derivation, all coefficients
        are whole numbers, and none is greater than their sum.
        """
        return max(0.0, self.whole) + self.fixed * log2(self.denominator) + 1


def size_of(side: Side, items: Sequence[Item], free: FreeWeights) -> PolynomialSize:
    """The degree and the digits of a side's polynomials, over items in which tokens are missing.

    Requires that derivations have a bound. The degree is that of the heaviest derivation, in
    max-plus, where each free weight weighs its degree: a factor that is a product of pieces has
    one for each piece.
    """
    ones = free.ones()

    def by_degree(grammar: Grammar) -> Mapping[str, NumpyArray]:
        free_weights = {
            name: np.full(array.shape, exp(_degree(grammar.factor[name])))
            for name, array in ones.weights(grammar).items()
        }
        return {**{n: _where(a, 1.0) for n, a in given(grammar, ones).items()}, **free_weights}

    def by_fixed(grammar: Grammar) -> Mapping[str, NumpyArray]:
        fixed = given(grammar, ones).items()
        free_weights = {name: np.ones(array.shape) for name, array in ones.weights(grammar).items()}
        return {
            **{n: _where(a, e if denominator(a) > 1 else 1.0) for n, a in fixed},
            **free_weights,
        }

    degree = side.values(items, by_degree, "max", lambda logs: np.where(logs > -np.inf, 0.0, logs))
    fixed = side.values(items, by_fixed, "max", lambda logs: np.where(logs > -np.inf, 1.0, logs))
    whole = side.values(items, ones.weights, "log")
    weights = [*given(side.grammar, ones).values(), *(x for i in items for x in i.inputs.values())]
    return PolynomialSize(
        degree=max((round(d) for d in degree if d is not None and d > 0), default=0),
        whole=max((w / log(2) for w in whole if w is not None and w > 0), default=0.0),
        fixed=max((round(f) for f in fixed if f is not None and f > 0), default=0),
        denominator=lcm(1, *map(denominator, weights)),
    )


def given(grammar: Grammar, point: WeightPoint) -> dict[str, NumpyArray]:
    """The weights that a grammar gives, as fractions."""
    bound = bind(grammar, point.weights(grammar), exactly=True)
    return {name: a for name, a in bound.items() if grammar.factor[name].value is not None}


def denominator(array: NumpyArray) -> int:
    """A common denominator of an array's entries; log-potentials stand for exponentials."""
    if array.dtype == object:
        return lcm(1, *(x.denominator for x in array.reshape(-1).tolist()))
    if array.dtype.kind != "f":
        return 1
    return lcm(1, *(exact(exp(x)).denominator for x in array.reshape(-1).tolist()))


def _degree(factor: Factor) -> int:
    return 1 if factor.rank is None else len(signatures(factor, ""))


def _where(array: NumpyArray, weight: float) -> NumpyArray:
    """A weight wherever an array is not zero."""
    return np.where(np.asarray(array != 0, dtype=bool), weight, 0.0)
