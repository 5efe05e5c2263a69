"""Gradient ascent on the log-likelihood: AdamW with clipping and a plateau schedule."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import torch
from torch import Tensor

from fgg.diagnostics import GrammarError, refuse
from fgg.runtime.entries.factor_reader import Weight
from fgg.runtime.learn.distributions import nothing_to_learn
from fgg.runtime.learn.item_batches import token_count
from fgg.runtime.learn.method import ItemBatch, Method, Reduce, SweepReport, alone
from fgg.runtime.model.model import Model
from fgg.runtime.model.state_dropout import StateDropout
from fgg.runtime.program.program import Program


class Adam(Method):
    """AdamW on minus the mean log-likelihood of each batch, per `item` or per `token`.

    It fits scalar parameters, networks and potentials alike. `clip` bounds the norm of the gradient
    (0: no bound). `plateau(value)` multiplies the rate by `factor` when the value, greater is
    better, has not improved for more than `patience` calls. `seed` seeds dropout.
    `state_dropout={"K": 0.5}` drops that share of the states of each block, drawn anew in each
    batch (`runtime/model/state_dropout.py`).
    """

    name = "adam"

    def __init__(
        self,
        model: Model,
        *,
        rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        decay: float = 0.0,
        clip: float = 5.0,
        patience: int = 2,
        factor: float = 0.5,
        per: str = "item",
        state_dropout: Mapping[str, float] | None = None,
        seed: int = 0,
        skip: bool = False,
        reduce: Reduce = alone,
    ) -> None:
        super().__init__(model, skip=skip, reduce=reduce)
        self.named = {n: p for n, p in model.named_parameters() if p.requires_grad}
        if not self.named:
            raise GrammarError([nothing_to_learn(model)])
        for name, good, wanted in (
            ("rate", 0 < rate < 1e6, "a number above 0"),
            ("betas", all(0 <= b < 1 for b in betas), "two numbers from 0 up, less than 1"),
            ("decay", 0 <= decay < torch.inf, "a number from 0 up"),
            ("clip", clip >= 0, "a number from 0 up"),
            ("patience", patience >= 0, "a number from 0 up"),
            ("factor", 0 < factor < 1, "a number between 0 and 1"),
            ("per", per in ("item", "token"), "`item` or `token`"),
        ):
            if not good:
                refuse("F476", f"`{name}` is {wanted}")
        self.optimizer = torch.optim.AdamW(
            self.named.values(), lr=rate, betas=betas, weight_decay=decay
        )
        self.clip, self.patience, self.factor, self.per = clip, patience, factor, per
        self.dropout: StateDropout | None = None
        if state_dropout:
            if not isinstance(state_dropout, Mapping) or len(state_dropout) != 1:
                refuse("F476", '`state_dropout` names one domain and a share, `{"K": 0.5}`')
            ((domain, share),) = state_dropout.items()
            self.dropout = StateDropout(model, domain, share)
        self.best = -torch.inf
        self.waited = 0
        self.norm = 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.noise = torch.get_rng_state()

    @property
    def rate(self) -> float:
        """The present learning rate."""
        return float(self.optimizer.param_groups[0]["lr"])

    def step(self, batch: ItemBatch | None) -> None:
        """One step along the gradient of a batch's log-likelihood."""
        self.optimizer.zero_grad(set_to_none=True)
        log_z, weight, items = (0.0, 0.0, 0) if batch is None else self.backward(batch)
        self.update(log_z, weight, items)

    def update(self, log_z: float, weight: float, items: int) -> None:
        """A step along the gradients that a batch has left: its log Z, its weight, its items."""
        log_z, weight, count = self.summed(log_z, weight, float(items))
        if not count:
            return
        for parameter in self.named.values():
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self.reduce(grad) / weight
        limit = self.clip or torch.inf
        norm = torch.nn.utils.clip_grad_norm_(list(self.named.values()), limit)
        self.norm = float(norm)
        if not isfinite(self.norm):
            help = "use float64, or less extreme parameters"
            refuse("F423", "the gradient is not a number", help)
        self.optimizer.step()
        self.total += log_z
        self.items += int(count)

    def backward(self, batch: ItemBatch) -> tuple[float, float, int]:
        """Add the gradient of minus the sum of log Z of a batch to the parameters.

        Returns that sum, the number of items or tokens it is divided by, and the number of items.
        """
        checked = self.ready(batch)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.noise)
            self.model.train()
            program, weights = self.drawn(checked.program)
            self.noise = torch.get_rng_state()
        collated = checked.collated
        log_z = program.log_z(weights, collated.inputs, dict(collated.lengths) or None)
        good = self.derivable(checked, log_z)
        total = log_z[good].sum()
        if total.requires_grad:
            torch.autograd.backward(-total)
        items = int(good.sum())
        weight = float(items if self.per == "item" else token_count(self.model.program, checked))
        return float(total.detach()), weight, items

    def drawn(self, program: Program) -> tuple[Program, dict[str, Weight]]:
        """The program and the weights of a step: those of the kept states if some are dropped."""
        if self.dropout is None:
            return program, self.model.readers()
        return self.dropout.of(program), self.dropout.weights(self.dropout.draw())

    def end(self) -> SweepReport:
        """End a sweep and report the log-likelihood, of each batch before its step."""
        self.model.eval()
        self.sweeps += 1
        details = {"rate": self.rate, "norm": self.norm}
        return SweepReport(
            self.sweeps - 1, "log-likelihood", self.total, self.items, self.total, details
        )

    def plateau(self, value: float) -> bool:
        """Note a value, greater is better; lower the rate on a plateau, and return whether so."""
        if value > self.best:
            self.best, self.waited = value, 0
            return False
        self.waited += 1
        if self.waited <= self.patience:
            return False
        self.waited = 0
        for group in self.optimizer.param_groups:
            group["lr"] *= self.factor
        return True

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        state = super().state_dict() | {
            "rate": torch.tensor(self.rate, dtype=torch.float64),
            "best": torch.tensor(self.best, dtype=torch.float64),
            "waited": torch.tensor(self.waited),
            "norm": torch.tensor(self.norm, dtype=torch.float64),
            "noise": self.noise.clone(),
        }
        for name, parameter in self.named.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                state[f"optimizer.{key}.{name}"] = torch.as_tensor(value).clone()
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        self.best, self.waited = float(state["best"]), int(state["waited"])
        self.norm = float(state["norm"])
        self.noise = state["noise"].clone()
        for group in self.optimizer.param_groups:
            group["lr"] = float(state["rate"])
        for name, parameter in self.named.items():
            moments = {}
            for key in ("step", "exp_avg", "exp_avg_sq"):
                if f"optimizer.{key}.{name}" in state:
                    moments[key] = state[f"optimizer.{key}.{name}"].clone()
            if moments:
                self.optimizer.state[parameter] = moments
