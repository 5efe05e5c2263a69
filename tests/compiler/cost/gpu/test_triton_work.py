"""Launches, bytes and multiply-adds of Triton programs, counted; the goals for rank-space PCFGs."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest

from fgg.compiler.cost.gpu.triton_work import Setting, least_work, triton_work
from fgg.plan.devices import DEVICES
from fgg.plan.sizes import environment
from fgg.plan.work import INSIDE, ONCE, OUTSIDE, Work, total
from tests.helpers.gpu_costs import cost_on, plan, started

A100 = DEVICES["a100"]
N, R, B = 40, 1000, 16


def setting(
    name: str, space: str, *, n: int, batch: int, cache: int = A100.cache, **sizes: int
) -> Setting:
    made = plan(name, space, **sizes)
    values = environment({length: [n] for length in made.lengths})
    return Setting(plan=made, values=values, batch=batch, width=4, cache=cache)


def of_rule(works: list[Work], phase: str, rule: str) -> list[Work]:
    return [work for work in works if (work.phase, work.rule) == (phase, rule)]


# goals


@pytest.mark.parametrize(("phase", "most"), [(INSIDE, 4), (OUTSIDE, 6)])
def test_few_launches_a_level(phase: str, most: int) -> None:
    works, refused = triton_work(setting("pcfg", "rank", n=N, batch=B))
    found = total([work for work in works if work.phase == phase], A100, 4)
    assert 0 < found.a_level <= most and not refused


@pytest.mark.parametrize("rank", [100, R])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("phase", [INSIDE, OUTSIDE])
def test_bytes_are_near_the_least_possible(phase: str, device: str, rank: int) -> None:
    at = setting("pcfg", "rank", n=N, batch=B, cache=DEVICES[device].cache, r=rank)
    works, _ = triton_work(at)
    moved = sum(float(work.bytes.sum()) for work in works if work.phase == phase)
    least = sum(rule.bytes for rule in least_work(at) if rule.phase == phase)
    assert least <= moved <= 1.5 * least


def test_an_outside_pass_that_wrote_adjoints_once_would_move_less() -> None:
    """The goal is met as uses count; where each adjoint is written once, much less is moved."""
    at = setting("pcfg", "rank", n=N, batch=B, r=R)
    works, _ = triton_work(at)
    moved = sum(float(work.bytes.sum()) for work in works if work.phase == OUTSIDE)
    once = sum(rule.once for rule in least_work(at) if rule.phase == OUTSIDE)
    assert 2 < moved / once < 3


@pytest.mark.parametrize(("device", "most"), [("a100", 2.0), ("rtx4090", 2.0), ("h100", 2.5)])
def test_predicted_times_are_near_the_roofline(device: str, most: float) -> None:
    """On an H100, whose peak is highest, the goal of 2 is missed: few programs are left."""
    found = cost_on(device, "pcfg", "rank", n=N, batch=B, r=R)
    rows = {row.phase: row for row in found.whole() if row.program == "triton"}
    for phase in (INSIDE, OUTSIDE):
        assert rows[phase].roofline <= rows[phase].total.seconds <= most * rows[phase].roofline
    tensor = {row.phase: row for row in found.whole() if row.program == "torch"}
    assert rows["whole"].total.seconds < tensor["whole"].total.seconds


# counts


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize(
    ("name", "space"),
    [
        ("pcfg", "rank"),
        ("pcfg", "dense"),
        ("hmm", "state"),
        ("eisner", "state"),
        ("dmv", "state"),
        ("pair_hmm", "state"),
        ("ctc", "state"),
        ("semicrf", "state"),
    ],
)
def test_counted_launches_are_those_that_the_module_starts(name: str, space: str) -> None:
    found = cost_on("a100", name, space, n=7, batch=3)
    kernels, operations = started(plan(name, space), 7, 3)
    assert kernels == sum(len(work.levels) for work in found.kernels if work.rule)
    whole = sum(len(work.levels) for work in found.programs["triton"])
    assert abs(whole - kernels - operations) <= 5, "what is around the steps is nearly the same"


def test_what_is_only_for_mixed_lengths_is_not_counted() -> None:
    """Adjoints of cells that shorter items lack are erased, in a launch of its own."""
    works, _ = triton_work(setting("pcfg", "rank", n=9, batch=3))
    assert len(of_rule(works, OUTSIDE, "X_N_binary_1")) == 2
    assert all(float(work.bytes.min()) > 0 for work in works)


def test_bytes_of_a_split_sum() -> None:
    """Both cells of every split and their scales are read once, every cell is written once."""
    n, batch, rank = 9, 3, 5
    works, _ = triton_work(setting("pcfg", "rank", n=n, batch=batch, r=rank))
    (work,) = of_rule(works, INSIDE, "binary")
    splits = [(n - width + 1) * (width - 1) * batch for width in range(2, n + 1)]
    cells = [(n - width + 1) * batch for width in range(2, n + 1)]
    a_cell = 4 * rank + 8
    assert list(work.bytes) == [
        2 * s * a_cell + c * a_cell for s, c in zip(splits, cells, strict=True)
    ]
    assert list(work.multiply_adds) == [2 * s * rank for s in splits]


def test_bytes_of_a_product_of_matrices() -> None:
    n, batch, rank = 9, 3, 128
    at = setting("pcfg", "rank", n=n, batch=batch, r=rank)
    (work,) = of_rule(triton_work(at)[0], INSIDE, "X_N_binary_1")
    cells = [(n - width) * batch for width in range(2, n)]
    once = [4 * rank * (2 * c + rank) + 16 * c for c in cells]
    assert list(work.bytes) == once and list(work.multiply_adds) == [c * rank**2 for c in cells]
    tiles = [-(-c // 32) * 2 for c in cells]
    assert list(work.programs) == tiles
    # Without a cache, each of two columns of tiles reads the cells again.
    (work,) = of_rule(triton_work(replace(at, cache=0))[0], INSIDE, "X_N_binary_1")
    again = [
        4 * rank * (3 * c + rank * (t // 2)) + 16 * c for c, t in zip(cells, tiles, strict=True)
    ]
    assert list(work.bytes) == again


def test_what_is_done_once_has_no_level() -> None:
    works, _ = triton_work(setting("pcfg", "rank", n=N, batch=B))
    (root,) = of_rule(works, INSIDE, "root")
    assert list(root.levels) == [ONCE] and total([root], A100, 4).a_level == 0


def test_no_launch_does_less_than_the_least() -> None:
    for name, space in (("pcfg", "rank"), ("pcfg", "dense"), ("eisner", "state"), ("hmm", "state")):
        at = setting(name, space, n=12, batch=4)
        works, refused = triton_work(at)
        for least in least_work(at):
            if f"{least.phase} {least.rule}" in refused:
                continue
            mine = of_rule(works, least.phase, least.rule)
            gradients = least.bytes - sum(float(work.bytes.sum()) for work in mine)
            assert gradients <= 1e-9 * least.bytes, least


def test_long_chains_are_counted_too() -> None:
    works, _ = triton_work(setting("hmm", "state", n=1_000_000, batch=1))
    assert sum(len(work.levels) for work in works) > 1_000_000
