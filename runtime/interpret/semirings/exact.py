"""Exact numbers as Python objects: derivation counts, fractions, high-precision floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fgg.runtime.interpret.semirings.base import ArraySemiring, Numbers

Objects = NDArray[np.object_]


class _Objects(ArraySemiring[np.object_]):
    """(numbers, +, *) on arrays of Python objects."""

    dtype = np.object_

    def reduce(self, array: Objects, axes: tuple[int, ...]) -> Objects:
        """The sum over some axes; an empty sum is the semiring's zero, of its type."""
        result = np.asarray(array, dtype=object)
        for axis in sorted(axes, reverse=True):
            result = np.asarray(np.add.reduce(result, axis=axis, initial=self.zero), dtype=object)
        return result


class Counting(_Objects):
    """(N, +, *): how many derivations and assignments of weight other than 0 there are."""

    name = "counting"
    zero, one = 0, 1

    def convert(self, weights: Numbers) -> Objects:
        """1 where a weight is not 0."""
        return np.asarray(np.asarray(weights != 0, dtype=bool).astype(object) * 1, dtype=object)

    def convert_logs(self, logs: Numbers) -> Objects:
        """1 where a logarithm is not that of 0."""
        return self.convert(np.asarray(logs) > -np.inf)


class Exact(_Objects):
    """(Q, +, *): the sum-product as a fraction."""

    name = "exact"
    exactly = True
    zero, one = Fraction(0), Fraction(1)

    def convert(self, weights: Numbers) -> Objects:
        """The weights as fractions."""
        return np.asarray(np.frompyfunc(Fraction, 1, 1)(weights), dtype=object)


class Precise(_Objects):
    """Real numbers with a given number of binary digits, for critical recursions."""

    name = "precise"

    def __init__(self, digits: int = 320) -> None:
        import mpmath

        self.context = mpmath.mp.clone()
        self.context.prec = digits
        self.zero, self.one = self.context.mpf(0), self.context.mpf(1)

    def convert(self, weights: Numbers) -> Objects:
        """The weights as high-precision numbers; fractions are divided at that precision."""
        number = self.context.mpf

        def precise(weight: Fraction | float) -> object:
            if isinstance(weight, Fraction):
                return number(weight.numerator) / number(weight.denominator)
            return number(float(weight))

        array = np.asarray(weights)
        return np.asarray(np.frompyfunc(precise, 1, 1)(array), dtype=object)

    def convert_logs(self, logs: Numbers) -> Objects:
        """The exponentials, of any size."""
        context = self.context
        array = np.asarray(logs, dtype=float)
        convert = np.frompyfunc(lambda log: context.exp(context.mpf(log)), 1, 1)
        return np.asarray(convert(array), dtype=object)
