"""Costs to leading order: sums of products of named sizes and lengths.

`n^3*nt^2 + n^2*nt^3`. A coefficient stands for sizes without a name, such as the number of values
of an enumeration; what adds up is not counted, only which terms there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fgg.grammar.index import Expr

Powers = tuple[tuple[str, int], ...]
"""Names with their exponents, in order of the names."""


@dataclass(frozen=True)
class Polynomial:
    """Products of powers of names, each with a coefficient."""

    terms: Mapping[Powers, int]

    @staticmethod
    def number(value: int) -> Polynomial:
        """A constant."""
        return Polynomial({(): value})

    @staticmethod
    def name(name: str) -> Polynomial:
        """A size or a length."""
        return Polynomial({((name, 1),): 1})

    @staticmethod
    def of(expr: Expr) -> Polynomial:
        """The leading order of a size expression: `2*m - 1` is of order `m`."""
        found: dict[Powers, int] = {}
        for monomial, coefficient in expr.terms:
            if monomial and coefficient > 0:
                counts: dict[str, int] = {}
                for atom in monomial:
                    counts[str(atom)] = counts.get(str(atom), 0) + 1
                found[tuple(sorted(counts.items()))] = 1
        constant = sum(c for monomial, c in expr.terms if not monomial)
        return Polynomial(found or {(): max(constant, 1)})

    def __mul__(self, other: Polynomial) -> Polynomial:
        found: dict[Powers, int] = {}
        for one, a in self.terms.items():
            for two, b in other.terms.items():
                powers = dict(one)
                for name, exponent in two:
                    powers[name] = powers.get(name, 0) + exponent
                key = tuple(sorted(powers.items()))
                found[key] = max(found.get(key, 0), a * b)
        return Polynomial(found)

    def __or__(self, other: Polynomial) -> Polynomial:
        """All terms of both."""
        found = dict(self.terms)
        for powers, coefficient in other.terms.items():
            found[powers] = max(found.get(powers, 0), coefficient)
        return Polynomial(found)

    def dominant(self) -> Polynomial:
        """The terms that no other one outgrows in every name."""
        kept = {
            powers: coefficient
            for powers, coefficient in self.terms.items()
            if not any(other != powers and _below(powers, other) for other in self.terms)
        }
        return Polynomial(kept)

    @property
    def degree(self) -> int:
        """The greatest number of names in a term, counted with their exponents."""
        return max((sum(e for _, e in powers) for powers in self.terms), default=0)

    def text(self, order: Sequence[str]) -> str:
        """The terms, those with most of the first names first; names in the given order."""
        place = {name: i for i, name in enumerate(order)}

        def key(item: tuple[Powers, int]) -> Any:
            powers = dict(item[0])
            return [-powers.get(name, 0) for name in order], item

        return " + ".join(
            _term(sorted(powers, key=lambda p: place.get(p[0], len(place))), coefficient)
            for powers, coefficient in sorted(self.terms.items(), key=key)
        )


ONE = Polynomial.number(1)
ZERO = Polynomial({})


def product(factors: Iterable[Polynomial]) -> Polynomial:
    """The product of polynomials."""
    found = ONE
    for factor in factors:
        found = found * factor
    return found


def _below(one: Powers, two: Powers) -> bool:
    limits = dict(two)
    return all(exponent <= limits.get(name, 0) for name, exponent in one)


def _term(powers: Sequence[tuple[str, int]], coefficient: int) -> str:
    factors = [name if exponent == 1 else f"{name}^{exponent}" for name, exponent in powers]
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors)
