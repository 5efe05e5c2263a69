"""The solution of a grammar: the values of its nonterminals, infinite ones apart.

Infinity spreads to every cell that uses an infinite one, unless it is multiplied by zero: zero
times infinity is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Generic, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import Diagnostic
from fgg.grammar import Grammar
from fgg.runtime.interpret.semirings import Semiring
from fgg.runtime.interpret.semirings.base import Array
from fgg.runtime.interpret.semirings.boolean import Boolean
from fgg.runtime.reference.blocks import support
from fgg.runtime.reference.chart import ValueChart, Weights, diagonal
from fgg.runtime.reference.contract import contract
from fgg.runtime.reference.evaluate import embed, operand_array, unique
from fgg.runtime.reference.problem import AnyProblem
from fgg.runtime.reference.system import System


@dataclass(frozen=True)
class RecursionReport:
    """How a recursive component was solved: the method, its steps and the relative error."""

    nonterminals: tuple[str, ...]
    name: str
    steps: int = 0
    error: float = 0.0
    critical: bool = False


@dataclass
class Solution(Generic[Array]):
    """The values of a grammar's nonterminals.

    Infinite values are kept apart: `chart` has zeros in their places and `infinite` says where.
    """

    grammar: Grammar
    system: System
    semiring: Semiring[Array]
    weights: Weights[Array]
    chart: ValueChart[Array]
    infinite: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    methods: list[RecursionReport] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    rounds: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def __repr__(self) -> str:
        name, cells = self.grammar.name, len(self.grammar.nonterminals)
        return f"Solution({name!r}, {self.semiring.name!r}, {cells} nonterminals)"

    def raw(self, name: str) -> Array:
        """The value of a nonterminal in the semiring, infinite cells filled in."""
        value = self.chart.get(name)
        mask = self.infinite.get(name)
        return value if mask is None or not mask.any() else _with_infinity(value, mask)

    @cached_property
    def value(self) -> Array:
        """The value of the start symbol in the semiring: log Z for `log`, Z for `real`."""
        return self.raw(self.grammar.start.label)

    @property
    def log_z(self) -> Tensor:
        """log Z, entry by entry if the start symbol has external nodes (`log` and `real`)."""
        assert isinstance(self.value, Tensor), "`log` and `real` compute with tensors"
        return self.value if self.semiring.name == "log" else torch.log(self.value)

    @property
    def critical(self) -> bool:
        """Whether a recursion is critical, so that gradients are infinite."""
        return any(method.critical for method in self.methods)


AnySolution = Solution[Any]
"""A solution in a semiring that is chosen at run time."""


def _with_infinity(value: Array, mask: NDArray[np.bool_]) -> Array:
    """A value with infinity where a mask is true."""
    filled = (
        torch.where(torch.as_tensor(mask), inf, value)
        if isinstance(value, Tensor)
        else np.where(mask, inf, np.asarray(value, dtype=object))
    )
    return cast(Array, filled)


def infinite_from_below(solution: AnySolution, problem: AnyProblem) -> NDArray[np.bool_] | None:
    """A mask `[cells]` of a component's cells that use infinite ones from below, if any are."""
    if not solution.infinite:
        return None
    mask = np.zeros(problem.size, dtype=bool)
    active = support(problem, solution.infinite)
    present = {n: problem.slice(active, n) for n in problem.names}
    while True:
        following = mask.copy()
        for name in problem.names:
            start = problem.offsets[name]
            parts = {n: problem.slice(mask, n) for n in problem.names}
            cells = _infinite_mask(solution, name, parts, present).reshape(-1)
            following[start : start + len(cells)] |= cells
        if bool((following == mask).all()):
            return mask
        mask = following


def spread_infinity(solution: AnySolution, names: tuple[str, ...]) -> None:
    """Mark the cells of nonterminals that use an infinite cell in a term without zeros."""
    for name in names:
        mask = _infinite_mask(solution, name, {}, {})
        if mask.any():
            solution.infinite[name] = mask


def _infinite_mask(
    solution: AnySolution,
    name: str,
    inner: Mapping[str, NDArray[np.bool_]],
    present: Mapping[str, NDArray[np.bool_]],
) -> NDArray[np.bool_]:
    """A mask `[*values]` of where a nonterminal is infinite.

    `inner` masks the infinite cells of its component so far, `present` those that are not zero.
    """
    boolean = Boolean()
    shape = solution.system.shapes[name]
    total = np.zeros(shape, dtype=bool)
    shadow = Weights(
        solution.grammar,
        boolean,
        {
            n: solution.semiring.nonzero(solution.weights.converted(n))
            for n in solution.weights.real
        },
    )

    def infinite(label: str) -> NDArray[np.bool_]:
        if label in inner:
            return inner[label]
        empty = np.zeros(solution.system.shapes[label], dtype=bool)
        return solution.infinite.get(label, empty)

    def nonzero(label: str) -> NDArray[np.bool_]:
        if label in present:
            return present[label]
        return solution.semiring.nonzero(solution.chart.get(label)) | infinite(label)

    for term in solution.system.terms_of[name]:
        for position, operand in enumerate(term.operands):
            if not operand.nonterminal or not infinite(operand.label).any():
                continue
            operands = [
                diagonal(
                    operand_array(shadow, term, o, infinite if i == position else nonzero),
                    o.letters,
                )
                for i, o in enumerate(term.operands)
            ]
            value = contract(boolean, operands, unique(term.out), dict(enumerate(term.sizes)))
            total |= embed(boolean, value[None], term.out, shape)[0]
    return total
