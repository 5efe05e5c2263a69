"""Streams in windows: what is carried over makes the windows' log Z add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fgg
from fgg.data import TokenStream, Windows
from fgg.runtime.model.model import Model
from fgg.runtime.model.state_dropout import StateDropout
from fgg.runtime.model.stream_state import CarriedState, stream_log_likelihood, stream_perplexity
from tests.helpers.places import EXAMPLES

FILE = EXAMPLES / "large_hmm" / "stream.fgg"
SIZES = {"m": 3, "k": 4, "d": 8}
IDS = np.random.default_rng(0).integers(0, 8, 47).astype(np.int32)


def models() -> tuple[Model, Model]:
    """A model that reads windows, and one that reads all at once, with the same weights."""
    windowed = fgg.compile(fgg.load(FILE, sizes=SIZES)).model(seed=3, dtype=torch.float64)
    whole = fgg.compile(fgg.load("hmm_blocks", sizes=SIZES)).model(dtype=torch.float64)
    whole.load_state_dict(windowed.state_dict())
    return windowed, whole


def tokens(*starts: int) -> TokenStream:
    return TokenStream(IDS, np.array(starts or (0,), np.int64))


@pytest.mark.parametrize("length", [1, 4, 7, 100])
def test_windows_add_up_to_the_stream(length: int) -> None:
    windowed, whole = models()
    windows = list(Windows(tokens=tokens(), rows=3, length=length))
    log_z, count = stream_log_likelihood(windowed, windows)
    rows = [IDS[:16], IDS[16:32], IDS[32:]]
    wanted = whole(w=[row.tolist() for row in rows]).detach().sum()
    assert log_z == pytest.approx(float(wanted), abs=1e-9)
    assert count == len(IDS)
    assert stream_perplexity(windowed, windows) == pytest.approx(np.exp(-log_z / count))


def test_a_document_begins_anew() -> None:
    windowed, whole = models()
    windows = list(Windows(tokens=tokens(0, 10, 31), rows=2, length=5, documents=True))
    log_z, _ = stream_log_likelihood(windowed, windows)
    parts = [IDS[:10].tolist(), IDS[10:31].tolist(), IDS[31:].tolist()]
    assert log_z == pytest.approx(float(whole(w=parts).detach().sum()), abs=1e-9)


def test_gradients_of_a_window_go_through_its_beginning() -> None:
    windowed, whole = models()
    first, second = list(Windows(tokens=tokens(), rows=1, length=24))
    carried = CarriedState()
    torch.autograd.backward(carried.log_z(windowed.program, windowed.weights(), first).sum())
    carried.advance()
    windowed.zero_grad()
    torch.autograd.backward(carried.log_z(windowed.program, windowed.weights(), second).sum())
    gradient = windowed.logits["init"].grad
    assert gradient is not None and gradient.abs().max() < 1e-12  # not used where a row goes on
    # log p(all) - log p(first part), by differences in an entry of the transitions.
    grad = windowed.logits["trans"].grad
    assert grad is not None
    grad = grad.clone()

    def second_part(change: float, at: tuple[int, int]) -> float:
        with torch.no_grad():
            logits = whole.logits["trans"]
            logits[at] += change
            fresh = whole.weights()["trans"]
            logits[at] -= change
            # The state at the end of the first part is taken as it was.
            state = carried_state
            weights = whole.weights() | {"trans": fresh, "init": state @ fresh}
            return float(whole.program.log_z(weights, {"w": [IDS[24:].tolist()]}))

    again = CarriedState()
    torch.autograd.backward(again.log_z(windowed.program, windowed.weights(), first).sum())
    again.advance()
    assert again.state is not None
    carried_state = again.state[0]
    for at in ((0, 0), (3, 7), (11, 2)):
        slope = (second_part(1e-5, at) - second_part(-1e-5, at)) / 2e-5
        assert float(grad[at]) == pytest.approx(slope, abs=1e-6)


def test_dropout_carries_what_is_left_of_a_state() -> None:
    windowed, _ = models()
    dropout = StateDropout(windowed, "K", 0.5)
    generator = torch.Generator().manual_seed(0)
    carried = CarriedState()
    for window in Windows(tokens=tokens(), rows=3, length=4):
        kept = dropout.draw(generator)
        log_z = carried.log_z(dropout.program, dropout.weights(kept), window, kept)
        torch.autograd.backward(-log_z.sum())
        carried.advance()
        assert torch.isfinite(log_z).all() and (log_z < 0).all()
        assert carried.state is not None
        state = carried.state.reshape(3, 3, 4)
        torch.testing.assert_close(state.sum((1, 2)), torch.ones(3, dtype=torch.float64))
        alive = torch.zeros(3, 4, dtype=torch.bool)
        alive[torch.arange(3).reshape(-1, 1), kept.index] = True
        ended = torch.from_numpy(window.lengths > 0)
        assert (state[ended][:, ~alive] == 0).all()
        words = window.ids[np.arange(3), window.lengths - 1]
        for row in np.flatnonzero(window.lengths):
            assert float(state[row, words[row] % 3].sum()) == pytest.approx(1)
