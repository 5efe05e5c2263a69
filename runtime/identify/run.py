"""Ranks of the Jacobians of several observation functions, with the reasons for a deficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np
import torch
from torch import Tensor

from fgg.grammar.domains import size_values
from fgg.runtime.identify.curves import Floats, Move, is_small, move_along
from fgg.runtime.identify.fields import Echelon, PrimeField, echelon, one_thread
from fgg.runtime.identify.float_check import Direction, SingularSpace, directions, second_opinion
from fgg.runtime.identify.gauges import Gauge, gauges
from fgg.runtime.identify.jets import Ring
from fgg.runtime.identify.observations import (
    KeptTokens,
    MomentSet,
    TokenSubsets,
    order_of,
)
from fgg.runtime.identify.parameters import Parameters
from fgg.runtime.identify.prepared_case import MORE, PLAIN, Case, Question
from fgg.runtime.identify.result import Identification
from fgg.runtime.interpret.semirings.modular import LOW, PRIMES, random_prime

Observed = Mapping[str, tuple[tuple[MomentSet, ...], ...] | None]
"""Observation functions by name, each with its moments for every case; None where strings are too
short for one."""

MAX_MOVES = 3
"""How many null directions are followed to another point."""
MAX_DIRECTIONS = 2_000_000
"""The most entries of null directions that are computed."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which results are wanted besides the exact rank."""

    second: bool = True
    null: bool = True


def identify(
    cases: Sequence[Case], observed: Observed, seed: int, wanted: Wanted, query: str | None
) -> dict[str, Identification]:
    """The identifications from each of several observation functions, of all cases jointly.

    The cases differ in their lengths alone. Raises GrammarError if a string cannot be read token
    by token, or if memory does not suffice.
    """
    with one_thread():
        return _identify(cases, observed, seed, wanted, query)


def _identify(
    cases: Sequence[Case], observed: Observed, seed: int, wanted: Wanted, query: str | None
) -> dict[str, Identification]:
    questions = {
        name: Question(tuple(cases), parts, seed)
        for name, parts in observed.items()
        if parts is not None
    }
    count = cases[0].parameters.count
    _check_memory(cases, questions)
    draws = [Draw(cases, questions, np.random.default_rng([seed, 1]))]
    again = {name: item for name, item in questions.items() if draws[0].rank(name) < count}
    if again:
        draws.append(Draw(cases, again, np.random.default_rng([seed, 3])))
    results = {name: undefined(cases, name, query) for name in observed}
    for name, question in questions.items():
        used = [draw for draw in draws if name in draw.echelons]
        best = max(used, key=lambda draw: draw.rank(name))
        rank = best.rank(name)
        more = _More(question, wanted)
        if rank < count and wanted.null:
            more.explain(best, name)
        opinion = more.opinion
        primes = tuple(draw.field.prime for draw in used)
        results[name] = replace(
            results[name],
            moments=question.moments,
            rank=rank,
            verdict="yes" if rank == count else "no",
            error=0.0 if rank == count else error_of_no(question, primes),
            primes=(best.field.prime,) if rank == count else primes,
            second=None if opinion is None else opinion.opinion,
            undetermined=more.undetermined,
            directions=more.directions(rank),
            moves=more.moves(rank),
            point=more.point(),
            deficiency_of_all=more.deficiency,
            gauges=more.gauges,
            question=question,
        )
    return results


def _check_memory(cases: Sequence[Case], questions: Mapping[str, Question]) -> None:
    """Raise GrammarError if the Jacobians would not fit into memory."""
    count = cases[0].parameters.count
    for number, case in enumerate(cases):
        sizes = [token.size for token in case.tokens]
        every = [part for item in questions.values() for part in item.parts[number]]
        ring = Ring(tuple(p.target for p in dict.fromkeys(every) if isinstance(p, TokenSubsets)))
        counts = [part.count(sizes) for part in every]
        rows = max((min(number, count) + MORE for number in counts), default=0)
        most = max((len(item.parts[number]) for item in questions.values()), default=0)
        case.check_memory(ring.size or 1, rows * most * len(cases))


class Draw:
    """A random prime, a random point modulo it, and the echelon forms of Jacobians there."""

    def __init__(
        self, cases: Sequence[Case], questions: Mapping[str, Question], rng: np.random.Generator
    ) -> None:
        self.rng = rng
        self.field = PrimeField(random_prime(rng))
        for case in cases:
            case.check_reading(rng, self.field)
        self.place = cases[0].parameters.point(self.field, rng)
        self.echelons: dict[str, Echelon | None] = dict.fromkeys(questions)
        if not cases[0].parameters.count:
            return
        sketches = []
        for number, case in enumerate(cases):
            every = [part for item in questions.values() for part in item.parts[number]]
            sketches.append(case.sketch(self.place, every, rng))
        for name, item in questions.items():
            rows = [
                _joined([sketches[i][part] for part in parts], self.field, rng)
                for i, parts in enumerate(item.parts)
            ]
            matrix = rows[0] if len(rows) == 1 else torch.cat(rows)
            self.echelons[name] = echelon(matrix, self.field)

    def rank(self, name: str) -> int:
        """The rank of the Jacobian of an observation function."""
        reduced = self.echelons[name]
        return 0 if reduced is None else reduced.rank


