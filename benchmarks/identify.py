"""Identifiability: the exact rank of a Jacobian beside the plain way to find it in float64.

The plain way makes the tensor of all strings, its moments, the Jacobian by autograd, by rows or by
columns, and its rank by singular values. With `states` the point is an HMM, with `symbols` the
PCFG-IE of [ID]; moments are those of all triples of words. The ranks have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import torch
from torch import Tensor

import fgg
from benchmarks.measure import OURS, Call, Point, Skipped, Suite
from fgg.api.identify import model_of

MOMENTS = "***"
SHORT = 5


def sizes(point: Point) -> tuple[str, int]:
    """The model of a point, and how many states it has."""
    return ("hmm", point["states"]) if "states" in point else ("pcfg_ie", point["symbols"])


def ours(point: Point) -> Call:
    """The exact rank by random functionals in a prime field."""
    name, k = sizes(point)
    model = model_of(fgg.load(name), sizes={"k": k, "d": point["words"]})

    def call() -> dict[str, Tensor]:
        found = model.identify(point["n"], [MOMENTS], second=False, null=False)[MOMENTS]
        return {"rank": torch.tensor(found.rank)}

    return call


def plain(point: Point) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """The moments as a function of the free parameters, and a random point."""
    name, k = sizes(point)
    d, n = point["words"], point["n"]
    chance = torch.Generator().manual_seed(0)
    shapes = ((1, k), (k, k), (k, d))  # first states, next ones, words
    free = [
        torch.rand(rows, columns, generator=chance, dtype=torch.float64).softmax(-1)[:, :-1]
        for rows, columns in shapes
    ]
    inside = chain if name == "hmm" else tree

    def moments(*parameters: Tensor) -> Tensor:
        first, step, emit = (torch.cat([p, 1 - p.sum(-1, True)], -1) for p in parameters)
        strings = (first @ inside(step, emit, n)).view([d] * n)
        kept = combinations(range(n), 3)
        return torch.cat([triple(strings, set(places)).flatten() for places in kept])

    return moments, free


def by_rows(point: Point) -> Call:
    """The rank of the whole Jacobian in float64, a row for each moment."""
    if point["n"] > SHORT:
        raise Skipped(f"left out by choice above {SHORT} words, for its time")
    moments, free = plain(point)

    def call() -> dict[str, Tensor]:
        leaves = [p.clone().requires_grad_() for p in free]
        rows = []
        for value in moments(*leaves):
            row = torch.autograd.grad(value, leaves, retain_graph=True)
            rows.append(torch.cat([g.flatten() for g in row]))
        return {"rank": torch.linalg.matrix_rank(torch.stack(rows))}

    return call


def by_columns(point: Point) -> Call:
    """The same, a column for each parameter, all at once."""
    moments, free = plain(point)
    jacobian = torch.func.jacfwd(moments, argnums=(0, 1, 2))

    def call() -> dict[str, Tensor]:
        parts = [part.flatten(1) for part in jacobian(*free)]
        return {"rank": torch.linalg.matrix_rank(torch.cat(parts, 1))}

    return call


def triple(strings: Tensor, kept: set[int]) -> Tensor:
    """The moments of some words of strings: all others are summed out."""
    out = [place for place in range(strings.dim()) if place not in kept]
    return strings.sum(out) if out else strings


def chain(step: Tensor, emit: Tensor, n: int) -> Tensor:
    """The weights of all strings of n words by the first state: `[state, string]`."""
    found = emit
    for _ in range(n - 1):
        found = (emit[:, :, None] * (step @ found)[:, None]).flatten(1)
    return found


def tree(step: Tensor, emit: Tensor, n: int) -> Tensor:
    """The same, summed over all binary trees with n leaves, by the symbol of the root."""
    found = {1: emit}
    for width in range(2, n + 1):
        parts = []
        for left in range(1, width):
            one, two = step @ found[left], step @ found[width - left]
            parts.append((one[:, :, None] * two[:, None]).flatten(1))
        found[width] = torch.stack(parts).sum(0)
    return found[n]


SUITE = Suite(
    name="identify",
    title="Identifiability: the rank of the Jacobian of all triples",
    makers={OURS: ours, "by hand, by rows": by_rows, "by hand, by columns": by_columns},
    points=[
        {"n": 3, "words": 4, "states": 3},
        {"n": 5, "words": 4, "states": 3},
        {"n": 4, "words": 6, "states": 4},
        {"n": 7, "words": 5, "states": 4},
        {"n": 3, "words": 4, "symbols": 3},
        {"n": 5, "words": 4, "symbols": 3},
        {"n": 4, "words": 6, "symbols": 4},
        {"n": 7, "words": 5, "symbols": 4},
    ],
    value="rank",
)
