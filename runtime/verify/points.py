"""Points: values of the free weights of a grammar, in a prime field or as real numbers.

A factor of declared rank is the product of its pieces, so a point has the pieces; a grammar that
has the factor whole gets the product. So the same point gives weights to a grammar and to all that
the compiler makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from fgg.diagnostics import refuse
from fgg.factors.pieces import pieces, signatures
from fgg.grammar import Factor, Grammar
from fgg.grammar.definitions import InputEvidence, Piece, ProductOf, Slice
from fgg.grammar.domains import domain_size, size_values
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.program.bind import product_of

Key = tuple[str, int | None]
"""A factor's name, and the number of its piece if it has pieces."""

KINDS = ("flat", "peaked", "zeros")
"""Real weights: of the same order, very different ones, and with a quarter of them zero."""
MAX_ENTRIES = 2_000_000
"""The most free weights that are drawn, as numbers of arbitrary size."""


@dataclass(frozen=True)
class FreeArray:
    """An array of free weights: a factor or a piece, with `given` axes left of the arrow."""

    key: Key
    shape: tuple[int, ...]
    given: int | None


@dataclass(frozen=True, eq=False)
class WeightPoint:
    """Values of all leaves; `wholes` are the products of those that are pieces."""

    leaves: Mapping[Key, NumpyArray]
    wholes: Mapping[str, NumpyArray]

    def weights(self, grammar: Grammar) -> dict[str, NumpyArray]:
        """The free weights of a grammar that its rules use, as `bind` takes them."""
        needed = _needed(grammar)
        weights: dict[str, NumpyArray] = {}
        for factor in grammar.factors:
            piece = factor.definition
            if isinstance(piece, Piece):
                weights[factor.name] = self.leaves[(piece.source, piece.number)]
            elif (factor.name, None) in self.leaves:
                weights[factor.name] = self.leaves[(factor.name, None)]
            elif factor.name in self.wholes and is_free(factor):
                piece_names = pieces(grammar, factor.name).values()
                if not any(name in needed for names in piece_names for name in names):
                    weights[factor.name] = self.wholes[factor.name]
        return weights


@dataclass(frozen=True)
class FreeWeights:
    """The free weights of grammars; `left` counts the nodes left of a decomposed factor's arrow."""

    items: tuple[FreeArray, ...]
    left: Mapping[str, int]

    def point(
        self,
        values: Mapping[Key, NumpyArray],
        reduce: Callable[[NumpyArray], NumpyArray] = lambda array: array,
    ) -> WeightPoint:
        """The point with these values; `reduce` brings products back into a field."""
        parts: dict[str, list[NumpyArray]] = {}
        for leaf in self.items:
            name, number = leaf.key
            if number is not None:
                parts.setdefault(name, []).append(values[leaf.key])
        wholes = {n: reduce(product_of(arrays, self.left[n])) for n, arrays in parts.items()}
        return WeightPoint(values, wholes)

    def ones(self) -> WeightPoint:
        """The point where every weight is one."""
        return self.point({leaf.key: np.ones(leaf.shape) for leaf in self.items})

    def in_field(self, prime: int, rng: np.random.Generator) -> WeightPoint:
        """A point of a prime field, each weight drawn uniformly from it."""
        return self.residues(
            {
                leaf.key: rng.integers(prime, size=leaf.shape, dtype=np.int64).astype(object)
                for leaf in self.items
            },
            prime,
        )

    def residues(self, values: Mapping[Key, NumpyArray], prime: int) -> WeightPoint:
        """The point of a prime field with these values."""
        return self.point(values, lambda array: np.asarray(array % prime, dtype=object))

    def times(self, point: WeightPoint, number: float) -> WeightPoint:
        """A point with all weights multiplied by a number."""
        return self.point({key: array * number for key, array in point.leaves.items()})

    def real(self, kind: str, rng: np.random.Generator) -> WeightPoint:
        """A point of real weights, normalised where an arrow says so; see `KINDS`."""
        return self.point({leaf.key: _real(leaf, kind, rng) for leaf in self.items})


def free_weights(*grammars: Grammar) -> FreeWeights:
    """The free weights of grammars that are to be compared. Raises GrammarError (F304, F420).

    Factors tied to others count as free: what holds for all values holds for tied ones.
    """
    by_key: dict[Key, FreeArray] = {}
    left: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    decomposed = {f.name for g in grammars for f in g.factors if f.rank is not None}
    for grammar in grammars:
        for factor in grammar.factors:
            if not is_free(factor):
                continue
            shape = tuple(domain_size(grammar, d) for d in factor.domains)
            if shapes.setdefault(factor.name, shape) != shape:
                message = f"factor `{factor.name}` has shape {shapes[factor.name]} and {shape}"
                refuse("F304", message)
            if factor.name in decomposed and factor.rank is None:
                continue  # another grammar says what its pieces are
            for leaf in _free_arrays(grammar, factor, shape):
                by_key.setdefault(leaf.key, leaf)
            left.setdefault(factor.name, factor.given or 0)
    total = sum(prod(leaf.shape) for leaf in by_key.values())
    total += sum(prod(shapes[name]) for name in decomposed if name in shapes)
    if total > MAX_ENTRIES:
        message = f"the grammar has {total:,} weights; {MAX_ENTRIES:,} can be compared"
        refuse("F420", message, "choose smaller sizes")
    return FreeWeights(tuple(by_key.values()), left)


def is_free(factor: Factor) -> bool:
    """Whether a factor's weights are not given, by a value, an input or another factor."""
    given = isinstance(factor.definition, Slice | Piece | ProductOf | InputEvidence)
    return factor.value is None and not given


def _free_arrays(grammar: Grammar, factor: Factor, shape: tuple[int, ...]) -> list[FreeArray]:
    if factor.rank is None:
        return [FreeArray((factor.name, None), shape, factor.given)]
    rank = factor.rank.evaluate(size_values(grammar))
    assert rank is not None
    result = []
    for number, signature in enumerate(signatures(factor, "")):
        extents = tuple(domain_size(grammar, d) if d else rank for d in signature.domains)
        result.append(FreeArray((factor.name, number), extents, signature.given))
    return result


def _needed(grammar: Grammar) -> set[str]:
    """The factors that rules use, and those that these follow from."""
    names = {edge.label for rule in grammar.rules for edge in rule.rhs.edges}
    while True:
        # A piece that is used says that the whole is not.
        more = {
            source
            for factor in grammar.factors
            if factor.name in names and not isinstance(factor.definition, Piece)
            for source in factor.sources
        }
        if more <= names:
            return names
        names |= more


def _real(leaf: FreeArray, kind: str, rng: np.random.Generator) -> NumpyArray:
    array = rng.uniform(0.05, 1.0, size=leaf.shape)
    if kind == "peaked":
        array = array**8
    if kind == "zeros":
        array = np.where(rng.random(leaf.shape) < 0.25, 0.0, array)
    if leaf.given is None:
        return array
    axes = tuple(range(leaf.given, len(leaf.shape)))
    # A distribution of which nothing is left is all on its first value.
    empty = array.sum(axis=axes, keepdims=True) == 0
    first = np.zeros(leaf.shape)
    first[(slice(None),) * leaf.given + (0,) * len(axes)] = 1.0
    array = np.where(empty, first, array)
    return np.asarray(array / array.sum(axis=axes, keepdims=True))
