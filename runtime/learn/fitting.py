"""Learn: sweeps of a method over data that are in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import exp
from typing import Any

import torch

from fgg.diagnostics import did_you_mean, refuse
from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.cvb import CVB
from fgg.runtime.learn.em import EM
from fgg.runtime.learn.hastings import Hastings
from fgg.runtime.learn.items import BUDGET, Items, Ready, bucketed, in_memory, numbered, tokens
from fgg.runtime.learn.method import CountingMethod, Method
from fgg.runtime.learn.online import OnlineEM
from fgg.runtime.learn.progress import Progress
from fgg.runtime.learn.vb import VB
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Adam, EM, OnlineEM, VB, CVB, Hastings)
}
ONE_BY_ONE = ("cvb", "hastings")
"""The methods that go item by item, unless batches are asked for."""


@dataclass(frozen=True, eq=False)
class Learned:
    """A fitted model, what each sweep reported, and the method, ready for more sweeps."""

    model: Model
    history: tuple[Progress, ...]
    method: Method


def learn(
    model: Model | Program,
    data: Any,
    *,
    method: str = "em",
    epochs: int = 10,
    tolerance: float = 0.0,
    budget: int | None = None,
    seed: int = 0,
    others: Mapping[str, Any] | None = None,
    report: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Learned:
    """Fit a model to data in memory: so many sweeps (epochs) of a method.

    `data` are token lists, or for a grammar of several inputs lists by input. `others` are data of
    other queries of the grammar, by query: observed trees beside text. A program's model is made
    with `seed`. `budget` is the number of tokens of a batch; CVB and Hastings take items one by
    one without it. If `tolerance` is not 0, sweeps end where the objective changes by less,
    relative to its size. `report` is called with each sweep's progress. `options` are those of the
    method: `prior` (VB, CVB, Hastings), `burn_in` (Hastings), `pseudo` (EM), `rate` … (Adam).
    """
    kind = _method(method, options)
    if isinstance(model, Program):
        dtype = torch.float32 if kind is Adam else torch.float64
        model = model.model(seed=seed, dtype=dtype)
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 0:
        refuse("F476", "`epochs` is a whole number from 0 up")
    if "seed" in signature(kind.__init__).parameters:
        options = {"seed": seed, **options}
    batches = batched(model, data, method, budget, others)
    if method in ONE_BY_ONE:
        options = {"items": len(batches), **options}
    fitting = kind(model, **options)
    ready = [fitting.ready(batch) for batch in batches]
    shuffle = torch.Generator().manual_seed(seed)
    history: list[Progress] = []
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


def batched(
    model: Model,
    data: Any,
    method: str,
    budget: int | None = None,
    others: Mapping[str, Any] | None = None,
) -> list[Items]:
    """Data in memory cut into batches, as a method wants them."""
    found = in_memory(model.program, data)
    for query, more in (others or {}).items():
        found += numbered(in_memory(model.program, more, query), len(found))
    if budget is None and method in ONE_BY_ONE:
        return found
    if budget is not None and (isinstance(budget, bool) or budget < 1):
        refuse("F476", "`budget` is a whole number from 1 up")
    return bucketed(model.program, found, budget or BUDGET)


def log_likelihood(model: Model, data: Any, *, budget: int = BUDGET) -> tuple[float, int]:
    """The sum of log Z over data in memory, and the number of their tokens."""
    total, count = 0.0, 0
    was = model.training
    model.eval()
    with torch.no_grad():
        weights = model.weights()
        for batch in bucketed(model.program, in_memory(model.program, data), budget):
            log_z = model.program.log_z(weights, batch.inputs, batch.lengths)
            total += float(log_z.double().sum())
            count += tokens(model.program, batch)
    model.train(was)
    return total, count


def perplexity(model: Model, data: Any, *, budget: int = BUDGET) -> float:
    """The perplexity of data in memory, a token."""
    total, count = log_likelihood(model, data, budget=budget)
    return exp(-total / max(count, 1))


def _method(method: str, options: Mapping[str, Any]) -> type[Method]:
    if method not in METHODS:
        help = did_you_mean(method, METHODS) or "there are " + ", ".join(f"`{m}`" for m in METHODS)
        refuse("F476", f"there is no method `{method}`", help)
    kind = METHODS[method]
    known = _options(kind)
    for name in options:
        if name not in known:
            help = did_you_mean(name, known) or "it has " + ", ".join(f"`{k}`" for k in known)
            refuse("F476", f"`{method}` has no option `{name}`", help)
    return kind


def _options(kind: type[Method]) -> list[str]:
    """The options of a method, its own and those it inherits."""
    found: list[str] = []
    for cls in kind.__mro__:
        if issubclass(cls, Method) and "__init__" in cls.__dict__:
            own = signature(cls.__init__).parameters.values()
            found += [p.name for p in own if p.kind is p.KEYWORD_ONLY and p.name not in found]
    if issubclass(kind, CountingMethod) and not kind.uses_priors:
        found.remove("prior")
    return found


def _settled(history: Sequence[Progress], tolerance: float) -> bool:
    if tolerance <= 0 or len(history) < 2 or history[-1].kind != history[-2].kind:
        return False
    now, before = history[-1].objective, history[-2].objective
    return abs(now - before) < tolerance * (1 + abs(now))


__all__ = ["METHODS", "Learned", "Ready", "learn", "log_likelihood", "perplexity"]
