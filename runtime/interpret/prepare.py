"""The arrays that a plan prepares before its charts: parameters, and tables of evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Generic

import numpy as np
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.factors.maps import map_values
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.slices import Narrow, Unfold, take
from fgg.grammar.values import exact
from fgg.inputs.clamps import path_steps
from fgg.inputs.given import IMPOSSIBLE, MISSING
from fgg.plan import Contract, Cut, Gather, Indicator, OneHot, Plan, Potential, Preparation
from fgg.runtime.interpret.algebra import Algebra
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.frame import BATCH, Frame, Scope
from fgg.runtime.interpret.semirings.base import Array, Ints, Numbers, NumpyArray, to_numpy


def checked_weights(plan: Plan, weights: Mapping[str, object]) -> dict[str, Numbers]:
    """The weights of a plan's parameters. Raises GrammarError for what is missing or wrong."""
    problems = []
    checked: dict[str, Numbers] = {}
    missing = [name for name in plan.parameters if name not in weights]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        problems.append(Diagnostic(code="F416", message=f"no weights for {names}"))
    for name in plan.parameters:
        if name not in weights:
            continue
        value = weights[name]
        array = value if isinstance(value, Tensor | np.ndarray) else np.asarray(value, dtype=object)
        domains = plan.grammar.factor[name].domains
        wanted = tuple(domain_size(plan.grammar, d) for d in domains)
        if tuple(array.shape) != wanted:
            shape = tuple(array.shape)
            message = f"weights for `{name}` have shape {shape}, not {wanted}"
            problems.append(Diagnostic(code="F417", message=message))
            continue
        if not _is_weight(array):
            message = f"weights for `{name}` are negative or not numbers in places"
            problems.append(Diagnostic(code="F417", message=message))
        checked[name] = array
    if problems:
        raise GrammarError(problems)
    return checked


def _is_weight(array: Numbers) -> bool:
    """Whether all entries are numbers from 0 up."""
    try:
        numbers = array.detach() if isinstance(array, Tensor) else array
        return bool(((numbers >= 0) & (numbers < inf)).all())
    except TypeError:
        return False


class _OnDemand(dict[str, Array]):
    """Arrays that are made when they are first read: readers of derivations need only a few."""

    def __init__(self, make: Callable[[str], Array]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, name: str) -> Array:
        self[name] = self.make(name)
        return self[name]


