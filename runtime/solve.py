"""The reference engine: the sum-product of any finite grammar, in any semiring [CR §5].

Strongly connected components of nonterminals, each after those it depends on: contractions for
those that do not depend on themselves, a linear solve or Newton's method for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg import progress
from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import Grammar
from fgg.grounding import ground
from fgg.joints import joint_of, multiplied
from fgg.runtime.blocks import Structure, structure
from fgg.runtime.chart import Chart, Weights
from fgg.runtime.evaluate import evaluate_level
from fgg.runtime.finite import solve_exactly
from fgg.runtime.handles import Handles
from fgg.runtime.implicit import differentiable
from fgg.runtime.infinity import infinite_from_below, spread_infinity
from fgg.runtime.materialise import with_tensors
from fgg.runtime.newton import NoConvergence, Outcome, least_solution
from fgg.runtime.problem import Problem
from fgg.runtime.semirings import SEMIRINGS, Semiring
from fgg.runtime.semirings.boolean import Boolean
from fgg.runtime.semirings.exact import Precise
from fgg.runtime.semirings.log import Log
from fgg.runtime.semirings.real import Real
from fgg.runtime.semirings.torch_base import TensorSemiring
from fgg.runtime.solution import Method, Solution
from fgg.runtime.system import Component, system_of
from fgg.runtime.weights import bind
from fgg.slices import slice_of, steps, take

MAX_CELLS = 5000
"""The largest recursive component, in cells: its derivative is a square matrix of that size."""


def solve_with_handles(
    grammar: Grammar, semiring: Log, weights: Mapping[str, Any]
) -> tuple[Solution, Handles]:
    """A solution in logarithms, with handles on its terms and cells."""
    handles = Handles(grammar)
    return _Solver(grammar, semiring, dict(weights), None, handles).run(), handles


def solve(
    grammar: Grammar,
    semiring: str | Semiring = "log",
    *,
    weights: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Solution:
    """The values of all nonterminals of a finite grammar in a semiring.

    `weights` supplies or overrides factors; tensors keep their gradients in `real` and `log`.
    With a `seed`, factors without weights get random ones. Raises GrammarError.
    """
    if isinstance(semiring, str) and semiring not in SEMIRINGS:
        raise ValueError(f"there is no semiring {semiring!r}; there are {', '.join(SEMIRINGS)}")
    ring = SEMIRINGS[semiring]() if isinstance(semiring, str) else semiring
    if not grammar.is_indexed and any(rule.conditions for rule in grammar.rules):
        grammar = ground(grammar)  # conditions on sizes
    return _Solver(grammar, ring, dict(weights or {}), seed).run()


class _Solver:
    def __init__(
        self,
        grammar: Grammar,
        semiring: Semiring,
        supplied: dict[str, Any],
        seed: int | None,
        handles: Handles | None = None,
    ) -> None:
        self.handles = handles
        self.grammar = grammar
        self.semiring = semiring
        self.seed = seed
        supplied = with_tensors(grammar, supplied)
        self.supplied = supplied
        real: dict[str, Any] = bind(grammar, supplied, seed=seed, exactly=semiring.exactly)
        for name, given in supplied.items():
            if isinstance(given, Tensor) and isinstance(semiring, TensorSemiring):
                real[name] = given
        for factor in grammar.factors:
            joint = joint_of(factor)
            if joint is None or factor.name in supplied or factor.name not in real:
                continue
            if any(isinstance(real[part.source], Tensor) for part in joint.parts):
                parts = {p.source: torch.as_tensor(real[p.source]) for p in joint.parts}
                real[factor.name] = multiplied(torch.einsum, joint, parts)
        for factor in grammar.factors:
            cut = slice_of(factor)
            if cut is not None and factor.name in real and factor.name not in supplied:
                real[factor.name] = take(real[cut.source], steps(grammar, cut.axes))
        system = system_of(grammar)
        self.solution = Solution(
            grammar, system, semiring, Weights(grammar, semiring, real), Chart(semiring)
        )

    @cached_property
    def exact_weights(self) -> Mapping[str, Any]:
        return bind(self.grammar, self.supplied, seed=self.seed, exactly=True)

    def run(self) -> Solution:
        solution = self.solution
        for level in progress.steps(solution.system.levels, "level"):
            if level.plain:
                adjust = self.handles.adjust if self.handles is not None else None
                blocks = evaluate_level(
                    solution.system, solution.weights, solution.chart, level.plain, adjust
                )
                for names, block in blocks:
                    if self.handles is not None:
                        block = block + self.handles.new_cells(names, block.shape)
                    solution.chart.add(names, block)
                if solution.infinite:
                    spread_infinity(solution, level.plain)
            for component in level.components:
                if component.recursive:
                    self.recursive(component)
        self.warn_of_range()
        return solution

    def warn_of_range(self) -> None:
        """Warn where the value is infinite, or has left the range of real numbers."""
        solution, name = self.solution, self.grammar.start.label
        if solution.infinite.get(name) is not None:
            message = "the sum over derivations diverges: the value is inf"
            if self.semiring.name == "max":
                message = "a cycle of rules has a weight of more than 1: no derivation is the best"
            solution.warnings.append(Diagnostic(code="F432", message=message))
        if not isinstance(self.semiring, Real):
            return
        value = solution.chart.get(name).detach()
        large = bool(torch.isinf(value).any())
        if large or (bool((value == 0).any()) and self.underflows(value)):
            solution.warnings.append(
                Diagnostic(
                    code="F433",
                    message=f"a value is too {'large' if large else 'small'} for a real number",
                    help="use the semiring `log`",
                )
            )

    def underflows(self, value: Tensor) -> bool:
        """Whether the value is 0 where there are derivations of other weights."""
        logs = solve(self.grammar, "log", weights=self.supplied, seed=self.seed).value.detach()
        return bool((torch.isfinite(logs) & (value == 0)).any())

    def recursive(self, component: Component) -> None:
        """Solve a component whose nonterminals depend on themselves."""
        solution = self.solution
        problem = Problem(solution.system, component, solution.weights, solution.chart)
        if problem.size > MAX_CELLS and not isinstance(self.semiring, Boolean):
            names = ", ".join(f"`{name}`" for name in component.nonterminals[:4])
            raise GrammarError(
                [
                    Diagnostic(
                        code="F420",
                        message=f"the recursion through {names} has {problem.size:,} cells",
                        help=f"at most {MAX_CELLS:,} can be solved together",
                    )
                ]
            )
        shape = structure(problem)
        from_outside = infinite_from_below(solution, problem)
        if isinstance(self.semiring, TensorSemiring):
            x, infinite = self.real(problem, shape)
        else:
            result = solve_exactly(problem, shape)
            x, infinite = result.x, result.infinite
            name = ", ".join(sorted(result.methods)) or "contraction"
            solution.methods.append(Method(component.nonterminals, name))
            if result.round is not None:
                for nonterminal in component.nonterminals:
                    solution.rounds[nonterminal] = problem.slice(result.round, nonterminal)
        if from_outside is not None:
            infinite = infinite | from_outside
        for name in component.nonterminals:
            part = problem.slice(x, name)
            solution.chart.add([name], part.reshape((1, *part.shape)))
            mask = problem.slice(infinite, name)
            if mask.any():
                solution.infinite[name] = mask

    def real(self, problem: Problem, shape: Structure) -> tuple[Tensor, NDArray[np.bool_]]:
        """Solve over the reals; the result carries gradients if the weights do."""
        assert isinstance(self.semiring, TensorSemiring)
        real = Real(self.semiring.dtype, self.semiring.device)
        chart = Chart(real)
        wanted = {c for t in problem.terms for c in t.children if c not in problem.offsets}
        for child in wanted:
            value = problem.chart.get(child)
            chart.add([child], (value.exp() if isinstance(self.semiring, Log) else value)[None])
        weights = Weights(self.grammar, real, self.solution.weights.real)
        scale = self.handles.scale if self.handles is not None else None
        smooth = Problem(self.solution.system, problem.component, weights, chart, scale)
        # Arrays made without gradients must not be found again where gradients are wanted.
        still = Weights(self.grammar, real, self.solution.weights.real)
        steady = Problem(self.solution.system, problem.component, still, chart, scale)
        self.warn_of_underflow(problem, wanted)

        def precisely(semiring: Precise) -> Problem:
            precise_chart = Chart(semiring)
            for child in wanted:
                value = chart.get(child).detach().cpu().numpy()
                precise_chart.add([child], semiring.convert(value)[None])
            exact = Weights(self.grammar, semiring, self.exact_weights)
            return Problem(self.solution.system, problem.component, exact, precise_chart)

        try:
            with torch.no_grad():
                outcome = least_solution(steady, shape, precisely)
        except NoConvergence:
            names = ", ".join(f"`{name}`" for name in problem.names[:4])
            raise GrammarError(
                [Diagnostic(code="F418", message=f"the recursion through {names} did not converge")]
            ) from None
        self.note(problem, outcome)
        x = differentiable(smooth, shape, outcome, self.handles)
        if isinstance(self.semiring, Log):
            x = self.semiring.convert(x)
        return x, outcome.infinite

    def note(self, problem: Problem, outcome: Outcome) -> None:
        name = ", ".join(sorted(outcome.methods)) or "contraction"
        method = Method(problem.names, name, outcome.steps, outcome.error, outcome.critical)
        self.solution.methods.append(method)
        if outcome.critical:
            names = ", ".join(f"`{n}`" for n in problem.names[:4])
            self.solution.warnings.append(
                Diagnostic(
                    code="F431",
                    message=f"the recursion through {names} is critical: its value is known to "
                    f"a relative error of {outcome.error:.1g}, its gradient is infinite",
                )
            )

    def warn_of_underflow(self, problem: Problem, wanted: set[str]) -> None:
        if not isinstance(self.semiring, Log):
            return
        for child in wanted:
            value = problem.chart.get(child).detach()
            finite = value[torch.isfinite(value)]
            if finite.numel() and float(finite.min()) < -600:
                self.solution.warnings.append(
                    Diagnostic(
                        code="F433",
                        message=f"`{child}` has values below e^-600, which a recursion uses as "
                        "real numbers; its result may be too small",
                    )
                )
                return
