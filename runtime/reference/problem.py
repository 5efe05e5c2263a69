"""A recursive component as a fixed-point problem x = F(x) over the cells of its nonterminals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.grammar.domains import select
from fgg.runtime.interpret.semirings import Letters
from fgg.runtime.interpret.semirings.base import Array, TensorLike
from fgg.runtime.interpret.semirings.exact import Objects
from fgg.runtime.reference.chart import ValueChart, Weights
from fgg.runtime.reference.evaluate import Lookup, embed, term_value, unique
from fgg.runtime.reference.system import Component, System, Term

Vector = TypeVar("Vector", bound=TensorLike)
Scale = Callable[[Term, Array], Array]
Entries = tuple[NDArray[np.intp], NDArray[np.intp], Array]
"""Rows, columns and values of some entries of a matrix over cells."""


class Problem(Generic[Array]):
    """F and its derivative in one semiring; x is a vector `[cells]` over the component's cells.

    `scale` multiplies the value of a term by a factor of its own.
    """

    def __init__(
        self,
        system: System,
        component: Component,
        weights: Weights[Array],
        chart: ValueChart[Array],
        scale: Scale[Array] | None = None,
    ) -> None:
        self.scale = scale
        self.system = system
        self.component = component
        self.weights = weights
        self.semiring = weights.semiring
        self.chart = chart
        self.names = component.nonterminals
        self.offsets: dict[str, int] = {}
        total = 0
        for name in self.names:
            self.offsets[name] = total
            total += system.cells(name)
        self.size = total
        self.rounding = 8e-16
        """The approximate relative error of a value of F."""

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """All terms of the component."""
        return tuple(t for name in self.names for t in self.system.terms_of[name])

    def vector(self, x: NDArray[np.float64]) -> Array:
        """Values of all cells, as `apply` and `derivative` take them."""
        return self.semiring.convert(x)

    def scaled(self, value: Array, term: Term) -> Array:
        """A term's value times its factor."""
        return value if self.scale is None else self.scale(term, value)

    def slice(self, x: Vector, name: str) -> Vector:
        """A nonterminal's part of a vector, in its own shape."""
        start = self.offsets[name]
        return x[start : start + self.system.cells(name)].reshape(self.system.shapes[name])

    def look_up(self, x: Array) -> Lookup[Array]:
        """A function from nonterminals to values: those of `x`, or of the chart."""
        parts = {name: self.slice(x, name) for name in self.names}
        return lambda name: parts[name] if name in parts else self.chart.get(name)

    def apply(self, x: Array) -> Array:
        """F(x)."""
        look_up = self.look_up(x)
        vectors = []
        for name in self.names:
            shape = self.system.shapes[name]
            parts = []
            for term in self.system.terms_of[name]:
                value = self.scaled(term_value(self.weights, term, look_up), term)
                value = embed(self.semiring, value.reshape((1, *value.shape)), term.out, shape)
                parts.append(([0], value))
            vectors.append(self.semiring.accumulate(parts, (1, *shape)).reshape((-1,)))
        return self.semiring.concatenate(vectors)

    def inner(self, term: Term) -> list[int]:
        """The positions of a term's operands that belong to the component."""
        return [i for i, o in enumerate(term.operands) if o.nonterminal and o.label in self.offsets]

    def derivative(self, x: Array) -> list[Entries[Array]]:
        """The entries of dF/dx: rows, columns and values, to be added up."""
        look_up = self.look_up(x)
        triples = []
        for term in self.terms:
            for position in self.inner(term):
                operand = term.operands[position]
                out = unique((*term.out, *operand.letters))
                value = term_value(self.weights, term, look_up, out=out, without=position)
                none = ((),) * len(term.out)
                rows = self.positions(term, term.head, term.out, none, out)
                columns = self.positions(term, operand.label, operand.letters, operand.paths, out)
                entries = np.flatnonzero(columns >= 0)
                flat = self.scaled(value.reshape((-1,)), term)
                if len(entries) < columns.size:
                    flat = self.semiring.take(flat, entries.tolist())
                triples.append((rows[entries], columns[entries], flat))
        return triples

    def positions(
        self,
        term: Term,
        name: str,
        letters: Letters,
        paths: Sequence[tuple[str, ...]],
        out: Letters,
    ) -> NDArray[np.intp]:
        """For each assignment of `out`, the cell of a nonterminal that it selects, or -1."""
        shape = tuple(term.sizes[a] for a in out)
        total: NDArray[np.intp] = np.full(shape, self.offsets[name], dtype=np.intp)
        outside = np.zeros(shape, dtype=bool)
        stride = 1
        for letter, path, extent in reversed(
            list(zip(letters, paths, self.system.shapes[name], strict=True))
        ):
            domain = term.rule.rhs.nodes[letter].domain
            inner = [
                select(self.system.grammar, domain, path, v) for v in range(term.sizes[letter])
            ]
            values = np.array([-1 if v is None else v for v in inner], dtype=np.intp)
            along = [1] * len(out)
            along[out.index(letter)] = len(values)
            total = total + stride * values.reshape(along)
            outside |= values.reshape(along) < 0
            stride *= extent
        return np.where(outside, -1, total).reshape(-1)


