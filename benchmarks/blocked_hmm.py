"""HMMs with blocked emissions: `hmm_blocks.fgg` beside a loop over blocks of transitions.

`grad` is that part of the time that nobody can do without: to make the gradient of all transitions,
of which most are zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

import fgg
from benchmarks import peers
from benchmarks.measure import (
    OURS,
    Call,
    Goal,
    Point,
    Suite,
    as_machine_code,
    gradients_of,
)
from fgg.plan.backend import CPP, TORCH

WORDS = 10_000


def data(point: Point) -> tuple[dict[str, Tensor], Tensor]:
    """Random distributions that require gradients, and words."""
    chance = torch.Generator().manual_seed(0)
    m, k = point["m"], point["k"]
    weights = {
        "init": torch.rand(m * k, generator=chance),
        "trans": torch.rand(m * k, m * k, generator=chance),
        "emit": torch.rand(k, WORDS, generator=chance),
    }
    weights = {name: w / w.sum(-1, keepdim=True) for name, w in weights.items()}
    weights["emit"] *= m  # about one in each block
    for weight in weights.values():
        weight.requires_grad_()
    return weights, torch.randint(WORDS, (point["batch"], point["n"]), generator=chance)


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The program with pinned blocks."""
    weights, words = data(point)
    sizes = {"m": point["m"], "k": point["k"], "d": WORDS}
    program = fgg.compile(fgg.load("hmm_blocks", sizes=sizes), backend=backend)
    return lambda: gradients_of(program.log_z(weights, {"w": words}), weights)


def by_hand(point: Point) -> Call:
    """A scaled loop over transitions gathered for all positions, with autograd."""
    weights, words = data(point)
    blocks = torch.arange(WORDS) % point["m"]
    return lambda: gradients_of(peers.blocked_hmm(**weights, words=words, blocks=blocks), weights)


def zeros(point: Point) -> Call:
    """The gradient of the transitions, as zeros."""
    weights, _ = data(point)

    def call() -> dict[str, Tensor]:
        torch.zeros_like(weights["trans"])
        return {}

    return call


SUITE = Suite(
    name="blocked_hmm",
    title="HMM with blocked emissions, forward and backward, float32",
    makers={OURS: ours, CPP: as_machine_code(ours), "by hand": by_hand},
    own=(CPP,),
    limits={"zeros of the gradient": zeros},
    points=[
        {"batch": 16, "n": 32, "k": k, "m": m}
        for k, m in ((64, 64), (64, 32), (64, 16), (32, 64), (128, 16))
    ],
    memory=[{"batch": 16, "n": 32, "k": k, "m": m} for k, m in ((64, 16), (64, 64))],
    goals=[
        Goal(peer="by hand", least=1 / 1.2),
        Goal(most=0.18, at={"k": (64,), "m": (64,)}),
        Goal(of="memory", most=146e6, at={"k": (64,), "m": (64,)}),
        Goal(grows="k", most=2),
    ],
)
