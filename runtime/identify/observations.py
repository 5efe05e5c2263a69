"""Observation functions: which moments of a string of tokens are known [ID §3.2].

A moment is the joint weight of the values of some *kept* tokens, the others summed out. A slice
also weights the values of one more token by a direction η.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, prod

NAMES = ("12", "**", "123", "123e1", "***", "***e1", "all")
LITERAL = ":literal"
"""After `123e1` or `***e1`: the slices alone, as [ID] prints them, without the pairs."""


@dataclass(frozen=True)
class KeptTokens:
    """The moments of some tokens; those `along` the direction are weighted by it."""

    tokens: tuple[int, ...]
    along: tuple[int, ...] = ()

    def count(self, sizes: Sequence[int]) -> int:
        """How many moments there are, given the number of values of each token."""
        return prod(sizes[t] for t in self.tokens)


@dataclass(frozen=True)
class TokenSubsets:
    """The moments of every set of `order` tokens; if `along`, with η at any further one."""

    order: int
    along: bool = False

    def count(self, sizes: Sequence[int]) -> int:
        """How many moments there are, given the number of values of each token."""
        if len(set(sizes)) <= 1:
            size = sizes[0] if sizes else 1
            return int(size**self.order * self.sets(len(sizes)))
        return sum(part.count(sizes) for part in self.parts(len(sizes)))

    def sets(self, count: int) -> int:
        """How many sets of tokens there are, those weighted by the direction included."""
        return comb(count, self.order) * (count - self.order if self.along else 1)

    def parts(self, count: int) -> list[KeptTokens]:
        """The same moments, set by set."""
        parts = []
        for chosen in combinations(range(count), self.order):
            rest = [t for t in range(count) if t not in chosen]
            parts += (
                [KeptTokens(chosen, (t,)) for t in rest] if self.along else [KeptTokens(chosen)]
            )
        return parts

    @property
    def target(self) -> tuple[int, int]:
        """The monomial in ε and δ whose coefficient is a functional of these moments."""
        return (self.order, int(self.along))


MomentSet = KeptTokens | TokenSubsets


def order_of(parts: Sequence[MomentSet]) -> int:
    """A bound of the degree of a functional of some moments in its random weights."""
    return max(
        (len(p.tokens) if isinstance(p, KeptTokens) else p.order + 2 * p.along) for p in parts
    )


def parts_of(name: str, count: int) -> tuple[MomentSet, ...] | None:
    """The moments of an observation function for `count` tokens; None where it is undefined."""
    literal = name.endswith(LITERAL)
    name = name.removesuffix(LITERAL)
    if count < 2 or (name in ("123", "123e1") and count < 3):
        return (KeptTokens((0,)),) if name == "all" and count == 1 else None
    pairs = TokenSubsets(2)
    if name == "12":
        return (KeptTokens((0, 1)),)
    if name == "**":
        return (pairs,)
    if name == "123":
        return (KeptTokens((0, 1, 2)),)
    if name == "***":
        return (TokenSubsets(3),) if count > 2 else (pairs,)
    if name == "all":
        return (KeptTokens(tuple(range(count))),)
    if name == "123e1":
        whole = (KeptTokens((0, 1)), KeptTokens((0, 2)), KeptTokens((1, 2)))
        return (KeptTokens((0, 1), (2,)), *(() if literal else whole))
    assert name == "***e1"
    if count == 2:
        return None if literal else (pairs,)
    return (TokenSubsets(2, along=True), *(() if literal else (pairs,)))


def is_name(name: str) -> bool:
    """Whether there is such an observation function."""
    plain = name.removesuffix(LITERAL)
    return plain in NAMES and (plain == name or plain.endswith("e1"))


def needed_tokens(name: str) -> int:
    """How many tokens an observation function needs to be defined."""
    literal = name.endswith(LITERAL)
    name = name.removesuffix(LITERAL)
    if name in ("123", "123e1") or (name == "***e1" and literal):
        return 3
    return 1 if name == "all" else 2
