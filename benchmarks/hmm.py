"""HMMs: `hmm.fgg` beside the scaled forward algorithm with a hand-written backward one."""

from __future__ import annotations

import torch
from torch import Tensor

import fgg
from benchmarks import adapters, limits, peers
from benchmarks.measure import OURS, Call, Goal, Point, Skipped, Suite, as_machine_code
from benchmarks.strings import by_function, by_program
from fgg.plan.backend import CPP, TORCH
from fgg.runtime.program.program import Program

WORDS = 1000
LARGE, MANY = 16, 256
"""Of more states, torch-struct and hmmlearn are left out. torch-struct takes 6 s and gigabytes for
64 states (34 GB for 256), which disturbs what is measured beside it."""


def data(point: Point) -> tuple[dict[str, Tensor], Tensor]:
    """Random distributions that require gradients, and words."""
    chance = torch.Generator().manual_seed(0)
    states = point["states"]
    shapes = {"init": (states,), "trans": (states, states), "emit": (states, WORDS)}
    weights = {}
    for name, shape in shapes.items():
        values = torch.rand(shape, generator=chance)
        weights[name] = (values / values.sum(-1, keepdim=True)).requires_grad_()
    return weights, torch.randint(WORDS, (point["batch"], point["n"]), generator=chance)


def program(point: Point, *, backend: str = TORCH) -> Program:
    """The compiled program."""
    grammar = fgg.load("hmm", sizes={"k": point["states"], "d": WORDS})
    return fgg.compile(grammar, query="string", backend=backend)


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The compiled program."""
    return by_program(program(point, backend=backend), data(point))


def by_hand(point: Point) -> Call:
    """What one would write for it."""
    return by_function(peers.hmm, data(point))


def torch_struct(point: Point) -> Call:
    """torch-struct."""
    if point["states"] > LARGE:
        raise Skipped(f"left out by choice above {LARGE} states, for its memory")
    return adapters.torch_struct_hmm(*data(point))


def hmmlearn(point: Point) -> Call:
    """hmmlearn."""
    if point["states"] > MANY:
        raise Skipped(f"left out by choice above {MANY} states, for its time")
    return adapters.hmmlearn_hmm(*data(point))


def dynamax(point: Point) -> Call:
    """dynamax."""
    return adapters.dynamax_hmm(*data(point))


def products(point: Point) -> Call:
    """The matrix products that cannot be avoided, alone: their time is the machine's limit."""
    n, batch, states = point["n"], point["batch"], point["states"]
    trans, rows = torch.rand(states, states), torch.rand(batch, states)
    every = torch.rand((n - 1) * batch, states)

    def call() -> dict[str, Tensor]:
        for _ in range(n - 1):
            _ = rows @ trans
            _ = rows @ trans.mT
        _ = every.mT @ every
        return {}

    return call


SUITE = Suite(
    name="hmm",
    title="HMM, forward and backward, float32",
    makers={
        OURS: ours,
        CPP: as_machine_code(ours),
        "by hand": by_hand,
        "torch-struct": torch_struct,
        "hmmlearn": hmmlearn,
        "dynamax": dynamax,
    },
    points=[{"batch": 16, "n": 64, "states": k} for k in (16, 64, 256, 512, 1024)],
    memory=[{"batch": 16, "n": n, "states": 256} for n in (32, 64, 128)],
    goals=[
        Goal(peer="by hand", least=1 / 1.2, at={"states": (256, 1024)}),
        Goal(peer="torch-struct", least=1),
        Goal(peer="hmmlearn", least=1, at={"states": (256, 1024)}),
        Goal(peer="dynamax", least=1, at={"states": (256, 1024)}),
    ],
    own=(CPP,),
    limits={
        limits.PRODUCTS: products,
        limits.TRAFFIC: lambda point: limits.traffic(program(point), point),
    },
)
