"""The distributions of factors, as tables `[rows, entries]` with Dirichlet priors.

For a factor `f(A -> B)` a row is a value of A (a left-hand side, in the words of [CVB]) and its
entries are the values of B (the rules). If the factor has blocks, a row holds one distribution for
each block. Pieces of a factor of declared rank are factors like others: their rank node is a latent
variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse
from fgg.factors.maps import groups as blocks_of_values
from fgg.grammar import Factor
from fgg.grammar.options import prior_of
from fgg.runtime.model.model import Model
from fgg.runtime.model.segment_softmax import group_sums, group_tensor, log_softmax_in_groups
from fgg.runtime.program.program import Program

Alpha = ArrayLike | Tensor
"""A Dirichlet prior: a number, or one for each entry of a factor."""
Prior = float | Mapping[str, Alpha] | None


@dataclass(frozen=True, eq=False)
class Distributions:
    """The distributions of a factor as a table `[rows, entries]`, and their Dirichlet priors.

    An entry of prior 0 is impossible: its weight is 0 whatever its count. `blocks`, `[entries]`, is
    the number of the distribution within its row that an entry belongs to; None if there is one.
    """

    name: str
    shape: tuple[int, ...]
    rows: int
    entries: int
    alpha: Tensor | None = None
    blocks: Tensor | None = None

    @property
    def per_row(self) -> int:
        """The number of distributions in a row."""
        return 1 if self.blocks is None else int(self.blocks.max()) + 1

    def numbers(self) -> Tensor:
        """The number of each entry's distribution among those of all rows, `[rows, entries]`."""
        rows = torch.arange(self.rows).reshape(-1, 1)
        within = 0 if self.blocks is None else self.blocks
        return (rows * self.per_row + within).expand(self.rows, self.entries)

    def sums(self, table: Tensor) -> Tensor:
        """Σ_A: the sum of each distribution, `[rows, distributions]`."""
        return row_sums(table, self.blocks)

    def totals(self, table: Tensor) -> Tensor:
        """The sum of each entry's distribution, in a shape that broadcasts with the table."""
        return entry_sums(table, self.blocks)

    def log_softmax(self, table: Tensor) -> Tensor:
        """Logits as log-weights, `[rows, entries]`."""
        return log_normalised(table, self.blocks)

    def table(self, tensor: Tensor) -> Tensor:
        """A tensor of the factor's shape as a table `[rows, entries]` in float64."""
        return tensor.detach().to(torch.float64).reshape(self.rows, self.entries)

    def zeros(self) -> Tensor:
        """A table of zeros, `[rows, entries]`, in float64."""
        return torch.zeros((self.rows, self.entries), dtype=torch.float64)

    @property
    def prior(self) -> Tensor:
        """The prior, `[rows, entries]`."""
        assert self.alpha is not None
        return self.alpha


def learned_distributions(
    model: Model, method: str, prior: Prior = None, *, priors: bool
) -> dict[str, Distributions]:
    """The distributions that a method learns, by factor; with `priors` each has one.

    A prior is a number for all factors, or a number or tensor for each. Without it, the prior is
    that of the grammar, or 1. Raises GrammarError (F473, F476).
    """
    given = _given(model, prior)
    learned: dict[str, Distributions] = {}
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
        dists = distributions_of(model.program, factor)
        if priors:
            alpha = given.get(name, given.get("", prior_of(factor)))
            dists = _with_prior(dists, 1.0 if alpha is None else alpha)
        learned[name] = dists
    if not problems and not learned:
        problems.append(nothing_to_learn(model))
    if problems:
        raise GrammarError(problems)
    return learned


def distributions_of(program: Program, factor: Factor) -> Distributions:
    """The distributions of a factor `f(A -> B)`: one for each value of A, and each block of B."""
    assert factor.given is not None
    shape = program.shape(factor.name)
    blocks = block_numbers(blocks_of_values(program.weighted, factor))
    left = factor.given if blocks is None else len(shape) - 1
    return Distributions(factor.name, shape, prod(shape[:left]), prod(shape[left:]), blocks=blocks)


def nothing_to_learn(model: Model) -> Diagnostic:
    """What to say of a model without parameters that a method could learn."""
    message = f"there is nothing to learn in `{model.program.grammar.name}`"
    help = "a factor is learned if the grammar gives it no value and does not freeze it"
    return Diagnostic(code="F473", message=message, help=help)


