"""Zeros added to a computation in logarithms, whose gradients are expected counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fgg.grammar import Grammar
from fgg.runtime.reference.system import Term


class Handles:
    """Zeros that are added to the logarithms of terms and cells; their gradients are counts.

    `rules` has one zero for each rule, `cells` the zeros of each group of nonterminals. `cuts` says
    where a nonterminal lies in the vector of its component: its start and shape.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.number = {rule.name: i for i, rule in enumerate(grammar.rules)}
        self.rules = torch.zeros(len(grammar.rules), dtype=torch.float64, requires_grad=True)
        self.cells: list[tuple[tuple[str, ...], Tensor]] = []
        self.cuts: dict[str, tuple[int, tuple[int, ...]]] = {}

    def counts(self, gradients: Sequence[Tensor]) -> dict[str, Tensor]:
        """The expected counts of cells by nonterminal, from the gradients of `cells`."""
        counts: dict[str, Tensor] = {}
        for (names, _), gradient in zip(self.cells, gradients, strict=True):
            for row, name in enumerate(names):
                if name in self.cuts:
                    start, shape = self.cuts[name]
                    size = int(np.prod(shape, dtype=int))
                    counts[name] = gradient[start : start + size].reshape(shape)
                else:
                    counts[name] = gradient[row]
        return counts

    def adjust(self, terms: Sequence[Term], values: Tensor) -> Tensor:
        """The logarithms of terms, `[terms, …]`, with the zeros of their rules added."""
        rows = torch.as_tensor([self.number[term.rule.name] for term in terms])
        return values + self.rules[rows].reshape(-1, *(1,) * (values.ndim - 1))

    def scale(self, term: Term) -> Tensor:
        """The factor exp(0) = 1 to multiply a term with."""
        return self.rules[self.number[term.rule.name]].exp()

    def new_cells(self, names: Sequence[str], shape: Sequence[int]) -> Tensor:
        """New zeros for the cells of some nonterminals, a row for each, in the given shape."""
        zeros = torch.zeros(tuple(shape), dtype=torch.float64, requires_grad=True)
        self.cells.append((tuple(names), zeros))
        return zeros
