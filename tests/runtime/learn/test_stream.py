"""Adam on a stream: it learns what Adam learns, and the state goes from window to window."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fgg
import fgg.data as data
from fgg.runtime.learn import Adam, Items
from fgg.runtime.learn.stream import StreamAdam
from fgg.runtime.model.model import Model
from fgg.runtime.model.stream_state import CarriedState, stream_log_likelihood
from tests.helpers.places import EXAMPLES

LOW_RANK = (
    (EXAMPLES / "large_hmm" / "stream_rank.fgg").read_text("utf-8").replace("dim=128", "dim=6")
)
SIZES = {"k": 5, "d": 9, "r": 3}


def stream(tokens: int) -> data.TokenStream:
    """A text of random tokens."""
    ids = np.random.default_rng(0).integers(0, SIZES["d"], tokens, dtype=np.int32)
    return data.TokenStream(ids, np.zeros(1, np.int64))


def model(space: str = "rank") -> Model:
    return fgg.compile(fgg.loads(LOW_RANK, sizes=SIZES), space=space).model(
        seed=0, dtype=torch.float64
    )


def carried() -> CarriedState:
    return CarriedState(names=("init", None, "first", "final"))


@pytest.mark.parametrize("space", ["rank", "state"])
@pytest.mark.parametrize("length", [1, 4, 7])
def test_without_transitions_windows_add_up_to_the_stream(space: str, length: int) -> None:
    own, text = model(space), stream(20)
    zeros = torch.zeros(1, SIZES["k"], dtype=torch.float64)
    inputs = {"w": text.ids[None].tolist(), "first": zeros, "final": zeros}
    whole = own.program.log_z(own.weights(), inputs, [20])
    windows = data.Windows(tokens=text, rows=1, length=length)
    total, count = stream_log_likelihood(own, windows, carried())
    assert total == pytest.approx(float(whole.detach()), rel=1e-12) and count == 20


def test_a_single_window_is_a_step_of_adam() -> None:
    text, ours, theirs = stream(12), model(), model()
    on_stream = StreamAdam(ours, rate=0.01, per="token")
    on_stream.carried = carried()
    report = on_stream.sweep_stream(data.Windows(tokens=text, rows=1, length=12))
    zeros = torch.zeros(1, SIZES["k"], dtype=torch.float64)
    inputs = {"w": text.ids[None].tolist(), "first": zeros, "final": zeros}
    by_items = Adam(theirs, rate=0.01, per="token")
    by_items.begin()
    by_items.step(Items(inputs, [12]))
    assert report.objective == pytest.approx(by_items.end().objective, rel=1e-12)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def test_a_stream_is_learned() -> None:
    text, own = (
        data.TokenStream(np.tile(np.arange(4, dtype=np.int32), 50), stream(1).starts),
        model(),
    )
    method = StreamAdam(own, rate=0.02, per="token")
    objectives = []
    for _ in range(25):
        method.carried = carried()
        windows = data.Windows(tokens=text, rows=2, length=10)
        objectives.append(method.sweep_stream(windows).objective)
    total, count = stream_log_likelihood(own, windows, carried())
    assert objectives[-1] > objectives[0]
    assert total / count > -1  # four words that are equally likely have -1.39


def test_state_dropout_carries_kept_states() -> None:
    grammar = fgg.load(
        EXAMPLES / "large_hmm" / "stream.fgg", sizes={"m": 3, "k": 4, "d": SIZES["d"]}
    )
    own = fgg.compile(grammar).model(seed=0)
    method = StreamAdam(own, rate=0.05, per="token", state_dropout={"K": 0.5})
    windows = data.Windows(tokens=stream(90), rows=2, length=5)
    objectives = [method.sweep_stream(windows).objective for _ in range(6)]
    assert objectives[-1] > objectives[0]
    assert method.carried is not None and method.carried.state is not None
    sums = method.carried.state.sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))
