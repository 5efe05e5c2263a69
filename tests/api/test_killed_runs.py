"""Runs that are killed at any moment end with the same bytes as runs that are not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.killed_runs import CASES
from tests.helpers.places import ROOT


def killed(folder: Path, *, seed: int, runs: int, kills: int) -> dict[str, list[str]]:
    """Where the runs of each case were when they were killed; all ended as they should have."""
    command = [sys.executable, "-m", "tests.helpers.killed_runs", str(folder)]
    command += [str(seed), str(runs), str(kills), *CASES]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3000
    )
    assert done.returncode == 0, done.stderr
    places: dict[str, list[str]] = json.loads(done.stdout)
    return places


def test_killed_runs_end_with_the_same_bytes(tmp_path: Path) -> None:
    places = killed(tmp_path, seed=1, runs=1, kills=2)
    assert all(places[case] for case in CASES)


@pytest.mark.slow
def test_fifty_kills_at_random_moments_change_no_byte(tmp_path: Path) -> None:
    by_case = killed(tmp_path, seed=2, runs=3, kills=4)
    places = [place for case in CASES for place in by_case[case]]
    assert len(places) >= 50
    for way in ("call", "step", "file", "write"):
        assert sum(place.startswith(way) for place in places) >= 5, places
    moments = ("run began", "second checkpoint", "inside an epoch", "between epochs")
    for moment in moments:
        assert sum(place.endswith(moment) for place in places) >= 3, places