def _given(model: Model, prior: Prior) -> dict[str, Alpha]:
    """The given priors by factor; under "" the one for all."""
    if prior is None:
        return {}
    if not isinstance(prior, Mapping):
        return {"": prior}
    for name in prior:
        if name not in model.learnable:
            message = f"a prior is given for `{name}`, which is not a parameter"
            refuse("F476", message, did_you_mean(name, model.learnable))
    return dict(prior)


def _with_prior(dists: Distributions, alpha: Alpha) -> Distributions:
    try:
        given = torch.as_tensor(alpha, dtype=torch.float64)
        full = torch.broadcast_to(given, dists.shape).reshape(dists.rows, dists.entries).clone()
    except (TypeError, ValueError, RuntimeError):
        message = f"the prior of `{dists.name}` is neither a number nor of its shape {dists.shape}"
        refuse("F476", message)
    good = bool(((full >= 0) & torch.isfinite(full)).all()) and bool((dists.sums(full) > 0).all())
    if not good:
        message = "is negative somewhere, or 0 for a whole distribution"
        refuse("F476", f"the prior of `{dists.name}` {message}")
    return replace(dists, alpha=full)


def block_numbers(blocks: Sequence[int] | None) -> Tensor | None:
    """The blocks of values, `[values]`, renumbered without those that no value belongs to."""
    if blocks is None:
        return None
    numbers: Tensor = torch.unique(group_tensor(blocks), return_inverse=True)[1]
    return numbers


def row_sums(table: Tensor, blocks: Tensor | None = None) -> Tensor:
    """The sum of each distribution of a table, `[rows, distributions]`."""
    return table.sum(-1, keepdim=True) if blocks is None else group_sums(table, blocks)


def entry_sums(table: Tensor, blocks: Tensor | None = None) -> Tensor:
    """The sum of each entry's distribution, `[rows, entries]`, or `[rows, 1]` without blocks."""
    sums = row_sums(table, blocks)
    return sums if blocks is None else sums.index_select(-1, blocks)


def log_normalised(logits: Tensor, blocks: Tensor | None = None) -> Tensor:
    """Log-weights of logits, such that each distribution sums to one."""
    return logits.log_softmax(-1) if blocks is None else log_softmax_in_groups(logits, blocks)


def log_ratio(counts: Tensor, before: Tensor, blocks: Tensor | None = None) -> Tensor:
    """log θ with θ = f / Σ_A f; a distribution without counts stays as it was before."""
    totals = entry_sums(counts, blocks)
    return torch.where(totals > 0, counts.log() - totals.log(), before)


def log_mean(counts: Tensor, alpha: Tensor, blocks: Tensor | None = None) -> Tensor:
    """log (f + α) / Σ_A (f + α), the mean of a Dirichlet distribution; -inf where α = 0."""
    total = counts + alpha
    return torch.where(alpha > 0, total, 0.0).log() - entry_sums(total, blocks).log()


def log_geometric(counts: Tensor, alpha: Tensor, blocks: Tensor | None = None) -> Tensor:
    """ψ(f + α) - ψ(Σ_A (f + α)), the mean logarithm [CVB §2.2]; -inf where α = 0."""
    total = counts + alpha
    safe = torch.where(alpha > 0, total, 1.0)
    logs = torch.digamma(safe) - torch.digamma(entry_sums(total, blocks))
    return torch.where(alpha > 0, logs, -torch.inf)


def log_beta(total: Tensor, alpha: Tensor, blocks: Tensor | None = None) -> Tensor:
    """log B = Σ log Γ - log Γ(Σ) of each row, over the entries of prior other than 0, `[rows]`.

    For a row of several distributions it is the sum of their log B.
    """
    safe = torch.where(alpha > 0, total, 1.0)  # log Γ(1) = 0
    return torch.lgamma(safe).sum(-1) - torch.lgamma(row_sums(total, blocks)).sum(-1)


def divergence(counts: Tensor, alpha: Tensor, blocks: Tensor | None = None) -> Tensor:
    """KL(Dir(f + α) ‖ Dir(α)), summed over all distributions."""
    total = counts + alpha
    mean = torch.where(alpha > 0, log_geometric(counts, alpha, blocks), 0.0)
    gained = log_beta(alpha, alpha, blocks) - log_beta(total, alpha, blocks)
    return gained.sum() + (counts * mean).sum()
