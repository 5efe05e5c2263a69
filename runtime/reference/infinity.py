"""Infinite values: where they spread to. Zero times infinity is zero."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fgg.runtime.interpret.semirings.boolean import Boolean
from fgg.runtime.reference.blocks import support
from fgg.runtime.reference.chart import Weights, diagonal
from fgg.runtime.reference.contract import contract
from fgg.runtime.reference.evaluate import embed, operand_array, unique
from fgg.runtime.reference.problem import Problem
from fgg.runtime.reference.solution import Solution


def infinite_from_below(solution: Solution, problem: Problem) -> NDArray[np.bool_] | None:
    """The cells of a component that are infinite because of what they use from below."""
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
            found = _infinite_mask(solution, name, parts, present).reshape(-1)
            following[start : start + len(found)] |= found
        if bool((following == mask).all()):
            return mask
        mask = following


def spread_infinity(solution: Solution, names: tuple[str, ...]) -> None:
    """Find the cells that use an infinite one, everything else in their term not being zero."""
    for name in names:
        mask = _infinite_mask(solution, name, {}, {})
        if mask.any():
            solution.infinite[name] = mask


def _infinite_mask(
    solution: Solution,
    name: str,
    inner: Mapping[str, NDArray[np.bool_]],
    present: Mapping[str, NDArray[np.bool_]],
) -> NDArray[np.bool_]:
    """Where a nonterminal is infinite, given where those of its component are not zero."""
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
