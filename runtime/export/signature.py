"""The arguments of an exported program: weights, then inputs, then lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fgg.grammar.domains import domain_size, size_values
from fgg.grammar.index import Expr
from fgg.plan import Potential
from fgg.runtime.export.extents import Extent, any_lengths, least_length, plan_extents
from fgg.runtime.program.program import Program

BATCH_AXIS = "batch"


@dataclass(frozen=True)
class Argument:
    """What one argument is called, what it is, and its shape in terms of batch and lengths.

    Kinds: "weights", "tokens", "table", "potentials", "lengths"; and "room", a tensor of any
    content whose only extent is the greatest length, where no input has it.
    """

    name: str
    kind: str
    shape: tuple[Expr | int, ...]
    size: int = 0
    """Of tokens: the number of values."""

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The type of its entries."""
        return dtype if self.kind in ("weights", "potentials") else torch.int64


@dataclass(frozen=True)
class Signature:
    """The arguments in order, and the least extent of inputs along each length."""

    arguments: tuple[Argument, ...]
    lengths: tuple[str, ...]
    least: int
    dtype: torch.dtype

    def sources(self) -> dict[str, tuple[int, int, int]]:
        """Where the greatest length is read: argument, axis, and what the extent has more."""
        found: dict[str, tuple[int, int, int]] = {}
        for number, argument in enumerate(self.arguments):
            for axis, extent in enumerate(argument.shape):
                if isinstance(extent, Expr) and len(names := [*extent.names()]) == 1:
                    more = (extent - Expr.of(names[0])).constant
                    if names[0] in self.lengths and more is not None:
                        found.setdefault(names[0], (number, axis, more))
        return found

    def high(self, arguments: tuple[Tensor, ...]) -> dict[str, int]:
        """The greatest lengths that the arguments have room for."""
        found = {}
        for name, (number, axis, more) in self.sources().items():
            found[name] = arguments[number].shape[axis] - more
        return found

    def extents(self, argument: Argument, batch: int, high: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an argument for a batch."""
        values = {**high, BATCH_AXIS: batch}
        found = []
        for extent in argument.shape:
            value = extent if isinstance(extent, int) else extent.evaluate(values)
            assert value is not None
            found.append(value)
        return tuple(found)

    def example(self, batch: int, high: Mapping[str, int], seed: int = 0) -> tuple[Tensor, ...]:
        """Random arguments: everything missing in places, lengths of all sizes."""
        generator = torch.Generator().manual_seed(seed)
        found = []
        for argument in self.arguments:
            shape = self.extents(argument, batch, high)
            if argument.kind in ("weights", "potentials"):
                values = torch.rand(shape, generator=generator, dtype=self.dtype)
                found.append(values if argument.kind == "weights" else 2 * values - 1)
            elif argument.kind == "tokens":
                found.append(torch.randint(-1, argument.size, shape, generator=generator))
            elif argument.kind == "lengths":
                longest = high[argument.name]
                own = torch.randint(longest // 2, longest + 1, shape, generator=generator)
                own[0] = longest
                found.append(own)
            else:
                found.append(torch.zeros(shape, dtype=torch.int64))
        return tuple(found)

    def dynamic_shapes(self, max_length: int, max_batch: int) -> tuple[dict[int, Any], ...]:
        """The axes that may have any extent, for `torch.export`."""
        dims: dict[str, Any] = {BATCH_AXIS: torch.export.Dim("batch_size", min=1, max=max_batch)}
        for number, name in enumerate(self.lengths):
            dims[name] = torch.export.Dim(f"length_{number}", min=self.least, max=max_length)
        found = []
        for place, argument in enumerate(self.arguments):
            axes: dict[int, Any] = {}
            for axis, extent in enumerate(argument.shape):
                if isinstance(extent, Expr) and extent.constant is None:
                    axes[axis] = self._dim(extent, dims, f"extent_{place}_{axis}")
            found.append(axes)
        return tuple(found)

    def _dim(self, extent: Expr, dims: Mapping[str, Any], name: str) -> Any:
        names = [*extent.names()]
        if len(names) > 1:
            # Of several lengths: torch cannot say how, so it is an extent of its own.
            return torch.export.Dim(name, min=2)
        ((monomial, factor),) = [term for term in extent.terms if term[0]]
        assert monomial == (names[0],)
        more = sum(c for m, c in extent.terms if not m)
        dim = dims[names[0]]
        dim = dim if factor == 1 else factor * dim
        return dim + more if more else dim

    def described(self) -> dict[str, Any]:
        """The signature as data, for a package's metadata."""
        return {
            "lengths": list(self.lengths),
            "least": self.least,
            "dtype": str(self.dtype).removeprefix("torch."),
            "arguments": [
                {
                    "name": argument.name,
                    "kind": argument.kind,
                    "dtype": str(argument.dtype(self.dtype)).removeprefix("torch."),
                    "shape": [extent_data(e) for e in argument.shape],
                    **({"size": argument.size} if argument.kind == "tokens" else {}),
                }
                for argument in self.arguments
            ],
        }


def signature(program: Program, dtype: torch.dtype) -> Signature | None:
    """The arguments of a program; None where its index ranges cannot be had with one shape."""
    grammar, plan = program.grammar, program.compiled.plan
    sizes = dict(size_values(grammar))
    batch = Expr.of(BATCH_AXIS)
    found = [Argument(name, "weights", program.shape(name)) for name in plan.parameters]
    for item in grammar.inputs:
        shape = tuple(plain(e.substitute(sizes)) for e in item.shape)
        size = domain_size(grammar, item.domain)
        found.append(Argument(item.name, "tokens", (batch, *shape), size))
    for table in grammar.tables:
        shape = tuple(plain(e.substitute(sizes)) for e in table.shape)
        found.append(Argument(table.name, "table", (batch, *shape)))
    for factor in grammar.input_factors:
        states = tuple(domain_size(grammar, d) for d in factor.domains)
        positions = positions_of(program, factor.name)
        if positions is None:
            return None
        found.append(Argument(factor.name, "potentials", (batch, *positions, *states)))
    whole = Signature(tuple(found), plan.lengths, 2, dtype)
    for name in plan.lengths:
        if name not in whole.sources():
            found.append(Argument(f"{name}.room", "room", (Expr.of(name),)))
    found += [Argument(name, "lengths", (batch,)) for name in plan.lengths]
    extents = plan_extents(plan)
    for argument in found:
        for extent in argument.shape:
            if isinstance(extent, Expr) and extent != batch:
                extents.append(Extent(((extent - 1, 1),)))
    least = least_length(extents, plan.lengths)
    return None if least is None else Signature(tuple(found), plan.lengths, least, dtype)


def extent_data(extent: Expr | int) -> int | dict[str, Any]:
    """An extent as data: a number, or what it is of the batch and the lengths, and more."""
    if isinstance(extent, int):
        return extent
    of = {str(m[0]): c for m, c in extent.terms if m}
    return {"of": of, "more": sum(c for m, c in extent.terms if not m), "text": str(extent)}


def plain(expr: Expr) -> Expr | int:
    """A number where an expression is one."""
    return expr if expr.constant is None else expr.constant


def positions_of(program: Program, name: str) -> tuple[Expr | int, ...] | None:
    """The extents of an input factor's indices, as a plan reads it."""
    plan = program.compiled.plan
    rank = len(program.grammar.input_factor[name].indices)
    for step in plan.preparations:
        if isinstance(step, Potential) and step.source == name:
            found = []
            for axis in plan.table[step.name].axes:
                if len(axis.high.terms) != 1 or axis.high.terms[0][1] != 1:
                    return None
                found.append(plain(any_lengths(axis.high.terms[0][0] + 1, plan.lengths)))
            return tuple(found)
    # Nothing reads it: any extent will do.
    return (2,) * rank if rank else ()
