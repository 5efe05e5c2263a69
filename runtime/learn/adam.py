"""Gradient ascent on the log-likelihood: AdamW, with clipping and a schedule on plateaus."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.runtime.learn.items import tokens
from fgg.runtime.learn.method import Batch, Method, Reduce, alone
from fgg.runtime.learn.progress import Progress
from fgg.runtime.model.model import Model
from fgg.runtime.model.state_dropout import StateDropout
from fgg.runtime.program.program import Program


class Adam(Method):
    """AdamW on minus the log-likelihood of each batch, a mean over its items.

    Takes scalar parameters, networks and potentials alike. `clip` is the greatest norm of a
    gradient (0: any). `plateau(value)` halves the rate (or multiplies it by `factor`) if the
    value, greater is better, has not improved for `patience` calls more. Dropout follows a
    generator of its own, `seed`. `per` says what the mean is over: `item` or `token`.
    `state_dropout={"K": 0.5}` leaves out that share of the states of each block, others in each
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
        super().__init__(model, reduce=reduce)
        self.named = {n: p for n, p in model.named_parameters() if p.requires_grad}
        if not self.named:
            message = f"there is nothing to learn in `{model.program.grammar.name}`"
            refuse("F473", message)
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
                message = f"`{name}` is {wanted}"
                refuse("F476", message)
        self.optimizer = torch.optim.AdamW(
            self.named.values(), lr=rate, betas=betas, weight_decay=decay
        )
        self.clip, self.patience, self.factor, self.per = clip, patience, factor, per
        self.dropout: StateDropout | None = None
        if state_dropout:
            if not isinstance(state_dropout, Mapping) or len(state_dropout) != 1:
                message = '`state_dropout` names one domain and a share, `{"K": 0.5}`'
                refuse("F476", message)
            ((domain, share),) = state_dropout.items()
            self.dropout = StateDropout(model, domain, share)
        self.skip = skip
        self.skipped = 0
        self.best = -torch.inf
        self.waited = 0
        self.norm = 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.noise = torch.get_rng_state()

    @property
    def rate(self) -> float:
        """The present rate."""
        return float(self.optimizer.param_groups[0]["lr"])

    def step(self, batch: Batch | None) -> None:
        """One step up the gradient of a batch's log-likelihood."""
        self.optimizer.zero_grad(set_to_none=True)
        log_z, weight, items = 0.0, 0.0, 0
        if batch is not None:
            log_z, weight, items = self.backward(batch)
        log_z, weight, count = self.summed(log_z, weight, float(items))
        if not count:
            return
        for parameter in self.named.values():
            own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self.reduce(own) / weight
        limit = self.clip or torch.inf
        norm = torch.nn.utils.clip_grad_norm_(list(self.named.values()), limit)
        self.norm = float(norm)
        if not isfinite(self.norm):
            message = "the gradient is no number"
            help = "use float64, or less extreme parameters"
            refuse("F423", message, help)
        self.optimizer.step()
        self.total += log_z
        self.items += int(count)

    def backward(self, batch: Batch) -> tuple[float, float, int]:
        """The sum of log Z, its weight, the number of items; gradients of minus log Z are left."""
        own = self.ready(batch)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.noise)
            self.model.train()
            program, weights = self.drawn(own.program)
            self.noise = torch.get_rng_state()
        inputs, lengths = own.collated.inputs, dict(own.collated.lengths) or None
        log_z = program.log_z(weights, inputs, lengths)
        good = torch.isfinite(log_z)
        if not bool(good.all()):
            self.refuse([i for i, fine in zip(own.ids, good.tolist(), strict=True) if not fine])
        total = log_z[good].sum()
        if total.requires_grad:
            torch.autograd.backward(-total)
        items = int(good.sum())
        weight = float(items if self.per == "item" else tokens(self.model.program, own))
        return float(total.detach()), weight, items

    def drawn(self, program: Program) -> tuple[Program, dict[str, Tensor]]:
        """The program and the weights of a step: those of a batch's states, if some are dropped."""
        if self.dropout is None:
            return program, self.model.weights()
        return self.dropout.of(program), self.dropout.weights(self.dropout.draw())

    def refuse(self, ids: list[int]) -> None:
        """Raise GrammarError (F474) for items without derivations, unless they are skipped."""
        self.skipped += len(ids)
        if not self.skip:
            some = ", ".join(map(str, ids[:5]))
            what = "item {} has" if len(ids) == 1 else "items {} have"
            message = f"{what.format(some)} no derivation of weight other than 0"
            help = "leave them out, or `skip=True`; for `fggc train`, `--option skip=yes`"
            refuse("F474", message, help)

    def end(self) -> Progress:
        """What the sweep found: the log-likelihood of each batch before its step."""
        self.model.eval()
        self.sweeps += 1
        details = {"rate": self.rate, "norm": self.norm}
        return Progress(
            self.sweeps - 1, "log-likelihood", self.total, self.items, self.total, details
        )

    def plateau(self, value: float) -> bool:
        """Note a value, greater is better; whether the rate was lowered because it stays."""
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
        found = super().state_dict() | {
            "rate": torch.tensor(self.rate, dtype=torch.float64),
            "best": torch.tensor(self.best, dtype=torch.float64),
            "waited": torch.tensor(self.waited),
            "norm": torch.tensor(self.norm, dtype=torch.float64),
            "skipped": torch.tensor(self.skipped),
            "noise": self.noise.clone(),
        }
        for name, parameter in self.named.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                found[f"optimizer.{key}.{name}"] = torch.as_tensor(value).clone()
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.best, self.waited = float(state["best"]), int(state["waited"])
        self.norm, self.skipped = float(state["norm"]), int(state["skipped"])
        self.noise = state["noise"].clone()
        for group in self.optimizer.param_groups:
            group["lr"] = float(state["rate"])
        for name, parameter in self.named.items():
            own = {}
            for key in ("step", "exp_avg", "exp_avg_sq"):
                if f"optimizer.{key}.{name}" in state:
                    own[key] = state[f"optimizer.{key}.{name}"].clone()
            if own:
                self.optimizer.state[parameter] = own
