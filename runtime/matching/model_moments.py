"""Moments that parameters have, with their derivatives, for sentences of several lengths.

Moments are conditional on the length: what Z gives for kept positions, over Z of the length. All
numbers come from the same differentiable pass that `identify` uses, in float64 or modulo a prime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from fgg.diagnostics import refuse
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.plan import Plan
from fgg.runtime.identify.fields import PrimeField, echelon, one_thread
from fgg.runtime.identify.functionals import Words
from fgg.runtime.identify.observations import KeptTokens, parts_of
from fgg.runtime.identify.parameters import ParameterPoint, Parameters
from fgg.runtime.identify.prepared_case import MORE, PLAIN, Case
from fgg.runtime.interpret.semirings.modular import random_prime
from fgg.runtime.unmix.mixing import Floats
from fgg.runtime.unmix.moments import Ints
from fgg.runtime.unmix.topology import only_input

MAX_MOMENTS = 20_000
"""More moments than this make least squares too slow to wait for."""


@dataclass(frozen=True, eq=False)
class LengthMoments:
    """Which moments of sentences of one length are matched: sets of kept positions."""

    case: Case
    kept: tuple[KeptTokens, ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of moments of each set of positions."""
        return tuple(part.count([t.size for t in self.case.tokens]) for part in self.kept)

    @property
    def whole(self) -> bool:
        """Whether they are the probabilities of all sentences."""
        return len(self.kept) == 1 and len(self.kept[0].tokens) == len(self.case.tokens)


@dataclass(frozen=True, eq=False)
class MomentModel:
    """A grammar's moments by the length of sentences, as functions of its parameters."""

    grammar: Grammar
    plan: Plan
    parameters: Parameters
    by_length: Mapping[int, LengthMoments]

    @property
    def words(self) -> int:
        """The size of the vocabulary."""
        return domain_size(self.grammar, self.grammar.inputs[0].domain)

    @property
    def count(self) -> int:
        """The number of moments."""
        return sum(sum(each.sizes) for each in self.by_length.values())

    def check_size(self, observed: str) -> None:
        """Raise GrammarError for moments that are too many (F438), or too large for memory."""
        if self.count > MAX_MOMENTS:
            message = f"there are {self.count:,} moments `{observed}`; {MAX_MOMENTS:,} is the most"
            refuse("F438", message, "pairs of words are fewer: `**`; or use shorter sentences")
        for each in self.by_length.values():
            each.case.check_memory(1, sum(each.sizes) + 1)

    def at(self, place: ParameterPoint, length: int) -> tuple[Floats, Floats]:
        """The moments of a length at a point, and their derivatives by free coordinates."""
        each = self.by_length[length]
        total = KeptTokens(())
        words = each.case.sentence(place.field).every([*each.kept, total])
        return self._conditional(place, length, words)

    def strings(self, place: ParameterPoint, length: int, rows: Ints) -> tuple[Floats, Floats]:
        """The probabilities of sentences `[sentence, position]` of a length, and derivatives."""
        case = self.by_length[length].case
        sentence = case.sentence(place.field)
        words = sentence.ones(len(rows) + 1, 1)
        for position, token in enumerate(case.tokens):
            word = sentence.at(words, position)[: len(rows), 0]
            word.zero_()
            word[range(len(rows)), torch.from_numpy(rows[:, position])] = 1.0
            assert token.position == position
        return self._conditional(place, length, words)

    def _conditional(
        self, place: ParameterPoint, length: int, words: Words
    ) -> tuple[Floats, Floats]:
        """Functionals over the last one, which is Z of all sentences, and their derivatives."""
        case = self.by_length[length].case
        with one_thread():
            z, slopes = (each[:, 0] for each in case.z_and_jacobian(place, PLAIN, words))
        total = z[-1]
        values = z[:-1] / total
        derivatives = (slopes[:-1] - values[:, None] * slopes[-1]) / total
        return values.numpy(), derivatives.numpy()

    def rank(self, seed: int) -> int:
        """The generic rank of the Jacobian of all moments together, modulo a random prime.

        Of a ratio z / t the derivative is a multiple of t dz - z dt. A full rank is a proof.
        """
        rng = np.random.default_rng([seed, 3])
        field = PrimeField(random_prime(rng))
        blocks = []
        with one_thread():
            place = self.parameters.point(field, rng)
            for each in self.by_length.values():
                case = each.case
                case.check_reading(rng, field)
                wanted = [
                    (part, min(count, self.parameters.count) + MORE)
                    for part, count in zip(each.kept, each.sizes, strict=True)
                ]
                words = case.sentence(field).kept([*wanted, (KeptTokens(()), 1)], field, rng)
                z, slopes = (x[:, 0] for x in case.z_and_jacobian(place, PLAIN, words))
                ahead = field.multiply(z[-1], slopes[:-1])
                blocks.append(field.reduce(ahead - field.multiply(z[:-1, None], slopes[-1:])))
            return echelon(torch.cat(blocks), field).rank


def moment_model(
    grammar: Grammar,
    plan: Plan,
    parameters: Parameters,
    lengths: Iterable[int],
    observed: str,
) -> MomentModel:
    """The moments of an observation function of `identify` for sentences of these lengths.

    Lengths that are too short for it are left out. Raises GrammarError: F461 if all are, F417 for
    frozen factors without values.
    """
    for source in parameters.sources.values():
        frozen = getattr(source, "frozen", False)
        if frozen:
            refuse("F417", f"`{getattr(source, 'name', '')}` is frozen and has no value")
    _, size = only_input(grammar)
    by_length = {}
    for length in sorted(set(lengths)):
        case = Case(grammar.name, grammar, plan, parameters, {size: length})
        parts = parts_of(observed, len(case.tokens))
        if parts is None:
            continue
        kept: list[KeptTokens] = []
        for part in parts:
            kept += [part] if isinstance(part, KeptTokens) else part.parts(len(case.tokens))
        each = LengthMoments(case, tuple(kept))
        by_length[length] = each
    model = MomentModel(grammar, plan, parameters, by_length)
    if not by_length:
        refuse("F461", f"no sentences are long enough for the moments `{observed}`")
    return model


def counted(distinct: tuple[Ints, Ints], kept: Sequence[KeptTokens], words: int) -> Floats:
    """The means of moments over sentences, given the different ones and how often they occur."""
    rows, times = distinct
    blocks = []
    for part in kept:
        shape = (words,) * len(part.tokens)
        codes = np.ravel_multi_index(tuple(rows[:, t] for t in part.tokens), shape)
        blocks.append(np.bincount(codes, times, minlength=words ** len(part.tokens)))
    return np.asarray(np.concatenate(blocks) / times.sum())


def all_strings(words: int, length: int) -> Ints:
    """All sentences of a length, in the order of a table."""
    columns = np.unravel_index(np.arange(words**length), (words,) * length)
    return np.stack(columns, axis=1).astype(np.int64)
