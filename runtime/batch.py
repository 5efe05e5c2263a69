"""A batch of inputs for a plan, checked: lengths, tokens, look-up tables, log-potentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
from fgg.domains import domain_size, size_values
from fgg.grammar import Grammar
from fgg.observe import IMPOSSIBLE
from fgg.plan import Plan
from fgg.slices import slice_of

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Inputs of several items side by side, padded to the greatest lengths.

    `lengths` are `[batch]`, tokens and tables `[batch, *indices]`, log-potentials
    `[batch, *indices, *values]`.
    """

    size: int
    lengths: Mapping[str, Ints]
    tokens: Mapping[str, Ints]
    tables: Mapping[str, Ints]
    potentials: Mapping[str, Tensor]

    def item(self, number: int) -> Batch:
        """One item as a batch of its own."""
        one = slice(number, number + 1)
        return Batch(
            1,
            {name: values[one] for name, values in self.lengths.items()},
            {name: values[one] for name, values in self.tokens.items()},
            {name: values[one] for name, values in self.tables.items()},
            {name: values[one] for name, values in self.potentials.items()},
        )


def batch_of(
    plan: Plan, inputs: Mapping[str, Any], lengths: Mapping[str, Sequence[int]] | None = None
) -> Batch:
    """The inputs checked against a plan's grammar.

    An input that is not given is missing everywhere. Lengths that are not given follow from the
    shapes of inputs. Raises GrammarError for what does not fit.
    """
    return _Reader(plan, inputs, lengths or {}).run()


