"""A prime field: exact arithmetic on machine integers, for proofs by random evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fgg.diagnostics import refuse
from fgg.runtime.interpret.semirings.base import ArraySemiring, Indices, Ints, Numbers

PRIME = 2**31 - 1
LOW = 2**30
PRIMES = 50_697_537
"""How many primes lie between 2^30 and 2^31: all that `Modular` takes and that have 31 digits."""


class Modular(ArraySemiring[np.int64]):
    """(GF(p), +, *) for a prime below 2^31, so that products fit into 64 bits."""

    name = "gf"
    exactly = True
    zero, one, dtype = 0, 1, np.int64

    def __init__(self, prime: int = PRIME) -> None:
        assert 2 <= prime < 2**31
        self.prime = prime

    def convert(self, weights: Numbers) -> Ints:
        """The residues of fractions: numerator times the inverse of the denominator."""

        def residue(weight: Fraction | int) -> int:
            top, bottom = weight.numerator % self.prime, weight.denominator % self.prime
            if bottom == 0:
                refuse("F417", f"the weight {weight} has no residue modulo {self.prime}")
            return int(top * pow(bottom, -1, self.prime) % self.prime)

        return np.asarray(np.frompyfunc(residue, 1, 1)(weights), dtype=np.int64)

    def multiply(self, x: Ints, y: Ints) -> Ints:
        """The product modulo p."""
        return np.asarray(x * y % self.prime)

    def reduce(self, array: Ints, axes: tuple[int, ...]) -> Ints:
        """The sum modulo p; residues are below 2^31, so 2^32 of them can be added."""
        return np.asarray(array.sum(axis=axes) % self.prime, dtype=np.int64)

    def accumulate(
        self, parts: Sequence[tuple[Sequence[int] | Indices, Ints]], shape: Sequence[int]
    ) -> Ints:
        """The sum modulo p of all entries for each row."""
        return np.asarray(super().accumulate(parts, shape) % self.prime)


def random_prime(rng: np.random.Generator) -> int:
    """A prime between 2^30 and 2^31, each as probable as any other."""
    while True:
        number = int(rng.integers(LOW, 2 * LOW)) | 1
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
