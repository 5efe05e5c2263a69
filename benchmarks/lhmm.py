"""HMMs with low-rank transitions in state space: `lhmm.fgg` beside the loop of low-rank-models."""

from __future__ import annotations

import torch
from torch import Tensor

import fgg
from benchmarks import checkouts, limits, peers
from benchmarks.measure import OURS, Call, Point, Suite, as_machine_code
from benchmarks.strings import by_function, by_program, softmaxed
from fgg.plan.backend import CPP, TORCH
from fgg.runtime.program.program import Program

WORDS = 500


def data(point: Point) -> tuple[dict[str, Tensor], Tensor]:
    """Random distributions that require gradients, and words."""
    m, r = point["m"], point["r"]
    shapes = {
        "init": (m,),
        "trans_0": (m, r),
        "trans_1": (r, m),
        "emit": (m, WORDS),
    }
    return softmaxed(point, shapes, WORDS)


def program(point: Point, *, backend: str = TORCH) -> Program:
    """The program in state space."""
    grammar = fgg.load("lhmm", sizes={"k": point["m"], "d": WORDS, "r": point["r"]})
    return fgg.compile(
        grammar, space="state", length=point["n"], batch=point["batch"], backend=backend
    )


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The program in state space."""
    return by_program(program(point, backend=backend), data(point))


def by_hand(point: Point) -> Call:
    """A scaled loop over the two matrices, with autograd."""
    return by_function(peers.low_rank_hmm, data(point))


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
    makers={
        OURS: ours,
        CPP: as_machine_code(ours),
        "by hand": by_hand,
        "low-rank-models": low_rank_models,
    },
    own=(CPP,),
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
