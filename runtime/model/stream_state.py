"""Streams in windows: the distribution of a chain's state is carried from window to window.

The query of a window has two input factors over states: `first`, for the first state, and `final`,
for the last. The gradient of log Z in `final` is the distribution p of the last state given all
words so far. The next window begins with p A in place of the initial distribution. So the log Z of
the windows add up to that of the whole stream, while gradients stay within a window (truncated
backpropagation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fgg.runtime.entries.factor_reader import FactorReader, Weight, as_tensor
from fgg.runtime.entries.token_entries import entries_at_start
from fgg.runtime.model.model import Model
from fgg.runtime.program.program import Program

if TYPE_CHECKING:
    from fgg.data.streams import Window
    from fgg.runtime.model.state_dropout import Kept

INIT, TRANS, FIRST, FINAL = "init", "trans", "first", "final"
"""The usual names of the initial distribution, the transitions, and the two input factors."""


class CarriedState:
    """The distribution of the current state of each row of a stream: `state`, `[rows, states]`.

    `names` are the names of the initial distribution, the transitions, and the two input factors;
    `words` is the name of the input of tokens. Without transitions, `None`, the next window begins
    in the state in which the last one ended: its node is `final` in one and `first` in the other.
    """

    def __init__(
        self,
        *,
        names: tuple[str, str | None, str, str] = (INIT, TRANS, FIRST, FINAL),
        words: str = "w",
    ) -> None:
        self.names = names
        self.words = words
        self.state: Tensor | None = None
        self._last: tuple[Tensor, Tensor, Kept | None, int] | None = None

    def log_z(
        self,
        program: Program,
        weights: Mapping[str, Weight],
        window: Window,
        kept: Kept | None = None,
    ) -> Tensor:
        """log Z of each row that has tokens in a window, given the windows before, `[live rows]`.

        Take its gradient, and then call `advance`. With state dropout, the weights are those of the
        states `kept`.
        """
        init, trans, first, final = self.names
        device = weights[init].device
        alive = torch.from_numpy(window.lengths > 0)
        ids = torch.from_numpy(window.ids)[alive].to(device)
        lengths = torch.from_numpy(window.lengths)[alive].tolist()
        begin = as_tensor(weights[init])
        # What a row begins with is all in `first`, so that rows which continue have no derivative
        # in `init`, not one that cancels.
        weights = {**weights, init: torch.full_like(begin, 1 / begin.numel(), requires_grad=False)}
        none = begin.new_zeros((len(ids), begin.numel()))
        last = torch.zeros_like(none).requires_grad_()
        inputs = {self.words: ids, first: none, final: last}
        wanted = entries_at_start(program, init, inputs, lengths)
        moves = None if trans is None else weights[trans]
        inputs[first] = self.first(begin, moves, window, alive, kept, wanted)
        self._last = (last, alive, kept, len(window.lengths))
        return program.log_z(weights, inputs, lengths)

    def first(
        self,
        init: Tensor,
        trans: Weight | None,
        window: Window,
        alive: Tensor,
        kept: Kept | None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """The potentials `first` of the live rows, `[live rows, states]`.

        They are log (p A) if a row continues, and log π if it begins, each with the logarithm of
        the number of states added; without transitions A is the identity. With `wanted`, the states
        in which each row can be, `[live rows, some states]`, all others have -inf if a row
        continues.
        """
        going = torch.from_numpy(window.continues)[alive].to(init.device)
        many = init.numel()
        fresh = _logs(init.reshape(1, -1)).expand(len(going), -1) + log(many)
        if self.state is None or not bool(going.any()):
            return fresh
        known = self.state[alive].to(init)
        if kept is not None:
            blocks = len(kept.index)
            known = kept.gather(known.reshape(len(known), blocks, -1)).reshape(len(known), -1)
        mass = known.sum(-1, keepdim=True)
        going = going & (mass[:, 0] > 0)  # dropout may have removed all states with mass
        known = known / torch.where(mass > 0, mass, 1.0)
        if isinstance(trans, FactorReader):
            after = trans.rows_times(known, wanted)
        else:
            after = known if trans is None else known @ trans.reshape(many, -1)
            after = after if wanted is None else after.gather(-1, wanted)
        logs = _logs(after) + log(many)
        if wanted is not None:
            logs = torch.full_like(fresh, -torch.inf).scatter(-1, wanted, logs)
        return torch.where(going.reshape(-1, 1), logs, fresh)

    def advance(self) -> None:
        """Keep the distribution of the states in which the last window ended."""
        assert self._last is not None
        last, alive, kept, rows = self._last
        assert last.grad is not None, "the gradient of log Z has not been taken"
        ends = last.grad.abs()  # the gradient may be that of minus log Z
        ends = ends / ends.sum(-1, keepdim=True)
        if kept is not None:
            blocks, size = kept.index.shape
            ends = kept.scatter(ends.reshape(len(ends), blocks, size)).reshape(len(ends), -1)
        state = ends.new_zeros((rows, ends.shape[-1]))
        if self.state is not None:
            state = self.state.clone()
        state[alive] = ends
        self.state = state.detach()
        self._last = None


def stream_log_likelihood(
    model: Model, windows: Iterable[Window], carried: CarriedState | None = None
) -> tuple[float, int]:
    """The log-likelihood of a stream under all states of a model, and its number of tokens.

    End tokens count. `carried` names the factors and the input, if they are not the usual ones.
    """
    was = model.training
    model.eval()
    with torch.no_grad():
        weights = model.readers()
    model.train(was)
    carried = carried or CarriedState()
    total, count = 0.0, 0
    for window in windows:
        log_z = carried.log_z(model.program, weights, window)
        torch.autograd.backward(log_z.sum())
        carried.advance()
        total += float(log_z.detach().double().sum())
        count += int(window.lengths.sum())
    return total, count


def stream_perplexity(
    model: Model, windows: Iterable[Window], carried: CarriedState | None = None
) -> float:
    """The perplexity per token of a stream."""
    total, count = stream_log_likelihood(model, windows, carried)
    return exp(-total / max(count, 1))


def _logs(weights: Tensor) -> Tensor:
    """Logarithms, of the least positive number instead of zero."""
    return weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
