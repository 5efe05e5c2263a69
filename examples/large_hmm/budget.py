"""How long a model may train: CPU time, and rates that go down as it is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic, process_time

import torch

from fgg.data import Window, Windows


class Budget:
    """So many seconds of CPU time, and so many by the clock at most. Begins when it is made."""

    def __init__(self, seconds: float, clock: float = inf) -> None:
        self.seconds, self.clock = seconds, clock
        self.begun, self.started = process_time(), monotonic()
        self.aside = 0.0

    def spent(self) -> float:
        """The seconds of CPU time so far, without what was done aside."""
        return process_time() - self.begun - self.aside

    def share(self) -> float:
        """How much is spent, from 0 to 1."""
        clock = (monotonic() - self.started) / self.clock
        return min(max(self.spent() / self.seconds, clock), 1.0)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is done here, such as to look at held-out data, does not count."""
        begun = process_time()
        yield
        self.aside += process_time() - begun

    def set_rate(self, optimizer: torch.optim.Optimizer, top: float, warm: float = 0.02) -> None:
        """A learning rate that rises to `top` in the first `warm` of the time, then falls to 0."""
        share = self.share()
        rate = top * min(1.0, (share + 1e-3) / warm) * (1.0 - share)
        for group in optimizer.param_groups:
            group["lr"] = rate

    def steps(self, windows: Windows, step: Callable[[Window], None]) -> float:
        """Steps over the windows, epoch by epoch, while time is left: how many epochs."""
        done = 0
        while True:
            for window in windows:
                step(window)
                done += 1
                if self.share() >= 1:
                    return done / len(windows)
