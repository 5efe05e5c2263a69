"""Truncated polynomials in ε and δ, the coefficients of which are moments.

A position is given the *soft word* 1 + ε v + δ c, a weight for each value. In a grammar that reads
every position once, Z is then a polynomial in ε and δ, and its coefficient at ε² is the sum over
all pairs of positions of vᵢᵀ E[xᵢ ⊗ xⱼ] vⱼ: a random functional of all pair moments at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

Monomial = tuple[int, int]
"""The exponents of ε and δ."""


@dataclass(frozen=True)
class Ring:
    """Polynomials in ε and δ modulo all monomials that do not divide a target."""

    targets: tuple[Monomial, ...]

    @cached_property
    def monomials(self) -> tuple[Monomial, ...]:
        """The monomials that are kept; 1 is the first."""
        divisors = {(a, b) for s, t in self.targets for a in range(s + 1) for b in range(t + 1)}
        return tuple(sorted(divisors, key=lambda m: (m[1], m[0])))

    @property
    def size(self) -> int:
        """How many coefficients a jet has."""
        return len(self.monomials)

    @cached_property
    def places(self) -> Tensor:
        """Where the targets are among the monomials."""
        return torch.tensor([self.monomials.index(m) for m in self.targets])

    @cached_property
    def products(self) -> Pairs:
        """The pairs of monomials whose product is kept."""
        return self._pairs(self.monomials)

    @cached_property
    def target_products(self) -> Pairs:
        """The pairs of monomials whose product is a target."""
        return self._pairs(self.targets)

    def _pairs(self, results: Iterable[Monomial]) -> Pairs:
        place = {m: i for i, m in enumerate(self.monomials)}
        pairs = tuple(
            tuple(
                (place[(a, b)], place[(s - a, t - b)]) for a in range(s + 1) for b in range(t + 1)
            )
            for s, t in results
        )
        return Pairs(pairs)


@dataclass(frozen=True)
class Pairs:
    """For each monomial of a result, the pairs of monomials that it is the product of."""

    by_result: tuple[tuple[tuple[int, int], ...], ...]

    @cached_property
    def left(self) -> Tensor:
        """The left monomial of every pair."""
        return torch.tensor([left for pairs in self.by_result for left, _ in pairs])

    @cached_property
    def right(self) -> Tensor:
        """The right monomial of every pair."""
        return torch.tensor([right for pairs in self.by_result for _, right in pairs])

    @cached_property
    def one_by_one(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Left and right monomials for each result."""
        return tuple(
            (torch.tensor([x for x, _ in pairs]), torch.tensor([y for _, y in pairs]))
            for pairs in self.by_result
        )

    @cached_property
    def sums(self) -> Tensor:
        """The matrix `[pair, result]` that adds the products of pairs up."""
        matrix = torch.zeros(len(self.left), len(self.by_result), dtype=torch.float64)
        row = 0
        for result, pairs in enumerate(self.by_result):
            matrix[row : row + len(pairs), result] = 1.0
            row += len(pairs)
        return matrix
