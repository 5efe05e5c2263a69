"""The suites compute the same as what is written by hand; nothing is timed that would tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from benchmarks.__main__ import COMPARED, suite_of
from benchmarks.measure import OURS, Call, Point, Skipped, Suite, check_equal, made
from benchmarks.memory import in_a_copy
from benchmarks.running import Effort, Progress, measured

POINTS: dict[str, list[Point]] = {
    "hmm": [{"batch": 2, "n": 5, "states": 4}],
    "pcfg": [{"batch": 2, "n": 5, "phrases": 3, "tags": 4}],
    "dependency": [{"batch": 2, "n": 5}],
    "rank_hmm": [{"batch": 2, "n": 5, "r": 3, "m": 6}],
    "rank_pcfg": [{"batch": 2, "n": 5, "r": 3, "m": 9}],
    "td_pcfg": [{"batch": 2, "n": 5, "r": 3, "m": 9}],
    "lhmm": [{"batch": 2, "n": 5, "r": 3, "m": 6}],
    "blocked_hmm": [{"batch": 2, "n": 5, "k": 3, "m": 4}],
    "solve": [{"n": 4, "states": 3}, {"n": 4, "symbols": 3}, {"symbols": 3}],
    "certificate": [{"batch": 2, "n": 5, "states": 4}, {"batch": 2, "n": 5}],
    "identify": [{"n": 4, "words": 2, "states": 2}, {"n": 4, "words": 2, "symbols": 2}],
}
CASES = [(name, point) for name, points in POINTS.items() for point in points]
VARIABLES = ("TN_PCFG", "RANKSPACE", "LOW_RANK", "FGGS")


def test_every_suite_that_compares_is_tried_here() -> None:
    assert {*POINTS, "train"} == set(COMPARED)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "point"), CASES, ids=[f"{n}-{list(p)}" for n, p in CASES])
def test_what_is_written_by_hand_computes_the_same(
    name: str, point: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(f"FGG_BENCH_{variable}", raising=False)
    suite = suite_of(name)
    calls, notes = made(suite, point)
    by_hand = {n for n in suite.makers if n.startswith("by hand")}
    assert {OURS, *by_hand} <= set(calls)
    assert all("checkout" in note or "imported" in note for note in notes.values())
    assert check_equal({n: call() for n, call in calls.items()}, suite.value) < 2e-3
    for limit in suite.limits.values():
        limit(point)()


def fake(value: float) -> Callable[[Point], Call]:
    def maker(point: Point) -> Call:
        found: dict[str, Tensor] = {"log_z": torch.full((point["n"],), value)}
        return lambda: found

    return maker


def absent(point: Point) -> Call:
    raise Skipped("is not here")


SUITE = Suite(
    name="fake",
    title="Nothing",
    makers={OURS: fake(1.0), "same": fake(1.0), "absent": absent},
    limits={"less": fake(0.0)},
    points=[{"n": 2}, {"n": 3}],
    slow=[{"n": 4}],
)


def test_records_say_who_and_where() -> None:
    effort = Effort(repeats=2, budget=1.0, memory=False)
    found = list(measured(SUITE, effort, Progress(1, 1.0)))
    timed = [(r["point"]["n"], r["name"], r["role"]) for r in found if "median" in r]
    roles = [(OURS, "ours"), ("same", "peer"), ("less", "limit")]
    assert timed == [(n, *role) for n in (2, 3) for role in roles]
    assert {r["at"] for r in found if r.get("skipped") == "is not here"} == {"n 2", "n 3"}
    every = measured(SUITE, replace(effort, every=True), Progress(1, 1.0))
    assert {r["point"]["n"] for r in every} == {2, 3, 4}


def test_peers_that_are_not_asked_for_are_left_out() -> None:
    effort = Effort(repeats=1, budget=1.0, memory=False, against=["same"])
    found = measured(SUITE, effort, Progress(1, 1.0))
    assert {r["name"] for r in found} == {OURS, "same", "less"}


def test_what_differs_is_not_timed() -> None:
    wrong = replace(SUITE, makers={OURS: fake(1.0), "other": fake(1.1)})
    with pytest.raises(AssertionError, match="other: log_z differs"):
        list(measured(wrong, Effort(repeats=1, memory=False), Progress(1, 1.0)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_copy_of_the_process_returns_a_number_or_fails() -> None:
    assert in_a_copy(lambda: 42) == 42
    with pytest.raises(SystemExit):
        in_a_copy(lambda: [][0])
