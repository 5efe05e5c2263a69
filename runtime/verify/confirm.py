"""A second evaluation of the source, independent of the reference engine's numerics.

Values have 320 binary digits and exponents of any size. Recursions are iterated from 0, and
derivatives are differences. This is slow, but a number on which both evaluations agree refutes a
program that has another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fgg.grammar import Attachment, Edge, Factor, Fragment, Grammar
from fgg.grammar.definitions import Piece
from fgg.grammar.names import fresh
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.interpret.semirings.exact import Objects, Precise
from fgg.runtime.program.bind import Logs, bind_with_logs
from fgg.runtime.reference.chart import ValueChart, Weights
from fgg.runtime.reference.problem import Problem
from fgg.runtime.reference.system import system_of
from fgg.runtime.verify.compared_sides import GroundSide
from fgg.runtime.verify.items import Item
from fgg.runtime.verify.points import FreeWeights, WeightPoint

MAX_ROUNDS = 3000
"""The most iterations of a recursion; one that does not settle stays undecided."""
BigFloat = Any
"""A number of mpmath, which has no types, or None."""
STEP = 2.0**-16
"""The relative change of a weight over which differences are taken; so is its half."""


def log_value(flat: Grammar, weights: Mapping[str, NumpyArray | Logs]) -> float | None:
    """log Z of a finite grammar; None where a recursion does not settle."""
    log_z = _log_z(flat, weights)
    return None if log_z is None else float(log_z)


def _log_z(flat: Grammar, weights: Mapping[str, NumpyArray | Logs]) -> BigFloat:
    ring = Precise()
    system = system_of(flat)
    values = Weights(flat, ring, bind_with_logs(flat, weights))
    chart = ValueChart(ring)
    for component in system.components:
        problem = Problem(system, component, values, chart)
        x = problem.apply(ring.full((problem.size,), one=False))
        if component.recursive:
            settled = _iterated(problem, x)
            if settled is None:
                return None
            x = settled
        for name in component.nonterminals:
            chart.add([name], np.asarray(problem.slice(x, name), dtype=object)[None])
    total = np.sum(chart.get(flat.start.label))
    return ring.context.log(total) if total else ring.context.mpf("-inf")


def _iterated(problem: Problem[Objects], x: Objects) -> Objects | None:
    """The fixed point of a recursion, `[cells]`, from a first value; None if it does not settle."""
    ring = problem.semiring
    assert isinstance(ring, Precise)
    small = ring.context.mpf(2) ** -60
    for _ in range(MAX_ROUNDS):
        following: NumpyArray = problem.apply(x)
        pairs = zip(following, x, strict=True)
        if all(new - old <= small * new for new, old in pairs):
            return following
        x = following
    return None


class SecondEvaluation:
    """A source's numbers at a point of weights, evaluated once more."""

    def __init__(self, source: GroundSide, free: FreeWeights, point: WeightPoint) -> None:
        self.source = source
        self.free = free
        self.point = point

    def flat(self, item: Item) -> Grammar:
        """The ground grammar of an item."""
        flat = self.source.flat(item)
        assert flat is not None
        return flat

    def log_z(self, item: Item) -> float | None:
        """log Z of an item."""
        flat = self.flat(item)
        return log_value(flat, self.point.weights(flat))

    def uses(self, item: Item, factor: Factor, place: tuple[int, ...]) -> float | None:
        """How often an entry of a program's factor is expected to be used."""
        flat = self.flat(item)
        piece = factor.definition
        key = (piece.source, piece.number) if isinstance(piece, Piece) else (factor.name, None)

        def weights(change: float) -> dict[str, NumpyArray]:
            if key in self.point.leaves:
                array = _changed(self.point.leaves[key], place, change)
                moved = self.free.point({**self.point.leaves, key: array})
                return moved.weights(flat)
            given = self.point.weights(flat)
            return {**given, factor.name: _changed(given[factor.name], place, change)}

        return self.slope(lambda change: _log_z(flat, weights(change)))

    def potential(
        self, item: Item, label: str, log: NumpyArray, place: tuple[int, ...]
    ) -> float | None:
        """How often an entry of log-potentials is expected to be used, by its ground factor."""
        flat = self.flat(item)
        weights = self.point.weights(flat)

        def moved(change: float) -> BigFloat:
            logs = np.array(log, dtype=float)
            logs[place] += np.log1p(change)
            return _log_z(flat, {**weights, label: Logs(logs)})

        return self.slope(moved) if label in flat.factor else 0.0

    def cell(
        self, item: Item, family: str, index: Sequence[int], state: tuple[int, ...]
    ) -> float | None:
        """How often a cell of a family is expected to be rewritten with these values."""
        flat = self.flat(item)
        names = (
            x.name
            for x in flat.nonterminals
            if (x.origin or (x.name, ())) == (family, tuple(index))
        )
        name = next(names, None)
        if name is None:
            return 0.0
        domains = flat.nonterminal[name].domains
        label = fresh("tilt", flat.factor)
        tilted = replace(
            flat,
            factors=(*flat.factors, Factor(name=label, domains=domains)),
            rules=tuple(
                replace(
                    rule,
                    rhs=Fragment.make(
                        rule.rhs.nodes,
                        (
                            *rule.rhs.edges,
                            Edge(
                                label=label,
                                attachments=tuple(Attachment(node=n) for n in rule.rhs.externals),
                            ),
                        ),
                        (),
                        rule.rhs.externals,
                    ),
                )
                if rule.lhs == name
                else rule
                for rule in flat.rules
            ),
        )
        weights = self.point.weights(flat)
        ones = np.ones(system_of(flat).shapes[name])
        return self.slope(
            lambda change: _log_z(tilted, {**weights, label: _changed(ones, state, change)})
        )

    def slope(self, log_z: Callable[[float], BigFloat]) -> float | None:
        """The derivative of log Z in the logarithm of a weight, by extrapolated differences.

        `log_z` is its value where the weight is greater by a relative number.
        """
        slopes = []
        for step in (STEP, STEP / 2):
            ends = [log_z(step), log_z(-step)]
            if any(end is None for end in ends):
                return None
            slopes.append((ends[0] - ends[1]) / (2 * step))
        return float((4 * slopes[1] - slopes[0]) / 3)


def _changed(array: NumpyArray, place: tuple[int, ...], change: float) -> NumpyArray:
    result = np.array(array, dtype=float)
    result[place] *= 1 + change
    return result
