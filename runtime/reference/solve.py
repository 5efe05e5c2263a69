"""The reference engine: the sum-product of any finite grammar, in any semiring [CR §5].

Strongly connected components of nonterminals, each after those it depends on: contractions for
those that do not depend on themselves, a linear solve or Newton's method for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg import progress
from fgg.diagnostics import Diagnostic, refuse
from fgg.factors.product_factors import multiplied
from fgg.grammar import Grammar
from fgg.grammar.definitions import ProductOf, Slice
from fgg.grammar.slices import steps, take
from fgg.rewrite.ground import ground
from fgg.runtime.interpret.semirings import SEMIRINGS, AnySemiring
from fgg.runtime.interpret.semirings.base import Numbers, NumpyArray
from fgg.runtime.interpret.semirings.boolean import Boolean
from fgg.runtime.interpret.semirings.exact import Objects, Precise
from fgg.runtime.interpret.semirings.log import SAFE_RANGE, Log
from fgg.runtime.interpret.semirings.max_plus import MaxPlus
from fgg.runtime.interpret.semirings.real import Real, TensorSemiring
from fgg.runtime.model.materialise import with_tensors
from fgg.runtime.program.bind import Logs, bind_with_logs
from fgg.runtime.reference.blocks import Structure, structure
from fgg.runtime.reference.chart import ValueChart, Weights
from fgg.runtime.reference.count_gradients import Handles
from fgg.runtime.reference.evaluate import evaluate_level
from fgg.runtime.reference.exact_recursion import best_values, solve_exactly
from fgg.runtime.reference.newton import (
    NoConvergence,
    Outcome,
    differentiable,
    least_solution,
)
from fgg.runtime.reference.problem import (
    AnyProblem,
    LogUnitProblem,
    PreciseUnitProblem,
    Problem,
)
from fgg.runtime.reference.solution import (
    AnySolution,
    RecursionReport,
    Solution,
    infinite_from_below,
    spread_infinity,
)
from fgg.runtime.reference.system import Component, Term, TermOperand, system_of

MAX_CELLS = 5000
"""The largest recursive component, in cells: its derivative is a square matrix of that size."""


def solve_with_handles(
    grammar: Grammar, semiring: Log, weights: Mapping[str, object]
) -> tuple[Solution[Tensor], Handles]:
    """A solution in logarithms, with handles on its terms and cells."""
    handles = Handles(grammar)
    return _Solver(grammar, semiring, dict(weights), None, handles).run(), handles


def solve(
    grammar: Grammar,
    semiring: str | AnySemiring = "log",
    *,
    weights: Mapping[str, object] | None = None,
    seed: int | None = None,
) -> AnySolution:
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
    """Solves one grammar. `supplied` are the user's weights, `handles` read counts off."""

    def __init__(
        self,
        grammar: Grammar,
        semiring: AnySemiring,
        supplied: dict[str, object],
        seed: int | None,
        handles: Handles | None = None,
    ) -> None:
        self.handles = handles
        self.grammar = grammar
        self.semiring = semiring
        self.seed = seed
        supplied = with_tensors(grammar, supplied)
        self.supplied = supplied
        real: dict[str, Numbers | Logs] = {
            **bind_with_logs(grammar, supplied, seed=seed, exactly=semiring.exactly)
        }
        for name, given in supplied.items():
            if isinstance(given, Logs | Tensor) and isinstance(semiring, TensorSemiring):
                if isinstance(given, Tensor) or isinstance(given.array, Tensor):
                    real[name] = given
        for factor in grammar.factors:
            joint = factor.definition
            if (
                not isinstance(joint, ProductOf)
                or factor.name in supplied
                or factor.name not in real
            ):
                continue
            if any(isinstance(real[part.source], Tensor) for part in joint.parts):
                parts = {p.source: torch.as_tensor(real[p.source]) for p in joint.parts}
                real[factor.name] = multiplied(torch.einsum, joint, parts)
        for factor in grammar.factors:
            cut = factor.definition
            if not isinstance(cut, Slice):
                continue
            if factor.name in real and factor.name not in supplied:
                source, axes = real[cut.source], steps(grammar, cut.axes)
                real[factor.name] = (
                    Logs(take(source.array, axes))
                    if isinstance(source, Logs)
                    else take(source, axes)
                )
        system = system_of(grammar)
        self.solution: AnySolution = Solution(
            grammar, system, semiring, Weights(grammar, semiring, real), ValueChart(semiring)
        )

    @cached_property
    def exact_weights(self) -> Mapping[str, NumpyArray | Logs]:
        """The weights as fractions, for computations with many digits."""
        return bind_with_logs(self.grammar, self.supplied, seed=self.seed, exactly=True)

    def run(self) -> AnySolution:
        """Solve the components, level by level."""
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
        """Warn if the start symbol's value is infinite, or leaves the range of real numbers."""
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
            refuse(
                "F420",
                f"the recursion through {names} has {problem.size:,} cells",
                f"at most {MAX_CELLS:,} can be solved together",
            )
        shape = structure(problem)
        from_outside = infinite_from_below(solution, problem)
        x: Numbers
        if isinstance(self.semiring, TensorSemiring):
            x, infinite = self.real(problem, shape)
        else:
            result = solve_exactly(problem, shape)
            x, infinite = result.x, result.infinite
            name = ", ".join(sorted(result.methods)) or "contraction"
            solution.methods.append(RecursionReport(component.nonterminals, name))
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

    def real(self, problem: Problem[Tensor], shape: Structure) -> tuple[Tensor, NDArray[np.bool_]]:
        """Solve over the reals; the result carries gradients if the weights do."""
        units = None
        if isinstance(self.semiring, Log) and self.width(problem, None) > SAFE_RANGE:
            units = self.units(problem)
        smooth, outcome = self.solved(problem, shape, units)
        if isinstance(self.semiring, Log) and units is None:
            if self.width(problem, outcome.x) > SAFE_RANGE:
                units = self.units(problem)
                smooth, outcome = self.solved(problem, shape, units)
        self.note(problem, outcome)
        x = differentiable(smooth, shape, outcome, self.handles)
        if isinstance(self.semiring, Log):
            x = self.semiring.convert(x)
            x = x if units is None else x + torch.as_tensor(units)
        return x, outcome.infinite

    def width(self, problem: Problem[Tensor], x: NDArray[np.float64] | None) -> float:
        """The greatest sum, over the operands of a term, of their greatest absolute logarithms.

        Products of a term stay within that, in whatever order they are made. `x`, `[cells]`, are
        the values of the component's cells, if they are known.
        """
        widths: dict[str, float] = {}

        def width(operand: TermOperand) -> float:
            label = operand.label
            if label not in widths:
                if label in problem.offsets:
                    if x is None:
                        return 0.0
                    with np.errstate(divide="ignore"):
                        logs = np.log(problem.slice(x, label))
                elif operand.nonterminal:
                    logs = problem.chart.get(label).detach().numpy()
                else:
                    logs = problem.weights.converted(label).detach().numpy()
                finite = np.abs(logs[np.isfinite(logs)])
                widths[label] = float(finite.max(initial=0.0))
            return widths[label]

        return max((sum(map(width, term.operands)) for term in problem.terms), default=0.0)

    def units(self, problem: Problem[Tensor]) -> NDArray[np.float64]:
        """The log-weights `[cells]` of the best derivations of cells; 0 where there is none."""
        best = MaxPlus()
        weights = {
            o.label: Logs(problem.weights.converted(o.label).detach().numpy())
            for term in problem.terms
            for o in term.operands
            if not o.nonterminal
        }
        chart = ValueChart(best)
        for child in _outer(problem):
            chart.add([child], problem.chart.get(child).detach().numpy()[None])
        best_weights = Weights(self.grammar, best, weights)
        logs = best_values(Problem(problem.system, problem.component, best_weights, chart)).x
        return np.where(np.isfinite(logs), logs, 0.0)

    def solved(
        self, problem: Problem[Tensor], shape: Structure, units: NDArray[np.float64] | None
    ) -> tuple[Problem[Tensor], Outcome]:
        """The problem over the reals, its cells measured in `units`, and its least solution."""
        assert isinstance(self.semiring, TensorSemiring)
        real = Real(self.semiring.dtype, self.semiring.device)
        ring = real if units is None else self.semiring
        assert isinstance(ring, Real | Log)
        chart = ValueChart[Tensor](ring)
        wanted = _outer(problem)
        for child in wanted:
            value = problem.chart.get(child)
            in_logs = isinstance(self.semiring, Log) and units is None
            chart.add([child], (value.exp() if in_logs else value)[None])

        def counted(term: Term, value: Tensor) -> Tensor:
            # Counts of terms are read off as gradients in these factors.
            assert self.handles is not None
            factor = self.handles.scale(term)
            return value * factor if ring is real else value + factor.log()

        def made() -> Problem[Tensor]:
            # Arrays made without gradients must not be used again where gradients are wanted.
            weights = Weights[Tensor](self.grammar, ring, self.solution.weights.real)
            scale = None if self.handles is None else counted
            parts = (self.solution.system, problem.component, weights, chart)
            return Problem(*parts, scale) if units is None else LogUnitProblem(*parts, units, scale)

        def precisely(semiring: Precise, less: float) -> Problem[Objects]:
            precise_chart = ValueChart(semiring)
            for child in wanted:
                value = chart.get(child).detach().cpu().numpy()
                convert = semiring.convert if ring is real else semiring.convert_logs
                precise_chart.add([child], convert(value)[None])

            def smaller(term: Term, value: Objects) -> Objects:
                outer = sum(o.label not in problem.offsets for o in term.operands)
                factor = (semiring.one - semiring.context.mpf(less)) ** outer
                return np.asarray(value * factor, dtype=object)

            exact = Weights(self.grammar, semiring, self.exact_weights)
            parts = (self.solution.system, problem.component, exact, precise_chart)
            scale = smaller if less else None
            if units is None:
                return Problem(*parts, scale)
            return PreciseUnitProblem(*parts, units, scale)

        try:
            with torch.no_grad():
                outcome = least_solution(made(), shape, precisely)
        except NoConvergence:
            names = ", ".join(f"`{name}`" for name in problem.names[:4])
            refuse("F418", f"the recursion through {names} did not converge")
        return made(), outcome

    def note(self, problem: AnyProblem, outcome: Outcome) -> None:
        """Record how a component was solved; warn if it is critical."""
        name = ", ".join(sorted(outcome.methods)) or "contraction"
        method = RecursionReport(
            problem.names, name, outcome.steps, outcome.error, outcome.critical
        )
        self.solution.methods.append(method)
        if outcome.critical:
            names = ", ".join(f"`{n}`" for n in problem.names[:4])
            effect = (
                f"moves its value by a relative {outcome.error:.1g}"
                if outcome.error < inf
                else "decides whether it diverges"
            )
            self.solution.warnings.append(
                Diagnostic(
                    code="F431",
                    message=f"the recursion through {names} is critical: its gradient is infinite, "
                    f"and rounding weights to float64 {effect}",
                )
            )


def _outer(problem: AnyProblem) -> tuple[str, ...]:
    """The nonterminals from below that a component uses."""
    children = (c for t in problem.terms for c in t.children if c not in problem.offsets)
    return tuple(dict.fromkeys(children))