def undefined(cases: Sequence[Case], name: str, query: str | None) -> Identification:
    """The result for some cases before anything is computed."""
    return Identification(
        grammar=cases[0].name,
        query=query,
        lengths=tuple(case.lengths for case in cases),
        sizes=size_values(cases[0].grammar),
        observed=name,
        parameters=cases[0].parameters.count,
        moments=0,
        rank=None,
        verdict="undefined",
    )


class _More:
    """Results besides the rank: the one in float64, and why a model is not identifiable."""

    def __init__(self, question: Question, wanted: Wanted) -> None:
        self.question = question
        self.wanted = wanted
        self.undetermined: tuple[str, ...] = ()
        self.deficiency: int | None = None
        self.gauges: tuple[Gauge, ...] = ()
        self.opinion: SingularSpace | None = None
        if wanted.second:
            self.opinion = second_opinion(question)

    def explain(self, draw: Draw, name: str) -> None:
        """Find the undetermined factors, the deficiency of whole strings, and gauges."""
        field, reduced = draw.field, draw.echelons[name]
        assert reduced is not None
        parameters = self.question.parameters
        self.undetermined = undetermined(parameters, reduced)
        blocks = []
        for case in self.question.cases:
            whole = KeptTokens(tuple(range(len(case.tokens))))
            words = case.sentence(field).kept([(whole, parameters.count + MORE)], field, draw.rng)
            blocks.append(case.jacobian(draw.place, PLAIN, words)[:, 0])
        rows = torch.cat(blocks)
        self.deficiency = parameters.count - echelon(rows, field).rank
        if self.deficiency and parameters.given is None:
            self.gauges = gauges(self.question.cases[0].grammar, draw.place, rows)

    def point(self) -> dict[str, Floats]:
        """The leaves at the point of the null directions."""
        if self.opinion is None or not self.wanted.null:
            return {}
        arrays = self.opinion.place.arrays
        return {leaf.name: arrays[leaf.name].numpy() for leaf in self.question.parameters.leaves}

    def moves(self, rank: int) -> tuple[Move | None, ...]:
        """A finite move along each of the first null directions."""
        if self.opinion is None or not is_small(self.question):
            return ()
        place = self.opinion.place
        some = self.directions(rank)[:MAX_MOVES]
        return tuple(move_along(self.question, place, item, rank) for item in some)

    def directions(self, rank: int) -> tuple[Direction, ...]:
        """A basis of the null directions."""
        parameters = self.question.parameters
        count = parameters.count
        if self.opinion is None or not self.wanted.null or rank == count:
            return ()
        if (count - rank) * count > MAX_DIRECTIONS:
            return ()
        return directions(self.opinion, parameters, rank)


def undetermined(parameters: Parameters, reduced: Echelon) -> tuple[str, ...]:
    """The factors of which some coordinate moves along a null direction, exactly."""
    null = reduced.null_space()
    moved = torch.any(null != 0, dim=1)
    names: list[str] = []
    first = 0
    for leaf in parameters.leaves:
        steps = moved[first : first + leaf.coordinates]
        first += leaf.coordinates
        if bool(steps.any()):
            names.append(leaf.name)
    return tuple(names)


def _joined(rows: Sequence[Tensor], field: PrimeField, rng: np.random.Generator) -> Tensor:
    """Functionals of several parts as one matrix of the same rank.

    Parts that were evaluated side by side are added with random weights, which keeps it small.
    """
    shapes = {tuple(part.shape) for part in rows}
    if len(rows) == 1 or len(shapes) > 1 or rows[0].shape[0] <= rows[0].shape[1]:
        return torch.cat(list(rows))
    total = rows[0]
    for part in rows[1:]:
        total = total + field.multiply(field.uniform((part.shape[0], 1), rng), part)
    return field.reduce(total)


def error_of_no(question: Question, primes: Sequence[int]) -> float:
    """How probable it is, at most, that all ranks modulo these primes are below the generic one.

    Take a minor that is not zero as a polynomial with whole coefficients. Its degree is at most
    n (degree of Z + order of the functionals), so it is zero at a random point of GF(p) with
    probability n · degree / p at most [Schwartz, Zippel]. A coefficient of it is below
    (degree · size of Z)^n, so few of the primes between 2^30 and 2^31 divide it. The primes and
    the points are independent of each other. At a given point, the same holds for the functionals.
    """
    count = question.parameters.count
    degree = max(
        case.degree + order_of(parts) + 1
        for case, parts in zip(question.cases, question.parts, strict=True)
    )
    size = max(
        case.bits + case.bits_of_moments(parts)
        for case, parts in zip(question.cases, question.parts, strict=True)
    )
    bits = count * (log2(degree) + size + degree * question.parameters.bits)
    once = count * degree / LOW + bits / log2(LOW) / PRIMES
    return float(min(1.0, once) ** len(primes))
