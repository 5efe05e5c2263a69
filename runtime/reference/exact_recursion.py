"""Least solutions of recursive components in semirings without rounding.

Booleans and maxima are iterated to a fixed point; linear recursions are solved by elimination.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fgg.diagnostics import refuse
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.interpret.semirings.boolean import Boolean
from fgg.runtime.interpret.semirings.max_plus import MaxPlus
from fgg.runtime.interpret.semirings.modular import Modular
from fgg.runtime.reference.blocks import Block, Structure
from fgg.runtime.reference.exact_linear import Singular, solve_fractions, solve_modular
from fgg.runtime.reference.newton import radius
from fgg.runtime.reference.problem import Problem


@dataclass
class ExactOutcome:
    """The least solution of a problem, and the methods that computed it.

    `x` and `infinite` are `[cells]`; `x` is arbitrary where a cell is infinite. In `max`, `round`
    is the iteration in which each cell got its value. A cell's best derivation uses cells of
    earlier rounds only.
    """

    x: NumpyArray
    infinite: NDArray[np.bool_]
    methods: set[str] = field(default_factory=set)
    round: NDArray[np.int64] | None = None


def solve_exactly(problem: Problem[NumpyArray], shape: Structure) -> ExactOutcome:
    """The least solution of a problem in a semiring without rounding. Raises GrammarError."""
    if isinstance(problem.semiring, Boolean):
        return ExactOutcome(shape.active, np.zeros(problem.size, dtype=bool), {"fixed point"})
    if isinstance(problem.semiring, MaxPlus):
        return best_values(problem)
    return _by_blocks(problem, shape)


def best_values(problem: Problem[NumpyArray]) -> ExactOutcome:
    """The values of the best derivations.

    As many rounds as there are cells suffice. A cell that still gains afterwards is infinite: a
    cycle has a weight of more than 1.
    """
    x = problem.semiring.full((problem.size,), one=False)
    rounds = np.zeros(problem.size, dtype=np.int64)
    infinite = np.zeros(problem.size, dtype=bool)
    for number in range(1, 2 * problem.size + 3):
        following = np.asarray(problem.apply(x))
        # A gain within rounding is none: it could go round a cycle of weight one for ever.
        slack = 1e-12 * np.maximum(1.0, np.abs(np.where(np.isfinite(x), x, 0.0)))
        better = following > x + slack
        better |= np.isinf(following) & (following > 0) & ~infinite
        if not bool(better.any()):
            return ExactOutcome(x, infinite, {"fixed point"}, rounds)
        rounds[better] = number
        x = np.where(better, following, x)
        if number > problem.size + 1:
            infinite |= better
            x = np.where(infinite, np.inf, x)
    return ExactOutcome(x, infinite, {"fixed point"}, rounds)


def _by_blocks(problem: Problem[NumpyArray], shape: Structure) -> ExactOutcome:
    x = problem.semiring.full((problem.size,), one=False)
    result = ExactOutcome(x, np.zeros(problem.size, dtype=bool))
    bad: set[int] = set()
    for level in shape.levels:
        values = problem.apply(x)
        for i in level:
            block = shape.blocks[i]
            if any(need in bad for need in block.needs):
                solved = False
            elif not block.cyclic:
                x[block.cells] = values[block.cells]
                solved = True
            else:
                solved = _cycle(problem, block, x, result)
            if not solved:
                bad.add(i)
                result.infinite[block.cells] = True
    return result


def _cycle(problem: Problem[NumpyArray], block: Block, x: NumpyArray, result: ExactOutcome) -> bool:
    """Solve a block of cells that depend on each other; False if they are infinite."""
    semiring = problem.semiring
    if semiring.name == "counting":
        result.methods.add("divergence")
        return False
    if not problem.component.linear:
        names = ", ".join(f"`{name}`" for name in problem.names[:4])
        refuse(
            "F419",
            f"the recursion through {names} is not linear, so it has no exact "
            f"solution in the semiring `{semiring.name}`",
            "use `real` or `log`",
        )
    cells = block.cells
    inverse = {int(cell): i for i, cell in enumerate(cells)}
    matrix = semiring.full((len(cells), len(cells)), one=False)
    for rows, columns, entries in problem.derivative(x):
        for r, c, value in zip(rows.tolist(), columns.tolist(), entries, strict=True):
            if r in inverse and c in inverse:
                matrix[inverse[r], inverse[c]] += value
    right = problem.apply(x)[cells]  # x is 0 on the block, so this is the constant part
    identity = semiring.full((len(cells), len(cells)), one=False)
    np.fill_diagonal(identity, semiring.full((), one=True)[()])
    result.methods.add("linear solve")
    try:
        if isinstance(semiring, Modular):
            x[cells] = solve_modular((identity - matrix) % semiring.prime, right, semiring.prime)
            return True
        if radius(np.asarray(matrix, dtype=float)) > 1 - 1e-9:
            solution = solve_fractions(identity - matrix, right)
            if any(value < 0 for value in solution):
                return False
            x[cells] = solution
            return True
        x[cells] = solve_fractions(identity - matrix, right)
        return True
    except Singular:
        if isinstance(semiring, Modular):
            refuse("F419", "the linear system is singular in this field")
        return False
