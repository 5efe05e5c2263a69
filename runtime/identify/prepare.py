"""The arrays that a plan prepares before its charts, for soft words.

A token that is read becomes a weight for each value of its domain: a factor at a token is the
factor summed against the word. Derivatives go back to the parameters the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fgg.factors.maps import map_values
from fgg.grammar import Grammar
from fgg.grammar.domains import domain_size, parts
from fgg.grammar.slices import take
from fgg.plan import Contract, Cut, Gather, Indicator, OneHot, Pair, Potential
from fgg.runtime.identify.algebra import BATCH, JET, JetAlgebra, JetProduct, NamedJets
from fgg.runtime.identify.align import Adjoints, fit, picked
from fgg.runtime.identify.geometry import Geometry


class PreparedJets:
    """The parameters and tables of a plan; a table is `[cell, batch, jet, *values]`."""

    def __init__(
        self,
        geometry: Geometry,
        algebra: JetAlgebra,
        parameters: Mapping[str, Tensor],
        words: Mapping[str, Tensor],
    ) -> None:
        self.geometry = geometry
        self.algebra = algebra
        self.words = words
        self.arrays: dict[str, Tensor] = dict(parameters)
        self.products: dict[str, JetProduct] = {}
        for step in geometry.plan.preparations:
            if isinstance(step, Cut):
                numbers = self._cut(step)
                flat = self.arrays[step.source].reshape(-1).index_select(0, numbers.reshape(-1))
                self.arrays[step.name] = flat.reshape(numbers.shape)
            elif isinstance(step, OneHot):
                word = self._word(step.input, step.path)
                self.arrays[step.name] = word.flatten(0, -4)
            elif isinstance(step, Indicator):
                blocks = torch.tensor(map_values(geometry.plan.grammar, step.name))
                member = blocks[:, None] == torch.arange(step.blocks)
                self.arrays[step.name] = member.to(torch.float64)
            else:
                self._product(step)

    def _cut(self, step: Cut) -> Tensor:
        """The entries of the source that a slice has, by number."""
        shape = tuple(self.arrays[step.source].shape)
        numbers = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        return torch.from_numpy(np.ascontiguousarray(take(numbers, step.steps)))

    def _word(self, name: str, path: tuple[str, ...]) -> Tensor:
        """The soft words of an input, `[*indices, batch, jet, value]`, at a part of its domain."""
        word = self.words[name]
        if not path:
            return word
        grammar = self.geometry.plan.grammar
        return torch.matmul(word, part_of(grammar, grammar.input[name].domain, path))

    def _product(self, step: Contract | Gather | Potential | Indicator) -> None:
        assert not isinstance(step, Potential | Indicator)
        operands: list[NamedJets] = []
        path: tuple[Pair, ...] = ()
        if isinstance(step, Gather):
            source = self.arrays[step.source]
            axes = [f"x{i}" for i in range(source.dim())]
            operands.append(NamedJets(source, tuple(axes)))
            groups: dict[int, list[str]] = {}
            for token in step.tokens:
                if token.group not in groups:
                    before = sum(map(len, groups.values()))
                    rank = len(self.geometry.inputs[token.input])
                    groups[token.group] = [f"#{before + i}" for i in range(rank)]
                word = moved(self._word(token.input, token.path), token.shift)
                dims = (*groups[token.group], BATCH, JET, axes[token.axis])
                operands.append(NamedJets(word, dims))
            gone = {axes[token.axis] for token in step.tokens}
            indices = [d for group in groups.values() for d in group]
            out = (*indices, *(a for a in axes if a not in gone))
        else:
            for name, dims in step.operands:
                operands.append(self._operand(name, dims, name in step.tables))
            out, path = step.axes, step.path
        product = JetProduct(self.algebra, operands, path, out)
        self.products[step.name] = product
        sizes = {
            d: n for value in operands for d, n in zip(value.dims, value.array.shape, strict=True)
        }
        heads = tuple(d for d in out if d.startswith("#"))
        rest = out[len(heads) :]
        if isinstance(step, Contract) and not step.tables:
            self.arrays[step.name] = fit(product.result, rest, sizes)
            return
        whole = fit(product.result, (*heads, BATCH, JET, *rest), sizes)
        self.arrays[step.name] = whole.reshape(-1, *whole.shape[len(heads) :])

    def _operand(self, name: str, dims: tuple[str, ...], table: bool) -> NamedJets:
        array = self.arrays[name]
        if not table:
            return picked(array, (), dims)
        heads = tuple(d for d in dims if d.startswith("#"))
        array = array.reshape(*self.geometry.tables[name], *array.shape[1:])
        return picked(array, (*heads, BATCH, JET), dims[len(heads) :])

    def reverse(self, adjoints: Adjoints) -> None:
        """Pass the derivatives by prepared arrays back to the parameters."""
        for step in reversed(self.geometry.plan.preparations):
            if step.name not in adjoints.arrays or isinstance(step, OneHot | Indicator):
                continue
            slope = self.algebra.field.reduce(adjoints.arrays.pop(step.name))
            if isinstance(step, Cut):
                numbers = self._cut(step).reshape(-1)
                target = adjoints.parameter(step.source, self.arrays[step.source].shape)
                flat = target.reshape(*target.shape[:2], -1)
                flat.index_add_(2, numbers, slope.reshape(*slope.shape[:2], -1))
            elif isinstance(step, Gather):
                count = len(self.geometry.tables[step.name])
                self._back(step.name, slope, count, ((step.source, 0, None),), adjoints)
            elif isinstance(step, Contract):
                heads = sum(a.startswith("#") for a in step.axes)
                sources = tuple((name, i, axes) for i, (name, axes) in enumerate(step.operands))
                self._back(step.name, slope, heads if step.tables else None, sources, adjoints)

    def _back(
        self,
        name: str,
        slope: Tensor,
        heads: int | None,
        sources: tuple[tuple[str, int, tuple[str, ...] | None], ...],
        adjoints: Adjoints,
    ) -> None:
        """Through a product; `heads` counts the indices of a table, None for a parameter."""
        product = self.products[name]
        step = next(s for s in self.geometry.plan.preparations if s.name == name)
        if isinstance(step, Contract):
            out = step.axes
        else:
            assert isinstance(step, Gather)
            gone = {token.axis for token in step.tokens}
            rest = [f"x{i}" for i in range(product.values[0].array.dim()) if i not in gone]
            out = (*(f"#{i}" for i in range(heads or 0)), *rest)
        if heads is None:
            gradient = NamedJets(slope, (BATCH, "@t", *out))
        else:
            shape = self.geometry.tables[name]
            gradient = NamedJets(
                slope.reshape(*shape, *slope.shape[1:]), (*out[:heads], BATCH, JET, *out[heads:])
            )
        slopes = product.gradients(gradient, {number for _, number, _ in sources})
        for source, number, axes in sources:
            if number not in slopes:
                continue
            value = product.values[number]
            if JET in value.dims:
                assert axes is not None
                adjoints.add_table(source, slopes[number], axes, self.geometry.tables[source])
            else:
                names = axes if axes is not None else value.dims
                adjoints.add_parameter(source, slopes[number], names, self.arrays[source].shape)


def moved(word: Tensor, shift: Sequence[int]) -> Tensor:
    """Soft words `[*indices, …]` read `shift` positions further; zero beyond the ends."""
    for axis, by in enumerate(shift):
        if by:
            size = word.shape[axis]
            kept = max(size - abs(by), 0)
            further = torch.zeros_like(word)
            further.narrow(axis, max(-by, 0), kept).copy_(word.narrow(axis, max(by, 0), kept))
            word = further
    return word


def part_of(grammar: Grammar, domain: str, path: tuple[str, ...]) -> Tensor:
    """The matrix `[value, inner]`: one where a value of the domain has that value of the part."""
    size = domain_size(grammar, domain)
    inner = np.arange(size)
    there = np.ones(size, dtype=bool)
    count = size
    for name in path:
        part = parts(grammar, domain)[name]
        inner = inner // part.stride % part.period - part.offset
        there &= (inner >= 0) & (inner < part.size)
        inner = np.where(there, inner, 0)
        domain, count = part.domain, part.size
    matrix = np.zeros((size, count))
    matrix[np.arange(size)[there], inner[there]] = 1.0
    return torch.from_numpy(matrix)