class Prepared(Generic[Array]):
    """The parameters and tables of a plan as arrays of a semiring.

    A table is `[*indices, batch, *values]`; its indices count from 0.
    """

    def __init__(
        self, plan: Plan, scope: Scope, algebra: Algebra[Array], weights: Mapping[str, Numbers]
    ) -> None:
        self.plan = plan
        self.scope = scope
        self.algebra = algebra
        self.semiring = algebra.semiring
        self.weights = weights
        self.steps = {step.name: step for step in plan.preparations}
        self.arrays: dict[str, Array] = _OnDemand(self.array)

    def array(self, name: str) -> Array:
        """A parameter or a prepared array."""
        if name in self.steps:
            return self.prepare(self.steps[name])
        return self.converted(self.weights[name])

    def converted(self, weights: Numbers) -> Array:
        """Real weights as values of the semiring."""
        if self.semiring.on_tensors:
            return self.semiring.convert(weights)
        return self.semiring.convert(self.exactly(to_numpy(weights)))

    def exactly(self, array: NumpyArray) -> NumpyArray:
        """Numbers as fractions, where the semiring wants them so."""
        if not self.semiring.exactly or array.dtype == object:
            return array
        convert = np.frompyfunc(lambda x: exact(float(x)), 1, 1)
        return np.asarray(convert(array), dtype=object).reshape(array.shape)

    def logs(self, logs: Tensor) -> Array:
        """Logarithms of weights as values of the semiring."""
        return self.semiring.convert_logs(logs if self.semiring.on_tensors else to_numpy(logs))

    def prepare(self, step: Preparation) -> Array:
        """One prepared array."""
        if isinstance(step, Cut):
            piece: Array = take(self.arrays[step.source], step.steps)
            return piece
        if isinstance(step, Contract):
            return self.contracted(step)
        if isinstance(step, Gather):
            return self.gathered(step)
        if isinstance(step, Indicator):
            blocks = np.asarray(map_values(self.plan.grammar, step.name))[:, None]
            return self.algebra.ones(blocks == np.arange(step.blocks))
        if isinstance(step, OneHot):
            chosen = tokens(self.plan.grammar, self.scope.batch, step.input, step.path)
            values = np.moveaxis(chosen, 0, -1)[..., None]
            return self.algebra.ones((values == np.arange(step.size)) | (values == -1))
        return self.potential(step)

    def contracted(self, step: Contract) -> Array:
        """A product of parameters and tables."""
        values = []
        for name, axes in step.operands:
            dims = _with_batch(axes) if name in step.tables else axes
            values.append(self.algebra.named(self.arrays[name], dims))
        out = _with_batch(step.axes) if step.tables else step.axes
        for pair in step.path:
            keep = {*pair.keep, BATCH}
            values.append(self.algebra.contract(values[pair.left], values[pair.right], keep))
        last = values[-1]
        sizes = dict(zip(last.dims, last.array.shape, strict=True))
        return self.algebra.fit(last, out, sizes)

    def gathered(self, step: Gather) -> Array:
        """The entries of a parameter at tokens: its sum where one is missing."""
        array = self.arrays[step.source]
        axes = [token.axis for token in step.tokens]
        rest = [i for i in range(len(array.shape)) if i not in axes]
        array = self.semiring.permute(array, [*axes, *rest])
        ranks = {token.group: len(token.shift) for token in step.tokens}
        rows = []
        for token in step.tokens:
            chosen = tokens(self.plan.grammar, self.scope.batch, token.input, token.path)
            moved = moved_tokens(np.moveaxis(chosen, 0, -1), token.shift)
            before = sum(rank for group, rank in ranks.items() if group < token.group)
            after = sum(rank for group, rank in ranks.items() if group > token.group)
            shape = (1,) * before + moved.shape[:-1] + (1,) * after + moved.shape[-1:]
            rows.append(moved.reshape(shape))
        if any((row == MISSING).any() for row in rows):
            array = self.extended(array, len(axes))
            rows = [row % array.shape[number] for number, row in enumerate(rows)]
        rows = list(np.broadcast_arrays(*rows))
        possible = np.logical_and.reduce([row >= 0 for row in rows])
        return self.algebra.take(array, [np.maximum(row, 0) for row in rows], possible)

    def extended(self, array: Array, count: int) -> Array:
        """An array with two more rows on its first `count` axes.

        The last but one is zero, for impossible tokens (-2). The last is the sum of all rows, for
        missing tokens (-1).
        """
        semiring = self.semiring
        for place in range(count):
            order = [place, *(i for i in range(len(array.shape)) if i != place)]
            moved = semiring.permute(array, order)
            total = semiring.reduce(moved, (0,)).reshape((1, *moved.shape[1:]))
            zero = semiring.full((1, *moved.shape[1:]), one=False)
            moved = semiring.concatenate([moved, zero, total])
            array = semiring.permute(moved, list(np.argsort(order)))
        return array

    def potential(self, step: Potential) -> Array:
        """The weights of an input factor; zero outside its range."""
        factor = self.plan.grammar.input_factor[step.factor]
        rank = len(factor.indices)
        logs = take(self.scope.batch.potentials[step.source], moved_steps(step.steps, rank + 1))
        array = self.logs(logs)
        order = [*range(1, rank + 1), 0, *range(rank + 1, len(array.shape))]
        array = self.semiring.permute(array, order)
        ranges = {name: (0, array.shape[axis]) for axis, name in enumerate(factor.indices)}
        frame = Frame(self.scope, ranges, 0)
        exprs = [e for c in factor.conditions for e in c.inequalities()]
        mask = np.ones(tuple(array.shape[: rank + 1]), dtype=bool)
        for expr in exprs:
            value, valid = frame.evaluate(expr)
            mask &= (np.asarray(value) >= 0) & valid
        return self.algebra.where(mask, array)


def moved_steps(steps: tuple[Narrow | Unfold, ...], before: int) -> list[Narrow | Unfold]:
    """Steps of a slice for an array that has more axes in front."""
    return [replace(step, axis=step.axis + before) for step in steps]


def tokens(grammar: Grammar, batch: Batch, name: str, path: tuple[str, ...]) -> Ints:
    """The tokens of an input, or of the part of its domain that a path names."""
    values = batch.tokens[name]
    for part in path_steps(grammar, grammar.input[name].domain, path):
        if isinstance(part, str):
            blocks = np.asarray(map_values(grammar, part))
            values = np.where(values < 0, values, blocks[np.maximum(values, 0)])
            continue
        inner = values // part.stride % part.period - part.offset
        inner = np.where((inner >= 0) & (inner < part.size), inner, IMPOSSIBLE)
        values = np.where(values < 0, values, inner)
    return values


def moved_tokens(values: Ints, shift: tuple[int, ...]) -> Ints:
    """Tokens `[*indices, batch]` some positions further, impossible where there are none."""
    for axis, distance in enumerate(shift):
        place = np.arange(values.shape[axis]) + distance
        inside = (place >= 0) & (place < values.shape[axis])
        moved = np.take(values, np.where(inside, place, 0), axis=axis)
        shape = [-1 if other == axis else 1 for other in range(values.ndim)]
        values = np.where(inside.reshape(shape), moved, IMPOSSIBLE)
    return values


def _with_batch(axes: tuple[str, ...]) -> tuple[str, ...]:
    """The axes of a table: its indices, the batch, its values."""
    rank = sum(axis.startswith("#") for axis in axes)
    return (*axes[:rank], BATCH, *axes[rank:])
