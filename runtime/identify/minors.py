"""Minors of the Jacobian that are not zero modulo a prime, and what is needed to check them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.identify.fields import PrimeField, echelon, one_thread
from fgg.runtime.identify.functionals import SoftWords
from fgg.runtime.identify.jets import Ring
from fgg.runtime.identify.observations import KeptTokens, MomentSet
from fgg.runtime.identify.parameters import FreeTable, ParameterPoint, Stationary
from fgg.runtime.identify.prepared_case import MORE, PLAIN, Case, Question
from fgg.runtime.interpret.semirings.modular import random_prime

ATTEMPTS = 5
"""How many points are drawn before a rank is given up."""


@dataclass(frozen=True)
class Functional:
    """A random functional of one of the sets of moments of a case.

    It has a vector of values for every token, and a weight for tokens that lie along η.
    """

    case: int
    group: int
    words: tuple[tuple[int, ...], ...]
    along: tuple[int, ...]


@dataclass(frozen=True)
class Minor:
    """Functionals and coordinates whose minor is not zero at a point modulo a prime."""

    prime: int
    point: dict[str, tuple[int, ...]]
    functionals: tuple[Functional, ...]
    pivots: tuple[int, ...]


def minor_of(question: Question, rank: int, number: int) -> Minor:
    """A minor of the size of the rank; different numbers have primes and points of their own.

    Raises GrammarError (F458) if random points have a smaller rank.
    """
    with one_thread():
        for attempt in range(ATTEMPTS):
            rng = np.random.default_rng([question.seed, 5, number, attempt])
            minor = _drawn(question, rng)
            if len(minor.pivots) == rank:
                return minor
    refuse("F458", f"no random point has a minor of size {rank:,}", "choose another `--seed`")


def _drawn(question: Question, rng: np.random.Generator) -> Minor:
    field = PrimeField(random_prime(rng))
    place = question.parameters.point(field, rng)
    blocks: list[Tensor] = []
    functionals: list[Functional] = []
    for number, (case, parts) in enumerate(zip(question.cases, question.parts, strict=True)):
        for group, part in enumerate(parts):
            size = min(part.count([t.size for t in case.tokens]), question.parameters.count) + MORE
            drawn = case.sentence(field).drawn(size, field, rng)
            blocks.append(_rows(case, place, part, drawn))
            functionals += [_written(number, group, drawn, i) for i in range(size)]
    matrix = torch.cat(blocks)
    # Rows that span all rows and columns that span all columns meet in a minor that is not zero.
    rows = echelon(matrix.T.contiguous(), field).pivots
    columns = echelon(matrix, field).pivots
    chosen = tuple(functionals[i] for i in rows)
    return Minor(field.prime, _point(place, field.prime), chosen, columns)


def _rows(case: Case, place: ParameterPoint, part: MomentSet, drawn: SoftWords) -> Tensor:
    """The derivatives of random functionals of a set of moments."""
    sentence = case.sentence(place.field)
    if isinstance(part, KeptTokens):
        return case.jacobian(place, PLAIN, sentence.of_tokens(part, drawn))[:, 0]
    ring = Ring((part.target,))
    return case.jacobian(place, ring, sentence.jets(ring, drawn))[:, 0]


def _written(case: int, group: int, drawn: SoftWords, row: int) -> Functional:
    words = tuple(_residues(values[row], drawn) for values in drawn.values)
    along = tuple(_residues(weights[row], drawn)[0] for weights in drawn.weights)
    return Functional(case, group, words, along)


def _residues(values: Tensor, drawn: SoftWords) -> tuple[int, ...]:
    assert isinstance(drawn.field, PrimeField)
    return _modulo(values.reshape(-1).tolist(), drawn.field.prime)


def _modulo(values: Sequence[float], prime: int) -> tuple[int, ...]:
    return tuple(int(value) % prime for value in values)


def _point(place: ParameterPoint, prime: int) -> dict[str, tuple[int, ...]]:
    """The residues of the tables that are drawn, or that an equation determines."""
    return {
        name: _modulo(place.arrays[name].reshape(-1).tolist(), prime)
        for name, source in place.parameters.sources.items()
        if isinstance(source, FreeTable | Stationary)
    }