AnyProblem = Problem[Any]
"""A problem in a semiring that is chosen at run time."""


class _UnitProblem(Problem[Array]):
    """A problem whose cells have units of their own: F and its derivative for y, where x = e^u y.

    `units` are the logarithms u, `[cells]`. With the logarithm of the weight of a cell's best
    derivation as its unit, no coefficient is greater than 1 and no y that is not 0 is less: nothing
    that counts leaves the range of float64.
    """

    def __init__(
        self,
        system: System,
        component: Component,
        weights: Weights[Array],
        chart: ValueChart[Array],
        units: NDArray[np.float64],
        scale: Scale[Array] | None = None,
    ) -> None:
        super().__init__(system, component, weights, chart, scale)
        # Logarithms of this size are added up, and their rounding is that of the values.
        self.rounding *= max(1.0, float(np.abs(units).max(initial=0.0)))
        self.units = self.unit_vector(units)

    def unit_vector(self, units: NDArray[np.float64]) -> Array:
        """The units as this problem computes with them."""
        return self.semiring.convert_logs(units)


class LogUnitProblem(_UnitProblem[Tensor]):
    """Weights and values are logarithms; y has real numbers."""

    def unit_vector(self, units: NDArray[np.float64]) -> Tensor:
        """The logarithms themselves."""
        return torch.as_tensor(units)

    def vector(self, x: NDArray[np.float64]) -> Tensor:
        """Values of all cells, as `apply` and `derivative` take them."""
        return torch.as_tensor(x)

    def apply(self, x: Tensor) -> Tensor:
        """F(x)."""
        return (super().apply(self.semiring.convert(x) + self.units) - self.units).exp()

    def derivative(self, x: Tensor) -> list[Entries[Tensor]]:
        """The entries of dF/dx: rows, columns and values, to be added up."""
        units = self.units
        triples = super().derivative(self.semiring.convert(x) + units)
        return [(r, c, (values + units[c] - units[r]).exp()) for r, c, values in triples]


class PreciseUnitProblem(_UnitProblem[Objects]):
    """Weights and values are numbers of any size, and so are the units."""

    def apply(self, x: Objects) -> Objects:
        """F(x)."""
        return np.asarray(super().apply(x * self.units) / self.units)

    def derivative(self, x: Objects) -> list[Entries[Objects]]:
        """The entries of dF/dx: rows, columns and values, to be added up."""
        units = self.units
        triples = super().derivative(x * units)
        return [(r, c, np.asarray(values * units[c] / units[r])) for r, c, values in triples]
