"""Runs of an experiment that are kept one by one, so that a command goes on where it ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fgg.files import write_whole


class KeptRuns:
    """A folder with one file for each run: its settings, and what came of it.

    Without a folder, nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def run(
        self, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The numbers of a run with these settings: those that are kept, or else computed ones."""
        known = json.loads(json.dumps(settings))
        path = None if self.folder is None else self.folder / f"{digest(settings)}.json"
        if path is not None and path.exists():
            kept = json.loads(path.read_text("utf-8"))
            if kept["settings"] == known:
                return dict(kept["numbers"])
        numbers = json.loads(json.dumps(compute()))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"settings": known, "numbers": numbers}, indent=1)
            write_whole(path, text.encode() + b"\n")
        return dict(numbers)


def digest(settings: Mapping[str, Any]) -> str:
    """A name for settings."""
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
