"""Made-up cases of `learning.json`'s form, against an enumeration of trees in plain Python."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracles.learning_brute import MADE_UP, worked_out
from tests.oracles.learning_cases import cnf
from tests.runtime.learn import test_cases as known

CASES = [pytest.param(data, id=data["name"]) for data in MADE_UP]


@pytest.mark.parametrize("data", CASES)
def test_em_vb_and_cvb_are_those_of_an_enumeration(data: dict[str, Any]) -> None:
    worked = worked_out(data)
    known.test_em(cnf, worked)
    known.test_vb(cnf, worked)
    known.test_cvb(cnf, worked, forests=True)
    known.test_cvb(cnf, worked, forests=False)
