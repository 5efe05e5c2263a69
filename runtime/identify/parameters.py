"""The free parameters of a grammar, and how the factors of a plan follow from them.

A leaf is a table of distributions: a normalised factor, or a piece of one of declared rank. Its
coordinates are all entries of a distribution but the last, which is one minus the others. Valued
and frozen factors are constant; others are products of leaves, or stationary distributions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import lcm, prod

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.pieces import given_pieces, signatures
from fgg.grammar import Factor, Grammar
from fgg.grammar.definitions import ProductOf, Slice, Tied
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.values import Map, Word
from fgg.runtime.identify.algebra import FUNCTIONAL, TARGET, JetAlgebra
from fgg.runtime.identify.fields import Field, RealField
from fgg.runtime.identify.jets import Ring
from fgg.runtime.interpret.algebra import Named, Product
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.program.bind import value_of


@dataclass(frozen=True)
class FreeTable:
    """A table of distributions: `rows` of them, over `columns` values each."""

    name: str
    factor: str
    shape: tuple[int, ...]
    given: int
    frozen: bool
    zeros: frozenset[tuple[int, ...]] = frozenset()
    """The entries that stay zero."""

    @cached_property
    def mask(self) -> Tensor:
        """Which entries are not zeros."""
        mask = torch.ones(self.shape, dtype=torch.bool)
        for index in self.zeros:
            mask[index] = False
        return mask

    @cached_property
    def lasts(self) -> Tensor:
        """The flat number of the last entry of each distribution that is not a zero."""
        columns = torch.arange(self.columns) * self.mask.reshape(self.rows, self.columns)
        return columns.max(1).values + torch.arange(self.rows) * self.columns

    @cached_property
    def entries(self) -> tuple[Tensor, Tensor]:
        """The flat number of the entry of each coordinate, and of the last of its distribution."""
        kept = self.mask.reshape(-1).clone()
        kept[self.lasts] = False
        free = torch.nonzero(kept)[:, 0]
        return free, self.lasts[free // self.columns]

    @property
    def rows(self) -> int:
        """How many distributions there are."""
        return prod(self.shape[: self.given])

    @property
    def columns(self) -> int:
        """How many values each of them is over."""
        return prod(self.shape[self.given :])

    @property
    def coordinates(self) -> int:
        """How many numbers describe the table."""
        return 0 if self.frozen else prod(self.shape) - len(self.zeros) - self.rows


@dataclass(frozen=True)
class FixedTable:
    """A factor whose values are given, as fractions."""

    values: NumpyArray


@dataclass(frozen=True)
class Multiplied:
    """A factor that is a product of others, summed over the axes that it lacks."""

    operands: tuple[tuple[str, tuple[str, ...]], ...]
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Stationary:
    """The stationary distribution of another factor."""

    source: str


Source = FreeTable | FixedTable | Multiplied | Stationary


@dataclass(frozen=True)
class Parameters:
    """The source of every factor; each factor follows from earlier ones alone."""

    sources: Mapping[str, Source]
    given: Mapping[str, NumpyArray] | None = None
    """The tables of the only point that is of interest, as fractions; None: of any point."""

    @property
    def bits(self) -> float:
        """A bound of log2 of the common denominator of a given point's distributions."""
        if self.given is None:
            return 0.0
        tables = (np.asarray(table, dtype=object).flat for table in self.given.values())
        return float(sum(x.denominator.bit_length() for table in tables for x in table))

    @property
    def leaves(self) -> tuple[FreeTable, ...]:
        """The leaves that are free."""
        leaves = (s for s in self.sources.values() if isinstance(s, FreeTable))
        return tuple(leaf for leaf in leaves if not leaf.frozen)

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return sum(leaf.coordinates for leaf in self.leaves)

    def degree(self, name: str) -> int:
        """A bound of the degree of a factor in the coordinates, denominators cleared."""
        source = self.sources[name]
        if isinstance(source, FreeTable):
            return 0 if source.frozen else 1
        if isinstance(source, FixedTable):
            return 0
        if isinstance(source, Multiplied):
            return sum(self.degree(operand) for operand, _ in source.operands)
        leaf = self.sources[source.source]
        size = leaf.shape[0] if isinstance(leaf, FreeTable) else len(self.sources)
        return 2 * size * self.degree(source.source)

    def coefficient_sums(self) -> dict[str, Tensor]:
        """Bounds of the sums of the absolute coefficients of every factor's entries.

        Entries are polynomials in the coordinates, denominators cleared: the last of a
        distribution is one minus the others.
        """
        sums: dict[str, Tensor] = {}
        for name, source in self.sources.items():
            if isinstance(source, FreeTable):
                table = torch.ones(source.rows, source.columns, dtype=torch.float64)
                table[:, -1] = source.columns
                sums[name] = table.reshape(source.shape)
            elif isinstance(source, FixedTable):
                values = np.asarray(source.values, dtype=object)
                common = lcm(*(Fraction(value).denominator for value in values.flat))
                whole = np.frompyfunc(lambda value, by=common: float(abs(value * by)), 1, 1)
                sums[name] = torch.from_numpy(np.asarray(whole(values), dtype=np.float64))
            elif isinstance(source, Multiplied):
                product = _multiplied(RealField(), source, sums).result
                sums[name] = _ordered(product, source.axes)
            else:
                # Cofactors of the system, products of sums over its rows, times their sum.
                size = sums[source.source].shape[0]
                row = float(sums[source.source].sum(0).max()) + 1
                cofactor = torch.full((size,), row, dtype=torch.float64) ** (size - 1)
                sums[name] = 2 * size * cofactor * cofactor
        return sums

    def tables(self, coordinates: Tensor) -> dict[str, Tensor]:
        """The leaves at some coordinates, in float64."""
        tables: dict[str, Tensor] = {}
        first = 0
        for leaf in self.leaves:
            flat = torch.zeros(prod(leaf.shape), dtype=torch.float64)
            flat[leaf.entries[0]] = coordinates[first : first + leaf.coordinates]
            first += leaf.coordinates
            flat[leaf.lasts] = 1.0 - flat.reshape(leaf.rows, leaf.columns).sum(1)
            tables[leaf.name] = flat.reshape(leaf.shape)
        return tables

    def coordinates(self, tables: Mapping[str, Tensor]) -> Tensor:
        """The coordinates of leaves."""
        return torch.cat([tables[leaf.name].reshape(-1)[leaf.entries[0]] for leaf in self.leaves])

    def point(self, field: Field, rng: np.random.Generator) -> ParameterPoint:
        """A random point, or the given one: tables, and the factors that follow from them."""
        if self.given is not None:
            return self.at(field, {name: field.convert(t) for name, t in self.given.items()})
        tables = {
            name: field.distribution(
                source.rows, source.columns, rng, source.mask.reshape(source.rows, source.columns)
            ).reshape(source.shape)
            for name, source in self.sources.items()
            if isinstance(source, FreeTable)
        }
        return self.at(field, tables)

    def at(self, field: Field, tables: Mapping[str, Tensor]) -> ParameterPoint:
        """The point with these tables of distributions; other factors follow from them."""
        arrays: dict[str, Tensor] = {}
        solved: dict[str, Tensor] = {}
        for name, source in self.sources.items():
            if isinstance(source, FreeTable):
                arrays[name] = tables[name]
            elif isinstance(source, FixedTable):
                arrays[name] = field.convert(source.values)
            elif isinstance(source, Multiplied):
                arrays[name] = _ordered(_multiplied(field, source, arrays).result, source.axes)
            else:
                try:
                    solved[name] = field.inverse(_system(field, arrays[source.source]))
                except ZeroDivisionError:
                    refuse("F417", f"`{source.source}` has several stationary distributions")
                arrays[name] = solved[name][:, -1].clone()
        return ParameterPoint(self, field, arrays, solved)


