"""Groups: the distributions that counts are shared out among, one a row of a factor.

For a factor `f(A -> B)` a group is a value of A: a left-hand side, in the words of [CVB], and its
entries are the rules. Pieces of a factor of declared rank are factors like others: the rank node
is a latent variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean
from fgg.parameterising import prior_of
from fgg.runtime.model import Model

Prior = float | Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Group:
    """The rows of a factor, `[rows, entries]`, and their Dirichlet priors.

    An entry of prior 0 is impossible: it has no weight, whatever its counts.
    """

    name: str
    shape: tuple[int, ...]
    rows: int
    entries: int
    alpha: Tensor | None = None

    def table(self, tensor: Tensor) -> Tensor:
        """A tensor of the factor's shape as a row a distribution, in float64."""
        return tensor.detach().to(torch.float64).reshape(self.rows, self.entries)

    @property
    def prior(self) -> Tensor:
        """The prior, `[rows, entries]`."""
        assert self.alpha is not None
        return self.alpha


def groups_of(model: Model, method: str, prior: Prior = None, *, priors: bool) -> dict[str, Group]:
    """The groups that a method learns, by factor; with `priors` each has one.

    A prior is given as a number for all, or by factor as a number or a tensor; what is not given
    is what the grammar says, or 1. Raises GrammarError (F473, F476).
    """
    given = _given(model, prior)
    found: dict[str, Group] = {}
    problems = []
    for name in model.learnable:
        kind = model.kind(name)
        factor = model.program.weighted.factor[name]
        if kind in ("value", "frozen", "tied"):
            continue
        if kind == "network" or factor.given is None:
            why = "is a network" if kind == "network" else "is a potential, not a distribution"
            message = f"`{method}` cannot learn `{name}`, which {why}"
            help = "use `adam`, or freeze it: `with frozen = yes`"
            problems.append(Diagnostic(code="F473", message=message, help=help))
            continue
        shape = model.program.shape(name)
        rows = prod(shape[: factor.given])
        group = Group(name, shape, rows, prod(shape[factor.given :]))
        if priors:
            alpha = given.get(name, given.get("", prior_of(factor)))
            group = _with_prior(group, 1.0 if alpha is None else alpha)
        found[name] = group
    if not problems and not found:
        message = f"there is nothing to learn in `{model.program.grammar.name}`"
        problems.append(Diagnostic(code="F473", message=message))
    if problems:
        raise GrammarError(problems)
    return found


def _given(model: Model, prior: Prior) -> dict[str, Any]:
    if prior is None:
        return {}
    if not isinstance(prior, Mapping):
        return {"": prior}
    for name in prior:
        if name not in model.learnable:
            help = did_you_mean(name, model.learnable)
            message = f"a prior is given for `{name}`, which is not a parameter"
            raise GrammarError([Diagnostic(code="F476", message=message, help=help)])
    return dict(prior)


def _with_prior(group: Group, alpha: Any) -> Group:
    try:
        given = torch.as_tensor(alpha, dtype=torch.float64)
        full = torch.broadcast_to(given, group.shape).reshape(group.rows, group.entries).clone()
    except (TypeError, ValueError, RuntimeError):
        message = f"the prior of `{group.name}` is no number, nor of its shape {group.shape}"
        raise GrammarError([Diagnostic(code="F476", message=message)]) from None
    good = bool(((full >= 0) & torch.isfinite(full)).all()) and bool((full.sum(-1) > 0).all())
    if not good:
        message = f"the prior of `{group.name}` is negative somewhere, or 0 for a whole row"
        raise GrammarError([Diagnostic(code="F476", message=message)])
    return Group(group.name, group.shape, group.rows, group.entries, full)


def log_ratio(counts: Tensor, before: Tensor) -> Tensor:
    """θ = f / Σ f in logarithms; a row without counts stays as it was."""
    totals = counts.sum(-1, keepdim=True)
    return torch.where(totals > 0, counts.log() - totals.log(), before)


def log_mean(counts: Tensor, alpha: Tensor) -> Tensor:
    """log (f + α) / Σ (f + α): the mean of a Dirichlet distribution."""
    total = counts + alpha
    return torch.where(alpha > 0, total, 0.0).log() - total.sum(-1, keepdim=True).log()


def log_geometric(counts: Tensor, alpha: Tensor) -> Tensor:
    """ψ(f + α) - ψ(Σ (f + α)): the mean of the logarithm, of [CVB §2.2]; -inf where α = 0."""
    total = counts + alpha
    safe = torch.where(alpha > 0, total, 1.0)
    found = torch.digamma(safe) - torch.digamma(total.sum(-1, keepdim=True))
    return torch.where(alpha > 0, found, -torch.inf)


def log_beta(total: Tensor, alpha: Tensor) -> Tensor:
    """log B of each row, over the entries of prior other than 0: Σ log Γ - log Γ(Σ)."""
    safe = torch.where(alpha > 0, total, 1.0)  # log Γ(1) = 0
    return torch.lgamma(safe).sum(-1) - torch.lgamma(total.sum(-1))


def divergence(counts: Tensor, alpha: Tensor) -> Tensor:
    """KL(Dir(f + α) ‖ Dir(α)), summed over the rows."""
    total = counts + alpha
    mean = torch.where(alpha > 0, log_geometric(counts, alpha), 0.0)
    return (log_beta(alpha, alpha) - log_beta(total, alpha)).sum() + (counts * mean).sum()
