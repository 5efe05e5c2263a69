"""Groups: the distributions that counts are shared out among, one a row of a factor.

For a factor `f(A -> B)` a group is a value of A: a left-hand side, in the words of [CVB], and its
entries are the rules. If the factor has blocks, a row has a distribution for each of them. Pieces
of a factor of declared rank are factors like others: the rank node is a latent variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.factors.maps import groups as blocks_of_values
from fgg.grammar.options import prior_of
from fgg.runtime.model.model import Model
from fgg.runtime.model.segment_softmax import group_sums, group_tensor, log_softmax_in_groups

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
    # Which of the distributions of a row an entry belongs to, from 0 on; None if there is one only.
    blocks: Tensor | None = None

    @property
    def distributions(self) -> int:
        """How many distributions a row has."""
        return 1 if self.blocks is None else int(self.blocks.max()) + 1

    def places(self) -> Tensor:
        """For each entry the number of its distribution among those of all rows."""
        rows = torch.arange(self.rows).reshape(-1, 1)
        own = 0 if self.blocks is None else self.blocks
        return (rows * self.distributions + own).expand(self.rows, self.entries)

    def sums(self, table: Tensor) -> Tensor:
        """Σ_A: the sum of each distribution, `[rows, distributions]`."""
        return row_sums(table, self.blocks)

    def totals(self, table: Tensor) -> Tensor:
        """For each entry the sum of its distribution, in a shape that goes with the table's."""
        return entry_sums(table, self.blocks)

    def log_softmax(self, table: Tensor) -> Tensor:
        """Logits as log-weights."""
        return log_normalised(table, self.blocks)

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
        blocks = block_numbers(blocks_of_values(model.program.weighted, factor))
        left = factor.given if blocks is None else len(shape) - 1
        group = Group(name, shape, prod(shape[:left]), prod(shape[left:]), blocks=blocks)
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
            refuse("F476", message, help)
    return dict(prior)


def _with_prior(group: Group, alpha: Any) -> Group:
    try:
        given = torch.as_tensor(alpha, dtype=torch.float64)
        full = torch.broadcast_to(given, group.shape).reshape(group.rows, group.entries).clone()
    except (TypeError, ValueError, RuntimeError):
        message = f"the prior of `{group.name}` is no number, nor of its shape {group.shape}"
        refuse("F476", message)
    good = bool(((full >= 0) & torch.isfinite(full)).all()) and bool((group.sums(full) > 0).all())
    if not good:
        message = (
            f"the prior of `{group.name}` is negative somewhere, or 0 for a whole distribution"
        )
        refuse("F476", message)
    return replace(group, alpha=full)


def block_numbers(blocks: Sequence[int] | None) -> Tensor | None:
    """The blocks of values numbered through, without those that no value belongs to."""
    if blocks is None:
        return None
    found: Tensor = torch.unique(group_tensor(blocks), return_inverse=True)[1]
    return found


def row_sums(table: Tensor, blocks: Tensor | None = None) -> Tensor:
    """The sums of the distributions of each row, `[rows, distributions]`."""
    return table.sum(-1, keepdim=True) if blocks is None else group_sums(table, blocks)


def entry_sums(table: Tensor, blocks: Tensor | None = None) -> Tensor:
    """For each entry the sum of its distribution; `[rows, 1]` if a row has one only."""
    found = row_sums(table, blocks)
    return found if blocks is None else found.index_select(-1, blocks)


def log_normalised(logits: Tensor, blocks: Tensor | None = None) -> Tensor:
    """Logits as log-weights that sum to one in each distribution."""
    return logits.log_softmax(-1) if blocks is None else log_softmax_in_groups(logits, blocks)


def log_ratio(counts: Tensor, before: Tensor, blocks: Tensor | None = None) -> Tensor:
    """θ = f / Σ f in logarithms; a distribution without counts stays as it was."""
    totals = entry_sums(counts, blocks)
    return torch.where(totals > 0, counts.log() - totals.log(), before)


def log_mean(counts: Tensor, alpha: Tensor, blocks: Tensor | None = None) -> Tensor:
    """log (f + α) / Σ (f + α): the mean of a Dirichlet distribution."""
    total = counts + alpha
    return torch.where(alpha > 0, total, 0.0).log() - entry_sums(total, blocks).log()


def log_geometric(counts: Tensor, alpha: Tensor, blocks: Tensor | None = None) -> Tensor:
    """ψ(f + α) - ψ(Σ (f + α)): the mean of the logarithm, of [CVB §2.2]; -inf where α = 0."""
    total = counts + alpha
    safe = torch.where(alpha > 0, total, 1.0)
    found = torch.digamma(safe) - torch.digamma(entry_sums(total, blocks))
    return torch.where(alpha > 0, found, -torch.inf)


def log_beta(total: Tensor, alpha: Tensor, blocks: Tensor | None = None) -> Tensor:
    """Σ log Γ - log Γ(Σ) over the entries of prior other than 0: log B of each row.

    Of a row with several distributions it is the sum of their log B.
    """
    safe = torch.where(alpha > 0, total, 1.0)  # log Γ(1) = 0
    return torch.lgamma(safe).sum(-1) - torch.lgamma(row_sums(total, blocks)).sum(-1)


def divergence(counts: Tensor, alpha: Tensor, blocks: Tensor | None = None) -> Tensor:
    """KL(Dir(f + α) ‖ Dir(α)), summed over all distributions."""
    total = counts + alpha
    mean = torch.where(alpha > 0, log_geometric(counts, alpha, blocks), 0.0)
    gained = log_beta(alpha, alpha, blocks) - log_beta(total, alpha, blocks)
    return gained.sum() + (counts * mean).sum()