@dataclass(frozen=True)
class ParameterPoint:
    """Values of all factors at a point, and inverses of the systems of stationary ones."""

    parameters: Parameters
    field: Field
    arrays: Mapping[str, Tensor]
    solved: Mapping[str, Tensor]

    def rows(self, gradients: Mapping[str, Tensor]) -> Tensor:
        """Derivatives `[batch, target, *shape]` by factors as rows over the coordinates.

        Derivatives by a factor that follows from others are first passed on to those.
        """
        total = {name: array for name, array in gradients.items()}
        for name, source in reversed(list(self.parameters.sources.items())):
            slope = total.get(name)
            if slope is None:
                continue
            slope = self.field.reduce(slope)
            if isinstance(source, Multiplied):
                product = _multiplied(self.field, source, self.arrays)
                gradient = Named(slope, (FUNCTIONAL, TARGET, *source.axes))
                slopes = product.gradients(gradient, range(len(source.operands)))
                for number, (operand, axes) in enumerate(source.operands):
                    extra = _ordered(slopes[number], (FUNCTIONAL, TARGET, *axes))
                    total[operand] = total[operand] + extra if operand in total else extra
            elif isinstance(source, Stationary):
                extra = self._through(name, source.source, slope)
                before = total.get(source.source)
                total[source.source] = extra if before is None else before + extra
        columns = []
        for leaf in self.parameters.leaves:
            slope = total[leaf.name]
            table = slope.reshape(*slope.shape[:2], -1)
            free, last = leaf.entries
            columns.append(self.field.reduce(table[..., free] - table[..., last]))
        return torch.cat(columns, dim=2)

    def _through(self, name: str, source: str, gradient: Tensor) -> Tensor:
        """Through π = S⁻¹ e, where S is Aᵀ - I with a last row of ones: dπ = -S⁻¹ dS π."""
        inverse, pi = self.solved[name], self.arrays[name]
        dual = self.field.matmul(gradient, inverse)
        dual[..., -1] = 0.0
        # By A[j, i], which stands at S[i, j]: -(S⁻ᵀ g)_i π_j.
        product = self.field.multiply(pi.reshape(-1, 1), dual.unsqueeze(-2))
        return -product


