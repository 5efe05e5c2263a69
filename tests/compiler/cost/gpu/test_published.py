"""What is known of published programs, and for which of our plans it is shown."""

from __future__ import annotations

import pytest

from fgg.compiler.cost.gpu.published import PROGRAMS, RankChart, counted, published, rank_chart
from fgg.plan.devices import DEVICES
from fgg.plan.work import INSIDE, OUTSIDE
from tests.helpers.gpu_costs import cost_on, plan


@pytest.mark.parametrize("program", PROGRAMS)
def test_counts_are_whole_numbers(program: str) -> None:
    for (_, _), polynomial in PROGRAMS[program].items():
        for n, batch, rank in ((3, 1, 1), (11, 5, 7), (40, 16, 1000)):
            terms = (c * n**i * batch**j * rank**k for (i, j, k), c in polynomial.items())
            total = sum(terms)
            assert total % 6 == 0 and total >= 0


def test_counts_are_those_that_were_noted() -> None:
    """These were read off the programs themselves, at n = 40, batch 16, r = 1000."""
    at = (40, 16, 1000)
    assert counted("TN-PCFG, torch", INSIDE, "launches", *at) == 886
    assert counted("TN-PCFG, torch", OUTSIDE, "bytes", *at) == 110_428_032_560
    assert counted("TN-PCFG, Triton", OUTSIDE, "multiply_adds", *at) == 50_119_392_656
    assert counted("FlashInside", INSIDE, "bytes", *at) == 2_464_251_200
    assert counted("FlashInside", OUTSIDE, "launches", *at) == 319


def test_they_multiply_the_same_matrices_as_we_do() -> None:
    found = cost_on("a100", "pcfg", "rank", n=40, batch=16, r=1000)
    ours = {row.phase: row.total for row in found.whole() if row.program == "triton"}
    for passes in published(40, 16, 1000, DEVICES["a100"]).values():
        for phase, theirs in passes.items():
            assert theirs.multiply_adds == pytest.approx(ours[phase].multiply_adds, rel=0.06)


def test_only_rank_charts_over_spans_are_compared() -> None:
    assert rank_chart(plan("pcfg", "rank", r=7)) == RankChart("n", 7)
    others = [("pcfg", "dense"), ("hmm", "state"), ("eisner", "state"), ("pair_hmm", "state")]
    assert [rank_chart(plan(*other)) for other in others] == [None] * 4
    programs = {row.program for row in cost_on("a100", "hmm", "state", n=7).whole()}
    assert programs == {"torch", "triton"}
    short = {row.program for row in cost_on("a100", "pcfg", "rank", n=2).whole()}
    assert short == {"torch", "triton"}
