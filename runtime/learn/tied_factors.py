"""Factors tied to a stationary distribution: an M step without a closed form.

A distribution π with π = π A depends on all entries of A. EM then maximises
Q(A) = Σ f_A log A + Σ f_π log π(A) numerically, starting from the present A, so that Q, and with it
the likelihood, never decreases.

`sums` are the counts f_A and `tables` log-weights, tables `[rows, entries]` by factor; `logs` are
log-weights in the shapes of the factors.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.distributions import Distributions
from fgg.runtime.learn.method import Reduce
from fgg.runtime.model.materialise import whole
from fgg.runtime.model.model import Model, tied_to
from fgg.runtime.stationary_distribution import stationary_tensor

STEPS = 50
"""The most steps of the search for a maximum."""


def refuse_ties(model: Model, method: str) -> None:
    """Raise GrammarError (F473) if a factor is tied to one that is learned."""
    for factor in model.program.parameters:
        source = tied_to(factor)
        if source is not None and model.program.weighted.factor[source].value is None:
            message = f"`{method}` cannot learn `{source}`, to which `{factor.name}` is tied"
            refuse("F473", message, "use `em` or `adam`")


class TiedFactors:
    """The tied factors of a model: their counts, and the pieces of the factors they are tied to."""

    def __init__(self, model: Model, distributions: Mapping[str, Distributions]) -> None:
        self.model = model
        self.sources: dict[str, tuple[str, ...]] = {}
        for factor in model.program.parameters:
            source = tied_to(factor)
            pieces = () if source is None else model.program.pieces(source)
            if source is not None and any(piece in distributions for piece in pieces):
                self.sources[factor.name] = pieces
        self.distributions = distributions
        self.counts: dict[str, Tensor] = {}
        self.begin()

    def begin(self) -> None:
        """Set all counts to 0."""
        shape = self.model.program.shape
        self.counts = {n: torch.zeros(shape(n), dtype=torch.float64) for n in self.sources}

    def add(self, counts: Mapping[str, Tensor]) -> None:
        """Add the counts of tied factors."""
        for name, total in self.counts.items():
            if name in counts:
                total += counts[name]

    def gather(self, reduce: Reduce) -> None:
        """Sum the counts over processes."""
        self.counts = {name: reduce(total) for name, total in self.counts.items()}

    def maximise(
        self,
        sums: Mapping[str, Tensor],
        logs: Mapping[str, Tensor],
        closed: Mapping[str, Tensor],
        pseudo: float,
    ) -> dict[str, Tensor]:
        """The log-weights of the factors that others are tied to, which maximise Q.

        `closed` is the M step without ties, a second start.
        """
        if not self.sources:
            return {}
        names = dict.fromkeys(piece for pieces in self.sources.values() for piece in pieces)
        learned = [n for n in names if n in self.distributions]
        start = {n: self.distributions[n].table(logs[n]) for n in learned}
        value, best = self.value(sums, start, logs, pseudo), start
        untied = {n: closed[n] for n in learned}
        if (other := self.value(sums, untied, logs, pseudo)) > value:
            value, best = other, untied
        searched = self.search(sums, best, logs, pseudo)
        return searched if self.value(sums, searched, logs, pseudo) > value else best

    def value(
        self,
        sums: Mapping[str, Tensor],
        tables: Mapping[str, Tensor],
        logs: Mapping[str, Tensor],
        pseudo: float,
    ) -> Tensor:
        """Q: the expected log-weights of the factors and of those tied to them."""
        total = torch.zeros((), dtype=torch.float64)
        for name, table in tables.items():
            live = table.detach() > -torch.inf
            counts = sums[name] + pseudo
            total = total + (counts * torch.where(live, table, 0.0) * live).sum()
        for name, tied in self.stationaries(tables, logs).items():
            counts = self.counts[name]
            total = total + (counts * torch.where(counts > 0, tied, 1.0).log()).sum()
        return total

    def stationaries(
        self, tables: Mapping[str, Tensor], logs: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The tied distributions π by factor, `[values]`."""
        tied = {}
        for name, pieces in self.sources.items():
            weights = [
                (tables[p].reshape(self.distributions[p].shape) if p in tables else logs[p]).exp()
                for p in pieces
            ]
            tied[name] = stationary_tensor(weights[0] if len(weights) == 1 else whole(weights, 1))
        return tied

    def search(
        self,
        sums: Mapping[str, Tensor],
        start: Mapping[str, Tensor],
        logs: Mapping[str, Tensor],
        pseudo: float,
    ) -> dict[str, Tensor]:
        """A local maximum of Q near a start, by L-BFGS on logits."""
        live = {n: x > -torch.inf for n, x in start.items()}
        with torch.inference_mode(False), torch.enable_grad():
            free = {n: torch.where(live[n], x, 0.0).requires_grad_() for n, x in start.items()}
            optimizer = torch.optim.LBFGS(
                list(free.values()), max_iter=STEPS, line_search_fn="strong_wolfe"
            )

            def tables() -> dict[str, Tensor]:
                return {
                    n: self.distributions[n].log_softmax(x.masked_fill(~live[n], -torch.inf))
                    for n, x in free.items()
                }

            def closure() -> Tensor:
                optimizer.zero_grad()
                loss = -self.value(sums, tables(), logs, pseudo)
                torch.autograd.backward(loss)
                return loss

            optimizer.step(closure)  # type: ignore[no-untyped-call]
        return {n: x.detach() for n, x in tables().items()}

    def follow(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The log-weights of the tied factors under new log-weights of their sources."""
        if not self.sources:
            return {}
        logs = {
            p: self.model.weight(p).detach().to(torch.float64).log()
            for pieces in self.sources.values()
            for p in pieces
            if p not in tables
        }
        return {name: x.log() for name, x in self.stationaries(tables, logs).items()}

    def state_dict(self) -> dict[str, Tensor]:
        """The counts of tied factors."""
        return {f"ties.{name}": x.clone() for name, x in self.counts.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        self.counts = {name: state[f"ties.{name}"].clone() for name in self.counts}