def _multiplied(field: Field, source: Multiplied, arrays: Mapping[str, Tensor]) -> Product[Tensor]:
    algebra = JetAlgebra(field, Ring(((0, 0),)))
    operands = [Named(arrays[name], axes) for name, axes in source.operands]
    return Product(algebra, operands, (), source.axes)


def _ordered(value: Named[Tensor], dims: tuple[str, ...]) -> Tensor:
    return value.array.permute([value.dims.index(d) for d in dims])


def _system(field: Field, transition: Tensor) -> Tensor:
    size = transition.shape[0]
    matrix = field.reduce(transition.T - torch.eye(size, dtype=torch.float64))
    matrix[-1] = 1.0
    return matrix


Zeros = Mapping[str, frozenset[tuple[int, ...]]]
"""The entries of factors that stay zero."""


def parameters_of(grammar: Grammar, zeros: Zeros | None = None) -> tuple[Parameters, list[str]]:
    """The parameters of the factors that a grammar's rules use, and those without an arrow.

    Requires a grammar without queries. Factors of declared rank have their pieces.
    """
    return _Finder(grammar, zeros or {}).run()


def zeros_of(grammar: Grammar, name: str) -> frozenset[tuple[int, ...]]:
    """The entries that the value of a factor has at zero. Requires that it has a value."""
    return _zeros(value_of(grammar, name, exactly=True))


def _zeros(table: NumpyArray) -> frozenset[tuple[int, ...]]:
    return frozenset(tuple(map(int, index)) for index in np.argwhere(np.asarray(table) == 0))


