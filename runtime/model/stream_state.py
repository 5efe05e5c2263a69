"""Streams in windows: what is known of a chain's state is carried from one window to the next.

A window's query has two input factors over the states: `first`, of the first state, and `final`, of
the last. The gradient of log Z in the latter is the distribution p of the last state given all
words so far, and the next window begins with p A in place of the initial distribution. So the
windows' log Z add up to that of the whole stream; gradients do not go back beyond a window
(truncated backpropagation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

if TYPE_CHECKING:
    from fgg.data.streams import Window
    from fgg.runtime.model.state_dropout import Kept

INIT, TRANS, FIRST, FINAL = "init", "trans", "first", "final"
"""Usual names: the initial distribution, the transitions, the two input factors."""


class Carried:
    """The distributions of the states that the rows of a stream are in, `[rows, states]`.

    `names` are those of the initial distribution, the transitions, and the two input factors;
    `words` is the input that a window's tokens go to.
    """

    def __init__(
        self,
        *,
        names: tuple[str, str, str, str] = (INIT, TRANS, FIRST, FINAL),
        words: str = "w",
    ) -> None:
        self.names = names
        self.words = words
        self.state: Tensor | None = None
        self._last: tuple[Tensor, Tensor, Kept | None, int] | None = None

    def log_z(
        self,
        program: Program,
        weights: Mapping[str, Tensor],
        window: Window,
        kept: Kept | None = None,
    ) -> Tensor:
        """log Z of the rows that have tokens in a window, given what came before.

        After its gradient has been taken, `advance` notes where it has ended. With dropout, `kept`
        are the states that weights are of.
        """
        init, trans, first, final = self.names
        device = weights[trans].device
        alive = torch.from_numpy(window.lengths > 0)
        ids = torch.from_numpy(window.ids)[alive].to(device)
        start = self.first(weights[init], weights[trans], window, alive, kept)
        last = torch.zeros_like(start).requires_grad_()
        self._last = (last, alive, kept, len(window.lengths))
        inputs: dict[str, Any] = {self.words: ids, first: start, final: last}
        return program.log_z(weights, inputs, torch.from_numpy(window.lengths)[alive].tolist())

    def first(
        self, init: Tensor, trans: Tensor, window: Window, alive: Tensor, kept: Kept | None
    ) -> Tensor:
        """log (p A) - log π where a row goes on, 0 where it begins."""
        going = torch.from_numpy(window.continues)[alive].to(init.device)
        none = init.new_zeros((len(going), init.numel()))
        if self.state is None or not bool(going.any()):
            return none
        known = self.state[alive].to(init)
        if kept is not None:
            blocks = len(kept.index)
            known = kept.gather(known.reshape(len(known), blocks, -1)).reshape(len(known), -1)
        mass = known.sum(-1, keepdim=True)
        going = going & (mass[:, 0] > 0)  # nothing may be left of a state under dropout
        known = known / torch.where(mass > 0, mass, 1.0)
        flat = trans.reshape(init.numel(), -1)
        logs = (known @ flat).clamp(min=torch.finfo(init.dtype).tiny).log()
        return torch.where(going.reshape(-1, 1), logs - init.reshape(-1).log(), none)

    def advance(self) -> None:
        """Note the states that the rows of the last window ended in."""
        assert self._last is not None
        last, alive, kept, rows = self._last
        assert last.grad is not None, "the gradient of log Z has not been taken"
        found = last.grad.abs()  # of minus log Z, perhaps
        found = found / found.sum(-1, keepdim=True)
        if kept is not None:
            blocks, size = kept.index.shape
            found = kept.scatter(found.reshape(len(found), blocks, size)).reshape(len(found), -1)
        state = found.new_zeros((rows, found.shape[-1]))
        if self.state is not None:
            state = self.state.clone()
        state[alive] = found
        self.state = state.detach()
        self._last = None


def stream_log_likelihood(
    model: Model, windows: Iterable[Window], **options: Any
) -> tuple[float, int]:
    """The log-likelihood of a stream and the number of its tokens, ends that are tokens included.

    The weights are made once, with all states.
    """
    was = model.training
    model.eval()
    weights = model.detached()
    model.train(was)
    carried = Carried(**options)
    total, count = 0.0, 0
    for window in windows:
        log_z = carried.log_z(model.program, weights, window)
        torch.autograd.backward(log_z.sum())
        carried.advance()
        total += float(log_z.detach().double().sum())
        count += int(window.lengths.sum())
    return total, count


def stream_perplexity(model: Model, windows: Iterable[Window], **options: Any) -> float:
    """The perplexity of a stream, a token."""
    total, count = stream_log_likelihood(model, windows, **options)
    return exp(-total / max(count, 1))
