"""The page of results is made from records alone; here they are made up, and nothing is timed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import SUITES, goals_of, tables_of
from benchmarks.goals import verdicts
from benchmarks.measure import Goal, rounds_of
from benchmarks.page import losses, page
from fgg.cli import main
from tests.helpers.places import ROOT


def timing(name: str, role: str, ratio: float, states: int = 256, **more: Any) -> dict[str, Any]:
    point = {"batch": 16, "n": 64, "states": states}
    at = ", ".join(f"{k} {v}" for k, v in point.items())
    numbers = {"median": 0.01 * ratio, "low": 0.009, "high": 0.02, "wall": 0.01, "rounds": 3}
    ratios = {"ratio": ratio, "ratio_low": ratio * 0.9, "ratio_high": ratio * 1.1}
    head = {"suite": "hmm", "at": at, "point": point, "name": name, "role": role}
    return {**head, **numbers, **ratios, **more}


def weighing(name: str, role: str, n: int, count: int) -> dict[str, Any]:
    point = {"batch": 16, "n": n, "states": 256}
    return {
        "suite": "hmm", "at": f"n {n}", "point": point, "name": name, "role": role,
        "allocated": count, "resident": count,
    }  # fmt: skip


RECORDS = [
    timing("fgg", "ours", 1.0),
    timing("by hand", "peer", 0.7),
    timing("dynamax", "peer", 1.5),
    timing("matrix products alone", "limit", 0.4),
    timing("fgg", "ours", 1.0, 1024),
    timing("by hand", "peer", 1.2, 1024),
    {**timing("supar", "peer", 0.0), "skipped": "is not here"},
    weighing("fgg", "ours", 32, 2_000_000),
    weighing("fgg", "ours", 64, 8_000_000),
    weighing("by hand", "peer", 32, 1_000_000),
]
del RECORDS[6]["median"]
ABOUT = {"commit": "0123abc", "date": "2026-01-02", "threads": "1"}


def test_the_page_has_tables_plots_goals_and_losses() -> None:
    text, pictures = page({"about": ABOUT, "records": RECORDS}, tables_of, goals_of, "performance")
    assert "- commit: 0123abc" in text
    assert "(`hmm`)" in text
    assert "0.70 (0.63 to 0.77)" in text
    assert "not measured: supar" in text
    assert "memory of fgg grows as n^2.00" in text
    assert set(pictures) == {"hmm-ratios.svg", "hmm-memory.svg"}
    for name, picture in pictures.items():
        assert f"(performance/{name})" in text
        assert picture.startswith("<svg")
    lost = text.partition("## Where we lose")[2]
    assert "`hmm`: by hand takes 0.70 of our time at states 256" in lost
    assert "`hmm`: by hand takes 0.50 of our memory" in lost
    assert "goal missed at batch 16, n 64, states 256: time of by hand at least 0.833" in lost
    assert "dynamax" not in lost and "alone" not in lost


def test_without_losses_the_page_says_so() -> None:
    records = [timing("fgg", "ours", 1.0), timing("by hand", "peer", 1.5)]
    text, _ = page({"about": ABOUT, "records": records}, tables_of, goals_of, "performance")
    assert text.endswith("Nowhere, in this run.\n")


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal(peer="by hand", least=0.7), [True, True]),
        (Goal(peer="by hand", least=0.71), [False, True]),
        (Goal(peer="by hand", least=1, at={"states": (1024,)}), [True]),
        (Goal(most=0.011), [True, True]),
        (Goal(most=0.009), [False, False]),
        (Goal(of="memory", most=2e6), [True, False]),
        (Goal(of="memory", grows="n", most=2.0001), [True]),
        (Goal(of="memory", grows="n", most=1.9), [False]),
        (Goal(of="memory", peer="by hand", least=0.5), [True]),
        (Goal(of="memory", peer="by hand", least=0.6), [False]),
        (Goal(peer="nobody", least=1), []),
    ],
)
def test_goals_are_met_by_numbers(goal: Goal, met: list[bool]) -> None:
    assert [v.met for v in verdicts([goal], RECORDS)] == met


def test_limits_and_own_programs_are_no_losses() -> None:
    records = [timing("fgg", "ours", 1.0), timing("auto", "own", 0.5), timing("x", "limit", 0.1)]
    assert losses("hmm", records, []) == []


def test_who_is_slow_is_called_in_fewer_rounds() -> None:
    calls = {"fgg": 0.1, "quick": 0.01, "slow": 2.0, "endless": 100.0}
    found = rounds_of(calls, 11, 20.0)
    assert found == {"fgg": 11, "quick": 11, "slow": 4, "endless": 1}
    assert rounds_of({"fgg": 2.0, "quick": 0.01}, 11, 5.0) == {"fgg": 2, "quick": 2}
    assert set(rounds_of(calls, 11, -5.0).values()) == {1}


def test_a_page_is_made_again_from_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "numbers.json", tmp_path / "page.md"
    source.write_text(json.dumps({"about": ABOUT, "records": RECORDS}), "utf-8")
    assert main(["bench", "--from", str(source), "--page", str(target)]) == 0
    assert "### HMM, forward and backward" in capsys.readouterr().out
    assert "## Where we lose" in target.read_text("utf-8")
    assert (tmp_path / "page" / "hmm-ratios.svg").exists()


def test_the_committed_page_names_a_commit_and_every_suite() -> None:
    text = (ROOT / "docs" / "performance.md").read_text("utf-8")
    assert re.search(r"^- commit: [0-9a-f]{7,}", text, re.M)
    assert "## Where we lose" in text
    for name in SUITES:
        assert f"(`{name}`)" in text, name
    for path in re.findall(r"\]\((performance/[^)]+)\)", text):
        assert (ROOT / "docs" / path).exists()
