"""Real data, no part of the repository: in FGG_DATA, or `shared/data` beside the checkout."""

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDER = Path(os.environ.get("FGG_DATA", _BESIDE))


def real(name: str) -> Path:
    """The path of a file of real data; the test is skipped if it is not there."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"there is no {name} in FGG_DATA or in shared/data beside the checkout")
    return path
