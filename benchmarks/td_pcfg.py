"""PCFGs with decomposed rules in state space: `pcfg.fgg` with `space="state"`."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks import checkouts, limits, peers
from benchmarks.measure import OURS, Call, Goal, Point, Suite, as_machine_code
from benchmarks.rank_pcfg import at, compiled, data, program
from benchmarks.strings import by_function
from fgg.plan.backend import CPP, TORCH


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The program in state space."""
    return compiled(point, "state", backend=backend)


def by_hand(point: Point) -> Call:
    """The same in logarithms, as it was published, with autograd."""
    return by_function(peers.log_td, data(point))


def tn_pcfg(point: Point) -> Call:
    """The kernel in TN-PCFG, in logarithms."""
    return checkouts.tn_pcfg_call("TDPCFG", *data(point))


def products(point: Point) -> Call:
    """The matrix products that cannot be avoided, alone: their time is the machine's limit."""
    weights, _ = data(point)
    n, batch = point["n"], point["batch"]
    head = weights["binary_0"].detach()
    sides = [weights[name].detach() for name in ("binary_1", "binary_2")]
    phrases, r = head.shape
    cells = [
        (torch.rand((n - width + 1) * batch, phrases), torch.rand((n - width + 1) * batch, r))
        for width in range(2, n)
    ]
    words = torch.rand(n * batch, sides[0].shape[1] - phrases)

    def call() -> dict[str, Tensor]:
        for states, ranks in cells:
            _ = ranks @ head.mT
            _ = states @ head
            _ = states.mT @ ranks
            for side in sides:
                of_phrases = side[:, :phrases]
                _ = states @ of_phrases.mT
                _ = ranks @ of_phrases
                _ = ranks.mT @ states
        for side in sides:
            emitted = words @ side[:, phrases:].mT
            _ = emitted @ side[:, phrases:]
            _ = emitted.mT @ words
        return {}

    return call


SUITE = Suite(
    name="td_pcfg",
    title="PCFG with decomposed rules in state space, inside and outside, float32",
    makers={
        OURS: ours,
        CPP: as_machine_code(ours),
        "by hand, in logarithms": by_hand,
        "TN-PCFG": tn_pcfg,
    },
    own=(CPP,),
    points=[at(20, 100, 250), at(40, 100, 250), at(20, 300, 250), at(20, 1000, 250)],
    slow=[at(40, 300, 250), at(40, 1000, 250)],
    memory=[at(20, 100, 250), at(40, 100, 250), at(20, 300, 250)],
    goals=[Goal(peer="TN-PCFG", least=30), Goal(of="memory", peer="TN-PCFG", least=10)],
    limits={
        limits.PRODUCTS: products,
        limits.TRAFFIC: lambda point: limits.traffic(program(point, "state"), point),
    },
)
