"""A case: a plan, its parameters and the tokens of strings of given lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, lcm, log2, prod

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.plan import Plan
from fgg.progress import steps
from fgg.runtime.identify.fields import Field, PrimeField, RealField
from fgg.runtime.identify.functionals import InputToken, Sentence, Words, batch_of, chunk
from fgg.runtime.identify.jet_pass import z_and_jacobian_of, z_of
from fgg.runtime.identify.jets import Ring
from fgg.runtime.identify.observations import KeptTokens, MomentSet, TokenSubsets
from fgg.runtime.identify.parameters import ParameterPoint, Parameters
from fgg.runtime.identify.soft_plan import SoftPlan
from fgg.runtime.memory import require

MORE = 6
"""How many functionals are evaluated beyond the number that a full rank needs."""
ENTRIES = 2**23
"""How many numbers a pass may keep at a time: more functionals than that go one after another."""
PLAIN = Ring(((0, 0),))


@dataclass(frozen=True, eq=False)
class Case:
    """A plan for strings of given lengths, and the Jacobians of their moments."""

    name: str
    grammar: Grammar
    plan: Plan
    parameters: Parameters
    lengths: Mapping[str, int]
    direction: Sequence[int | float | Fraction] | int = 0
    """η as a weight for each value, or the value that it is the unit vector of."""

    @cached_property
    def soft(self) -> SoftPlan:
        """The plan for soft words."""
        return SoftPlan(self.plan, self.lengths)

    @cached_property
    def tokens(self) -> tuple[InputToken, ...]:
        """All positions of all inputs: those of the least index first."""
        grammar = self.grammar
        entries = [
            (position, number, InputToken(item.name, position, domain_size(grammar, item.domain)))
            for number, item in enumerate(grammar.inputs)
            for position in range(max(self.soft.inputs[item.name][0], 0))
        ]
        return tuple(token for _, _, token in sorted(entries, key=lambda entry: entry[:2]))

    @cached_property
    def number(self) -> Mapping[tuple[str, tuple[int, ...]], int]:
        """The number of each token, by its input and position."""
        return {(token.input, (token.position,)): i for i, token in enumerate(self.tokens)}

    def weights(self, size: int) -> list[Fraction]:
        """η as a weight for each of so many values."""
        if isinstance(self.direction, int):
            return [Fraction(int(i == min(self.direction, size - 1))) for i in range(size)]
        return [Fraction(weight) for weight in self.direction]

    def sentence(self, field: Field) -> Sentence:
        """The tokens with the direction as elements of a field."""
        directions = {}
        for token in self.tokens:
            weights = np.array(self.weights(token.size), dtype=object)
            directions[token.input] = field.convert(weights)
        return Sentence(self.tokens, self.soft.inputs, directions)

    @property
    def entries(self) -> int:
        """How many numbers a pass keeps for each functional and coefficient of a jet."""
        return self.soft.entries + sum(token.size for token in self.tokens)

    def check_memory(self, jets: int, rows: int) -> None:
        """Raise GrammarError if a Jacobian of `rows` rows would not fit. Nothing is allocated."""
        count = self.parameters.count
        sources = self.parameters.sources
        # For one functional: what a pass keeps, and a derivative by every factor's entries.
        tables = sum(prod(leaf.shape) for leaf in self.parameters.leaves)
        one = jets * self.entries + 4 * (tables + len(sources))
        # Soft words are made for all functionals at once, those of whole strings included.
        values = sum(token.size for token in self.tokens)
        words = values * max(jets * rows, count + MORE, len(self.tokens) + 1)
        what = f"the Jacobian by {count:,} parameters"
        require(8 * (one + words + 3 * rows * count), torch.device("cpu"), what)

    def jacobian(self, place: ParameterPoint, ring: Ring, words: Words) -> Tensor:
        """The derivatives of all functionals by the coordinates, `[functional, target, n]`."""
        return self.z_and_jacobian(place, ring, words)[1]

    def z_and_jacobian(
        self, place: ParameterPoint, ring: Ring, words: Words
    ) -> tuple[Tensor, Tensor]:
        """Z of all functionals, `[functional, jet]`, and their derivatives."""
        batch = batch_of(words)
        tables = sum(prod(leaf.shape) for leaf in self.parameters.leaves)
        size = max(ENTRIES // (ring.size * self.entries + len(ring.targets) * tables), 1)
        values, blocks = [], []
        for first in steps(range(0, batch, size), "part of the Jacobian"):
            part = chunk(words, first, size) if size < batch else words
            z, slopes = z_and_jacobian_of(self.soft, place.field, ring, self.arrays(place), part)
            values.append(z)
            blocks.append(place.rows({**_unused(place, part, ring), **slopes}))
        if len(blocks) == 1:
            return values[0], blocks[0]
        return torch.cat(values), torch.cat(blocks)

    def arrays(self, place: ParameterPoint) -> dict[str, Tensor]:
        """The weights of the plan's factors at a point."""
        return {name: place.arrays[name] for name in self.plan.parameters}

    def sketch(
        self, place: ParameterPoint, parts: Sequence[MomentSet], rng: np.random.Generator
    ) -> dict[MomentSet, Tensor]:
        """Rows of the Jacobian of random functionals, enough to have the rank of each part."""
        sentence, count = self.sentence(place.field), self.parameters.count
        sketches: dict[MomentSet, Tensor] = {}
        kept = [p for p in dict.fromkeys(parts) if isinstance(p, KeptTokens)]
        if kept:
            wanted = [(p, min(p.count(sentence.sizes), count) + MORE) for p in kept]
            rows = self.jacobian(place, PLAIN, sentence.kept(wanted, place.field, rng))[:, 0]
            first = 0
            for part, number in wanted:
                sketches[part] = rows[first : first + number]
                first += number
        subsets = [p for p in dict.fromkeys(parts) if isinstance(p, TokenSubsets)]
        if subsets:
            ring = Ring(tuple(p.target for p in subsets))
            number = min(max(p.count(sentence.sizes) for p in subsets), count) + MORE
            words = sentence.jets(ring, sentence.drawn(number, place.field, rng))
            rows = self.jacobian(place, ring, words)
            sketches |= {part: rows[:, i] for i, part in enumerate(subsets)}
        return sketches

    def every(self, place: ParameterPoint, parts: Sequence[MomentSet]) -> Tensor:
        """The Jacobian of all moments, row by row."""
        kept: list[KeptTokens] = []
        for part in parts:
            kept += [part] if isinstance(part, KeptTokens) else part.parts(len(self.tokens))
        words = self.sentence(place.field).every(kept)
        return self.jacobian(place, PLAIN, words)[:, 0]

    def check_reading(self, rng: np.random.Generator, field: PrimeField) -> None:
        """Raise GrammarError unless every derivation reads every token once (F454, F455).

        Then Z is homogeneous of degree one in each word. This is tested at random weights and
        words: a word times t must make Z t-fold.
        """
        place = self.parameters.point(field, rng)
        words = self.sentence(field).ones(len(self.tokens) + 1, 1)
        factor = field.uniform((), rng)
        for number, token in enumerate(self.tokens):
            random = field.uniform((token.size,), rng)
            words[token.input][token.position, :, 0] = random
            words[token.input][token.position, number, 0] = field.multiply(factor, random)
        size = max(ENTRIES // self.entries, 1)
        parts = [chunk(words, first, size) for first in range(0, batch_of(words), size)]
        arrays = self.arrays(place)
        values = [z_of(self.soft, field, PLAIN, arrays, part)[:, 0] for part in parts]
        z = field.reduce(torch.cat(values))
        if int(z[-1]) == 0:
            lengths = ", ".join(f"{name} = {value}" for name, value in self.lengths.items())
            refuse("F455", f"`{self.name}` has no strings of length {lengths}")
        wrong = torch.nonzero(field.reduce(z[:-1] - field.multiply(factor, z[-1])))
        if len(wrong):
            token = self.tokens[int(wrong[0])]
            message = f"`{token}` is not read exactly once by every derivation"
            refuse("F454", message, "moments sum positions out, so each must be read once")

    @cached_property
    def degree(self) -> int:
        """A bound of the degree of Z in the coordinates, denominators cleared."""
        names = self.plan.parameters
        return self.soft.degree({name: self.parameters.degree(name) for name in names})

    @cached_property
    def bits(self) -> float:
        """A bound of log2 of the sum of the coefficients of Z, as a polynomial in the coordinates.

        All entries are replaced by the sums of their coefficients. Z is homogeneous in the words,
        so those are small enough that Z is finite in float64.
        """
        sums = self.parameters.coefficient_sums()
        scales = torch.arange(0, 101, 4, dtype=torch.float64)
        words = {
            name: torch.exp2(-scales).reshape(1, -1, 1, 1) * word
            for name, word in self.sentence(RealField()).ones(len(scales), 1).items()
        }
        arrays = {name: sums[name] for name in self.plan.parameters}
        totals = z_of(self.soft, RealField(), PLAIN, arrays, words)[:, 0]
        finite = torch.isfinite(totals) & (totals > 0)
        bounds = torch.log2(totals) + scales * len(self.tokens)
        return float(bounds[finite].min()) if bool(finite.any()) else inf

    def bits_of_moments(self, parts: Sequence[MomentSet]) -> float:
        """A bound of log2 of the sum of the coefficients of a functional, for words of ones."""
        given = [1] if isinstance(self.direction, int) else self.direction
        weights = [Fraction(weight) for weight in given]
        common = lcm(*(weight.denominator for weight in weights))
        along = log2(max(float(sum(abs(weight) for weight in weights)) * common, 1.0))
        sets = sum(
            1 if isinstance(part, KeptTokens) else part.sets(len(self.tokens)) for part in parts
        )
        most = max(len(p.along) if isinstance(p, KeptTokens) else int(p.along) for p in parts)
        return log2(sets) + along * most


@dataclass(frozen=True, eq=False)
class Question:
    """Moments of strings of one length, or of several lengths jointly.

    The cases share their parameters; `parts` has the moments that are known of each.
    """

    cases: tuple[Case, ...]
    parts: tuple[tuple[MomentSet, ...], ...]
    seed: int

    @property
    def parameters(self) -> Parameters:
        """The parameters that the moments depend on."""
        return self.cases[0].parameters

    @property
    def moments(self) -> int:
        """How many moments there are."""
        return sum(
            part.count([token.size for token in case.tokens])
            for case, parts in zip(self.cases, self.parts, strict=True)
            for part in parts
        )

    def every(self, place: ParameterPoint) -> Tensor:
        """The Jacobian of all moments, row by row."""
        pairs = zip(self.cases, self.parts, strict=True)
        return torch.cat([case.every(place, parts) for case, parts in pairs])

    def sketch(self, place: ParameterPoint, rng: np.random.Generator) -> Tensor:
        """The Jacobian of random functionals of the moments, of the same rank."""
        rows = []
        for case, parts in zip(self.cases, self.parts, strict=True):
            sketches = case.sketch(place, parts, rng)
            rows += [sketches[part] for part in parts]
        return torch.cat(rows)


def _unused(place: ParameterPoint, words: Words, ring: Ring) -> dict[str, Tensor]:
    """Zeros as derivatives by the leaves that the plan does not have."""
    batch, targets = batch_of(words), len(ring.targets)
    return {
        leaf.name: torch.zeros(batch, targets, *leaf.shape, dtype=torch.float64)
        for leaf in place.parameters.leaves
    }
