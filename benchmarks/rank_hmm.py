"""HMMs in rank space: `hmm_rank.fgg` beside loops over the precomputed matrix."""

from __future__ import annotations

import torch
from torch import Tensor

import fgg
from benchmarks import checkouts, limits, peers
from benchmarks.measure import OURS, Call, Goal, Point, Suite, as_machine_code
from benchmarks.strings import by_function, by_program, softmaxed
from fgg.plan.backend import CPP, TORCH
from fgg.runtime.program.program import Program

WORDS = 500


def data(point: Point) -> tuple[dict[str, Tensor], Tensor]:
    """Random distributions that require gradients, and words."""
    m, r = point["m"], point["r"]
    shapes = {
        "init": (m,),
        "step_0": (m, r),
        "step_1": (r, m),
        "step_2": (r, WORDS),
    }
    return softmaxed(point, shapes, WORDS)


def program(point: Point, *, backend: str = TORCH) -> Program:
    """The program in rank space."""
    grammar = fgg.load("hmm_rank", sizes={"k": point["m"], "d": WORDS, "r": point["r"]})
    return fgg.compile(grammar, space="rank", backend=backend)


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The program in rank space."""
    return by_program(program(point, backend=backend), data(point))


def by_hand(point: Point) -> Call:
    """A scaled loop over the matrix, with autograd."""
    return by_function(peers.rank_hmm, data(point))


def rank_space_models(point: Point) -> Call:
    """The kernel of RankSpace-Models."""
    return checkouts.rank_hmm_call(*data(point))


def products(point: Point) -> Call:
    """The matrix products that cannot be avoided, alone: their time is the machine's limit."""
    weights, _ = data(point)
    up, down = weights["step_0"].detach(), weights["step_1"].detach()
    rows = torch.rand(point["batch"], point["r"])
    every = torch.rand(point["n"] * point["batch"], point["r"])

    def call() -> dict[str, Tensor]:
        between = down @ up
        for _ in range(point["n"] - 1):
            _ = rows @ between
            _ = rows @ between.mT
        _ = every.mT @ every
        _ = between @ up.mT
        _ = down.mT @ between
        return {}

    return call


SUITE = Suite(
    name="rank_hmm",
    title="HMM in rank space, forward and backward, float32",
    makers={
        OURS: ours,
        CPP: as_machine_code(ours),
        "by hand": by_hand,
        "RankSpace-Models": rank_space_models,
    },
    own=(CPP,),
    limits={
        limits.PRODUCTS: products,
        limits.TRAFFIC: lambda point: limits.traffic(program(point), point),
    },
    points=[{"batch": 16, "n": 128, "r": r, "m": m} for r in (256, 1024) for m in (1024, 16384)],
    memory=[{"batch": 16, "n": n, "r": 256, "m": 1024} for n in (64, 128, 256)],
    goals=[Goal(peer="RankSpace-Models", least=1.5), Goal(peer="by hand", least=1 / 1.2)],
)
