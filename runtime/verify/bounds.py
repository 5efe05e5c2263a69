"""How sure an answer "equal" is, after values agreed at random points of random prime fields.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import e, exp, lcm, log, log2

import numpy as np

from fgg.factors.pieces import signatures
from fgg.grammar import Factor, Grammar
from fgg.grammar.values import exact
from fgg.runtime.program.bind import bind
from fgg.runtime.verify.items import Item
from fgg.runtime.verify.points import Array, Leaves, Point
from fgg.runtime.verify.sides import Side

LOW, HIGH = 2**30, 2**31
PRIMES = 50_697_537
"""The primes between 2^30 and 2^31: all that `Modular` takes and that have 31 digits."""


def random_prime(rng: np.random.Generator) -> int:
    """A prime between 2^30 and 2^31, each as probable as any other."""
    while True:
        number = int(rng.integers(LOW, HIGH)) | 1
        if _is_prime(number):
            return number


def _is_prime(number: int) -> bool:
    """Whether an odd number below 2^31 is prime; four bases decide it [Miller, Rabin]."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


@dataclass(frozen=True)
class Bound:
    """The degree of Z in the free weights, the binary digits of its coefficients, the trials."""

    degree: int
    bits: float
    trials: int

    @property
    def chance(self) -> float:
        """The greatest probability of a wrong "equal"; 0 where it is below all numbers."""
        return float((self.degree / LOW + self.bits / 30 / PRIMES) ** self.trials)


@dataclass(frozen=True)
class Size:
    """What is known of the polynomial of one side: its degree, and digits of coefficients."""

    degree: int = 0
    whole: float = 0.0  # log2 of the sum of all coefficients
    fixed: int = 0  # the most weights that are no whole numbers in one derivation
    denominator: int = 1  # a common one of all weights that are given

    def joined(self, other: Size) -> Size:
        """What holds for both."""
        return Size(
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


def size_of(side: Side, items: Sequence[Item], free: Leaves) -> Size:
    """The degree and the digits of a side's polynomials, over items in which tokens are missing.

    Requires that derivations have a bound. The degree is that of the heaviest derivation, in
    max-plus, where each free weight weighs its degree: a factor that is a product of pieces has
    one for each piece.
    """
    ones = free.ones()

    def by_degree(grammar: Grammar) -> Mapping[str, Array]:
        own = {
            name: np.full(array.shape, exp(_degree(grammar.factor[name])))
            for name, array in ones.weights(grammar).items()
        }
        return {**{n: _where(a, 1.0) for n, a in given(grammar, ones).items()}, **own}

    def by_fixed(grammar: Grammar) -> Mapping[str, Array]:
        fixed = given(grammar, ones).items()
        own = {name: np.ones(array.shape) for name, array in ones.weights(grammar).items()}
        return {**{n: _where(a, e if denominator(a) > 1 else 1.0) for n, a in fixed}, **own}

    degree = side.values(items, by_degree, "max", lambda logs: np.where(logs > -np.inf, 0.0, logs))
    fixed = side.values(items, by_fixed, "max", lambda logs: np.where(logs > -np.inf, 1.0, logs))
    whole = side.values(items, ones.weights, "log")
    weights = [*given(side.grammar, ones).values(), *(x for i in items for x in i.inputs.values())]
    return Size(
        degree=max((round(d) for d in degree if d is not None and d > 0), default=0),
        whole=max((w / log(2) for w in whole if w is not None and w > 0), default=0.0),
        fixed=max((round(f) for f in fixed if f is not None and f > 0), default=0),
        denominator=lcm(1, *map(denominator, weights)),
    )


def given(grammar: Grammar, point: Point) -> dict[str, Array]:
    """The weights that a grammar gives, as fractions."""
    bound = bind(grammar, point.weights(grammar), exactly=True)
    return {name: a for name, a in bound.items() if grammar.factor[name].value is not None}


def denominator(array: Array) -> int:
    """A common denominator of an array's entries; log-potentials stand for exponentials."""
    if array.dtype == object:
        return lcm(1, *(x.denominator for x in array.reshape(-1).tolist()))
    if array.dtype.kind != "f":
        return 1
    return lcm(1, *(exact(exp(x)).denominator for x in array.reshape(-1).tolist()))


def _degree(factor: Factor) -> int:
    return 1 if factor.rank is None else len(signatures(factor, ""))


def _where(array: Array, weight: float) -> Array:
    """A weight wherever an array is not zero."""
    return np.where(np.asarray(array != 0, dtype=bool), weight, 0.0)
