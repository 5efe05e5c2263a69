"""Training runs of a small HMM, and commands on a disk without room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from fgg import load
from fgg.runtime.train import RunSettings

WORDS = ["the dog runs", "a dog sees the cat", "the cat sleeps", "a cat runs", "dog runs the cat"]


def settings(corpus: Path, method: str = "em", **more: Any) -> RunSettings:
    given: dict[str, Any] = {
        "grammar": str(load("hmm", sizes={"k": 2})),
        "query": "string",
        "method": method,
        "epochs": 2,
        "dtype": "float64",
        "budget": 0 if method == "cvb" else 12,
        "options": {"prior": 0.1} if method == "cvb" else {},
        "data": (str(corpus),),
    }
    return RunSettings(**{**given, **more})


LIMITED = """
import resource, sys
from fgg.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


def on_a_small_disk(size: int, *command: str) -> subprocess.CompletedProcess[str]:
    """A command that can write no file of more than `size` bytes."""
    line = [sys.executable, "-c", LIMITED, str(size), *command]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
