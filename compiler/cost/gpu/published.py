"""What published programs for low-rank PCFGs do: launches, bytes and multiply-adds, as polynomials.

Counted from the repository `sustcsonglin/TN-PCFG` (commit fa519b5), where these programs are:

- `TN-PCFG, torch`: `Fastest_TDPCFG` of `parser/pcfgs/tdpcfg.py`, tensor operations alone;
- `TN-PCFG, Triton`: `Triton_TDPCFG` of the same file, with the kernels of `parser/triton/fn.py`;
- `FlashInside`: `SimplePCFG_Triton` of `parser/pcfgs/simple_pcfg.py`, with the same kernels; its
  symbols are as many as our rank, so that it multiplies the same matrices.

Each was run on tensors without numbers, forward and backward, and its operations were counted as
ours are (`fgg.runtime.native.operations`); a kernel written by hand counts what its text reads and
writes. One phrase symbol and one tag leave out what comes before the charts. Counts at 24 settings
of n, the batch and r determine the polynomials; at three more they are exact. They hold from n = 3
on, for float32 and items of one length.

The kernels add logarithms where ours multiply: such sums are no multiply-adds. Their exponentials
and logarithms, several for each split and rank, are not counted at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fgg.plan import Plan
from fgg.plan.devices import IN_GRAPH, LAUNCH, Device
from fgg.plan.work import INSIDE, OUTSIDE, Total, roofline

Polynomial = Mapping[tuple[int, int, int], int]
"""Coefficients, in sixths, by the powers of n, of the batch and of r."""
LAUNCHES, BYTES, MULTIPLY_ADDS = "launches", "bytes", "multiply_adds"

PROGRAMS: Mapping[str, Mapping[tuple[str, str], Polynomial]] = {
    "TN-PCFG, torch": {
        (INSIDE, LAUNCHES): {(0, 0, 0): 36, (1, 0, 0): 132},
        (INSIDE, BYTES): {
            **{(0, 0, 1): 120, (0, 1, 0): 432, (0, 1, 1): 408, (0, 1, 2): -48, (1, 0, 0): -48},
            **{(1, 1, 0): 372, (1, 1, 1): 64, (1, 1, 2): 48, (2, 0, 0): 48, (2, 1, 0): 180},
            **{(2, 1, 1): 288, (3, 1, 0): 24, (3, 1, 1): 80},
        },
        (INSIDE, MULTIPLY_ADDS): {(0, 1, 1): 6, (1, 1, 1): 12, (1, 1, 2): -6, (2, 1, 2): 6},
        (OUTSIDE, LAUNCHES): {(0, 0, 0): -294, (1, 0, 0): 354},
        (OUTSIDE, BYTES): {
            **{(0, 0, 0): 96, (0, 0, 1): 120, (0, 1, 0): 384, (0, 1, 1): 816, (0, 1, 2): -528},
            **{(1, 1, 0): -832, (1, 1, 1): -1872, (1, 1, 2): 240, (2, 1, 0): 276},
            **{(2, 1, 1): 564, (3, 1, 0): 340, (3, 1, 1): 492},
        },
        (OUTSIDE, MULTIPLY_ADDS): {
            **{(0, 1, 0): 6, (0, 1, 1): 12, (1, 1, 0): 6, (1, 1, 1): 20, (1, 1, 2): -12},
            **{(2, 1, 1): 3, (2, 1, 2): 12, (3, 1, 1): 1},
        },
    },
    "TN-PCFG, Triton": {
        (INSIDE, LAUNCHES): {(0, 0, 0): 84, (1, 0, 0): 36},
        (INSIDE, BYTES): {
            **{(0, 0, 1): 168, (0, 1, 0): 312, (0, 1, 1): 240, (0, 1, 2): 48, (1, 1, 0): 276},
            **{(1, 1, 1): 100, (1, 1, 2): 48, (2, 1, 0): 60, (2, 1, 1): 180, (3, 1, 1): 8},
        },
        (INSIDE, MULTIPLY_ADDS): {(0, 1, 1): 12, (1, 1, 1): 12, (1, 1, 2): -6, (2, 1, 2): 6},
        (OUTSIDE, LAUNCHES): {(0, 0, 0): 90, (1, 0, 0): 48},
        (OUTSIDE, BYTES): {
            **{(0, 0, 0): 72, (0, 0, 1): 192, (0, 1, 0): 216, (0, 1, 1): 672, (0, 1, 2): -528},
            **{(1, 1, 0): 108, (1, 1, 1): -180, (1, 1, 2): 240, (2, 1, 0): 12, (2, 1, 1): 204},
            **{(3, 1, 1): 168},
        },
        (OUTSIDE, MULTIPLY_ADDS): {
            **{(0, 1, 0): 6, (0, 1, 1): 12, (1, 1, 0): 6, (1, 1, 1): 29, (1, 1, 2): -12},
            **{(2, 1, 1): 6, (2, 1, 2): 12, (3, 1, 1): 1},
        },
    },
    "FlashInside": {
        (INSIDE, LAUNCHES): {(0, 0, 0): 48, (1, 0, 0): 36},
        (INSIDE, BYTES): {
            **{(0, 0, 1): 144, (0, 1, 0): 240, (0, 1, 1): -24, (1, 0, 2): 48, (1, 1, 0): 324},
            **{(1, 1, 1): 100, (2, 1, 0): 60, (2, 1, 1): 180, (3, 1, 1): 8},
        },
        (INSIDE, MULTIPLY_ADDS): {
            **{(0, 1, 1): 6, (0, 1, 2): -12, (1, 1, 1): 12, (1, 1, 2): -6, (2, 1, 2): 6},
        },
        (OUTSIDE, LAUNCHES): {(0, 0, 0): -6, (1, 0, 0): 48},
        (OUTSIDE, BYTES): {
            **{(0, 0, 0): 72, (0, 0, 1): 96, (0, 0, 2): -528, (0, 1, 0): 96, (0, 1, 1): -456},
            **{(1, 0, 2): 240, (1, 1, 0): 108, (1, 1, 1): -180, (2, 1, 0): 12, (2, 1, 1): 204},
            **{(3, 1, 1): 168},
        },
        (OUTSIDE, MULTIPLY_ADDS): {
            **{(0, 1, 1): 6, (0, 1, 2): -24, (1, 1, 0): 6, (1, 1, 1): 29, (1, 1, 2): -12},
            **{(2, 1, 1): 6, (2, 1, 2): 12, (3, 1, 1): 1},
        },
    },
}
LEAST_LENGTH = 3


@dataclass(frozen=True)
class RankChart:
    """A plan that sums over the splits of a span, rank by rank, as the published programs do."""

    length: str
    rank: int


def rank_chart(plan: Plan) -> RankChart | None:
    """What of a plan the published programs do too; None if it does something else.

    Its only product of charts is an entrywise one, of two charts over spans, summed over splits.
    """
    charts = [[o for o in step.operands if o.kind == "chart"] for step in plan.steps]
    pairs = [(step, some) for step, some in zip(plan.steps, charts, strict=True) if len(some) > 1]
    if len(pairs) != 1 or len(plan.lengths) != 1:
        return None
    step, some = pairs[0]
    states = {operand.axes for operand in some} | {step.head_axes}
    spans = all(len(plan.chart[o.name].axes) == 2 for o in some)
    if len(some) != 2 or len(step.splits) != 1 or len(states) != 1 or not spans:
        return None
    ranks = plan.chart[step.head].states
    return RankChart(plan.lengths[0], ranks[0]) if len(ranks) == 1 else None


def counted(program: str, phase: str, what: str, n: int, batch: int, rank: int) -> int:
    """A count of a published program."""
    sixths: int = sum(
        coefficient * n**i * batch**j * rank**k
        for (i, j, k), coefficient in PROGRAMS[program][phase, what].items()
    )
    return sixths // 6


def published(n: int, batch: int, rank: int, device: Device) -> dict[str, dict[str, Total]]:
    """What the published programs do for sentences of `n` words, pass by pass.

    Their times are those of all launches together, not launch by launch: lower limits.
    """
    return {
        program: {
            phase: _total(program, phase, n, batch, rank, device) for phase in (INSIDE, OUTSIDE)
        }
        for program in PROGRAMS
    }


def _total(program: str, phase: str, n: int, batch: int, rank: int, device: Device) -> Total:
    launches, moved, multiplied = (
        counted(program, phase, what, n, batch, rank) for what in (LAUNCHES, BYTES, MULTIPLY_ADDS)
    )
    least = roofline(multiplied, moved, device, 4)
    return Total(
        launches=launches,
        a_level=PROGRAMS[program][phase, LAUNCHES][1, 0, 0] // 6,
        bytes=moved,
        multiply_adds=multiplied,
        seconds=max(launches * LAUNCH, least),
        graph_seconds=max(launches * IN_GRAPH, least),
    )
