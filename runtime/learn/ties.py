"""Factors tied to stationary distributions: an M step without a closed form.

A distribution π with π = π A depends on A through all its entries. What EM maximises is then
Q(A) = Σ f_A log A + Σ f_π log π(A); it is done numerically from the A that there is, so that Q, and
with it the likelihood, never goes down.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.groups import Group
from fgg.runtime.learn.method import Reduce
from fgg.runtime.model.materialise import whole
from fgg.runtime.model.model import Model, stationary, tied_to

STEPS = 50
"""How many steps the search for a maximum may take."""


def refuse_ties(model: Model, method: str) -> None:
    """Raise GrammarError (F473) if a factor is tied to one that is learned."""
    for factor in model.program.parameters:
        source = tied_to(factor)
        if source is not None and model.program.weighted.factor[source].value is None:
            message = f"`{method}` cannot learn `{source}`, to which `{factor.name}` is tied"
            help = "use `em` or `adam`"
            refuse("F473", message, help)


class Ties:
    """The tied factors of a model, with their counts, and what they are tied to."""

    def __init__(self, model: Model, groups: Mapping[str, Group]) -> None:
        self.model = model
        self.sources: dict[str, tuple[str, ...]] = {}
        for factor in model.program.parameters:
            source = tied_to(factor)
            pieces = () if source is None else model.program.pieces(source)
            if source is not None and any(piece in groups for piece in pieces):
                self.sources[factor.name] = pieces
        self.groups = groups
        self.counts: dict[str, Tensor] = {}
        self.begin()

    def begin(self) -> None:
        """No counts."""
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
        """Log-weights of the factors that others are tied to, `[rows, entries]`."""
        if not self.sources:
            return {}
        names = [n for n in dict.fromkeys(p for ps in self.sources.values() for p in ps)]
        learned = [n for n in names if n in self.groups]
        start = {n: self.groups[n].table(logs[n]) for n in learned}
        best, found = self.value(sums, start, logs, pseudo), start
        value = self.value(sums, {n: closed[n] for n in learned}, logs, pseudo)
        if value > best:
            best, found = value, {n: closed[n] for n in learned}
        tried = self.search(sums, found, logs, pseudo)
        return tried if self.value(sums, tried, logs, pseudo) > best else found

    def value(
        self,
        sums: Mapping[str, Tensor],
        tables: Mapping[str, Tensor],
        logs: Mapping[str, Tensor],
        pseudo: float,
    ) -> Tensor:
        """Q: expected log-weights, of the factors and of those tied to them."""
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
        """The tied distributions."""
        found = {}
        for name, pieces in self.sources.items():
            own = [
                (tables[p].reshape(self.groups[p].shape) if p in tables else logs[p]).exp()
                for p in pieces
            ]
            found[name] = stationary(own[0] if len(own) == 1 else whole(own, 1))
        return found

    def search(
        self,
        sums: Mapping[str, Tensor],
        start: Mapping[str, Tensor],
        logs: Mapping[str, Tensor],
        pseudo: float,
    ) -> dict[str, Tensor]:
        """A maximum of Q near a start, by L-BFGS on logits."""
        live = {n: x > -torch.inf for n, x in start.items()}
        with torch.inference_mode(False), torch.enable_grad():
            free = {n: torch.where(live[n], x, 0.0).requires_grad_() for n, x in start.items()}
            optimizer = torch.optim.LBFGS(
                list(free.values()), max_iter=STEPS, line_search_fn="strong_wolfe"
            )

            def tables() -> dict[str, Tensor]:
                return {
                    n: self.groups[n].log_softmax(x.masked_fill(~live[n], -torch.inf))
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
        """The log-weights of tied factors under new weights of what they are tied to."""
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
        """Go on from a state."""
        self.counts = {name: state[f"ties.{name}"].clone() for name in self.counts}
