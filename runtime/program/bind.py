"""Factor names to arrays: given values, supplied weights, or random parameters.

Weights are probabilities or potentials; a semiring converts them. Arrays are float64, or exact
fractions (dtype object) where a semiring computes exactly. Weights that no float holds are given by
their logarithms.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgg.check.values import load_array
from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.factors.maps import groups, map_values
from fgg.factors.pieces import given_pieces, pieces, signatures
from fgg.factors.product_factors import multiplied
from fgg.grammar import Factor, Grammar
from fgg.grammar.definitions import InputEvidence, Piece, ProductOf, Slice
from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.memo import per_grammar
from fgg.grammar.slices import steps, take
from fgg.grammar.values import (
    MAX_LOG,
    Constant,
    Exp,
    Eye,
    Load,
    Map,
    Sparse,
    Table,
    Uniform,
    exact,
)
from fgg.runtime.interpret.semirings.base import exponentials
from fgg.runtime.reference.exact_linear import Singular
from fgg.runtime.stationary_distribution import stationary

Array = NDArray[Any]

MAX_ENTRIES = 2**28


@dataclass(frozen=True, eq=False)
class Logs:
    """Weights by their logarithms, an array or a tensor; -inf stands for 0."""

    array: Any


def bind(
    grammar: Grammar,
    supplied: Mapping[str, object] | None = None,
    *,
    seed: int | None = None,
    exactly: bool = False,
    only: Collection[str] | None = None,
) -> dict[str, Array]:
    """The weights of every factor that a rule uses, or of those in `only`.

    `supplied` weights come first, then values in the grammar; with a `seed` the factors that are
    left get random parameters, normalised where an arrow says so. Raises GrammarError for what
    is missing or does not fit, and for logarithms whose exponentials floats cannot hold.
    """
    binder = _Binder(grammar, dict(supplied or {}), seed, exactly, only)
    weights = binder.run()
    real = {n: binder.real(n, w) if isinstance(w, Logs) else w for n, w in weights.items()}
    binder.raise_problems()
    return real


def bind_with_logs(
    grammar: Grammar,
    supplied: Mapping[str, object] | None = None,
    *,
    seed: int | None = None,
    exactly: bool = False,
) -> dict[str, Array | Logs]:
    """As `bind`, but weights given by their logarithms stay logarithms."""
    return _Binder(grammar, dict(supplied or {}), seed, exactly).run()


def value_of(grammar: Grammar, name: str, *, exactly: bool = False) -> Array:
    """The value that a grammar gives for a factor. Requires that it has one."""
    binder = _Binder(grammar, {}, None, exactly)
    factor = grammar.factor[name]
    shape = binder.shape(factor)
    if prod(shape) > MAX_ENTRIES:
        message = f"factor `{name}` has {prod(shape):,} entries"
        refuse("F420", message)
    value = binder.value(factor, shape)
    real = binder.real(name, value) if isinstance(value, Logs) else value
    binder.raise_problems()
    return real


class _Binder:
    def __init__(
        self,
        grammar: Grammar,
        supplied: dict[str, object],
        seed: int | None,
        exactly: bool,
        only: Collection[str] | None = None,
    ) -> None:
        self.grammar = grammar
        self.only = only
        self.supplied = supplied
        self.generator = None if seed is None else np.random.default_rng(seed)
        self.exactly = exactly
        self.problems: list[Diagnostic] = []
        self.bound: dict[str, Array | Logs] = {}
        self.drawn: dict[str, list[Array]] = {}

    def run(self) -> dict[str, Array | Logs]:
        grammar = self.grammar
        self.join_pieces()
        for name in self.supplied:
            if name not in grammar.factor:
                self.fail(
                    "F417",
                    f"weights are given for `{name}`, which is not a factor",
                    did_you_mean(name, grammar.factor),
                )
        needed = self.needed()
        missing = []
        for factor in grammar.factors:
            used_pieces = [
                n for names in self.pieces(factor).values() for n in names if n in needed
            ]
            if used_pieces:
                missing += self.decomposed(factor, used_pieces)
                continue
            if factor.name not in self.supplied:
                if factor.definition is not None and factor.definition.sources:
                    continue
                if factor.name not in needed:
                    self.skip(factor)
                    continue
            weights = self.weights(factor)
            if weights is None:
                missing.append(factor.name)
            else:
                self.bound[factor.name] = weights
        for factor in grammar.factors:
            if factor.name in needed:
                self.follow(factor)
        if missing:
            names = ", ".join(f"`{name}`" for name in dict.fromkeys(missing))
            self.fail(
                "F416",
                f"no weights for {names}",
                "give values in the grammar, a file of weights, or a seed for random ones",
            )
        self.raise_problems()
        return self.bound

    def raise_problems(self) -> None:
        if self.problems:
            raise GrammarError(self.problems)

    def real(self, name: str, weights: Array | Logs) -> Array:
        """Weights that are not logarithms; reports those too large for floats."""
        if not isinstance(weights, Logs):
            return weights
        logs = weights.array
        if self.exactly:
            return exponentials(logs)
        if bool((np.abs(logs[np.isfinite(logs)]) > MAX_LOG).any()):
            self.fail(
                "F417",
                f"`{name}` has weights with logarithms beyond {MAX_LOG:g}: floats cannot hold them",
                "the reference engine takes them, in the semirings `log` and `max`",
            )
            return self.zeros(logs.shape)
        return np.asarray(np.exp(logs))

    def needed(self) -> set[str]:
        """The factors that rules use, and those that these follow from."""
        needed = {edge.label for rule in self.grammar.rules for edge in rule.rhs.edges}
        if self.only is not None:
            needed &= {*self.only}
        agenda = [factor for factor in self.grammar.factors if factor.name in needed]
        while agenda:
            factor = agenda.pop()
            for source in () if factor.name in self.supplied else _sources(factor):
                if source not in needed:
                    needed.add(source)
                    agenda.append(self.grammar.factor[source])
        return needed

    def join_pieces(self) -> None:
        """Multiply supplied pieces of factors that the grammar has not decomposed."""
        for name, labels in given_pieces(self.grammar).items():
            known = [label for label in labels if label in self.supplied]
            if not known or name in self.supplied or known[0] in self.grammar.factor:
                continue
            factor = self.grammar.factor[name]
            pieces = [self.supplied.pop(label, None) for label in labels]
            missing = [f"`{n}`" for n, piece in zip(labels, pieces, strict=True) if piece is None]
            if missing:
                self.fail("F416", f"no weights for {', '.join(missing)}")
                pieces = []
            wanted = self.piece_shapes(factor)
            arrays = [
                self.checked(label, piece, shape)
                for label, piece, shape in zip(labels, pieces, wanted, strict=bool(pieces))
            ]
            shape = self.shape(factor)
            if prod(shape) > MAX_ENTRIES or not arrays:
                self.supplied[name] = self.zeros((1,) * len(shape))  # reported where it is used
            else:
                self.supplied[name] = product_of(arrays, factor.given or 0)

    def skip(self, factor: Factor) -> None:
        """Leave out the random numbers of a factor that is not needed.

        So a factor's parameters do not depend on which other factors the rules use, and are the
        same after a pass that drops rules.
        """
        shape = self.shape(factor)
        if self.generator is None or factor.value is not None or prod(shape) > MAX_ENTRIES:
            return
        if not isinstance(factor.definition, InputEvidence):
            self.random(factor, shape)

    def pieces(self, factor: Factor) -> Mapping[int, tuple[str, ...]]:
        """The names of a factor's pieces in the grammar, by number."""
        return {} if factor.rank is None else pieces(self.grammar, factor.name)

    def decomposed(self, factor: Factor, used: list[str]) -> list[str]:
        """Draw the pieces of a factor of which rules use some; the names of those missing."""
        if factor.name in self.supplied:
            self.fail(
                "F417",
                f"weights are given for `{factor.name}`, which is decomposed",
                "give its pieces: " + ", ".join(f"`{name}`" for name in used),
            )
            return []
        if self.generator is not None:
            self.drawn[factor.name] = self.random_pieces(factor)
        missing = []
        for number, names in self.pieces(factor).items():
            for name in names:
                if name not in used or name in self.supplied:
                    continue
                if factor.name in self.drawn:
                    self.bound[name] = self.drawn[factor.name][number]
                else:
                    missing.append(name)
        return missing

    def multiply(self, factor: Factor) -> None:
        """The weights of a decomposed factor that another one is tied to."""
        arrays = list(self.drawn.get(factor.name, ()))
        for number, names in sorted(self.pieces(factor).items()):
            known = [self.real(n, self.bound[n]) for n in names if n in self.bound]
            arrays[number : number + 1] = known[:1] or arrays[number : number + 1]
        if len(arrays) == len(signatures(factor, "")):
            self.bound[factor.name] = product_of(arrays, factor.given or 0)

    def follow(self, factor: Factor) -> None:
        """The weights of a factor that follows from others: a tie, a slice, a product, a joint."""
        if factor.name not in self.bound and self.pieces(factor):
            self.multiply(factor)
        sources = _sources(factor)
        if not sources or factor.name in self.bound:
            return
        for name in sources:
            self.follow(self.grammar.factor[name])
        if not self.bound.keys() >= set(sources):
            return  # one is missing, or cannot be known
        name = sources[0]
        definition = factor.definition
        if isinstance(definition, ProductOf):
            self.join(factor, definition)
        elif not isinstance(definition, Slice):
            self.tie(factor, name)
        else:
            wanted = steps(self.grammar, definition.axes)
            source = self.bound[name]
            if isinstance(source, Logs):
                self.bound[factor.name] = Logs(take(source.array, wanted))
            else:
                self.bound[factor.name] = take(source, wanted)

    def join(self, factor: Factor, joint: ProductOf) -> None:
        """The product of the parts of a joint factor."""
        shape = self.shape(factor)
        if prod(shape) > MAX_ENTRIES:
            self.fail("F420", f"factor `{factor.name}` has {prod(shape):,} entries")
        else:
            parts = {p.source: self.real(p.source, self.bound[p.source]) for p in joint.parts}
            self.bound[factor.name] = multiplied(np.einsum, joint, parts)

    def fail(self, code: str, message: str, help: str = "") -> None:
        self.problems.append(Diagnostic(code=code, message=message, help=help))

    def shape(self, factor: Factor) -> tuple[int, ...]:
        return tuple(domain_size(self.grammar, d) for d in factor.domains)

    def weights(self, factor: Factor) -> Array | Logs | None:
        shape = self.shape(factor)
        if prod(shape) > MAX_ENTRIES:
            self.fail("F420", f"factor `{factor.name}` has {prod(shape):,} entries")
            return self.zeros((1,) * len(shape))
        if factor.name in self.supplied:
            return self.given(factor, shape)
        if factor.value is not None:
            return self.value(factor, shape)
        if isinstance(factor.definition, InputEvidence):
            # A position of an input that is not given is missing: it is summed out.
            ones = self.zeros(shape)
            ones[...] = Fraction(1) if self.exactly else 1.0
            return ones
        if self.generator is not None:
            return self.random(factor, shape)
        return None

    def zeros(self, shape: tuple[int, ...]) -> Array:
        if self.exactly:
            return np.full(shape, Fraction(0), dtype=object)
        return np.zeros(shape)

    def given(self, factor: Factor, shape: tuple[int, ...]) -> Array | Logs:
        weights = self.supplied[factor.name]
        if isinstance(weights, Logs):
            return self.checked_logs(factor.name, weights, shape)
        return self.checked(factor.name, weights, shape)

    def checked_logs(self, name: str, weights: Logs, shape: tuple[int, ...]) -> Logs:
        """Supplied logarithms as an array of this shape; reports misfits."""
        logs = weights.array
        array = np.asarray(logs.detach().cpu() if hasattr(logs, "detach") else logs, dtype=float)
        if array.shape != shape:
            self.fail("F417", f"weights for `{name}` have shape {array.shape}, not {shape}")
        elif not bool((array < np.inf).all()):
            self.fail("F417", f"some logarithms of weights for `{name}` are NaN or +inf")
        return Logs(array)

    def checked(self, name: str, weights: Any, shape: tuple[int, ...]) -> Array:
        """Supplied weights as an array of this shape; reports misfits."""
        if hasattr(weights, "detach"):
            weights = weights.detach().cpu().numpy()
        try:
            array = self.converted(weights)
        except (TypeError, ValueError, OverflowError):
            self.fail("F417", f"weights for `{name}` are not an array of finite numbers")
            return self.zeros(shape)
        if array.shape != shape:
            self.fail("F417", f"weights for `{name}` have shape {array.shape}, not {shape}")
            return self.zeros(shape)
        if not self.exactly and not bool(np.isfinite(array).all()):
            self.fail("F417", f"weights for `{name}` are not all finite")
        elif bool((array < 0).any()):
            self.fail("F417", f"weights for `{name}` are negative in places")
        return array

    def converted(self, weights: Any) -> Array:
        if not self.exactly:
            return np.asarray(weights, dtype=float)
        array = np.array(weights, dtype=object)
        convert = np.frompyfunc(lambda x: x if isinstance(x, Fraction | int) else _exact(x), 1, 1)
        return np.asarray(convert(array), dtype=object)

    def value(self, factor: Factor, shape: tuple[int, ...]) -> Array | Logs:
        value = factor.value
        number = exact if self.exactly else float
        array = self.zeros(shape)
        if isinstance(value, Constant):
            array[...] = number(value.number)
        elif isinstance(value, Table):
            if not self.exactly:
                return table_array(self.grammar, factor.name)
            flat = np.array(_flatten(value.entries, len(shape)), dtype=object)
            array[...] = np.frompyfunc(number, 1, 1)(flat).reshape(shape)
        elif isinstance(value, Exp):
            return Logs(np.array(value.entries, dtype=float))
        elif isinstance(value, Sparse):
            for position, weight in value.entries:
                array[position] = number(weight)
        elif isinstance(value, Uniform):
            size = prod(shape[factor.given or 0 :])
            array[...] = Fraction(1, size) if self.exactly else 1.0 / size
        elif isinstance(value, Map):
            for i, block in enumerate(map_values(self.grammar, factor.name)):
                array[i, block] = number(1.0)
        elif isinstance(value, Eye):
            for i in range(shape[0]):
                array[i, i] = number(1.0)
        else:
            assert isinstance(value, Load)
            loaded = np.asarray(load_array(value), dtype=float)
            array = np.frompyfunc(_exact, 1, 1)(loaded) if self.exactly else loaded.copy()
        return array

    def random(self, factor: Factor, shape: tuple[int, ...]) -> Array:
        """Random parameters: a distribution where an arrow says so, of the declared rank."""
        if factor.rank is None:
            return self.draw(shape, factor.given, groups(self.grammar, factor))
        return product_of(self.random_pieces(factor), factor.given or 0)

    def random_pieces(self, factor: Factor) -> list[Array]:
        """Random pieces of a factor of declared rank, as `fgg.factors.pieces` has them."""
        arrays = []
        shapes = self.piece_shapes(factor)
        for number, signature in enumerate(signatures(factor, "")):
            shape = shapes[number]
            if prod(shape) > MAX_ENTRIES:
                message = f"piece {number} of factor `{factor.name}` has {prod(shape):,} entries"
                self.fail("F420", message)
                shape = (1,) * len(shape)
            arrays.append(self.draw(shape, signature.given))
        return arrays

    def piece_shapes(self, factor: Factor) -> list[tuple[int, ...]]:
        """The shapes of the pieces of a factor of declared rank."""
        assert factor.rank is not None
        rank = factor.rank.evaluate(size_values(self.grammar))
        assert rank is not None
        return [
            tuple(domain_size(self.grammar, d) if d else rank for d in signature.domains)
            for signature in signatures(factor, "")
        ]

    def draw(
        self, shape: tuple[int, ...], given: int | None, blocks: Sequence[int] | None = None
    ) -> Array:
        """Random weights, normalised over the axes from `given` on; within blocks of the last."""
        assert self.generator is not None
        numbers: Array = self.generator.integers(1, 1000, size=shape).astype(object)
        if self.exactly:
            fractions = np.frompyfunc(Fraction, 1, 1)(numbers)
            numbers = np.asarray(fractions, dtype=object).reshape(shape)
        else:
            numbers = numbers.astype(float)
        if given is None:
            return numbers / (Fraction(1000) if self.exactly else 1000.0)
        if blocks is not None:
            return within_blocks(numbers, blocks)
        axes = tuple(range(given, len(shape)))
        return np.asarray(numbers / numbers.sum(axis=axes, keepdims=True))

    def tie(self, factor: Factor, name: str) -> None:
        """The stationary distribution of a transition factor: pi = pi A, sum one."""
        try:
            self.bound[factor.name] = stationary(self.real(name, self.bound[name]))
        except (np.linalg.LinAlgError, Singular):
            self.fail(
                "F417",
                f"`{factor.name}` is tied to the stationary distribution of `{name}`, "
                "which has several",
            )
            self.bound[factor.name] = self.zeros(self.shape(factor))


