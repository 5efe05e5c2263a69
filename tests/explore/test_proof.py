"""Explorer: proofs tick, and planted faults are found."""

from __future__ import annotations

from typing import Any

import pytest

from fgg.compiler.driver import PIPELINES, Expected, passed
from fgg.diagnostics import GrammarError
from fgg.explore.faults import FAULTS, Planted
from tests.helpers.explorer import asked, viewed

QUICK = {"trials": 1, "length": 3}


def test_each_comparison_is_shown_as_soon_as_it_is_made() -> None:
    answer = viewed("proof", asked("hmm", **QUICK))
    assert answer.done["verdict"] == "proved"
    assert answer.all("row") == answer.done["rows"]
    done = [part[0] for part in answer.all("progress")]
    assert done == sorted(done) and answer.all("progress")[-1][0] == answer.all("progress")[-1][1]
    stages: Any = {stage["space"]: stage["what"] for stage in answer.all("stages")[0]}
    assert {*stages} == {*PIPELINES}
    for row in answer.all("row"):
        assert row["holds"] and row["what"] in stages[row["space"]]


@pytest.mark.parametrize(
    ("fault", "after", "length"),
    [
        ("drop_rule", "narrow", 1),
        ("repeat_rule", "narrow", 1),
        ("drop_factor", "fold", 1),
        ("swap_ends", "fold", 2),
        ("shift_index", "fold", 1),
    ],
)
def test_faults_are_found_with_an_example(fault: str, after: str, length: int) -> None:
    options = {"fault": fault, "fault_space": "dense", "fault_pass": after, **QUICK}
    answer = viewed("proof", asked("hmm", **options))
    (planted,) = answer.all("planted")
    assert planted["before"] and planted["before"] != planted["instead"]
    assert answer.done["verdict"] == "refuted"
    example: Any = answer.done["counterexample"]
    assert example["what"] == f"after {after}" and example["confirmed"]
    assert example["lengths"] == {"n": length} and example["wanted"] != example["found"]
    assert viewed("proof", asked("hmm", **QUICK)).done["verdict"] == "proved"


def test_a_fault_that_a_later_pass_notices_is_said() -> None:
    options = {"fault": "shift_index", "fault_space": "rank", "fault_pass": "rank_space", **QUICK}
    answer = viewed("proof", asked("pcfg", place=3, **options))
    assert answer.done["verdict"] == "noticed" and "X_P_binary_1" in str(answer.done["message"])


def test_counterexamples_with_large_residues_are_confirmed() -> None:
    options = {"fault": "drop_factor", "fault_space": "rank", "fault_pass": "rank_space", **QUICK}
    answer = viewed("proof", asked("pcfg", place=3, **options))
    example: Any = answer.done["counterexample"]
    assert answer.done["verdict"] == "refuted" and example["modulus"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_changes_one_rule(fault: str) -> None:
    source = asked("hmm" if fault == "swap_ends" else "pcfg").source
    *_, (_, grammar) = passed(source, Expected(), "state")
    mistakes = FAULTS[fault].all(grammar)
    assert mistakes
    for place in range(len(mistakes)):
        wrong = Planted(FAULTS[fault], "fold", "state", place).planted(grammar)
        assert wrong != grammar
        assert abs(len(wrong.rules) - len(grammar.rules)) <= 1
        assert len({rule.name for rule in wrong.rules}) == len(wrong.rules)
        assert len({*wrong.rules} ^ {*grammar.rules}) <= 2


@pytest.mark.parametrize(
    "options",
    [
        {"fault": "lightning"},
        {"fault": "drop_rule", "fault_space": "outer"},
        {"fault": "drop_rule", "fault_space": "dense", "fault_pass": "rank_space"},
        {"trials": 0},
        {"length": 1000},
    ],
)
def test_wrong_settings_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(GrammarError, match="F415"):
        viewed("proof", asked("hmm", **options))


def test_a_fault_without_a_place_is_refused() -> None:
    options = {"fault": "swap_ends", "fault_space": "dense", "fault_pass": "narrow", **QUICK}
    with pytest.raises(GrammarError, match="no place for this fault"):
        viewed("proof", asked("dyck", **options))
