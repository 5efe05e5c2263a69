"""Typed values: what people write for an input on a command line or a page."""

from __future__ import annotations

import json
import re

from fgg.inputs.given import Nest

_IDS = re.compile(r"-?\d{1,18}(\s*,\s*-?\d{1,18})+")


def typed_values(text: str) -> Nest | None:
    """The values of a JSON list, ids joined by commas, or words between white space.

    None for what begins as a JSON list and is none.
    """
    if text.lstrip().startswith("["):
        try:
            nest: Nest = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return nest
    if _IDS.fullmatch(text):
        return [int(part) for part in text.split(",")]
    return text.split()
