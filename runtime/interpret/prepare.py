"""The arrays that a plan prepares before its charts: parameters, and tables of evidence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.factors.maps import map_values
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size
from fgg.grammar.slices import Narrow, Unfold, take
from fgg.grammar.values import exact
from fgg.inputs.clamps import path_steps
from fgg.inputs.tokens import MISSING
from fgg.plan import Contract, Cut, Gather, Indicator, OneHot, Plan, Potential
from fgg.plan.kernel import BATCH
from fgg.runtime.interpret.algebra import Algebra, Named, Product
from fgg.runtime.interpret.batch import Batch
from fgg.runtime.interpret.frame import CellIndex, Frame, Scope
from fgg.runtime.interpret.semirings.base import Array, Ints, Numbers, to_numpy
from fgg.runtime.prelude.evidence import mapped, part_of, shifted


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


class Preparations(ABC, Generic[Array]):
    """The parameters and tables of a plan as arrays of an algebra.

    A table is `[*indices, batch, *values]`; its indices count from 0.
    """

    def __init__(self, plan: Plan, algebra: Algebra[Array]) -> None:
        self.plan = plan
        self.algebra = algebra
        self.steps = {step.name: step for step in plan.preparations}
        self.arrays: dict[str, Array] = _OnDemand(self.array)
        self.products: dict[str, Product[Array]] = {}

    @abstractmethod
    def weight(self, name: str) -> Array:
        """A parameter."""

    @abstractmethod
    def one_hot(self, step: OneHot) -> Array:
        """Tokens as weights of all values."""

    @abstractmethod
    def gathered(self, step: Gather) -> Array:
        """The entries of a parameter at tokens: its sum where one is missing."""

    @abstractmethod
    def potential(self, step: Potential) -> Array:
        """The weights of an input factor; zero outside its range."""

    def array(self, name: str) -> Array:
        """A parameter or a prepared array."""
        match self.steps.get(name):
            case None:
                return self.weight(name)
            case Cut() as step:
                piece: Array = take(self.arrays[step.source], step.steps)
                return piece
            case Contract() as step:
                product = self.product(step)
                sizes = {d: n for x in product.values for d, n in x.sizes.items()}
                dims = self.dims(step.axes, table=bool(step.tables))
                return self.algebra.fit(product.result, dims, {**sizes, **self.algebra.sizes})
            case Indicator() as step:
                blocks = np.asarray(map_values(self.plan.grammar, step.name))[:, None]
                return self.algebra.ones(blocks == np.arange(step.blocks))
            case OneHot() as step:
                return self.one_hot(step)
            case Gather() as step:
                return self.gathered(step)
            case Potential() as step:
                return self.potential(step)

    def dims(self, axes: tuple[str, ...], *, table: bool, slope: bool = False) -> tuple[str, ...]:
        """The axes of a table, or of a parameter or a derivative by it."""
        if not table:
            return (*self.algebra.slope, *axes) if slope else axes
        rank = sum(axis.startswith("#") for axis in axes)
        return (*axes[:rank], BATCH, *self.algebra.element, *axes[rank:])

    def product(self, step: Contract) -> Product[Array]:
        """A product of parameters and tables."""
        if step.name not in self.products:
            operands = [
                self.algebra.named(self.arrays[name], self.dims(axes, table=name in step.tables))
                for name, axes in step.operands
            ]
            keep = {*self.dims(step.axes, table=bool(step.tables))}
            self.products[step.name] = Product(self.algebra, operands, step.path, keep)
        return self.products[step.name]


class Prepared(Preparations[Array]):
    """The parameters and tables of a plan for a batch, in a semiring.

    `given` are tables of evidence that are not made from the batch's tokens.
    """

    def __init__(
        self,
        plan: Plan,
        scope: Scope,
        algebra: Algebra[Array],
        weights: Mapping[str, Numbers],
        given: Mapping[str, Array] | None = None,
    ) -> None:
        super().__init__(plan, algebra)
        self.scope = scope
        self.semiring = algebra.semiring
        self.weights = weights
        self.arrays.update(given or {})
        self.constants = {*plan.constants, *(given or {})}
        self.constants |= {s.name for s in plan.preparations if isinstance(s, Indicator)}

    def weight(self, name: str) -> Array:
        """Real weights as values of the semiring."""
        weights = self.weights[name]
        if self.semiring.on_tensors:
            return self.semiring.convert(weights)
        numbers = to_numpy(weights)
        if self.semiring.exactly and numbers.dtype != object:
            convert = np.frompyfunc(lambda x: exact(float(x)), 1, 1)
            numbers = np.asarray(convert(numbers), dtype=object).reshape(numbers.shape)
        return self.semiring.convert(numbers)

    def one_hot(self, step: OneHot) -> Array:
        """Tokens as weights of all values."""
        values = tokens(self.plan.grammar, self.scope.batch, step.input, step.path)
        chosen = np.moveaxis(values, 0, -1)[..., None]
        return self.algebra.ones((chosen == np.arange(step.size)) | (chosen == MISSING))

    def gathered(self, step: Gather) -> Array:
        """The entries of a parameter at tokens: its sum where one is missing."""
        array = self.arrays[step.source]
        axes = [token.axis for token in step.tokens]
        rest = [i for i in range(len(array.shape)) if i not in axes]
        array = self.semiring.permute(array, [*axes, *rest])
        ranks = {token.group: len(token.shift) for token in step.tokens}
        rows = []
        for token in step.tokens:
            values = tokens(self.plan.grammar, self.scope.batch, token.input, token.path)
            moved = shifted(torch.from_numpy(values).movedim(0, -1), token.shift).numpy()
            before = sum(rank for group, rank in ranks.items() if group < token.group)
            after = sum(rank for group, rank in ranks.items() if group > token.group)
            shape = (1,) * before + moved.shape[:-1] + (1,) * after + moved.shape[-1:]
            rows.append(moved.reshape(shape))
        if any((row == MISSING).any() for row in rows):
            array = self.extended(array, len(axes))
            rows = [row % array.shape[number] for number, row in enumerate(rows)]
        rows = list(np.broadcast_arrays(*rows))
        possible = np.logical_and.reduce([row >= 0 for row in rows])
        flat: Ints = np.zeros_like(rows[0])
        for number, row in enumerate(rows):
            flat = flat * array.shape[number] + np.maximum(row, 0)
        return self.algebra.take(array, CellIndex(flat, possible, (), len(rows)))

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
        array = self.semiring.convert_logs(logs if self.semiring.on_tensors else to_numpy(logs))
        order = [*range(1, rank + 1), 0, *range(rank + 1, len(array.shape))]
        array = self.semiring.permute(array, order)
        ranges = {name: (0, array.shape[axis]) for axis, name in enumerate(factor.indices)}
        exprs = [e for c in factor.conditions for e in c.inequalities()]
        frame = Frame(self.scope, ranges, 0)
        return self.algebra.where(frame.holds(exprs, frame.order), array)

    # derivatives

    def reverse(self, slopes: dict[str, Array]) -> None:
        """Pass derivatives by what is cut or multiplied on to what that is made from.

        Derivatives by parameters have the axes `slope` of the algebra first.
        """
        for step in reversed(self.plan.preparations):
            if step.name not in slopes:
                continue
            slope = self.algebra.settled(slopes.pop(step.name))
            if isinstance(step, Cut):
                self.add(slopes, step.source, self.uncut(step, slope))
            elif isinstance(step, Contract):
                self.multiply(slopes, step, slope)

    def uncut(self, step: Cut, slope: Array) -> Array:
        """The derivative by the source of a slice: zero elsewhere."""
        shape = self.arrays[step.source].shape
        numbers = take(np.arange(prod(shape)).reshape(shape), step.steps).reshape(-1)
        rank = len(self.algebra.slope)
        lead = slope.shape[:rank]
        cells = self.semiring.permute(slope.reshape((*lead, -1)), (rank, *range(rank)))
        whole = self.semiring.accumulate([(numbers, cells)], (prod(shape), *lead))
        return self.semiring.permute(whole, (*range(1, rank + 1), 0)).reshape((*lead, *shape))

    def multiply(self, slopes: dict[str, Array], step: Contract, slope: Array) -> None:
        """Pass the derivative by a product on to the operands that are not constant."""
        gradient = Named(slope, self.dims(step.axes, table=bool(step.tables), slope=True))
        product = self.product(step)
        sizes = {d: n for x in (*product.values, gradient) for d, n in x.sizes.items()}
        wanted = [i for i, (name, _) in enumerate(step.operands) if name not in self.constants]
        for number, part in product.gradients(gradient, wanted).items():
            name, axes = step.operands[number]
            dims = self.dims(axes, table=name in step.tables, slope=True)
            rank = len(dims) - sum(not axis.startswith("#") for axis in axes)
            whole = self.algebra.spread(part, dims[:rank], dims[rank:], sizes)
            self.add(slopes, name, whole)

    def add(self, slopes: dict[str, Array], name: str, slope: Array) -> None:
        """Add to a derivative."""
        slopes[name] = self.algebra.add(slopes[name], slope) if name in slopes else slope


def moved_steps(steps: tuple[Narrow | Unfold, ...], before: int) -> list[Narrow | Unfold]:
    """Steps of a slice for an array that has more axes in front."""
    return [replace(step, axis=step.axis + before) for step in steps]


def tokens(grammar: Grammar, batch: Batch, name: str, path: tuple[str, ...]) -> Ints:
    """The tokens of an input, or of the part of its domain that a path names."""
    known = torch.from_numpy(batch.tokens[name])
    return part_tokens(grammar, grammar.input[name].domain, path, known).numpy()


def part_tokens(grammar: Grammar, domain: str, path: Sequence[str], tokens: Tensor) -> Tensor:
    """The values that a part of a domain has where the domain has some; impossible without any."""
    for part in path_steps(grammar, domain, path):
        if isinstance(part, str):
            tokens = mapped(tokens, map_values(grammar, part))
        else:
            tokens = part_of(tokens, part.offset, part.size, part.stride, part.period)
    return tokens
