"""Where data lie that are no part of the project."""

from __future__ import annotations

import os
from pathlib import Path

from fgg.diagnostics import refuse

VARIABLE = "FGG_DATA"


def find(name: str) -> Path:
    """The path of a file in the folder that FGG_DATA names, else `shared/data` beside the checkout.

    Raises GrammarError, which says how to point at the data, if it is not there.
    """
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get(VARIABLE) or beside)
    path = folder / name
    if not path.exists():
        message = f"there is no `{name}` in `{folder}`"
        help = f"set `{VARIABLE}` to the folder that holds it"
        refuse("F401", message, help)
    return path