def _sources(factor: Factor) -> tuple[str, ...]:
    """The factors that another one follows from; none if it stands on its own, or is a piece."""
    definition = factor.definition
    return () if definition is None or isinstance(definition, Piece) else definition.sources


def within_blocks(numbers: Array, blocks: Sequence[int]) -> Array:
    """Weights such that those of each block of the last axis sum to one."""
    flat = numbers.reshape(-1, numbers.shape[-1])
    result = np.empty_like(flat)
    members: dict[int, list[int]] = {}
    for place, block in enumerate(blocks):
        members.setdefault(block, []).append(place)
    for places in members.values():
        block_weights = flat[:, places]
        result[:, places] = block_weights / block_weights.sum(axis=1, keepdims=True)
    return result.reshape(numbers.shape)


def product_of(arrays: Sequence[Array], given: int) -> Array:
    """The factor that pieces are the pieces of: their product, summed over the rank."""
    count = given + len(arrays) - 1
    operands: list[Any] = [arrays[0], [*range(given), count]]
    for axis, piece in enumerate(arrays[1:], given):
        operands += [piece, [count, axis]]
    # Large ones in the order of least work; fractions are multiplied as they come.
    large = prod(array.size for array in arrays) > 2**24
    optimize = large and all(array.dtype != object for array in arrays)
    return np.asarray(np.einsum(*operands, list(range(count)), optimize=optimize))


@per_grammar
def table_array(grammar: Grammar, name: str) -> Array:
    """The entries of a factor's table as floats, converted once for each grammar; do not modify."""
    value = grammar.factor[name].value
    assert isinstance(value, Table)
    return np.array(value.entries, dtype=float)


def _exact(number: float) -> Fraction:
    return Fraction(repr(float(number)))


def _flatten(entries: object, depth: int) -> list[object]:
    if depth == 0:
        return [entries]
    assert isinstance(entries, tuple)
    return [leaf for entry in entries for leaf in _flatten(entry, depth - 1)]
