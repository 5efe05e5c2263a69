"""The choices of a ground grammar, from the reference engine's values of its nonterminals."""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.grammar.domains import select
from fgg.runtime.derive.choices import (
    Cell,
    CellChoices,
    Choice,
    Floats,
    RuleChoices,
    aligned,
    check_count,
)
from fgg.runtime.reference.chart import diagonal
from fgg.runtime.reference.evaluate import operand_array
from fgg.runtime.reference.solution import AnySolution
from fgg.runtime.reference.system import Term, TermOperand


class GroundChoices:
    """The cells of a solution in `log` or `max`. A cell has no indices."""

    def __init__(self, solution: AnySolution) -> None:
        self.solution = solution
        self._terms: dict[str, _TermArrays] = {}
        self._choices: dict[Cell, CellChoices] = {}

    @cached_property
    def start(self) -> list[Cell]:
        """The cells of the start symbol."""
        name = self.solution.grammar.start.label
        shape = self.solution.system.shapes[name]
        return [Cell(name, (), tuple(map(int, values))) for values in np.ndindex(shape)]

    def inside(self, cell: Cell) -> float:
        """The log-value of a cell."""
        return float(_numpy(self.solution.raw(cell.family))[cell.values])

    def at(self, cell: Cell) -> CellChoices:
        """All ways to rewrite a cell."""
        if cell not in self._choices:
            terms = self.solution.system.terms_of[cell.family]
            parts = [self._arrays(term).choices(cell) for term in terms]
            offered = tuple(part for part in parts if part is not None)
            self._choices[cell] = CellChoices(cell, offered)
        return self._choices[cell]

    def best(self, ways: CellChoices) -> int:
        """The number of a cell's best choice, the first one under ties.

        In a recursion a tie could lead round a cycle of weight 1 for ever. There it is the best
        choice whose cells got their values in earlier rounds. Raises GrammarError if none is.
        """
        cell = ways.cell
        rounds = self.solution.rounds.get(cell.family)
        if rounds is None:
            return int(ways.scores.argmax())
        limit = int(rounds[cell.values])
        top = float(ways.scores.max())
        near = np.flatnonzero(ways.scores >= top - 1e-9 * max(1.0, abs(top)))
        for number in near[np.argsort(-ways.scores[near], kind="stable")].tolist():
            children = self.children(ways.decode(number))
            if all(self._round(child, cell.family) < limit for child in children):
                return int(number)
        refuse("F421", "the best derivation does not end")

    def ranked(self, ways: CellChoices) -> NDArray[np.intp]:
        """The numbers of a cell's choices of weight other than 0, best first."""
        order = ways.ranked()
        if ways.cell.family not in self.solution.rounds:
            return order
        # First a choice that ends: a cycle of weight 1 could go before it for ever.
        first = self.best(ways)
        return np.concatenate([[first], order[order != first]])

    def children(self, choice: Choice) -> list[Cell]:
        """The cells that a choice goes on with."""
        return self._terms[choice.rule.name].children(choice)

    def edge_weight(self, choice: Choice) -> float:
        """The log-weight of a choice's factors."""
        return self._terms[choice.rule.name].edge_weight(choice)

    def _arrays(self, term: Term) -> _TermArrays:
        name = term.rule.name
        if name not in self._terms:
            self._terms[name] = _TermArrays(self.solution, term)
        return self._terms[name]

    def _round(self, cell: Cell, above: str) -> int:
        """The round in which a cell got its value; -1 if `above` is not in the same recursion."""
        rounds = self.solution.rounds.get(cell.family)
        component = self.solution.system.component_of
        if rounds is None or component[cell.family] != component[above]:
            return -1
        return int(rounds[cell.values])


class _TermArrays:
    """A rule's edges as arrays of log-weights, an axis for each node."""

    def __init__(self, solution: AnySolution, term: Term) -> None:
        self.grammar = solution.grammar
        self.rule = term.rule
        nodes = [node.name for node in term.rule.rhs.nodes]
        self.sizes = dict(zip(nodes, term.sizes, strict=True))
        self.arrays: list[tuple[Floats, tuple[str, ...]]] = []
        self.factors: list[tuple[Floats, tuple[str, ...]]] = []
        self.nonterminals: list[TermOperand] = []
        for operand in term.operands:
            array = _numpy(operand_array(solution.weights, term, operand, solution.raw))
            array, letters = diagonal(array, operand.letters)
            named = array, tuple(nodes[letter] for letter in letters)
            self.arrays.append(named)
            if operand.nonterminal:
                self.nonterminals.append(operand)
            else:
                self.factors.append(named)

    def choices(self, cell: Cell) -> RuleChoices | None:
        """The ways in which the rule rewrites a cell, if any."""
        fixed: dict[str, int] = {}
        for name, value in zip(self.rule.rhs.externals, cell.values, strict=True):
            if fixed.setdefault(name, value) != value:
                return None  # a node that is external twice has one value
        inner = tuple(name for name in self.sizes if name not in fixed)
        shape = [self.sizes[name] for name in inner]
        check_count(self.rule, prod(shape), "assignments of its inner nodes")
        total = np.zeros((1, *shape))
        with np.errstate(invalid="ignore"):
            for array, names in self.arrays:
                part = np.asarray(array[tuple([fixed.get(name, slice(None)) for name in names])])
                total += aligned(part[None], names, fixed, inner)
        total = np.where(np.isnan(total), -np.inf, total)  # 0 times infinity is 0
        return RuleChoices(self.rule, fixed, inner, total)

    def children(self, choice: Choice) -> list[Cell]:
        """The cells of the rule's nonterminal edges."""
        cells = []
        for operand in self.nonterminals:
            values = []
            for letter, path in zip(operand.letters, operand.paths, strict=True):
                node = self.rule.rhs.nodes[letter]
                value = select(self.grammar, node.domain, path, choice.values[node.name])
                assert value is not None, "a choice has no edges of weight 0"
                values.append(value)
            cells.append(Cell(operand.label, (), tuple(values)))
        return cells

    def edge_weight(self, choice: Choice) -> float:
        """The log-weight of the rule's factors."""
        return float(
            sum(
                float(array[tuple(choice.values[name] for name in names)])
                for array, names in self.factors
            )
        )


def _numpy(array: object) -> Floats:
    if isinstance(array, Tensor):
        array = array.detach().cpu().numpy()
    return np.asarray(array, dtype=float)
