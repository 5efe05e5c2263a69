"""PCFGs in rank space: `pcfg.fgg` with `space="rank"` beside kernels for the same."""

from __future__ import annotations

import torch
from torch import Tensor

import fgg
from benchmarks import checkouts, limits, peers
from benchmarks.measure import OURS, Call, Goal, Point, Suite, as_machine_code
from benchmarks.strings import by_function, by_program, softmaxed
from fgg.plan.backend import CPP, TORCH
from fgg.runtime.program.program import Program

WORDS = 1000


def data(point: Point) -> tuple[dict[str, Tensor], Tensor]:
    """Random distributions that require gradients, and words; a third are phrases."""
    m, r = point["m"], point["r"]
    phrases, tags = m // 3, m - m // 3
    shapes = {
        "root": (phrases,),
        "binary_0": (phrases, r),
        "binary_1": (r, m),
        "binary_2": (r, m),
        "emit": (tags, WORDS),
    }
    return softmaxed(point, shapes, WORDS)


def program(point: Point, space: str, *, backend: str = TORCH) -> Program:
    """The program of a space."""
    m = point["m"]
    sizes = {"nt": m // 3, "pt": m - m // 3, "words": WORDS, "r": point["r"]}
    grammar = fgg.load("pcfg", sizes=sizes)
    return fgg.compile(
        grammar, space=space, length=point["n"], batch=point["batch"], backend=backend
    )


def compiled(point: Point, space: str, *, backend: str = TORCH) -> Call:
    """Calls of the program of a space."""
    return by_program(program(point, space, backend=backend), data(point))


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The program in rank space."""
    return compiled(point, "rank", backend=backend)


def automatic(point: Point) -> Call:
    """The program that is chosen by cost."""
    return compiled(point, "auto")


def by_hand(point: Point) -> Call:
    """What one would write for it, with autograd."""
    return by_function(peers.rank_cky, data(point))


def tn_pcfg(point: Point) -> Call:
    """The rank-space kernel in TN-PCFG."""
    return checkouts.tn_pcfg_call("Fastest_TDPCFG", *data(point))


def products(point: Point) -> Call:
    """The matrix products that cannot be avoided, alone: their time is the machine's limit."""
    weights, _ = data(point)
    n, batch = point["n"], point["batch"]
    left, right = weights["binary_1"].detach(), weights["binary_2"].detach()
    head = weights["binary_0"].detach()
    phrases, r = head.shape
    cells = [torch.rand((n - width) * batch, r) for width in range(2, n)]
    words = torch.rand(n * batch, left.shape[1] - phrases)

    def call() -> dict[str, Tensor]:
        for side in (left, right):
            hoisted = side[:, :phrases] @ head
            for rows in cells:
                _ = rows @ hoisted
                _ = rows @ hoisted.mT
                _ = rows.mT @ rows
            _ = hoisted @ head.mT
            _ = side[:, :phrases].mT @ hoisted
            emitted = words @ side[:, phrases:].mT
            _ = emitted @ side[:, phrases:]
            _ = emitted.mT @ words
        return {}

    return call


def at(n: int, r: int, m: int) -> Point:
    """A length, a rank and a number of symbols, and the batch."""
    return {"batch": 4, "n": n, "r": r, "m": m}


SUITE = Suite(
    name="rank_pcfg",
    title="PCFG in rank space, inside and outside, float32",
    makers={
        OURS: ours,
        CPP: as_machine_code(ours),
        "auto": automatic,
        "by hand": by_hand,
        "TN-PCFG": tn_pcfg,
    },
    limits={
        limits.PRODUCTS: products,
        limits.TRAFFIC: lambda point: limits.traffic(program(point, "rank"), point),
    },
    points=[
        at(20, 300, 1500),
        at(20, 1000, 1500),
        at(40, 300, 1500),
        at(40, 1000, 1500),
        at(20, 300, 4500),
        at(40, 1000, 4500),
    ],
    memory=[at(20, 300, 1500), at(40, 300, 1500), at(40, 1000, 1500)],
    goals=[Goal(peer="TN-PCFG", least=5), Goal(of="memory", peer="TN-PCFG", least=5)],
    own=(CPP, "auto"),
)
