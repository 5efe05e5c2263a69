"""Adam on a stream: the state is carried from window to window (truncated backpropagation)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from fgg.runtime.learn.adam import Adam
from fgg.runtime.learn.method import SweepReport
from fgg.runtime.model.stream_state import CarriedState

if TYPE_CHECKING:
    from fgg.data.streams import Window


class StreamAdam(Adam):
    """Adam on the windows of a stream, `fgg.data.Windows`, per token.

    Set `carried` before the first window if the factors of the grammar have other names than those
    of `CarriedState`. With state dropout, the carried distribution is restricted to the states
    that are kept.
    """

    carried: CarriedState | None = None

    def sweep_stream(self, windows: Iterable[Window]) -> SweepReport:
        """One pass over the windows of a stream."""
        self.begin()
        for window in windows:
            self.read(window)
        return self.end()

    def read(self, window: Window) -> None:
        """One step, on one window."""
        carried = self.carried or CarriedState()
        self.carried = carried
        self.optimizer.zero_grad(set_to_none=True)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.noise)
            self.model.train()
            if self.dropout is None:
                program, weights, kept = self.model.program, self.model.readers(), None
            else:
                kept = self.dropout.draw()
                program, weights = self.dropout.program, self.dropout.weights(kept)
            self.noise = torch.get_rng_state()
        log_z = carried.log_z(program, weights, window, kept)
        torch.autograd.backward(-log_z.sum())
        carried.advance()
        tokens = int(window.lengths.sum())
        self.update(float(log_z.detach().double().sum()), float(tokens), tokens)
