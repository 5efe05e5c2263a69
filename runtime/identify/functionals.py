"""Soft words: weights of all values of each token, so that Z is a functional of moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from fgg.runtime.identify.fields import Field
from fgg.runtime.identify.jets import Ring
from fgg.runtime.identify.observations import KeptTokens

Words = dict[str, Tensor]
"""The soft words of each input, `[position, functional, jet, value]`."""


@dataclass(frozen=True)
class InputToken:
    """A position of an input, from 0, and how many values it has."""

    input: str
    position: int
    size: int

    def __str__(self) -> str:
        return f"{self.input}[{self.position}]"


@dataclass(frozen=True, eq=False)
class SoftWords:
    """Random values `[functional, value]` and weights `[functional, 1]` of every token."""

    field: Field
    values: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]


class Sentence:
    """The tokens of a string, in order, and the direction at each."""

    def __init__(
        self,
        tokens: Sequence[InputToken],
        extents: Mapping[str, tuple[int, ...]],
        directions: Mapping[str, Tensor],
    ) -> None:
        self.tokens = tuple(tokens)
        self.extents = extents
        self.directions = directions
        self.sizes = tuple(token.size for token in tokens)

    def ones(self, batch: int, jets: int) -> Words:
        """All tokens summed out."""
        result = {}
        for name, (extent,) in self.extents.items():
            size = next((t.size for t in self.tokens if t.input == name), 1)
            words = torch.zeros(extent, batch, jets, size, dtype=torch.float64)
            words[:, :, 0] = 1.0
            result[name] = words
        return result

    def at(self, words: Words, token: int) -> Tensor:
        """The word at a token, `[batch, jet, value]`."""
        place = self.tokens[token]
        return words[place.input][place.position]

    def direction(self, token: int) -> Tensor:
        """The direction at a token."""
        return self.directions[self.tokens[token].input]

    def kept(
        self, parts: Sequence[tuple[KeptTokens, int]], field: Field, rng: np.random.Generator
    ) -> Words:
        """Random functionals of kept tokens, a given number for each part, one after the other."""
        words = self.ones(sum(count for _, count in parts), 1)
        first = 0
        for part, count in parts:
            for token in part.tokens:
                drawn = field.uniform((count, self.sizes[token]), rng)
                self.at(words, token)[first : first + count, 0] = drawn
            for token in part.along:
                self.at(words, token)[first : first + count, 0] = self.direction(token)
            first += count
        return words

    def drawn(self, count: int, field: Field, rng: np.random.Generator) -> SoftWords:
        """Random values v and weights c at every token.

        The weights c must differ from token to token: with one for all, rows of different tokens
        come in one sum only, and ranks come out too low.
        """
        values, weights = [], []
        for size in self.sizes:
            values.append(field.uniform((count, size), rng))
            weights.append(field.uniform((count, 1), rng))
        return SoftWords(field, tuple(values), tuple(weights))

    def jets(self, ring: Ring, drawn: SoftWords) -> Words:
        """Words 1 + ε v + δ c η."""
        words = self.ones(len(drawn.values[0]), ring.size)
        place = {m: i for i, m in enumerate(ring.monomials)}
        for token, values in enumerate(drawn.values):
            word = self.at(words, token)
            if (1, 0) in place:
                word[:, place[(1, 0)]] = values
            if (0, 1) in place:
                along = self.direction(token).reshape(1, -1)
                word[:, place[(0, 1)]] = drawn.field.multiply(drawn.weights[token], along)
        return words

    def of_tokens(self, part: KeptTokens, drawn: SoftWords) -> Words:
        """Words v at the kept tokens of a part, η at those along it, and ones."""
        words = self.ones(len(drawn.values[0]), 1)
        for token in part.tokens:
            self.at(words, token)[:, 0] = drawn.values[token]
        for token in part.along:
            self.at(words, token)[:, 0] = self.direction(token)
        return words

    def every(self, parts: Sequence[KeptTokens]) -> Words:
        """All moments of the parts, one by one: a functional each."""
        words = self.ones(sum(part.count(self.sizes) for part in parts), 1)
        first = 0
        for part in parts:
            values = list(product(*(range(self.sizes[t]) for t in part.tokens)))
            for place, token in enumerate(part.tokens):
                word = self.at(words, token)[first : first + len(values), 0]
                chosen = torch.tensor([value[place] for value in values])
                word.zero_()
                word[range(len(values)), chosen] = 1.0
            for token in part.along:
                self.at(words, token)[first : first + len(values), 0] = self.direction(token)
            first += len(values)
        return words


def chunk(words: Words, first: int, count: int) -> Words:
    """Some functionals of a batch."""
    return {name: word[:, first : first + count].contiguous() for name, word in words.items()}


def batch_of(words: Words) -> int:
    """How many functionals there are."""
    return next((int(word.shape[1]) for word in words.values()), 0)
