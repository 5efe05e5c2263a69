"""Projective dependency trees: `eisner.fgg` beside Eisner's algorithm in logarithms."""

from __future__ import annotations

import torch
from torch import Tensor

import fgg
from benchmarks import adapters, limits, peers
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


def data(point: Point) -> dict[str, Tensor]:
    """Random scores that require gradients: `arc[batch, head, dependent]` and `root`."""
    chance = torch.Generator().manual_seed(0)
    batch, n = point["batch"], point["n"]
    return {
        "arc": torch.randn((batch, n, n), generator=chance).requires_grad_(),
        "root": torch.randn((batch, n), generator=chance).requires_grad_(),
    }


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The compiled program."""
    scores = data(point)
    program = fgg.compile(fgg.load("eisner"), backend=backend)
    return lambda: gradients_of(program.log_z({}, scores), scores)


def by_hand(point: Point) -> Call:
    """What one would write for it."""
    scores = data(point)
    return lambda: gradients_of(peers.eisner(scores["arc"], scores["root"]), scores)


def supar(point: Point) -> Call:
    """supar."""
    return adapters.supar_eisner(data(point))


def torch_struct(point: Point) -> Call:
    """torch-struct."""
    return adapters.torch_struct_eisner(data(point))


SUITE = Suite(
    name="dependency",
    title="Eisner, inside and outside, float32",
    makers={
        OURS: ours,
        CPP: as_machine_code(ours),
        "by hand": by_hand,
        "supar": supar,
        "torch-struct": torch_struct,
    },
    own=(CPP,),
    points=[{"batch": 16, "n": n} for n in (10, 20, 40, 80)],
    memory=[{"batch": 16, "n": n} for n in (20, 40, 80)],
    goals=[
        Goal(peer="supar", least=2, at={"n": (10, 20, 40)}),
        Goal(peer="torch-struct", least=2, at={"n": (10, 20, 40)}),
    ],
    limits={limits.TRAFFIC: lambda point: limits.traffic(fgg.compile(fgg.load("eisner")), point)},
)
