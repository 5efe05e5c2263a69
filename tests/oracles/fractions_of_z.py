"""Z and its derivative in fractions: for log-potentials far beyond the range of float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import log
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from fgg.grammar import Grammar
from fgg.grammar.values import Constant, Table
from fgg.rewrite.ground import ground
from fgg.runtime.reference.solve import solve
from tests.oracles.comparing import Item, Weights

Directions = Mapping[str, NDArray[np.int64]]

_STEP = Fraction(1, 2**40)
_DIGITS = 200


@dataclass(frozen=True)
class ExactAnswer:
    """log Z of an item, and how it changes if all weights do, each by its own relative amount.

    `directions` has the amounts: a whole number for every weight and every log-potential. Sums
    and products of fractions lose nothing, so that a difference quotient is as good as a
    derivative.
    """

    grammar: Grammar
    item: Item
    weights: Weights
    directions: Directions

    @cached_property
    def z(self) -> Fraction:
        """The sum-product."""
        return self.moved(Fraction(0))

    @property
    def log_z(self) -> float:
        """Its logarithm."""
        return log(self.z.numerator) - log(self.z.denominator) if self.z else -np.inf

    @cached_property
    def derivative(self) -> float:
        """The change of log Z along the directions."""
        change = self.moved(_STEP) - self.moved(-_STEP)
        return float(change / (2 * _STEP * self.z))

    def moved(self, step: Fraction) -> Fraction:
        """Z where each weight is multiplied with one plus its direction times a step."""
        inputs = {
            name: (np.zeros_like(array) if array.dtype.kind == "f" else array).tolist()
            for name, array in self.item.inputs.items()
        }
        flat = ground(self.grammar, lengths=self.item.lengths, inputs=inputs)
        values = self.potentials(step)
        factors = tuple(replace(f, value=values.get(f.name, f.value)) for f in flat.factors)
        weights = {
            name: _moved(np.asarray(array), self.directions[name], step)
            for name, array in self.weights.items()
            if name in flat.factor
        }
        found = solve(replace(flat, factors=factors), "exact", weights=weights).value
        return sum(np.asarray(found, dtype=object).reshape(-1).tolist(), Fraction(0))

    def potentials(self, step: Fraction) -> dict[str, Table | Constant]:
        """The weights of input factors by their names in the ground grammar."""
        found: dict[str, Table | Constant] = {}
        for factor in self.grammar.input_factors:
            array = np.frompyfunc(_exp, 1, 1)(self.item.inputs[factor.name])
            array = _moved(np.asarray(array), self.directions[factor.name], step)
            for index in np.ndindex(*array.shape[: len(factor.indices)]):
                entries: Any = array[index]
                name = "_".join([factor.name, *map(str, index)])
                found[name] = Table(_nested(entries)) if factor.domains else Constant(entries)
        return found


def _moved(array: NDArray[Any], direction: NDArray[np.int64], step: Fraction) -> NDArray[Any]:
    """Numbers as fractions, each moved along its direction."""
    found = np.empty(array.shape, dtype=object)
    for index in np.ndindex(*array.shape):
        number: Any = array[index]
        found[index] = Fraction(number) * (1 + step * int(direction[index]))
    return found


def _nested(array: NDArray[Any]) -> tuple[Any, ...]:
    return tuple(_nested(part) if isinstance(part, np.ndarray) else part for part in array)


def _exp(logarithm: float) -> Fraction:
    """The exponential of a number, to 200 binary digits."""
    if logarithm == -np.inf:
        return Fraction(0)
    context = mpmath.mp.clone()
    context.prec = _DIGITS
    _, mantissa, exponent, _ = context.exp(context.mpf(float(logarithm)))._mpf_
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
