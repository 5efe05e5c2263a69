"""Least solutions of recursive components over the reals, by Newton's method.

A component is a system x = F(x) of polynomials with non-negative coefficients. Newton's method
from 0 climbs to its least non-negative solution, block by block [Etessami & Yannakakis 2009];
below that solution the derivative's spectral radius is less than one, so a radius of one or more
proves that there is no finite solution. Near a radius of one (a critical system) float64 loses
half of its digits, and the block is solved with more of them. Derivatives of the solution in the
weights come from the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.interpret.semirings.base import Numbers
from fgg.runtime.interpret.semirings.exact import Objects, Precise
from fgg.runtime.program.bind import Logs
from fgg.runtime.reference.blocks import Block, Structure
from fgg.runtime.reference.count_gradients import Handles
from fgg.runtime.reference.problem import Problem

MAX_STEPS = 100
MAX_PRECISE_STEPS = 400
MAX_PRECISE_CELLS = 40
CRITICAL = 1e-4
"""More digits are needed if the spectral radius is nearer to one than this."""


ROUNDING = 2.0**-53
"""The greatest relative error of a number that was rounded to float64."""


class NoConvergence(ArithmeticError):
    """The method did not reach its tolerance."""


@dataclass
class Outcome:
    """The least solution of a problem, the methods that computed it, and its relative error.

    `x` and `infinite` are `[cells]`; `x` is 0 where a cell is infinite.
    """

    x: NDArray[np.float64]
    infinite: NDArray[np.bool_]
    steps: int = 0
    error: float = 0.0
    critical: bool = False
    methods: set[str] = field(default_factory=set)


Precisely = Callable[[Precise, float], Problem[Objects]]
"""Makes the problem with many digits, and with all weights smaller by a relative amount."""


def least_solution(problem: Problem[Tensor], shape: Structure, precisely: Precisely) -> Outcome:
    """The least non-negative solution. Raises NoConvergence.

    `problem` computes with float64 tensors without gradients; `precisely` makes the same problem
    with more digits. The outcome's error is the greatest relative one of a value, if the weights
    are rounded numbers.
    """
    out = Outcome(np.zeros(problem.size), np.zeros(problem.size, dtype=bool))
    bad: set[int] = set()
    for level in shape.levels:
        plain = [i for i in level if not shape.blocks[i].cyclic]
        if plain:
            values = _apply(problem, out.x)
        for i in level:
            block = shape.blocks[i]
            if any(need in bad for need in block.needs):
                bad.add(i)
                out.infinite[block.cells] = True
            elif not block.cyclic:
                out.x[block.cells] = values[block.cells]
            elif not _solve_block(problem, block, out, precisely):
                bad.add(i)
                out.infinite[block.cells] = True
                out.x[block.cells] = 0.0
                out.methods.add("divergence")
    return out


def _apply(problem: Problem[Tensor], x: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = problem.apply(problem.vector(x)).cpu().numpy()
    return result


def block_matrix(
    problem: Problem[Tensor], x: Tensor, cells: NDArray[np.intp]
) -> NDArray[np.float64]:
    """The block of dF/dx for some cells."""
    inverse = np.full(problem.size, -1, dtype=np.intp)
    inverse[cells] = np.arange(len(cells))
    matrix = np.zeros((len(cells), len(cells)))
    for rows, columns, values in problem.derivative(x):
        keep = (inverse[rows] >= 0) & (inverse[columns] >= 0)
        flat = values.detach().cpu().numpy()[keep]
        np.add.at(matrix, (inverse[rows[keep]], inverse[columns[keep]]), flat)
    return matrix


def radius(matrix: NDArray[np.float64]) -> float:
    """The spectral radius of a non-negative matrix."""
    if len(matrix) == 1:
        return float(matrix[0, 0])
    if len(matrix) <= 400:
        return float(np.abs(np.linalg.eigvals(matrix)).max())
    vector = np.ones(len(matrix))
    norm = 0.0
    for _ in range(500):
        vector = vector @ (matrix + np.eye(len(matrix)))  # shifted, so that it converges
        norm = float(vector.max())
        vector /= norm
    return norm - 1.0


def _solve_block(
    problem: Problem[Tensor], block: Block, out: Outcome, precisely: Precisely
) -> bool:
    """Solve a block; False if it has no finite solution."""
    cells = block.cells
    x = out.x
    for step in range(1, MAX_STEPS + 1):
        values = _apply(problem, x)[cells]
        matrix = block_matrix(problem, problem.vector(x), cells)
        if not np.isfinite(values).all() or not np.isfinite(matrix).all():
            return False
        rho = radius(matrix)
        if rho > 1 - CRITICAL and len(cells) <= MAX_PRECISE_CELLS:
            return _solve_precisely(precisely, block, out)
        if rho >= 1 - 1e-12:
            if not problem.component.linear and rho < 1 + 1e-6:
                raise NoConvergence  # critical or divergent: float64 cannot tell
            return False
        delta = np.linalg.solve(np.eye(len(cells)) - matrix, values - x[cells])
        x[cells] = np.maximum(x[cells] + delta, 0.0)
        out.steps = max(out.steps, step)
        scale = np.maximum(x[cells], np.finfo(float).tiny)
        change = float(np.abs(delta / scale).max())
        # Rounding is amplified by the inverse of I - dF: a step cannot become smaller than that.
        if problem.component.linear or change < max(1e-14, problem.rounding / max(1 - rho, 1e-5)):
            out.methods.add("linear solve" if problem.component.linear else "Newton")
            out.error = max(out.error, problem.rounding / 2 / max(1 - rho, 1e-16))
            return True
        if change > 1e3 and float(x[cells].max()) > 1e250:
            return False
    raise NoConvergence


def _solve_precisely(precisely: Precisely, block: Block, out: Outcome) -> bool:
    """Solve a block with many digits; False if it has no finite solution."""
    semiring = Precise()
    problem = precisely(semiring, 0.0)
    solution = _precise_solution(problem, block, out)
    cells = block.cells
    before = Outcome(out.x.copy(), out.infinite)
    if solution is None:
        # Weights that were rounded up may be all that makes it diverge.
        if _precise_solution(precisely(semiring, ROUNDING), block, before) is not None:
            out.critical, out.error = True, float("inf")
        return False
    x, matrix = solution
    out.x[cells] = [float(value) for value in x]
    out.methods.add("linear solve" if problem.component.linear else "Newton, many digits")
    distance = max(1 - radius(matrix), 0.0)
    if distance >= 1e-9:
        out.error = max(out.error, ROUNDING / distance)
        return True
    # A weight that was rounded was perhaps greater by half a unit in its last place.
    smaller = _precise_solution(precisely(semiring, ROUNDING), block, before)
    assert smaller is not None  # less weight converges too
    moves = [float(abs(one - two) / one) for one, two in zip(x, smaller[0], strict=True) if one]
    out.critical = True
    out.error = max(out.error, ROUNDING, *moves)
    return True


def _precise_solution(
    problem: Problem[Objects], block: Block, out: Outcome
) -> tuple[Objects, NDArray[np.float64]] | None:
    """The values of a block's cells with many digits, and the derivative at them.

    None if there is no finite solution. Raises NoConvergence.
    """
    semiring = problem.semiring
    assert isinstance(semiring, Precise)
    context = semiring.context
    cells = block.cells
    inverse = {int(cell): i for i, cell in enumerate(cells)}
    x = problem.vector(out.x)
    x[cells] = semiring.zero
    tolerance = context.mpf(2) ** -140
    for step in range(1, MAX_PRECISE_STEPS + 1):
        values = problem.apply(x)[cells]
        system = context.eye(len(cells))
        for rows, columns, entries in problem.derivative(x):
            for r, c, value in zip(rows.tolist(), columns.tolist(), entries, strict=True):
                if r in inverse and c in inverse:
                    system[inverse[r], inverse[c]] -= value
        right = context.matrix([value - x[cell] for value, cell in zip(values, cells, strict=True)])
        try:
            delta = context.lu_solve(system, right)
        except ZeroDivisionError:
            return None
        scale = max(max(abs(x[cell]) for cell in cells), context.mpf(1e-300))
        if any(d < -tolerance * scale for d in delta) or scale > context.mpf(10) ** 60:
            return None  # an iterate overshot: there is no solution above it
        for i, cell in enumerate(cells):
            x[cell] += delta[i]
        out.steps = max(out.steps, step)
        if max(abs(d) for d in delta) <= tolerance * max(abs(x[cell]) for cell in cells):
            break
    else:
        raise NoConvergence
    matrix = np.array(
        [[float((i == j) - system[i, j]) for j in range(len(cells))] for i in range(len(cells))]
    )
    return x[cells], matrix


def differentiable(
    problem: Problem[Tensor], shape: Structure, outcome: Outcome, handles: Handles | None
) -> Tensor:
    """The solution as a function of the weights.

    A Newton step from the solution has the derivative of the implicit function, and two
    steps have its second and third derivatives as well.
    """
    x = torch.as_tensor(outcome.x, dtype=torch.float64)
    finite = np.flatnonzero(_moving(problem, shape, outcome))
    needs = [
        _tensor_of(problem.weights.real[o.label])
        for t in problem.terms
        for o in t.operands
        if not o.nonterminal
    ]
    needs += problem.chart.blocks
    zeros = None
    if handles is not None:
        needs.append(handles.rules)
        zeros = torch.zeros(problem.size, dtype=torch.float64, requires_grad=True)
        for name in problem.names:
            start = problem.offsets[name]
            # one vector for the component; `Handles.counts` cuts it up again
            handles.cells.append(((name,), zeros))
            handles.cuts[name] = (start, problem.system.shapes[name])
    if not len(finite) or not any(isinstance(w, Tensor) and w.requires_grad for w in needs):
        return x
    if outcome.critical:
        refuse("F423", "the recursion is critical, so the gradient is infinite")
    inverse = np.full(problem.size, -1, dtype=np.intp)
    inverse[finite] = np.arange(len(finite))
    index = torch.as_tensor(finite)
    identity = torch.eye(len(finite), dtype=torch.float64)
    for _ in range(2):
        factor = torch.ones(problem.size, dtype=torch.float64) if zeros is None else zeros.exp()
        matrix = torch.zeros_like(identity)
        for rows, columns, values in problem.derivative(x):
            keep = np.flatnonzero((inverse[rows] >= 0) & (inverse[columns] >= 0))
            places = (
                torch.as_tensor(inverse[rows[keep]]),
                torch.as_tensor(inverse[columns[keep]]),
            )
            entries = (values * factor[torch.as_tensor(rows)])[torch.as_tensor(keep)]
            matrix = matrix.index_put(places, entries, accumulate=True)
        change = (problem.apply(x) * factor)[index] - x[index]
        step = torch.linalg.solve(identity - matrix, change)
        x = x.index_add(0, index, step)
    return x


def _tensor_of(weights: Numbers | Logs) -> Numbers:
    return weights.array if isinstance(weights, Logs) else weights


def _moving(problem: Problem[Tensor], shape: Structure, outcome: Outcome) -> NDArray[np.bool_]:
    """A mask `[cells]` of the cells to differentiate: the finite ones, zeros included.

    The derivative of a zero cell counts, since a weight of 0 may grow. Zero cells are left out if
    their recursion would diverge as soon as anything feeds it: their derivative is infinite.
    """
    finite = ~outcome.infinite
    resting = np.flatnonzero(finite & ~shape.active)
    if not len(resting):
        return finite
    with torch.no_grad():
        matrix = block_matrix(problem, problem.vector(outcome.x), resting)
    return finite if radius(matrix) < 1 - 1e-12 else finite & shape.active
