"""Ranks of the Jacobians of several observation functions, with the reasons for a deficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np
import torch
from torch import Tensor

from fgg.grammar.domains import size_values
from fgg.runtime.identify.fields import Echelon, PrimeField, echelon, one_thread
from fgg.runtime.identify.float_check import Direction, SingularSpace, directions, second_opinion
from fgg.runtime.identify.gauges import Gauge, gauges
from fgg.runtime.identify.jets import Ring
from fgg.runtime.identify.observations import KeptTokens, MomentSet, TokenSubsets
from fgg.runtime.identify.parameters import Parameters
from fgg.runtime.identify.prepared_case import MORE, PLAIN, Case
from fgg.runtime.identify.result import Identification
from fgg.runtime.interpret.semirings.modular import LOW, PRIMES, random_prime

Observed = Mapping[str, tuple[MomentSet, ...] | None]
"""Observation functions by name; None where strings are too short for one."""

MAX_DIRECTIONS = 2_000_000
"""The most entries of null directions that are computed."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which results are wanted besides the exact rank."""

    second: bool = True
    null: bool = True


def identify(
    case: Case, observed: Observed, seed: int, wanted: Wanted, query: str | None
) -> dict[str, Identification]:
    """The identifications of a case from each of several observation functions.

    Raises GrammarError if a string cannot be read token by token, or if memory does not suffice.
    """
    with one_thread():
        return _identify(case, observed, seed, wanted, query)


def _identify(
    case: Case, observed: Observed, seed: int, wanted: Wanted, query: str | None
) -> dict[str, Identification]:
    defined = {name: parts for name, parts in observed.items() if parts is not None}
    sizes = [token.size for token in case.tokens]
    count = case.parameters.count
    _check_memory(case, defined)
    draws = [Draw(case, defined, np.random.default_rng([seed, 1]))]
    again = {name: parts for name, parts in defined.items() if draws[0].rank(name) < count}
    if again:
        draws.append(Draw(case, again, np.random.default_rng([seed, 3])))
    results = {name: undefined(case, name, query) for name in observed}
    for name, parts in defined.items():
        used = [draw for draw in draws if name in draw.echelons]
        best = max(used, key=lambda draw: draw.rank(name))
        rank = best.rank(name)
        more = _More(case, parts, seed, wanted)
        if rank < count and wanted.null:
            more.explain(best, name)
        opinion = more.opinion
        primes = tuple(draw.field.prime for draw in used)
        results[name] = replace(
            results[name],
            moments=sum(part.count(sizes) for part in parts),
            rank=rank,
            verdict="yes" if rank == count else "no",
            error=0.0 if rank == count else error_of_no(case, parts, primes),
            primes=(best.field.prime,) if rank == count else primes,
            second=None if opinion is None else opinion.opinion,
            undetermined=more.undetermined,
            directions=() if opinion is None else more.directions(rank),
            deficiency_of_all=more.deficiency,
            gauges=more.gauges,
        )
    return results


def _check_memory(case: Case, defined: Mapping[str, tuple[MomentSet, ...]]) -> None:
    """Raise GrammarError if the Jacobians would not fit into memory."""
    sizes = [token.size for token in case.tokens]
    every = [part for parts in defined.values() for part in parts]
    count = case.parameters.count
    ring = Ring(tuple(p.target for p in dict.fromkeys(every) if isinstance(p, TokenSubsets)))
    counts = [part.count(sizes) for part in every]
    rows = max((min(number, count) + MORE for number in counts), default=0)
    case.check_memory(ring.size or 1, rows * max(map(len, defined.values()), default=0))


class Draw:
    """A random prime, a random point modulo it, and the echelon forms of Jacobians there."""

    def __init__(
        self, case: Case, observed: Mapping[str, tuple[MomentSet, ...]], rng: np.random.Generator
    ) -> None:
        self.rng = rng
        self.field = PrimeField(random_prime(rng))
        case.check_reading(rng, self.field)
        self.place = case.parameters.point(self.field, rng)
        self.echelons: dict[str, Echelon | None] = dict.fromkeys(observed)
        if not case.parameters.count:
            return
        every = [part for parts in observed.values() for part in parts]
        sketches = case.sketch(self.place, every, rng)
        for name, parts in observed.items():
            matrix = _joined([sketches[part] for part in parts], self.field, rng)
            self.echelons[name] = echelon(matrix, self.field)

    def rank(self, name: str) -> int:
        """The rank of the Jacobian of an observation function."""
        reduced = self.echelons[name]
        return 0 if reduced is None else reduced.rank


def undefined(case: Case, name: str, query: str | None) -> Identification:
    """The result for a case before anything is computed."""
    return Identification(
        grammar=case.name,
        query=query,
        lengths=case.lengths,
        sizes=size_values(case.grammar),
        observed=name,
        parameters=case.parameters.count,
        moments=0,
        rank=None,
        verdict="undefined",
    )


class _More:
    """Results besides the rank: the one in float64, and why a model is not identifiable."""

    def __init__(self, case: Case, parts: Sequence[MomentSet], seed: int, wanted: Wanted) -> None:
        self.case = case
        self.parts = parts
        self.wanted = wanted
        self.undetermined: tuple[str, ...] = ()
        self.deficiency: int | None = None
        self.gauges: tuple[Gauge, ...] = ()
        self.opinion: SingularSpace | None = None
        if wanted.second:
            self.opinion = second_opinion(case, parts, seed)

    def explain(self, draw: Draw, name: str) -> None:
        """Find the undetermined factors, the deficiency of whole strings, and gauges."""
        case, field, reduced = self.case, draw.field, draw.echelons[name]
        assert reduced is not None
        count = case.parameters.count
        self.undetermined = undetermined(case.parameters, reduced)
        whole = KeptTokens(tuple(range(len(case.tokens))))
        words = case.sentence(field).kept([(whole, count + MORE)], field, draw.rng)
        rows = case.jacobian(draw.place, PLAIN, words)[:, 0]
        self.deficiency = count - echelon(rows, field).rank
        if self.deficiency:
            self.gauges = gauges(case.grammar, draw.place, rows)

    def directions(self, rank: int) -> tuple[Direction, ...]:
        """A basis of the null directions."""
        count = self.case.parameters.count
        if self.opinion is None or not self.wanted.null or rank == count:
            return ()
        if (count - rank) * count > MAX_DIRECTIONS:
            return ()
        return directions(self.opinion, self.case.parameters, rank)


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


def error_of_no(case: Case, parts: Sequence[MomentSet], primes: Sequence[int]) -> float:
    """How probable it is, at most, that all ranks modulo these primes are below the generic one.

    Take a minor that is not zero as a polynomial with whole coefficients. Its degree is at most
    n (degree of Z + order of the functionals), so it is zero at a random point of GF(p) with
    probability n · degree / p at most [Schwartz, Zippel]. A coefficient of it is below
    (degree · size of Z)^n, so few of the primes between 2^30 and 2^31 divide it. The primes and
    the points are independent of each other.
    """
    count = case.parameters.count
    order = max(
        (len(p.tokens) if isinstance(p, KeptTokens) else p.order + 2 * p.along) for p in parts
    )
    degree = case.degree + order + 1
    bits = count * (log2(degree) + case.bits + case.bits_of_moments(parts))
    once = count * degree / LOW + bits / log2(LOW) / PRIMES
    return float(min(1.0, once) ** len(primes))
