"""The models of the papers' sizes: each is built, trained and evaluated, here at small sizes."""

from __future__ import annotations

import pytest

from benchmarks.at_scale import CASES, main


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_measured(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([case, "--divide", "128"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.endswith("GB |")]
    assert len(rows) == (5 if case == "blocked" else 4)
