"""The shape that all methods share: a sweep is begun, takes batches, and ends with a report.

State is explicit: `state_dict` is a flat mapping of tensors, all that is needed to go on from
between any two steps bit for bit, apart from the model's own parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from fgg.diagnostics import refuse
from fgg.factors.maps import groups
from fgg.runtime.learn.counting import Counted, Counter
from fgg.runtime.learn.groups import Group, Prior, block_numbers, groups_of, log_normalised
from fgg.runtime.learn.items import Items, Ready, ready
from fgg.runtime.learn.progress import Progress
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

Reduce = Callable[[Tensor], Tensor]
"""The sum of a tensor over all processes that learn together."""
Batch = Items | Ready


def alone(tensor: Tensor) -> Tensor:
    """The sum over one process."""
    return tensor


class Method:
    """A way to fit a model. `sweep(batches)` is `begin`, a `step` for each batch, and `end`.

    `reduce` sums tensors over processes: each process sees its own items, and all call the same
    steps (`step(None)` where one has no more batches).
    """

    name = ""

    def __init__(self, model: Model, *, reduce: Reduce = alone) -> None:
        self.model = model
        self.reduce = reduce
        self.sweeps = 0
        self.items = 0
        self.total = 0.0

    def ready(self, batch: Batch) -> Ready:
        """A batch checked once: it can be kept and given to every sweep."""
        return ready(self.model.program, batch, self.device)

    @property
    def device(self) -> torch.device | None:
        """Where the model's parameters are."""
        first = next(self.model.parameters(), None)
        return None if first is None else first.device

    def sweep(self, batches: Iterable[Batch]) -> Progress:
        """One pass over the data."""
        self.begin()
        for batch in batches:
            self.step(batch)
        return self.end()

    def begin(self) -> None:
        """Begin a sweep."""
        self.items, self.total = 0, 0.0

    def step(self, batch: Batch | None) -> None:
        """Take a batch; None if this process has none left while others have."""
        raise NotImplementedError

    def end(self) -> Progress:
        """End a sweep: what it found."""
        raise NotImplementedError

    def summed(self, *numbers: float) -> list[float]:
        """Numbers summed over processes."""
        found: list[float] = self.reduce(torch.tensor(numbers, dtype=torch.float64)).tolist()
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        return {
            "sweeps": torch.tensor(self.sweeps),
            "items": torch.tensor(self.items),
            "total": torch.tensor(self.total, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state. Raises GrammarError (F477) if it is not one of this method."""
        wanted = self.state_dict()
        wrong = [n for n in wanted if n not in state]
        if wrong:
            message = f"this is no state of `{self.name}` for this model: it has no `{wrong[0]}`"
            refuse("F477", message)
        self.sweeps = int(state["sweeps"])
        self.items = int(state["items"])
        self.total = float(state["total"])


class CountingMethod(Method):
    """A method that works with expected counts of distributions.

    `logs` are the log-weights that items are counted with, by factor, in float64. `skip`: items
    without derivations are left out, not an error.
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
        super().__init__(model, reduce=reduce)
        self.dtype = dtype
        self.skip = skip
        self.groups: dict[str, Group] = groups_of(model, self.name, prior, priors=self.uses_priors)
        names = dict.fromkeys((*model.names, *model.learnable))
        self.logs = {name: _logs(model, name) for name in names}
        for name, weight in (weights or {}).items():
            self.logs[name] = torch.as_tensor(weight, dtype=torch.float64).log()
        for name, group in self.groups.items():
            if group.alpha is not None:
                possible = group.alpha.reshape(group.shape) > 0
                self.logs[name] = self.logs[name].masked_fill(~possible, -torch.inf)
        self._counters: dict[Program, Counter] = {}
        self.skipped = 0

    def counter(self, program: Program) -> Counter:
        """The counter of a program, with the present weights."""
        if program not in self._counters:
            found = Counter(program, self.dtype, self.device)
            found.set(self.logs)
            self._counters[program] = found
        return self._counters[program]

    def set_logs(self, tables: Mapping[str, Tensor]) -> None:
        """Count with other log-weights from now on, `[rows, entries]` by factor."""
        for name, table in tables.items():
            self.logs[name] = table.reshape(self.groups[name].shape)
        for counter in self._counters.values():
            counter.set(self.logs)

    def count(self, batch: Ready) -> Counted:
        """The expected counts of a batch; what has no derivations is an error, or skipped."""
        found = self.counter(batch.program).count(batch)
        good = torch.isfinite(found.log_z)
        if not bool(good.all()):
            self.refuse([i for i, fine in zip(batch.ids, good.tolist(), strict=True) if not fine])
            found = Counted(found.log_z[good], found.counts)
        return found

    def refuse(self, ids: list[int]) -> None:
        """Raise GrammarError (F474) for items without derivations, unless they are skipped."""
        self.skipped += len(ids)
        if not self.skip:
            some = ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
            what = "item {} has" if len(ids) == 1 else "items {} have"
            message = f"{what.format(some)} no derivation of weight other than 0"
            help = "leave them out, or `skip=True`; for `fggc train`, `--option skip=yes`"
            refuse("F474", message, help)

    def tables(self, counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Counts of the factors that are learned, `[rows, entries]`; those not counted are 0."""
        return {
            name: group.table(counts[name]) if name in counts else self.zeros(group)
            for name, group in self.groups.items()
        }

    def zeros(self, group: Group) -> Tensor:
        """A table of zeros."""
        return torch.zeros((group.rows, group.entries), dtype=torch.float64)

    def empty(self) -> dict[str, Tensor]:
        """No counts."""
        return {name: self.zeros(group) for name, group in self.groups.items()}

    def publish(self, tables: Mapping[str, Tensor]) -> None:
        """Give the model log-weights, `[rows, entries]` by factor."""
        for name, table in tables.items():
            self.model.set_logits(name, table)

    def state_dict(self) -> dict[str, Tensor]:
        """All state besides the model's parameters."""
        found = super().state_dict()
        found["skipped"] = torch.tensor(self.skipped)
        found.update({f"logs.{name}": x.clone() for name, x in self.logs.items()})
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().load_state_dict(state)
        self.skipped = int(state["skipped"])
        for name, own in self.logs.items():
            given = state[f"logs.{name}"]
            if given.shape != own.shape:
                found, wanted = tuple(given.shape), tuple(own.shape)
                message = f"the state of `{name}` has shape {found}, not {wanted}"
                refuse("F477", message)
            self.logs[name] = given.to(torch.float64).clone()
        for counter in self._counters.values():
            counter.set(self.logs)


def _logs(model: Model, name: str) -> Tensor:
    """The log-weights of a factor, in float64."""
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
