"""The ways to go on from a cell: every rule and assignment of its nodes, with its weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar.domains import select
from fgg.runtime.reference.chart import diagonal
from fgg.runtime.reference.evaluate import operand_array
from fgg.runtime.reference.solution import Solution
from fgg.runtime.reference.system import Term

Cell = tuple[str, tuple[int, ...]]
"""A nonterminal with values for its external nodes."""

MAX_CHOICES = 2**22


@dataclass(frozen=True)
class Choices:
    """All rules and assignments for a cell: log-weights, and where each term's part begins."""

    terms: tuple[Term, ...]
    inner: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    scores: NDArray[np.float64]

    def decode(self, position: int, cell: Cell) -> tuple[Term, dict[int, int]]:
        """The term and the values of all its nodes, for a position among the scores."""
        number = int(np.searchsorted(self.offsets, position, side="right")) - 1
        term, inner = self.terms[number], self.inner[number]
        shape = [term.sizes[letter] for letter in inner]
        rest = np.unravel_index(position - self.offsets[number], shape) if shape else ()
        values = dict(zip(term.out, cell[1], strict=True))
        values.update({letter: int(v) for letter, v in zip(inner, rest, strict=True)})
        return term, values


class Expander:
    """Expands cells with the values of a solution in `log` or `max`; remembers what it found."""

    def __init__(self, solution: Solution) -> None:
        self.solution = solution
        self.remembered: dict[Cell, Choices] = {}
        self._arrays: dict[int, list[tuple[NDArray[np.float64], tuple[int, ...]]]] = {}

    def inside(self, cell: Cell) -> float:
        """The log-value of a cell."""
        return float(_numpy(self.solution.raw(cell[0]))[cell[1]])

    def choices(self, cell: Cell) -> Choices:
        """All ways to rewrite a cell."""
        if cell not in self.remembered:
            self.remembered[cell] = self._choices(cell)
        return self.remembered[cell]

    def _choices(self, cell: Cell) -> Choices:
        terms, inners, offsets, scores = [], [], [], []
        total = 0
        for term in self.solution.system.terms_of[cell[0]]:
            fixed: dict[int, int] = {}
            agree = True
            for letter, value in zip(term.out, cell[1], strict=True):
                agree &= fixed.setdefault(letter, value) == value
            if not agree:
                continue  # a repeated external node has one value
            inner = tuple(i for i in range(len(term.sizes)) if i not in fixed)
            count = prod(term.sizes[i] for i in inner)
            if count > MAX_CHOICES:
                raise GrammarError([_too_many(term, count)])
            array = np.zeros([term.sizes[i] for i in inner])
            for operand, letters in self.arrays(term):
                part = operand[tuple(fixed.get(a, slice(None)) for a in letters)]
                left = [a for a in letters if a not in fixed]
                order = [left.index(a) for a in inner if a in left]
                shape = [term.sizes[a] if a in left else 1 for a in inner]
                with np.errstate(invalid="ignore"):
                    array = np.asarray(array + part.transpose(order).reshape(shape))
                array = np.where(np.isnan(array), -np.inf, array)  # 0 times infinity is 0
            terms.append(term)
            inners.append(inner)
            offsets.append(total)
            scores.append(array.reshape(-1))
            total += count
        flat = np.concatenate(scores) if scores else np.zeros(0)
        return Choices(tuple(terms), tuple(inners), tuple(offsets), flat)

    def arrays(self, term: Term) -> list[tuple[NDArray[np.float64], tuple[int, ...]]]:
        """The operands of a term as arrays of log-weights, each letter once."""
        key = id(term)
        if key not in self._arrays:
            solution = self.solution
            found = []
            for operand in term.operands:
                array = operand_array(solution.weights, term, operand, solution.raw)
                once, letters = diagonal(_numpy(array), operand.letters)
                found.append((once, letters))
            self._arrays[key] = found
        return self._arrays[key]

    def children(self, term: Term, values: dict[int, int]) -> list[Cell]:
        """The cells of a term's nonterminal edges under an assignment."""
        found = []
        for operand in term.operands:
            if not operand.nonterminal:
                continue
            cell = []
            for letter, path in zip(operand.letters, operand.paths, strict=True):
                domain = term.rule.rhs.nodes[letter].domain
                value = select(self.solution.grammar, domain, path, values[letter])
                assert value is not None
                cell.append(value)
            found.append((operand.label, tuple(cell)))
        return found

    def edge_weight(self, term: Term, values: dict[int, int]) -> float:
        """The log-weight of a term's factors under an assignment."""
        total = 0.0
        for operand, (array, letters) in zip(term.operands, self.arrays(term), strict=True):
            if not operand.nonterminal:
                total += float(array[tuple(values[a] for a in letters)])
        return total


def _too_many(term: Term, count: int) -> Diagnostic:
    return Diagnostic(
        code="F420",
        message=f"rule `{term.rule.name}` has {count:,} assignments of its inner nodes",
        help="factorise the grammar first, so that its fragments are small",
    )


def _numpy(array: Any) -> NDArray[np.float64]:
    if isinstance(array, Tensor):
        array = array.detach().cpu().numpy()
    return np.asarray(array, dtype=float)


def start_cells(solution: Solution) -> Sequence[Cell]:
    """The cells of the start symbol."""
    name = solution.grammar.start.label
    return [(name, tuple(map(int, index))) for index in np.ndindex(solution.system.shapes[name])]
