"""The reference engine: the sum-product of any finite grammar, in any semiring [CR §5].

Strongly connected components of nonterminals, each after those it depends on: contractions for
those that do not depend on themselves, a linear solve or Newton's method for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import Grammar
from fgg.grounding import ground
from fgg.runtime.blocks import structure, support
from fgg.runtime.chart import Chart, Weights, diagonal
from fgg.runtime.contract import contract
from fgg.runtime.evaluate import embed, evaluate_level, operand_array, unique
from fgg.runtime.finite import solve_exactly
from fgg.runtime.newton import NoConvergence, Outcome, least_solution
from fgg.runtime.problem import Problem
from fgg.runtime.semirings import SEMIRINGS, Semiring
from fgg.runtime.semirings.boolean import Boolean
from fgg.runtime.semirings.exact import Precise
from fgg.runtime.semirings.log import Log
from fgg.runtime.semirings.real import Real
from fgg.runtime.semirings.torch_base import TensorSemiring
from fgg.runtime.system import Component, System, Term
from fgg.runtime.weights import bind

MAX_CELLS = 5000
"""The largest recursive component, in cells: its derivative is a square matrix of that size."""


@dataclass(frozen=True)
class Method:
    """How a recursive component was solved, and how well."""

    nonterminals: tuple[str, ...]
    name: str
    steps: int = 0
    error: float = 0.0
    critical: bool = False


@dataclass
class Solution:
    """The values of a grammar's nonterminals.

    Infinite values are kept apart: `chart` has zeros in their places and `infinite` says where.
    """

    grammar: Grammar
    system: System
    semiring: Semiring
    weights: Weights
    chart: Chart
    infinite: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    methods: list[Method] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    rounds: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def raw(self, name: str) -> Any:
        """The value of a nonterminal in the semiring, infinite cells filled in."""
        value = self.chart.get(name)
        mask = self.infinite.get(name)
        if mask is None or not mask.any():
            return value
        if isinstance(value, Tensor):
            return torch.where(torch.as_tensor(mask), float("inf"), value)
        return np.where(mask, np.inf, np.asarray(value, dtype=object))

    @cached_property
    def value(self) -> Any:
        """The value of the start symbol in the semiring: log Z for `log`, Z for `real`."""
        return self.raw(self.grammar.start.label)

    @property
    def log_z(self) -> Any:
        """log Z, entry by entry if the start symbol has external nodes (`log` and `real`)."""
        if isinstance(self.semiring, Log):
            return self.value
        assert isinstance(self.semiring, Real)
        return torch.log(self.value)

    @property
    def critical(self) -> bool:
        """Whether a recursion is critical, so that gradients are infinite."""
        return any(method.critical for method in self.methods)


class Handles:
    """Zeros added to the logarithms of terms and cells: the gradients in them are counts."""

    def __init__(self, grammar: Grammar) -> None:
        self.number = {rule.name: i for i, rule in enumerate(grammar.rules)}
        self.rules = torch.zeros(len(grammar.rules), dtype=torch.float64, requires_grad=True)
        self.cells: list[tuple[tuple[str, ...], Tensor]] = []
        self.cuts: dict[str, tuple[int, tuple[int, ...]]] = {}

    def counts(self, gradients: Sequence[Tensor]) -> dict[str, Tensor]:
        """The gradients in the cells' zeros, by nonterminal."""
        found: dict[str, Tensor] = {}
        for (names, _), gradient in zip(self.cells, gradients, strict=True):
            for row, name in enumerate(names):
                if name in self.cuts:
                    start, shape = self.cuts[name]
                    size = int(np.prod(shape, dtype=int))
                    found[name] = gradient[start : start + size].reshape(shape)
                else:
                    found[name] = gradient[row]
        return found

    def adjust(self, terms: Sequence[Term], values: Tensor) -> Tensor:
        """The logarithms of terms, one a row, with their zeros added."""
        rows = torch.as_tensor([self.number[term.rule.name] for term in terms])
        return values + self.rules[rows].reshape(-1, *(1,) * (values.ndim - 1))

    def scale(self, term: Term) -> Tensor:
        """A one to multiply a term with."""
        return self.rules[self.number[term.rule.name]].exp()

    def new_cells(self, names: Sequence[str], shape: Sequence[int]) -> Tensor:
        """Zeros for the cells of some nonterminals, one a row."""
        zeros = torch.zeros(tuple(shape), dtype=torch.float64, requires_grad=True)
        self.cells.append((tuple(names), zeros))
        return zeros


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
        self.supplied = supplied
        real: dict[str, Any] = bind(grammar, supplied, seed=seed, exactly=semiring.exactly)
        for name, given in supplied.items():
            if isinstance(given, Tensor) and isinstance(semiring, TensorSemiring):
                real[name] = given
        system = System(grammar)
        self.solution = Solution(
            grammar, system, semiring, Weights(grammar, semiring, real), Chart(semiring)
        )

    @cached_property
    def exact_weights(self) -> Mapping[str, Any]:
        return bind(self.grammar, self.supplied, seed=self.seed, exactly=True)

    def run(self) -> Solution:
        solution = self.solution
        for level in solution.system.levels:
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
                    self.spread_infinity(level.plain)
            for component in level.components:
                if component.recursive:
                    self.recursive(component)
        if solution.infinite.get(self.grammar.start.label) is not None:
            solution.warnings.append(
                Diagnostic(
                    code="F432", message="the sum over derivations diverges: the value is inf"
                )
            )
        return solution

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
        from_outside = self.infinite_from_outside(problem)
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

    def real(self, problem: Problem, shape: Any) -> tuple[Tensor, NDArray[np.bool_]]:
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
                outcome = least_solution(smooth, shape, precisely)
        except NoConvergence:
            names = ", ".join(f"`{name}`" for name in problem.names[:4])
            raise GrammarError(
                [Diagnostic(code="F418", message=f"the recursion through {names} did not converge")]
            ) from None
        self.note(problem, outcome)
        x = self.differentiable(smooth, shape, outcome)
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

    def differentiable(self, problem: Problem, shape: Any, outcome: Outcome) -> Tensor:
        """The solution as a function of the weights.

        A Newton step from the solution has the derivative of the implicit function, and two
        steps have its second and third derivatives as well.
        """
        x = torch.as_tensor(outcome.x, dtype=torch.float64)
        finite = np.flatnonzero(shape.active & ~outcome.infinite)
        needs = [
            problem.weights.real[o.label]
            for t in problem.terms
            for o in t.operands
            if not o.nonterminal
        ]
        needs += problem.chart.blocks
        zeros = None
        if self.handles is not None:
            needs.append(self.handles.rules)
            zeros = torch.zeros(problem.size, dtype=torch.float64, requires_grad=True)
            for name in problem.names:
                start = problem.offsets[name]
                # one vector for the component; `cells_of` cuts it up again
                self.handles.cells.append(((name,), zeros))
                self.handles.cuts[name] = (start, self.solution.system.shapes[name])
        if not len(finite) or not any(isinstance(w, Tensor) and w.requires_grad for w in needs):
            return x
        if outcome.critical:
            raise GrammarError(
                [
                    Diagnostic(
                        code="F423",
                        message="the recursion is critical, so the gradient is infinite",
                    )
                ]
            )
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

    def infinite_from_outside(self, problem: Problem) -> NDArray[np.bool_] | None:
        """The cells of a component that are infinite because of what they use from below."""
        if not self.solution.infinite:
            return None
        mask = np.zeros(problem.size, dtype=bool)
        active = support(problem, self.solution.infinite)
        present = {n: problem.slice(active, n) for n in problem.names}
        while True:
            following = mask.copy()
            for name in problem.names:
                start = problem.offsets[name]
                parts = {n: problem.slice(mask, n) for n in problem.names}
                found = self.infinite_mask(name, parts, present).reshape(-1)
                following[start : start + len(found)] |= found
            if bool((following == mask).all()):
                return mask
            mask = following

    def spread_infinity(self, names: tuple[str, ...]) -> None:
        """Find the cells that use an infinite one, everything else in their term not being zero."""
        for name in names:
            mask = self.infinite_mask(name, {}, {})
            if mask.any():
                self.solution.infinite[name] = mask

    def infinite_mask(
        self,
        name: str,
        inner: Mapping[str, NDArray[np.bool_]],
        present: Mapping[str, NDArray[np.bool_]],
    ) -> NDArray[np.bool_]:
        """Where a nonterminal is infinite, given where those of its component are not zero."""
        solution, boolean = self.solution, Boolean()
        shape = solution.system.shapes[name]
        total = np.zeros(shape, dtype=bool)
        shadow = Weights(
            self.grammar,
            boolean,
            {
                n: self.semiring.nonzero(solution.weights.converted(n))
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
            return self.semiring.nonzero(solution.chart.get(label)) | infinite(label)

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
