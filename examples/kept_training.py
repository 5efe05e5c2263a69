"""Training that is kept after every epoch, so that a command goes on where it ended."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from examples.kept_runs import KeptRuns, digest
from fgg.files import write_whole
from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.method import SweepReport

Look = dict[str, float]


class KeptTraining:
    """Epochs of Adam, with what was seen after each one.

    `looks` has what was measured after each epoch, and `seconds`, the CPU time of training so far.
    Settings name the run, but not how many epochs it takes: more epochs go on from fewer.
    """

    def __init__(self, method: Adam, runs: KeptRuns, settings: Mapping[str, Any]) -> None:
        self.method, self.settings = method, dict(settings)
        self.looks: list[Look] = []
        self.path: Path | None = None
        if runs.folder is not None:
            self.path = runs.folder / f"{digest(settings)}.pt"
            if self.path.exists():
                self._load(self.path)

    @property
    def seconds(self) -> float:
        """CPU time of training so far, without what was measured."""
        return self.looks[-1]["seconds"] if self.looks else 0.0

    def run(
        self,
        epochs: int,
        sweep: Callable[[int], SweepReport],
        look: Callable[[], Look],
        *,
        watch: str = "",
        patience: float = math.inf,
    ) -> None:
        """Train until there are so many epochs.

        `sweep` trains one epoch, given its number. After each one, `look` measures. The number that
        `watch` names, smaller is better, lowers the rate on plateaus, and training ends when it has
        not fallen for `patience` epochs.
        """
        while len(self.looks) < epochs and self.waited(watch) <= patience:
            begun = time.process_time()
            swept = sweep(len(self.looks))
            seconds = self.seconds + time.process_time() - begun
            seen = look()
            self.looks.append({"seconds": seconds, "objective": swept.objective, **seen})
            if watch:
                self.method.plateau(-seen[watch])
            self._save()

    def waited(self, watch: str) -> int:
        """The number of epochs since this number was smallest."""
        if not watch or not self.looks:
            return 0
        values = [look[watch] for look in self.looks]
        return len(values) - 1 - values.index(min(values))

    def _save(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {
            "settings": repr(self.settings),
            "looks": self.looks,
            "model": self.method.model.state_dict(),
            "method": self.method.state_dict(),
        }
        file = io.BytesIO()
        torch.save(kept, file)
        write_whole(self.path, file.getvalue())

    def _load(self, path: Path) -> None:
        kept = torch.load(path, weights_only=True)
        if kept["settings"] != repr(self.settings):
            raise ValueError(f"{path} is of a run with other settings")
        self.looks = kept["looks"]
        self.method.model.load_state_dict(kept["model"])
        self.method.load_state_dict(kept["method"])
