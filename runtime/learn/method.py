"""The base of all learning methods: a sweep begins, takes batches, and ends with a report.

State is explicit. `state_dict` is a flat mapping of tensors: together with the model's parameters
it is all that is needed to resume between any two steps, bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.maps import groups
from fgg.runtime.learn.distributions import (
    Distributions,
    Prior,
    block_numbers,
    learned_distributions,
    log_normalised,
)
from fgg.runtime.learn.expected_counts import ExpectedCounter, ExpectedCounts
from fgg.runtime.learn.item_batches import CheckedItems, Items, check_items
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

Reduce = Callable[[Tensor], Tensor]
"""Sums a tensor over all processes that learn together."""
ItemBatch = Items | CheckedItems

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
"""How far rounding may decrease an objective, relative to 1 + its size."""
SHOWN = 5
"""The most items that a message names."""


def alone(tensor: Tensor) -> Tensor:
    """The sum over a single process: the tensor itself."""
    return tensor


@dataclass(frozen=True)
class SweepReport:
    """The outcome of a sweep over the data: its objective, of what kind, and further numbers.

    `kind` is `log-likelihood`, `log-posterior`, `free energy` (minus it: a lower bound), `collapsed
    bound` (of order zero; that of `exact-cvb` is exact) or `log-joint`. The objective is that of
    the parameters that the sweep started with, not of those it ended with; exact and variable-level
    CVB report where they end. `log_z` is the sum of log Z over the items.
    """

    sweep: int
    kind: str
    objective: float
    items: int
    log_z: float
    details: Mapping[str, float] = field(default_factory=dict)


def check_no_decrease(method: str, before: float, now: float, dtype: torch.dtype) -> None:
    """Raise GrammarError (F475) if an objective decreased by more than rounding.

    Rounding is 1e-9 of its size in float64, and 2e-5 in float32.
    """
    if not now >= before - TOLERANCE[dtype] * (1 + abs(before)):
        message = f"the objective of `{method}` fell from {before:.12g} to {now:.12g}"
        help = "are the data the same in every sweep? if so, this is a bug: please report it"
        refuse("F475", message, help)


class Method(ABC):
    """A way to fit a model. `sweep(batches)` is `begin`, a `step` for each batch, and `end`.

    With `skip`, items without derivations are left out and counted in `skipped`; without, they are
    an error. `reduce` sums tensors over processes: each process has its own items, and all call the
    same steps (`step(None)` when a process has no more batches).
    """

    name = ""

    def __init__(self, model: Model, *, skip: bool = False, reduce: Reduce = alone) -> None:
        self.model = model
        self.skip = skip
        self.reduce = reduce
        self.sweeps = 0
        self.items = 0
        self.total = 0.0
        self.skipped = 0

    def __repr__(self) -> str:
        sweeps = "1 sweep" if self.sweeps == 1 else f"{self.sweeps} sweeps"
        return f"{type(self).__name__}({self.model.program.grammar.name!r}, {sweeps})"

    def ready(self, batch: ItemBatch) -> CheckedItems:
        """A checked batch, which can be kept and given to every sweep."""
        if isinstance(batch, CheckedItems):
            return batch
        return check_items(self.model.program, batch, self.device)

    @property
    def device(self) -> torch.device | None:
        """The device of the model's parameters."""
        first = next(self.model.parameters(), None)
        return None if first is None else first.device

    def sweep(self, batches: Iterable[ItemBatch]) -> SweepReport:
        """One pass over the data."""
        self.begin()
        for batch in batches:
            self.step(batch)
        return self.end()

    def begin(self) -> None:
        """Begin a sweep."""
        self.items, self.total = 0, 0.0

    @abstractmethod
    def step(self, batch: ItemBatch | None) -> None:
        """Process a batch; None if this process has none left while others have."""

    @abstractmethod
    def end(self) -> SweepReport:
        """End a sweep and report it."""

    def derivable(self, batch: CheckedItems, log_z: Tensor) -> Tensor:
        """Which items of a batch have derivations, `[batch]`, by their log Z.

        Raises GrammarError (F474) for the others, unless they are skipped.
        """
        good = torch.isfinite(log_z)
        if bool(good.all()):
            return good
        ids = [i for i, fine in zip(batch.ids, good.tolist(), strict=True) if not fine]
        self.skipped += len(ids)
        if not self.skip:
            shown = ", ".join(map(str, ids[:SHOWN])) + (", …" if len(ids) > SHOWN else "")
            subject = f"item {shown} has" if len(ids) == 1 else f"items {shown} have"
            message = f"{subject} no derivation of weight other than 0"
            help = "leave them out, or `skip=True`; for `fggc train`, `--option skip=yes`"
            refuse("F474", message, help)
        return good

    def summed(self, *numbers: float) -> list[float]:
        """Numbers summed over processes."""
        sums: list[float] = self.reduce(torch.tensor(numbers, dtype=torch.float64)).tolist()
        return sums

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return {
            "sweeps": torch.tensor(self.sweeps),
            "items": torch.tensor(self.items),
            "total": torch.tensor(self.total, dtype=torch.float64),
            "skipped": torch.tensor(self.skipped),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state. Raises GrammarError (F477) if it is of another method."""
        missing = [name for name in self.state_dict() if name not in state]
        if missing:
            what = f"state of `{self.name}` for this model"
            refuse("F477", f"this is not a {what}: it has no `{missing[0]}`")
        self.sweeps = int(state["sweeps"])
        self.items = int(state["items"])
        self.total = float(state["total"])
        self.skipped = int(state["skipped"])


class CountingOptions(TypedDict, total=False):
    """The options of all methods that work with expected counts; see `CountingMethod`."""

    prior: Prior
    weights: Mapping[str, Tensor] | None
    dtype: torch.dtype
    skip: bool
    reduce: Reduce


class CountingMethod(Method):
    """A method that works with the expected counts of distributions.

    `logs` are the log-weights that items are counted with, by factor, in float64 and the factor's
    shape. They start as those of the model, or as the logarithms of `weights`. `dtype` is the type
    that counts are computed in.
    """

    uses_priors = True

    def __init__(
        self,
        model: Model,
        *,
        prior: Prior = None,
        weights: Mapping[str, Tensor] | None = None,
        dtype: torch.dtype = torch.float64,
        skip: bool = False,
        reduce: Reduce = alone,
    ) -> None:
        super().__init__(model, skip=skip, reduce=reduce)
        self.dtype = dtype
        self.distributions: dict[str, Distributions] = learned_distributions(
            model, self.name, prior, priors=self.uses_priors
        )
        names = dict.fromkeys((*model.names, *model.learnable))
        self.logs = {name: _logs(model, name) for name in names}
        for name, weight in (weights or {}).items():
            self.logs[name] = torch.as_tensor(weight, dtype=torch.float64).log()
        for name, dists in self.distributions.items():
            if dists.alpha is not None:
                possible = dists.alpha.reshape(dists.shape) > 0
                self.logs[name] = self.logs[name].masked_fill(~possible, -torch.inf)
        self._counters: dict[Program, ExpectedCounter] = {}

    def counter(self, program: Program) -> ExpectedCounter:
        """The counter of a program, with the present weights."""
        if program not in self._counters:
            counter = ExpectedCounter(program, self.dtype, self.device)
            counter.set(self.logs)
            self._counters[program] = counter
        return self._counters[program]

    def set_logs(self, tables: Mapping[str, Tensor]) -> None:
        """Count with other log-weights from now on, tables `[rows, entries]` by factor."""
        for name, table in tables.items():
            self.logs[name] = table.reshape(self.distributions[name].shape)
        for counter in self._counters.values():
            counter.set(self.logs)

    def count(self, batch: CheckedItems) -> ExpectedCounts:
        """log Z and expected counts of the items of a batch that have derivations."""
        expected = self.counter(batch.program).count(batch)
        good = self.derivable(batch, expected.log_z)
        return ExpectedCounts(expected.log_z[good], expected.counts)

    def tables(self, counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Counts of the learned factors as tables `[rows, entries]`; 0 if they are not counted."""
        return {
            name: dists.table(counts[name]) if name in counts else dists.zeros()
            for name, dists in self.distributions.items()
        }

    def empty(self) -> dict[str, Tensor]:
        """Tables of zeros, `[rows, entries]` by factor."""
        return {name: dists.zeros() for name, dists in self.distributions.items()}

    def publish(self, tables: Mapping[str, Tensor]) -> None:
        """Give the model new log-weights, tables `[rows, entries]` by factor."""
        for name, table in tables.items():
            self.model.set_logits(name, table)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return super().state_dict() | {f"logs.{name}": x.clone() for name, x in self.logs.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        super().load_state_dict(state)
        for name, logs in self.logs.items():
            given = state[f"logs.{name}"]
            if given.shape != logs.shape:
                shapes = f"{tuple(given.shape)}, not {tuple(logs.shape)}"
                refuse("F477", f"the state of `{name}` has shape {shapes}")
            self.logs[name] = given.to(torch.float64).clone()
        for counter in self._counters.values():
            counter.set(self.logs)


def _logs(model: Model, name: str) -> Tensor:
    """The log-weights of a factor, in float64 and its shape."""
    with torch.no_grad():
        if model.kind(name) in ("scalar", "frozen"):
            factor = model.program.weighted.factor[name]
            logits = model.factor_logits(name).cpu().to(torch.float64)
            if factor.given is None:
                return logits.clone()
            blocks = block_numbers(groups(model.program.weighted, factor))
            if blocks is not None:
                return log_normalised(logits, blocks)
            return log_normalised(logits.flatten(factor.given)).reshape(logits.shape)
        return model.weight(name).cpu().to(torch.float64).log()
