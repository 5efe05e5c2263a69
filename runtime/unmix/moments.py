"""Moments of words: exact ones of a compiled program, or means over sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.grammar.domains import domain_size
from fgg.runtime.unmix.mixing import Floats, Observed
from fgg.runtime.unmix.topology import only_input

if TYPE_CHECKING:
    from torch import Tensor

    from fgg.runtime.program.program import Program

Ints = NDArray[np.int64]
FEW = 1024
"""Below this many entries, a table costs about as much as one of its margins."""


class Moments(Protocol):
    """Moments of words in sentences of each length."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of sentences with moments."""

    def slices(self, at: Observed, directions: Floats) -> Floats:
        """E[x_i ⊗ x_j (η·x_k)] for each direction η, `[direction, words, words]`."""

    def pair(self, at: Observed) -> Floats:
        """E[x_i ⊗ x_j], `[words, words]`."""


@dataclass(frozen=True, eq=False)
class ExactMoments:
    """The moments of a program with weights: kept positions, all others summed out."""

    program: Program
    weights: Mapping[str, Tensor]
    lengths: tuple[int, ...]
    known: dict[tuple[int, tuple[int, ...]], Floats] = field(default_factory=dict)

    def joint(self, length: int, positions: Sequence[int]) -> Floats:
        """The joint distribution of the words at these positions, an axis for each position.

        Where all sentences are few it is read off the table of them, which takes one call.
        """
        grammar = self.program.grammar
        if domain_size(grammar, grammar.inputs[0].domain) ** length > FEW:
            return self._kept(length, tuple(positions))
        whole = self._kept(length, tuple(range(length)))
        rest = tuple(i for i in range(length) if i not in positions)
        order = np.argsort(np.argsort(positions))  # axes are left in the order of the sentence
        return np.asarray(whole.sum(axis=rest).transpose(*order))

    def _kept(self, length: int, positions: tuple[int, ...]) -> Floats:
        key = (length, positions)
        if key not in self.known:
            name, size = only_input(self.program.grammar)
            table = self.program.posterior(self.weights, {}, {size: [length]}).moments(
                {name: list(positions)}
            )[0]
            # All derivations have equal weight, so the table sums to their number.
            self.known[key] = np.asarray((table / table.sum()).detach().cpu(), dtype=float)
        return self.known[key]

    def slices(self, at: Observed, directions: Floats) -> Floats:
        """E[x_i ⊗ x_j (η·x_k)] for each direction η."""
        joint = self.joint(at.length, at.positions)
        return np.asarray(np.einsum("ijk,mk->mij", joint, directions, optimize=True))

    def pair(self, at: Observed) -> Floats:
        """E[x_i ⊗ x_j]."""
        return self.joint(at.length, at.positions)


@dataclass(frozen=True, eq=False)
class SampledMoments:
    """Means over sentences: for each length an array `[sentences, positions]` of word numbers."""

    sentences: Mapping[int, Ints]
    words: int

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the sentences."""
        return tuple(sorted(self.sentences))

    def slices(self, at: Observed, directions: Floats) -> Floats:
        """The means of x_i ⊗ x_j (η·x_k) for each direction η."""
        (rows, _), third = self.distinct[at.length], at.third
        assert third is not None
        return np.stack([self._mean(at, eta[rows[:, third]]) for eta in directions])

    def pair(self, at: Observed) -> Floats:
        """The mean of x_i ⊗ x_j."""
        return self._mean(at, 1.0)

    def _mean(self, at: Observed, weights: Floats | float) -> Floats:
        (rows, times), size = self.distinct[at.length], self.words
        places = rows[:, at.first] * size + rows[:, at.second]
        sums = np.bincount(places, times * weights, minlength=size * size)
        return np.asarray(sums.reshape(size, size) / times.sum())

    @cached_property
    def distinct(self) -> dict[int, tuple[Ints, Ints]]:
        """The different sentences of each length, and how often each one occurs."""
        result = {}
        for length, sentences in self.sentences.items():
            if self.words**length < 2**62:  # numbers sort faster than rows
                shape = (self.words,) * length
                codes = np.ravel_multi_index(tuple(sentences.T), shape)
                numbers, times = np.unique(codes, return_counts=True)
                rows = np.stack(np.unravel_index(numbers, shape), axis=1).astype(np.int64)
            else:
                rows, times = np.unique(sentences, axis=0, return_counts=True)
            result[length] = (rows, times.astype(np.int64))
        return result


def sampled(
    sentences: Sequence[Sequence[int]] | Mapping[int, object], words: int
) -> SampledMoments:
    """Sentences of word numbers by their length. Raises GrammarError (F411)."""
    if isinstance(sentences, Mapping):
        arrays = {int(n): _numbers(int(n), rows) for n, rows in sentences.items()}
    else:
        by_length: dict[int, list[Sequence[int]]] = {}
        for sentence in sentences:
            by_length.setdefault(len(sentence), []).append(sentence)
        arrays = {n: _numbers(n, rows) for n, rows in by_length.items() if n}
    for length, rows in arrays.items():
        if rows.ndim != 2 or rows.shape[1] != length or not len(rows):
            message = f"sentences of {length} words are expected as an array [sentences, {length}]"
            refuse("F411", message)
        if rows.min() < 0 or rows.max() >= words:
            message = f"sentences of {length} words have words that are not 0 to {words - 1}"
            help = "missing words cannot be used for moments" if rows.min() < 0 else ""
            refuse("F411", message, help)
    if not arrays:
        refuse("F411", "there are no sentences")
    return SampledMoments(dict(sorted(arrays.items())), words)


def _numbers(length: int, sentences: object) -> Ints:
    """Sentences of one length as whole numbers. Raises GrammarError (F411)."""
    try:
        array = np.asarray(sentences)
    except ValueError:  # of different lengths
        array = np.empty(0)
    if array.size and array.dtype.kind not in "iub":
        message = f"sentences of {length} words have words that are not whole numbers"
        refuse("F411", message, "words are given by their numbers, from 0")
    return array.astype(np.int64)


def draw(exact: ExactMoments, length: int, number: int, seed: int) -> Ints:
    """Independent sentences of one length, `[number, length]`, from the table of all of them.

    Raises GrammarError (F420) if these are too many.
    """
    table = exact.joint(length, range(length))
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(number, table.ravel() / table.sum())
    # In any order, so that the first few of them are a sample, too.
    return rng.permutation(sentences_of(counts.reshape(table.shape)))


def sentences_of(counts: NDArray[np.int64]) -> Ints:
    """The sentences of a table of counts, in the order of the table."""
    numbers = np.repeat(np.arange(counts.size), counts.ravel())
    return np.stack(np.unravel_index(numbers, counts.shape), axis=1).astype(np.int64)
