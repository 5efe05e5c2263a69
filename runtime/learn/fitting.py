"""`learn`: sweeps of a method over data in memory, and the likelihood of such data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from math import exp
from typing import TYPE_CHECKING, Any

import torch

from fgg.diagnostics import did_you_mean, refuse
from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.collapsed.exact_cvb import ExactCVB
from fgg.runtime.learn.collapsed.gibbs import Gibbs
from fgg.runtime.learn.collapsed.hastings import Hastings
from fgg.runtime.learn.collapsed.variable_cvb import VariableCVB
from fgg.runtime.learn.em import EM, OnlineEM
from fgg.runtime.learn.item_batches import (
    BUDGET,
    CheckedItems,
    Data,
    Items,
    bucketed,
    check_items,
    in_memory,
    numbered,
    token_count,
)
from fgg.runtime.learn.method import CountingMethod, Method, SweepReport
from fgg.runtime.learn.variational_bayes import CVB, VB
from fgg.runtime.model.model import Model
from fgg.runtime.native.jobs import Job
from fgg.runtime.program.prepared_batch import number_type
from fgg.runtime.program.program import Program

if TYPE_CHECKING:
    from fgg.draw.picture import Picture

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (Adam, EM, OnlineEM, VB, CVB, VariableCVB, ExactCVB, Hastings, Gibbs)
}
ONE_BY_ONE = ("cvb", "variable-cvb", "exact-cvb", "hastings")
"""The methods that take items one by one unless a budget is given."""


@dataclass(frozen=True, eq=False, repr=False)
class Learned:
    """A fitted model, the report of each sweep, and the method, ready for more sweeps."""

    model: Model
    history: tuple[SweepReport, ...]
    method: Method

    def __repr__(self) -> str:
        sweeps = "1 sweep" if len(self.history) == 1 else f"{len(self.history)} sweeps"
        reached = "".join(f", {s.kind} {s.objective:.6g}" for s in self.history[-1:])
        name = self.model.program.grammar.name
        return f"Learned({name!r}, {self.method.name!r}, {sweeps}{reached})"

    def draw(self) -> Picture:
        """The objective as a curve, one point a sweep."""
        from fgg.draw.fit import fit_picture

        points = [(s.sweep + 1, s.kind, s.objective) for s in self.history]
        return fit_picture(f"{self.method.name} of {self.model.program.grammar.name}", points)

    def _repr_html_(self) -> str:
        """Show the curve in a notebook."""
        from fgg.draw.html import heading, scrolled

        return heading(repr(self)) + scrolled(self.draw().svg())


def learn(
    model: Model | Program,
    data: Data,
    *,
    method: str = "em",
    epochs: int = 10,
    tolerance: float = 0.0,
    budget: int | None = None,
    seed: int = 0,
    others: Mapping[str, Data] | None = None,
    report: Callable[[SweepReport], None] | None = None,
    **options: Any,
) -> Learned:
    """Fit a model to data in memory by `epochs` sweeps of a method.

    `data` are token lists, or if the grammar has several inputs, lists by input. `others` are data
    of other queries of the grammar, by query: observed trees beside text. If a program is given,
    its model is made with `seed`. `budget` is the number of tokens in a batch; without it, CVB and
    Hastings take items one by one. With a `tolerance`, sweeps stop when the objective changes by
    less, relative to its size. `report` is called after each sweep. `options` are those of the
    method: `prior` (VB, CVB, samplers), `burn_in` (samplers), `pseudo` (EM), `rate` … (Adam).
    """
    kind = find_method(method, options)
    if isinstance(model, Program):
        dtype = torch.float32 if kind is Adam else torch.float64
        model = model.model(seed=seed, dtype=dtype)
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 0:
        refuse("F476", "`epochs` is a whole number from 0 up")
    if "seed" in option_defaults(kind):
        options = {"seed": seed, **options}
    batches = batched(model, data, method, budget, others)
    if method in ONE_BY_ONE:
        options = {"items": len(batches), **options}
    fitting = kind(model, **options)
    ready = [fitting.ready(batch) for batch in batches]
    shuffle = torch.Generator().manual_seed(seed)
    history: list[SweepReport] = []
    with _job(model, ready, times=epochs).on_one_backend(model.program):
        for _ in range(epochs):
            order = list(range(len(ready)))
            if method in ("adam", "online-em"):
                order = torch.randperm(len(ready), generator=shuffle).tolist()
            history.append(fitting.sweep(ready[i] for i in order))
            if report is not None:
                report(history[-1])
            if _settled(history, tolerance):
                break
    return Learned(model, tuple(history), fitting)


def _job(model: Model, batches: Iterable[CheckedItems], *, times: int) -> Job:
    """The work of so many sweeps: one backend for all of them, by the amount of data alone."""
    dtype, device = number_type([*model.parameters(), *model.buffers()])
    pairs = ((batch.program, batch.collated) for batch in batches)
    return Job(batches=pairs, dtype=dtype, device=device, times=times)


def batched(
    model: Model,
    data: Data,
    method: str,
    budget: int | None = None,
    others: Mapping[str, Data] | None = None,
) -> list[Items]:
    """Data in memory cut into the batches that a method takes."""
    items = _read(model, in_memory(model.program, data))
    for query, more in (others or {}).items():
        items += numbered(_read(model, in_memory(model.program, more, query)), len(items))
    if budget is None and method in ONE_BY_ONE:
        return items
    if budget is not None and (isinstance(budget, bool) or budget < 1):
        refuse("F476", "`budget` is a whole number from 1 up")
    return bucketed(items, budget or BUDGET)


def _read(model: Model, items: Iterable[Items]) -> list[Items]:
    """Items with their words changed as those of the model's training data were."""
    return [replace(item, inputs=model.read(item.inputs)) for item in items]