def with_point(parameters: Parameters, weights: Mapping[str, NumpyArray]) -> Parameters:
    """The parameters at a given point alone, where entries that are zero stay zero.

    Each distribution is divided by its sum, exactly. Raises GrammarError (F416, F417).
    """
    sources: dict[str, Source] = dict(parameters.sources)
    given: dict[str, NumpyArray] = {}
    for name, leaf in parameters.sources.items():
        if not isinstance(leaf, FreeTable):
            continue
        if name not in weights:
            refuse("F416", f"the weights of `{name}` are not given")
        table = np.asarray(weights[name])
        if table.shape != leaf.shape:
            refuse("F417", f"`{name}` has the shape {list(table.shape)}, not {list(leaf.shape)}")
        if not (np.isfinite(table.astype(float)) & (table >= 0)).all():
            refuse("F417", f"`{name}` has weights that are negative or not finite")
        exact = np.frompyfunc(Fraction, 1, 1)(table.astype(object)).reshape(leaf.rows, -1)
        sums = exact.sum(axis=1)
        if not all(sums) or max(abs(float(total) - 1) for total in sums) > 1e-4:
            refuse("F417", f"a distribution of `{name}` does not sum to one")
        given[name] = (exact / sums[:, None]).reshape(leaf.shape)
        sources[name] = replace(leaf, zeros=leaf.zeros | _zeros(table))
    return Parameters(sources, given)


class _Finder:
    def __init__(self, grammar: Grammar, zeros: Zeros) -> None:
        self.grammar = grammar
        self.zeros = zeros
        self.sources: dict[str, Source] = {}
        self.bad: list[str] = []
        self.pieces = given_pieces(grammar)

    def run(self) -> tuple[Parameters, list[str]]:
        used = {edge.label for rule in self.grammar.rules for edge in rule.rhs.edges}
        for factor in self.grammar.factors:
            if factor.name in used:
                self.visit(factor)
        return Parameters(self.sources), self.bad

    def shape(self, factor: Factor) -> tuple[int, ...]:
        return tuple(domain_size(self.grammar, d) for d in factor.domains)

    def visit(self, factor: Factor) -> None:
        """Record the source of a factor, after those of the factors that it follows from."""
        if factor.name in self.sources:
            return
        definition = factor.definition
        if isinstance(definition, Slice):
            # The plan cuts it out of its source.
            self.visit(self.grammar.factor[definition.source])
            return
        if isinstance(factor.value, Map):
            return  # the plan makes it
        if factor.blocks is not None:
            self.bad.append(factor.name)  # its rows are several distributions each
            return
        if factor.value is not None:
            self.sources[factor.name] = FixedTable(
                value_of(self.grammar, factor.name, exactly=True)
            )
        elif factor.rank is not None and factor.name in self.pieces:
            self.decomposed(factor)
        elif isinstance(definition, ProductOf):
            axes = tuple(f"x{i}" for i in range(len(factor.domains)))
            operands = []
            for part in definition.parts:
                self.visit(self.grammar.factor[part.source])
                operands.append((part.source, tuple(axes[i] for i in part.axes)))
            self.sources[factor.name] = Multiplied(tuple(operands), axes)
        elif isinstance(definition, Tied):
            self.visit(self.grammar.factor[definition.source])
            self.sources[factor.name] = Stationary(definition.source)
        else:
            self.leaf(factor.name, factor, self.shape(factor), factor.given)

    def leaf(self, name: str, factor: Factor, shape: tuple[int, ...], given: int | None) -> None:
        word = factor.attribute("frozen")
        frozen = isinstance(word, Word) and word.name == "yes"
        if given is None and not frozen:
            self.bad.append(factor.name)
        zeros = self.zeros.get(name, frozenset())
        self.sources[name] = FreeTable(name, factor.name, shape, given or 0, frozen, zeros)

    def decomposed(self, factor: Factor) -> None:
        """The pieces of a factor of declared rank, and the factor as their product."""
        assert factor.rank is not None
        rank = factor.rank.evaluate(size_values(self.grammar))
        assert rank is not None
        names = self.pieces[factor.name]
        given = factor.given or 0
        axes = tuple(f"x{i}" for i in range(len(factor.domains)))
        operands = []
        for number, signature in enumerate(signatures(factor, "")):
            shape = tuple(domain_size(self.grammar, d) if d else rank for d in signature.domains)
            self.leaf(names[number], factor, shape, signature.given)
            piece_axes = (*axes[:given], "q") if number == 0 else ("q", axes[given + number - 1])
            operands.append((names[number], piece_axes))
        self.sources[factor.name] = Multiplied(tuple(operands), axes)