class _Reader:
    def __init__(
        self, plan: Plan, inputs: Mapping[str, Any], lengths: Mapping[str, Sequence[int]]
    ) -> None:
        self.grammar: Grammar = plan.grammar
        self.names = plan.lengths
        self.sizes = size_values(plan.grammar)
        self.inputs = inputs
        self.given = lengths
        self.problems: list[Diagnostic] = []
        self.size = 1
        self.lengths: dict[str, Ints] = {}

    def fail(self, message: str, help: str = "", code: str = "F411") -> None:
        self.problems.append(Diagnostic(code=code, message=message, help=help))

    def stop(self) -> None:
        """Raise what was found so far."""
        if self.problems:
            raise GrammarError(self.problems)

    def run(self) -> Batch:
        grammar = self.grammar
        sources = [f.name for f in grammar.input_factors if slice_of(f) is None]
        known = {*grammar.input, *grammar.table, *sources}
        for name in self.inputs:
            if name not in known:
                self.fail(f"there is no input `{name}`", did_you_mean(name, known))
        arrays = {name: self.array(name) for name in self.inputs if name in known}
        self.stop()
        self.find_size(arrays)
        self.find_lengths(arrays)
        self.stop()
        for name in sources:
            if name not in arrays:
                self.fail(f"log-potentials `{name}` are not given", code="F301")
        for table in grammar.tables:
            if table.name not in arrays:
                self.fail(f"table `{table.name}` is not given", code="F301")
        self.stop()
        tokens = {i.name: self.tokens(i.name, arrays.get(i.name)) for i in grammar.inputs}
        tables = {t.name: self.table(t.name, arrays[t.name]) for t in grammar.tables}
        potentials = {name: self.potential(name, arrays[name]) for name in sources}
        self.stop()
        return Batch(self.size, self.lengths, tokens, tables, potentials)

    def array(self, name: str) -> Any:
        """An input as an array: a tensor where its gradient may be wanted."""
        value = self.inputs[name]
        potential = name in self.grammar.input_factor
        try:
            if not potential:
                if isinstance(value, Tensor):
                    value = value.detach().cpu().numpy()
                found = np.asarray(value)
                whole = found.astype(np.int64)
                if found.size and not bool(np.all(whole == found)):
                    raise ValueError
                return whole
            tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
            return tensor.to(torch.float64) if not tensor.is_floating_point() else tensor
        except (TypeError, ValueError, OverflowError, RuntimeError):
            kind = "numbers" if potential else "whole numbers"
            self.fail(f"`{name}` is not an array of {kind}, one row an item")
            return np.zeros((1,), dtype=np.int64)

    def rank(self, name: str) -> int:
        """How many axes an input has, without the batch."""
        if name in self.grammar.input_factor:
            factor = self.grammar.input_factor[name]
            return len(factor.indices) + len(factor.domains)
        item = self.grammar.input.get(name) or self.grammar.table[name]
        return len(item.shape)

    def find_size(self, arrays: Mapping[str, Any]) -> None:
        """The number of items: every input and every length must have as many."""
        sizes: dict[str, int] = {}
        for name, array in arrays.items():
            wanted = self.rank(name) + 1
            if array.ndim != wanted:
                self.fail(f"`{name}` has {array.ndim} axes, not {wanted}: the batch comes first")
            else:
                sizes[f"`{name}`"] = int(array.shape[0])
        for name, values in self.given.items():
            if name not in self.names:
                self.fail(f"there is no length `{name}`", did_you_mean(name, self.names))
                continue
            try:
                found = np.asarray(values, dtype=np.int64)
                if found.ndim != 1 or bool((found < 0).any()):
                    raise ValueError
            except (TypeError, ValueError, OverflowError, RuntimeError):
                self.fail(f"length `{name}` must be a list of whole numbers from 0 up")
                continue
            self.lengths[name] = found
            sizes[f"length `{name}`"] = len(found)
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{name}: {size}" for name, size in sizes.items())
            self.fail(f"the numbers of items differ ({shown})")
        self.size = next(iter(sizes.values()), 1)
        if not self.size and sizes:
            self.fail("there are no items")
        self.stop()

    def find_lengths(self, arrays: Mapping[str, Any]) -> None:
        """Lengths that are not given are those of the inputs that have them."""
        for item in self.grammar.observed:
            if item.name not in arrays:
                continue
            for axis, extent in enumerate(item.shape):
                name = str(extent)
                if name in self.names and name not in self.lengths:
                    found = arrays[item.name].shape[axis + 1]
                    self.lengths[name] = np.full(self.size, found, dtype=np.int64)
        for name in self.names:
            if name not in self.lengths:
                self.fail(f"length `{name}` is not known", f"give it: `{name}=[3]`", code="F301")

    def extents(self, name: str) -> list[Ints]:
        """The extents of an input for every item, `[batch]` each."""
        item = self.grammar.input.get(name) or self.grammar.table[name]
        values = {**self.sizes, **self.lengths}
        found = []
        for extent in item.shape:
            value: Any = extent.evaluate(values)  # type: ignore[arg-type]
            found.append(np.broadcast_to(np.asarray(value, dtype=np.int64), (self.size,)))
        return found

    def inside(self, name: str, shape: Sequence[int]) -> NDArray[np.bool_]:
        """Which entries of a padded array belong to an item."""
        found = np.ones((self.size, *shape), dtype=bool)
        for axis, extent in enumerate(self.extents(name)):
            places = np.arange(shape[axis]).reshape([-1] + [1] * (len(shape) - axis - 1))
            found &= places < extent.reshape([-1] + [1] * len(shape))
        return found

    def fits(self, name: str, shape: Sequence[int]) -> bool:
        """Whether an array is large enough for every item."""
        for axis, extent in enumerate(self.extents(name)):
            if int(extent.max()) > shape[axis]:
                self.fail(
                    f"`{name}` has {shape[axis]} entries where {int(extent.max())} are expected"
                )
                return False
        return True

    def tokens(self, name: str, array: Ints | None) -> Ints:
        """Tokens `[batch, *indices]`; impossible beyond an item's own lengths."""
        if array is None:
            shape = [int(extent.max()) for extent in self.extents(name)]
            array = np.full((self.size, *shape), -1, dtype=np.int64)
        elif not self.fits(name, array.shape[1:]):
            return array
        inside = self.inside(name, array.shape[1:])
        size = domain_size(self.grammar, self.grammar.input[name].domain)
        wrong = inside & ((array < IMPOSSIBLE) | (array >= size))
        if bool(wrong.any()):
            place = tuple(int(x) for x in np.argwhere(wrong)[0])
            self.fail(
                f"`{name}` has the token {int(array[place])} in item {place[0]}; its domain has "
                f"the values 0 to {size - 1} (-1: missing, -2: impossible)"
            )
        return np.where(inside, array, IMPOSSIBLE)

    def table(self, name: str, array: Ints) -> Ints:
        """The entries of a look-up table."""
        self.fits(name, array.shape[1:])
        return array

    def potential(self, name: str, array: Tensor) -> Tensor:
        """Log-potentials, whose last axes are the values of the factor's nodes."""
        factor = self.grammar.input_factor[name]
        sizes = tuple(domain_size(self.grammar, d) for d in factor.domains)
        found = tuple(array.shape[1 + len(factor.indices) :])
        if found != sizes:
            self.fail(f"`{name}` has values of shape {found}, not {sizes}")
        elif bool(torch.isnan(array.detach()).any()):
            self.fail(f"`{name}` has entries that are not numbers")
        elif bool((array.detach() == float("inf")).any()):
            self.fail(f"`{name}` has infinite entries")
        return array
