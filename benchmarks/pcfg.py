"""PCFGs: `pcfg_dense.fgg` beside CKY in torch."""

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
LONG, LARGE = 20, 30
"""Beyond this length or number of phrase symbols, torch-struct is left out: it takes seconds."""


def data(point: Point) -> tuple[dict[str, Tensor], Tensor]:
    """Random distributions that require gradients, and words."""
    chance = torch.Generator().manual_seed(0)
    phrases, tags = point["phrases"], point["tags"]
    both = phrases + tags
    weights = {}
    for name, shape in {"root": (phrases,), "binary": (phrases, both, both)}.items():
        values = torch.rand(shape, generator=chance)
        axes = tuple(range(1, len(shape))) or (0,)
        weights[name] = (values / values.sum(axes, keepdim=True)).requires_grad_()
    emit = torch.rand((tags, WORDS), generator=chance)
    weights["emit"] = (emit / emit.sum(-1, keepdim=True)).requires_grad_()
    return weights, torch.randint(WORDS, (point["batch"], point["n"]), generator=chance)


def program(point: Point, *, backend: str = TORCH) -> Program:
    """The compiled program."""
    sizes = {"nt": point["phrases"], "pt": point["tags"], "words": WORDS}
    return fgg.compile(fgg.load("pcfg_dense", sizes=sizes), query="string", backend=backend)


def ours(point: Point, *, backend: str = TORCH) -> Call:
    """The compiled program."""
    return by_program(program(point, backend=backend), data(point))


def by_hand(point: Point) -> Call:
    """CKY with one chart for all symbols."""
    return by_function(peers.cky, data(point))


def apart(point: Point) -> Call:
    """CKY with preterminals apart."""
    return by_function(peers.cky_apart, data(point))


def torch_struct(point: Point) -> Call:
    """torch-struct."""
    if point["n"] > LONG or point["phrases"] > LARGE:
        raise Skipped("left out by choice, for its time")
    return adapters.torch_struct_pcfg(*data(point))


def products(point: Point) -> Call:
    """The products of two phrases and their rule, and the derivatives of these, alone.

    Those with words are left out: they are fewer.
    """
    n, batch, phrases = point["n"], point["batch"], point["phrases"]
    binary = torch.rand(phrases * phrases, phrases)
    cells = []
    for width in range(4, n + 1):
        count = (n - width + 1) * batch
        sides = torch.rand(count, phrases, width - 3)
        cells.append((sides, torch.rand(count, phrases)))

    def call() -> dict[str, Tensor]:
        for sides, cell in cells:
            pairs = sides @ sides.mT
            flat = pairs.view(len(cell), -1)
            _ = flat @ binary
            _ = flat.mT @ cell
            back = (cell @ binary.mT).view_as(pairs)
            _ = back @ sides
            _ = back.mT @ sides
        return {}

    return call


def at(n: int, phrases: int = 30, tags: int = 60) -> Point:
    """A length and numbers of symbols, and the batch."""
    return {"batch": 4, "n": n, "phrases": phrases, "tags": tags}


SUITE = Suite(
    name="pcfg",
    title="Dense PCFG, inside and outside, float32",
    makers={
        OURS: ours,
        CPP: as_machine_code(ours),
        "by hand": by_hand,
        "by hand, apart": apart,
        "torch-struct": torch_struct,
    },
    points=[at(20), at(30), at(40), at(20, 15, 30), at(20, 60, 120)],
    memory=[at(20), at(40), at(80)],
    goals=[
        Goal(peer="by hand", least=1, at={"n": (20, 30)}),
        Goal(peer="by hand", least=1.5, at={"n": (40,)}),
        Goal(peer="torch-struct", least=1),
        Goal(of="memory", grows="n", most=2),
    ],
    own=(CPP,),
    limits={
        limits.PRODUCTS: products,
        limits.TRAFFIC: lambda point: limits.traffic(program(point), point),
    },
)
