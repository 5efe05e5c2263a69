"""HMMs with low-rank transitions in state space: `lhmm.fgg` beside the loop of low-rank-models."""

from __future__ import annotations

import torch
from torch import Tensor

import fgg
from benchmarks import checkouts, limits, peers
from benchmarks.measure import OURS, Call, Point, Suite, gradients_of
from fgg.runtime.program import Program

WORDS = 500


def data(point: Point) -> tuple[dict[str, Tensor], Tensor]:
    """Random distributions that require gradients, and words."""
    chance = torch.Generator().manual_seed(0)
    m, r = point["m"], point["r"]

    def table(*shape: int) -> Tensor:
        return torch.randn(shape, generator=chance).softmax(-1).requires_grad_()

    weights = {
        "init": table(m),
        "trans_0": table(m, r),
        "trans_1": table(r, m),
        "emit": table(m, WORDS),
    }
    return weights, torch.randint(WORDS, (point["batch"], point["n"]), generator=chance)


def program(point: Point) -> Program:
    """The program in state space."""
    grammar = fgg.load("lhmm", sizes={"k": point["m"], "d": WORDS, "r": point["r"]})
    return fgg.compile(grammar, space="state", length=point["n"], batch=point["batch"])


def ours(point: Point) -> Call:
    """The program in state space."""
    weights, words = data(point)
    compiled = program(point)
    return lambda: gradients_of(compiled.log_z(weights, {"w": words}), weights)


def by_hand(point: Point) -> Call:
    """A scaled loop over the two matrices, with autograd."""
    weights, words = data(point)
    return lambda: gradients_of(peers.low_rank_hmm(**weights, words=words), weights)


def low_rank_models(point: Point) -> Call:
    """The loop of low-rank-models."""
    return checkouts.low_rank_hmm_call(*data(point))


def products(point: Point) -> Call:
    """The matrix products of the loop and its derivative, alone."""
    m, r, n, batch = point["m"], point["r"], point["n"], point["batch"]
    up, down, rows, ranks = (torch.rand(s) for s in ((m, r), (r, m), (batch, m), (batch, r)))
    every_state, every_rank = torch.rand((n - 1) * batch, m), torch.rand((n - 1) * batch, r)

    def call() -> dict[str, Tensor]:
        for _ in range(n - 1):
            for left, right in ((rows, up), (ranks, down), (rows, down.mT), (ranks, up.mT)):
                _ = left @ right
        _ = every_state.mT @ every_rank
        _ = every_rank.mT @ every_state
        return {}

    return call


SUITE = Suite(
    name="lhmm",
    title="HMM with low-rank transitions in state space, forward and backward, float32",
    makers={OURS: ours, "by hand": by_hand, "low-rank-models": low_rank_models},
    limits={
        limits.PRODUCTS: products,
        limits.TRAFFIC: lambda point: limits.traffic(program(point), point),
    },
    points=[
        {"batch": 16, "n": 64, "r": r, "m": m}
        for r, m in ((64, 1024), (128, 1024), (64, 4096), (128, 4096))
    ],
    memory=[{"batch": 16, "n": n, "r": 64, "m": 1024} for n in (32, 64, 128)],
)
