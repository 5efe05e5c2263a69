"""A prime field: exact arithmetic on machine integers, for proofs by random evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fgg.diagnostics import refuse
from fgg.runtime.interpret.semirings.base import ArraySemiring, Indices, Ints, Numbers

PRIME = 2**31 - 1


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
