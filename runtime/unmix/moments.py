"""Where moments come from: the compiled program, exactly, or sentences, as their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.grammar.domains import domain_size
from fgg.runtime.unmix.mixing import Floats, Observed
from fgg.runtime.unmix.topology import only_input

if TYPE_CHECKING:
    from fgg.runtime.program.program import Program

Ints = NDArray[np.int64]
FEW = 1024
"""Entries of a table that costs about as much as one of its margins."""


class Moments(Protocol):
    """Moments of words in sentences of each length."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that there are moments of."""

    def slices(self, at: Observed, directions: Floats) -> Floats:
        """E[x_i ⊗ x_j (η·x_k)] for each direction η, `[direction, words, words]`."""

    def pair(self, at: Observed) -> Floats:
        """E[x_i ⊗ x_j], `[words, words]`."""


@dataclass(frozen=True, eq=False)
class Exact:
    """The moments of a program with weights: kept positions, all others summed out."""

    program: Program
    weights: Mapping[str, Any]
    lengths: tuple[int, ...]
    known: dict[tuple[int, tuple[int, ...]], Floats] = field(default_factory=dict)

    def joint(self, length: int, positions: Sequence[int]) -> Floats:
        """The joint distribution of the words at these positions, an axis each.

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
            found = self.program.posterior(self.weights, {}, {size: [length]}).moments(
                {name: list(positions)}
            )[0]
            # Derivations carry no weight of their own: what they sum to is their number.
            self.known[key] = np.asarray((found / found.sum()).detach().cpu(), dtype=float)
        return self.known[key]

    def slices(self, at: Observed, directions: Floats) -> Floats:
        """E[x_i ⊗ x_j (η·x_k)] for each direction η."""
        joint = self.joint(at.length, at.positions)
        return np.asarray(np.einsum("ijk,mk->mij", joint, directions, optimize=True))

    def pair(self, at: Observed) -> Floats:
        """E[x_i ⊗ x_j]."""
        return self.joint(at.length, at.positions)


@dataclass(frozen=True, eq=False)
class Sampled:
    """Means over sentences: for each length an array `[sentences, positions]` of word numbers."""

    sentences: Mapping[int, Ints]
    words: int

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that there are sentences of."""
        return tuple(sorted(self.sentences))

    def slices(self, at: Observed, directions: Floats) -> Floats:
        """The means of x_i ⊗ x_j (η·x_k) for each direction η."""
        (own, _), third = self.distinct[at.length], at.third
        assert third is not None
        return np.stack([self._mean(at, eta[own[:, third]]) for eta in directions])

    def pair(self, at: Observed) -> Floats:
        """The mean of x_i ⊗ x_j."""
        return self._mean(at, 1.0)

    def _mean(self, at: Observed, weights: Floats | float) -> Floats:
        (own, times), size = self.distinct[at.length], self.words
        places = own[:, at.first] * size + own[:, at.second]
        found = np.bincount(places, times * weights, minlength=size * size)
        return np.asarray(found.reshape(size, size) / times.sum())

    @cached_property
    def distinct(self) -> dict[int, tuple[Ints, Ints]]:
        """The different sentences of each length, and how often each one occurs."""
        found = {}
        for length, own in self.sentences.items():
            if self.words**length < 2**62:  # numbers sort faster than rows
                shape = (self.words,) * length
                codes = np.ravel_multi_index(tuple(own.T), shape)
                numbers, times = np.unique(codes, return_counts=True)
                rows = np.stack(np.unravel_index(numbers, shape), axis=1).astype(np.int64)
            else:
                rows, times = np.unique(own, axis=0, return_counts=True)
            found[length] = (rows, times.astype(np.int64))
        return found


def sampled(sentences: Sequence[Sequence[int]] | Mapping[int, Any], words: int) -> Sampled:
    """Sentences of word numbers by their length. Raises GrammarError (F411)."""
    if isinstance(sentences, Mapping):
        found = {int(n): _numbers(int(n), own) for n, own in sentences.items()}
    else:
        by_length: dict[int, list[Sequence[int]]] = {}
        for sentence in sentences:
            by_length.setdefault(len(sentence), []).append(sentence)
        found = {n: _numbers(n, own) for n, own in by_length.items() if n}
    for length, own in found.items():
        if own.ndim != 2 or own.shape[1] != length or not len(own):
            message = f"sentences of {length} words are expected as an array [sentences, {length}]"
            refuse("F411", message)
        if own.min() < 0 or own.max() >= words:
            message = f"sentences of {length} words have words that are not 0 to {words - 1}"
            help = "missing words cannot be used for moments" if own.min() < 0 else ""
            refuse("F411", message, help)
    if not found:
        refuse("F411", "there are no sentences")
    return Sampled(dict(sorted(found.items())), words)


def _numbers(length: int, sentences: Any) -> Ints:
    """Sentences of one length as whole numbers. Raises GrammarError (F411)."""
    try:
        found = np.asarray(sentences)
    except ValueError:  # of different lengths
        found = np.empty(0)
    if found.size and found.dtype.kind not in "iub":
        message = f"sentences of {length} words have words that are no whole numbers"
        help = "words are given by their numbers, from 0"
        refuse("F411", message, help)
    return found.astype(np.int64)


def draw(exact: Exact, length: int, number: int, seed: int) -> Ints:
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
