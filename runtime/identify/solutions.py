"""How many points have the moments of a generic one: the moment equations from many starts.

From each start, Levenberg-Marquardt minimises the squared differences of all moments. Points that
agree with the moments are solutions; those with the same tables are one. A solution is a renaming
of another if permutations of the values of hidden domains lead from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from math import factorial, prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.progress import steps
from fgg.runtime.identify.curves import MomentMap, is_small
from fgg.runtime.identify.fields import RealField, one_thread
from fgg.runtime.identify.parameters import ParameterPoint
from fgg.runtime.identify.prepared_case import Question

Floats = NDArray[np.float64]
Tables = dict[str, Floats]

POINTS = 40
"""How many random points are drawn; the equations of the best conditioned one are solved."""
LEAST = 1e-7
"""With a singular value below this, float64 does not tell one solution from another."""
TOLERANCE = 1e-6
"""How far the moments of a solution may be from the wanted ones, by the least singular value."""
SAME = 1e-4
"""How far the tables of one solution may be apart."""
ITERATIONS = 200
MAX_RENAMINGS = 5040


@dataclass(frozen=True, eq=False)
class Solutions:
    """The points with the moments of a random point that were reached from many starts.

    `renamings` of them, the point itself included, differ by names of hidden values alone; `others`
    do not. `possible` is how many renamings there are; `missed` says how many starts ended at no
    solution. All weights are above zero.
    """

    starts: int
    missed: int
    renamings: int
    possible: int
    others: int
    tolerance: float
    tables: tuple[Tables, ...]

    def as_json(self) -> dict[str, object]:
        """The counts and the solutions as a JSON object."""
        return {
            "starts": self.starts,
            "missed": self.missed,
            "renamings": self.renamings,
            "possible": self.possible,
            "others": self.others,
            "tolerance": self.tolerance,
            "tables": [{n: a.tolist() for n, a in tables.items()} for tables in self.tables],
        }

    def lines(self) -> list[str]:
        """The counts as text."""
        ended = self.starts - self.missed
        many = f"{self.renamings} of {self.possible} renamings of hidden values"
        return [
            f"  solutions: {ended} of {self.starts} starts reached the moments of a random point "
            f"within {self.tolerance:.0e}",
            f"    these are {many}, the point itself included, and {self.others} others",
        ]


def solutions_of(question: Question, rank: int, starts: int) -> Solutions:
    """Solve the moment equations of a random point. Raises GrammarError."""
    if rank < question.parameters.count:
        refuse("F461", "the moments have infinitely many solutions", "ask for more moments")
    if not is_small(question):
        refuse(
            "F420",
            "there are too many moments or parameters to solve the moment equations",
            "choose smaller sizes or shorter strings",
        )
    with one_thread():
        return _Search(question).run(starts)


class _Search:
    """Solves the moment equations of one random point from many starts."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.rng = np.random.default_rng([question.seed, 7])
        self.moments = MomentMap(question, question.parameters.point(RealField(), self.rng))
        points = [question.parameters.point(RealField(), self.rng) for _ in range(POINTS)]
        leasts = [float(np.linalg.svd(self.moments.rows(x), compute_uv=False)[-1]) for x in points]
        least, place = max(leasts), points[int(np.argmax(leasts))]
        if least < LEAST:
            refuse("F461", f"the least singular value at {POINTS} random points is {least:.0e}")
        self.tolerance = min(max(TOLERANCE * least, 1e-14), 1e-10)
        self.wanted = self.moments.values(place)
        self.truth = self.tables(place)

    def run(self, starts: int) -> Solutions:
        """The solutions that are reached, sorted into renamings and others."""
        renamed = list(self.renamings())
        possible = _distinct(renamed)
        solutions: list[Tables] = [self.truth]
        missed = 0
        for _ in steps(range(starts), "start"):
            place = self.solved(self.question.parameters.point(RealField(), self.rng))
            if place is None:
                missed += 1
            elif not any(_equal(self.tables(place), other) for other in solutions):
                solutions.append(self.tables(place))
        names = [any(_equal(tables, other) for other in possible) for tables in solutions]
        others = [tables for tables, same in zip(solutions, names, strict=True) if not same]
        return Solutions(
            starts=starts,
            missed=missed,
            renamings=sum(names),
            possible=len(possible),
            others=len(others),
            tolerance=self.tolerance,
            tables=tuple(solutions),
        )

    def tables(self, place: ParameterPoint) -> Tables:
        """The free tables of a point."""
        return {x.name: place.arrays[x.name].numpy() for x in self.question.parameters.leaves}

    def solved(self, place: ParameterPoint) -> ParameterPoint | None:
        """The solution that Levenberg-Marquardt reaches from a start, by logits, or None."""
        residual = self.moments.values(place) - self.wanted
        damping = 1e-3
        for _ in range(ITERATIONS):
            if np.abs(residual).max() <= self.tolerance:
                return place
            rows = self.by_logits(place)
            square, slope = rows.T @ rows, rows.T @ residual
            scale = np.diag(np.diag(square) + 1e-9 * np.trace(square))
            while damping < 1e6:
                change = -np.linalg.solve(square + damping * scale, slope)
                moved = self.moved(place, np.clip(change, -3.0, 3.0))
                error = self.moments.values(moved) - self.wanted
                if error @ error < residual @ residual:
                    damping = max(damping / 10, 1e-12)
                    place, residual = moved, error
                    break
                damping *= 10
            else:
                return None
        return None

    def by_logits(self, place: ParameterPoint) -> Floats:
        """The Jacobian by the logarithms of all weights: they stay above zero in all steps."""
        rows = self.moments.rows(place)
        columns = []
        first = 0
        for leaf in self.question.parameters.leaves:
            table = place.arrays[leaf.name].reshape(leaf.rows, leaf.columns).numpy()
            wide = np.zeros((len(rows), table.size))
            wide[:, leaf.entries[0].numpy()] = rows[:, first : first + leaf.coordinates]
            first += leaf.coordinates
            wide = wide.reshape(len(rows), *table.shape)
            mean = (wide * table).sum(2, keepdims=True)
            columns.append((table * (wide - mean)).reshape(len(rows), -1))
        return np.concatenate(columns, axis=1)

    def moved(self, place: ParameterPoint, change: Floats) -> ParameterPoint:
        """The point whose weights have other logarithms."""
        tables: dict[str, Tensor] = {}
        first = 0
        for leaf in self.question.parameters.leaves:
            table = place.arrays[leaf.name].reshape(leaf.rows, leaf.columns).numpy()
            step = change[first : first + table.size].reshape(table.shape)
            first += table.size
            grown = np.maximum(table * np.exp(step), 1e-300 * (table > 0))
            grown = grown / grown.sum(axis=1, keepdims=True)
            tables[leaf.name] = torch.from_numpy(grown.reshape(leaf.shape))
        arrays = {**self.moments.base.arrays, **tables}
        return self.question.parameters.at(RealField(), arrays)

    def renamings(self) -> Iterator[Tables]:
        """The true tables with the values of hidden domains in every other order."""
        grammar = self.question.cases[0].grammar
        hidden = hidden_domains(self.question)
        sizes = [domain_size(grammar, name) for name in hidden]
        if prod(map(factorial, sizes)) > MAX_RENAMINGS:
            refuse("F420", "there are too many renamings of hidden values to compare with")
        for orders in product(*(permutations(range(size)) for size in sizes)):
            renamed = self.renamed(grammar, dict(zip(hidden, orders, strict=True)))
            place = self.moments.place(renamed)
            if np.abs(self.moments.values(place) - self.wanted).max() <= self.tolerance:
                yield self.tables(place)

    def renamed(self, grammar: Grammar, orders: dict[str, tuple[int, ...]]) -> Floats:
        """The coordinates of the true tables with the values of domains in another order."""
        tables: dict[str, Tensor] = {}
        for leaf in self.question.parameters.leaves:
            table = self.truth[leaf.name]
            for axis, domain in enumerate(grammar.factor[leaf.factor].domains):
                if domain in orders:
                    table = np.take(table, orders[domain], axis=axis)
            tables[leaf.name] = torch.from_numpy(np.ascontiguousarray(table))
        return self.question.parameters.coordinates(tables).numpy()


def hidden_domains(question: Question) -> tuple[str, ...]:
    """The domains of free tables that no input has; those of pieces are not counted."""
    grammar = question.cases[0].grammar
    observed = {item.domain for item in grammar.inputs}
    leaves = [leaf for leaf in question.parameters.leaves if leaf.name == leaf.factor]
    domains = dict.fromkeys(d for leaf in leaves for d in grammar.factor[leaf.factor].domains)
    return tuple(d for d in domains if d not in observed and domain_size(grammar, d) > 1)


def _equal(tables: Tables, others: Tables) -> bool:
    return all(float(np.abs(table - others[name]).max()) <= SAME for name, table in tables.items())


def _distinct(several: list[Tables]) -> list[Tables]:
    """Tables without repetitions."""
    distinct: list[Tables] = []
    for tables in several:
        if not any(_equal(tables, other) for other in distinct):
            distinct.append(tables)
    return distinct