def log_likelihood(model: Model, data: Data, *, budget: int = BUDGET) -> tuple[float, int]:
    """The sum of log Z over data in memory, and their number of tokens."""
    total, count = 0.0, 0
    was = model.training
    model.eval()
    batches = bucketed(_read(model, in_memory(model.program, data)), budget)
    checked = (check_items(model.program, batch) for batch in batches)
    job = replace(_job(model, checked, times=1), derivatives=False, look=True)
    with torch.no_grad(), job.on_one_backend(model.program):
        weights = model.readers()
        for batch in batches:
            log_z = model.program.log_z(weights, batch.inputs, batch.lengths)
            total += float(log_z.double().sum())
            count += token_count(model.program, batch)
    model.train(was)
    return total, count


def perplexity(model: Model, data: Data, *, budget: int = BUDGET) -> float:
    """The perplexity per token of data in memory."""
    total, count = log_likelihood(model, data, budget=budget)
    return exp(-total / max(count, 1))


def find_method(method: str, options: Iterable[str] = ()) -> type[Method]:
    """The class of a method. Raises GrammarError (F476) for an unknown method or option."""
    if method not in METHODS:
        help = did_you_mean(method, METHODS) or "there are " + ", ".join(f"`{m}`" for m in METHODS)
        refuse("F476", f"there is no method `{method}`", help)
    known = option_defaults(METHODS[method])
    for name in options:
        if name not in known:
            help = did_you_mean(name, known) or "it has " + ", ".join(f"`{k}`" for k in known)
            refuse("F476", f"`{method}` has no option `{name}`", help)
    return METHODS[method]


def option_defaults(kind: type[Method]) -> dict[str, object]:
    """The options of a method with their defaults, inherited ones included."""
    defaults: dict[str, object] = {}
    for cls in kind.__mro__:
        if issubclass(cls, Method) and "__init__" in cls.__dict__:
            for parameter in signature(cls.__init__).parameters.values():
                if parameter.kind is parameter.KEYWORD_ONLY:
                    defaults.setdefault(parameter.name, parameter.default)
    if issubclass(kind, CountingMethod) and not kind.uses_priors:
        del defaults["prior"]
    return defaults


def _settled(history: Sequence[SweepReport], tolerance: float) -> bool:
    """Whether the last sweep changed the objective by less than the tolerance."""
    if tolerance <= 0 or len(history) < 2 or history[-1].kind != history[-2].kind:
        return False
    now, before = history[-1].objective, history[-2].objective
    return abs(now - before) < tolerance * (1 + abs(now))
