"""Gradients of log Z, and the posterior of a grammar: expected counts, marginals, entropy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf

import numpy as np
import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import Grammar, Rule
from fgg.runtime.interpret.semirings.base import NumpyArray
from fgg.runtime.interpret.semirings.log import Log
from fgg.runtime.program.bind import Logs, bind_with_logs
from fgg.runtime.reference.chart import diagonal
from fgg.runtime.reference.evaluate import term_value, unique
from fgg.runtime.reference.solution import Solution
from fgg.runtime.reference.solve import solve, solve_with_handles

UNSEEN = 40.0
"""A summand that is smaller by this many nats does not change a sum."""
MOST = 600.0
"""The weight that stands for 0 is at least exp(-MOST)."""


def gradients(
    grammar: Grammar,
    *,
    of: str = "log_z",
    weights: Mapping[str, object] | None = None,
    seed: int | None = None,
) -> dict[str, Tensor]:
    """The derivative of log Z (or of Z, with `of="z"`) in every weight of every factor.

    If the start symbol has external nodes, Z is the sum of its entries. Of weights that are given
    by their logarithms it is the derivative in these. Raises GrammarError where the gradient is
    infinite or Z is 0 or infinite.
    """
    real = bind_with_logs(grammar, weights, seed=seed)
    log_z = _total(solve(grammar, "log", weights=real))
    if not torch.isfinite(log_z) and (of == "log_z" or log_z > 0):
        raise _undefined(log_z)
    leaves = {name: _leaf(w) for name, w in real.items()}
    value = _at_zeros(grammar, leaves, log_z, of=of)
    return _grad(value, {name: _tensor(leaf) for name, leaf in leaves.items()})


def differentiable_log_z(grammar: Grammar, weights: Mapping[str, Tensor | Logs]) -> Tensor:
    """log Z as a function of weights, tensors or `Logs` of tensors; -inf without derivations.

    Its derivative in a weight of 0 is right, too.
    """
    still = {name: _detached(w) for name, w in weights.items()}
    log_z = _total(solve(grammar, "log", weights=still)).detach()
    numbers = [w for w in weights.values() if not isinstance(w, Logs) and w.requires_grad]
    if not torch.isfinite(log_z):
        # In the graph all the same, with gradient 0.
        for leaf in map(_tensor, weights.values()):
            log_z = log_z + torch.where(torch.tensor(False), leaf, 0.0).sum()
        return log_z
    if any(bool((w == 0).any()) for w in numbers):
        return _at_zeros(grammar, weights, log_z)
    return _total(solve(grammar, "log", weights=weights))


def _at_zeros(
    grammar: Grammar, leaves: Mapping[str, Tensor | Logs], log_z: Tensor, *, of: str = "log_z"
) -> Tensor:
    """log Z (or Z) such that derivatives in weights of 0 are right; `log_z` is its value."""
    scale = float(log_z) if torch.isfinite(log_z) else 0.0
    real = abs(scale) < 600
    value: Tensor | None = solve(grammar, "real", weights=leaves).value.sum() if real else None
    # What lies between may leave the range of real numbers even if Z does not.
    lost = value is None or (
        bool(torch.isfinite(log_z)) and not abs(float(value.detach()) / exp(scale) - 1) < 1e-9
    )
    if value is not None and not lost:
        return value.log() if of == "log_z" else value
    # Beyond the range of real numbers: a weight of 0 is moved off 0, which changes log Z by
    # nothing that can be seen but keeps the derivative in it.
    step = exp(-_distance(grammar, leaves, scale))
    moved = {
        n: w if isinstance(w, Logs) else torch.where(w == 0, w + step, w) for n, w in leaves.items()
    }
    total = _total(solve(grammar, "log", weights=moved))
    return total.exp() if of == "z" else log_z + (total - total.detach())


def _distance(grammar: Grammar, weights: Mapping[str, Tensor | Logs], log_z: float) -> float:
    """How far below 1, in nats, what stands for a weight of 0 must be not to change log Z."""
    ones = {
        n: w if isinstance(w, Logs) else torch.where(w == 0, 1.0, w).detach()
        for n, w in weights.items()
    }
    best = float(np.max(np.asarray(solve(grammar, "max", weights=ones).value, dtype=float)))
    return min(max(0.0, best - log_z) + UNSEEN, MOST) if best < inf else MOST


def _detached(weights: Tensor | Logs) -> Tensor | Logs:
    return Logs(weights.array.detach()) if isinstance(weights, Logs) else weights.detach()


def _leaf(weights: NumpyArray | Logs) -> Tensor | Logs:
    """Weights, or their logarithms, as a tensor of which derivatives are wanted."""
    array = weights.array if isinstance(weights, Logs) else weights
    leaf = torch.tensor(array, dtype=torch.float64, requires_grad=True)
    return Logs(leaf) if isinstance(weights, Logs) else leaf


def _tensor(leaf: Tensor | Logs) -> Tensor:
    """The tensor that derivatives are taken in."""
    tensor: Tensor = leaf.array if isinstance(leaf, Logs) else leaf
    return tensor


def _grad(value: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if not value.requires_grad:  # nothing depends on any weight
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    grads = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if grad is None else grad
        for (name, leaf), grad in zip(leaves.items(), grads, strict=True)
    }


def _total(solution: Solution[Tensor]) -> Tensor:
    return torch.logsumexp(solution.value.reshape(-1), 0)


def _undefined(log_z: Tensor) -> GrammarError:
    reason = "0: there is no derivation" if log_z < 0 else "infinite"
    return GrammarError([Diagnostic(code="F423", message=f"log Z has no gradient: Z is {reason}")])


@dataclass(frozen=True, eq=False, repr=False)
class GroundPosterior:
    """Expected counts under the distribution over derivations and assignments.

    `counts`: for each factor, how often each entry is used. `nonterminals`: for each nonterminal,
    how often each cell is rewritten. `rules`: how often each rule is applied.
    """

    grammar: Grammar
    log_z: float
    counts: Mapping[str, Tensor]
    nonterminals: Mapping[str, Tensor]
    rules: Mapping[str, float]
    solution: Solution[Tensor]

    def __repr__(self) -> str:
        return f"GroundPosterior({self.grammar.name!r}, log_z={self.log_z:.6g})"

    @property
    def entropy(self) -> float:
        """The entropy of derivation and assignment together, in nats."""
        total = self.log_z
        for name, counts in self.counts.items():
            logs = self.solution.weights.converted(name).detach()
            total -= float(torch.where(counts > 0, counts * logs, 0.0).sum())
        return max(total, 0.0)

    def fragment(self, rule: str, nodes: tuple[str, ...]) -> Tensor:
        """The expected number of applications of a rule, by the values of some of its nodes."""
        applied = self._rule(rule)
        term = next(t for t in self.solution.system.terms_of[applied.lhs] if t.rule is applied)
        letters = tuple([n.name for n in applied.rhs.nodes].index(name) for name in nodes)
        # log outside = log expected count - log inside, on the cells that are ever used.
        used = self.nonterminals[applied.lhs]
        inside = self.solution.chart.get(applied.lhs).detach()
        outside = torch.where(used > 0, used.clamp_min(1e-300).log() - inside, -torch.inf)
        with torch.no_grad():
            value = term_value(
                self.solution.weights,
                term,
                self.solution.chart.get,
                out=unique(letters),
                extra=[diagonal(outside, term.out)],
            )
        return value.exp()

    def node(self, rule: str, node: str) -> Tensor:
        """The expected number of times that a node of a rule takes each value."""
        return self.fragment(rule, (node,))

    def edge(self, rule: str, number: int) -> Tensor:
        """The same for all nodes of an edge of a rule together."""
        attachments = self._rule(rule).rhs.edges[number].attachments
        return self.fragment(rule, tuple(dict.fromkeys(a.node for a in attachments)))

    def _rule(self, name: str) -> Rule:
        for rule in self.grammar.rules:
            if rule.name == name:
                return rule
        raise KeyError(name)


def posterior(
    grammar: Grammar,
    *,
    weights: Mapping[str, object] | None = None,
    seed: int | None = None,
) -> GroundPosterior:
    """Expected counts of factors, nonterminals and rules. Raises GrammarError if Z is 0 or inf."""
    real = bind_with_logs(grammar, weights, seed=seed)
    leaves = {name: _leaf(w) for name, w in real.items()}
    solution, handles = solve_with_handles(grammar, Log(), leaves)
    log_z = _total(solution)
    if not torch.isfinite(log_z):
        raise _undefined(log_z)
    flat = [*map(_tensor, leaves.values()), handles.rules, *(zeros for _, zeros in handles.cells)]
    slopes = torch.autograd.grad(log_z, flat, allow_unused=True)
    grads = [torch.zeros_like(f) if g is None else g for f, g in zip(flat, slopes, strict=True)]
    rules, cells = grads[len(leaves)], grads[len(leaves) + 1 :]
    return GroundPosterior(
        grammar=grammar,
        log_z=float(log_z.detach()),
        counts={
            name: (grad if isinstance(leaf, Logs) else leaf * grad).detach()
            for (name, leaf), grad in zip(leaves.items(), grads, strict=False)
        },
        nonterminals=handles.counts(cells),
        rules={name: float(rules[number]) for name, number in handles.number.items()},
        solution=solution,
    )
