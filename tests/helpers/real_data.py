"""Real data, which are no part of the repository: tests that need them are skipped without."""

from pathlib import Path

import pytest

from fgg.data import find
from fgg.diagnostics import GrammarError


def real(name: str) -> Path:
    """The path of a file of real data; the test is skipped if it is not there."""
    try:
        return find(name)
    except GrammarError as error:
        pytest.skip(str(error))
