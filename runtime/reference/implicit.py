"""The solution of a recursion as a function of the weights: implicit differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.program.bind import Logs
from fgg.runtime.reference.blocks import Structure
from fgg.runtime.reference.count_gradients import Handles
from fgg.runtime.reference.newton import Outcome, block_matrix, radius
from fgg.runtime.reference.problem import Problem


def differentiable(
    problem: Problem, shape: Structure, outcome: Outcome, handles: Handles | None
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


def _tensor_of(weights: Any) -> Any:
    return weights.array if isinstance(weights, Logs) else weights


def _moving(problem: Problem, shape: Structure, outcome: Outcome) -> NDArray[np.bool_]:
    """The finite cells, also those that are zero: a weight of 0 may be about to grow.

    Cells that are zero only because nothing feeds a recursion that would blow up are left out:
    their derivative is infinite.
    """
    finite = ~outcome.infinite
    resting = np.flatnonzero(finite & ~shape.active)
    if not len(resting):
        return finite
    with torch.no_grad():
        matrix = block_matrix(problem, problem.vector(outcome.x), resting)
    return finite if radius(matrix) < 1 - 1e-12 else finite & shape.active
