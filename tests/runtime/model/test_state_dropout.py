"""State dropout: a model with fewer states of each block, and nothing else changed."""

from __future__ import annotations

import pytest
import torch

import fgg
from fgg.diagnostics import GrammarError
from fgg.runtime.learn import Adam, Items, learn, log_likelihood
from fgg.runtime.model.model import Model
from fgg.runtime.model.state_dropout import Kept, StateDropout

M, K, D = 3, 4, 8
WORDS = [[0, 1, 2, 5], [7, 1, 3], [4, 4, 6, 2]]


def model(dtype: torch.dtype = torch.float64, more: str = "") -> Model:
    grammar = fgg.load("hmm_blocks", sizes={"m": M, "k": K, "d": D})
    if more:
        text = str(grammar)
        for name in ("init(-> T)", "trans(T -> T)"):
            assert f"factor {name}" in text
            text = text.replace(f"factor {name}", f"factor {name} with net = {more}")
        text = text.replace("with blocks = clusters", f"with blocks = clusters, net = {more}")
        grammar = fgg.loads(text, name="large")
    return fgg.compile(grammar).model(seed=1, dtype=dtype)


def thinned(large: Model, kept: Kept) -> torch.Tensor:
    """log Z where the logits of dropped states are -inf, with all states in the charts."""
    alive = torch.zeros(M, K, dtype=torch.bool)
    alive[torch.arange(M).reshape(-1, 1), kept.index] = True
    init = large.factor_logits("init").masked_fill(~alive.flatten(), -torch.inf).softmax(-1)
    logits = large.factor_logits("trans").masked_fill(~alive.flatten(), -torch.inf)
    # The dropped states emit what they did: nobody is ever in one.
    weights = large.weights() | {"init": init, "trans": logits.softmax(-1)}
    return large.program.log_z(weights, {"w": WORDS})


@pytest.mark.parametrize(
    "net", ["", "states(dim=8)", "states(dim=8, factored=yes)", "residual(dim=6)"]
)
def test_dropped_states_have_no_part_in_log_z(net: str) -> None:
    large = model(more=net)
    large.eval()
    dropout = StateDropout(large, "K", 0.5)
    assert dropout.program.shape("trans") == (M * 2, M * 2)
    for seed in range(3):
        kept = dropout.draw(torch.Generator().manual_seed(seed))
        torch.testing.assert_close(dropout.log_z(kept, {"w": WORDS}), thinned(large, kept))


def test_blocks_of_a_product_in_the_other_order_are_cut_alike() -> None:
    text = str(fgg.load("hmm_blocks", sizes={"m": M, "k": K, "d": D}))
    assert "domain T = M * K" in text
    large = fgg.compile(fgg.loads(text.replace("M * K", "K * M"), name="other")).model(
        seed=1, dtype=torch.float64
    )
    dropout = StateDropout(large, "K", 0.5)
    kept = dropout.draw(torch.Generator().manual_seed(0))
    rows = kept.states("T")
    assert rows is not None
    wanted = [k * M + m for k, m in [divmod(int(r), M) for r in rows]]
    assert rows.tolist() == wanted
    assert {(int(r) % M, int(r) // M) for r in rows} == {
        (m, int(k)) for m in range(M) for k in kept.index[m]
    }
    # The j-th place that is left means the j-th that was kept of the block, in all factors.
    table = rows.reshape(2, M)
    assert torch.equal(table.T // M, kept.index)


def test_each_state_is_kept_equally_often_and_each_block_keeps_as_many() -> None:
    dropout = StateDropout(model(), "K", 0.25)
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(M, K)
    for _ in range(2000):
        index = dropout.draw(generator).index
        assert index.shape == (M, 3) and (index.diff(dim=-1) > 0).all()
        counts.scatter_add_(1, index, torch.ones(M, 3))
    assert ((counts / 2000 - 0.75).abs() < 0.05).all()  # five standard deviations


def test_gradients_reach_the_states_that_are_kept_and_no_others() -> None:
    large = model()
    dropout = StateDropout(large, "K", 0.5)
    kept = dropout.draw(torch.Generator().manual_seed(0))
    torch.autograd.backward(dropout.log_z(kept, {"w": WORDS}).sum())
    rows = kept.states("T")
    assert rows is not None
    used = torch.zeros(M * K, dtype=torch.bool)
    used[rows] = True
    grad = large.logits["trans"].grad
    assert grad is not None
    assert (grad[~used] == 0).all() and (grad[:, ~used] == 0).all()
    assert (grad[used][:, used] != 0).any(1).all()


def test_training_with_dropout_is_evaluated_with_all_states() -> None:
    large = model(torch.float32)
    before = log_likelihood(large, WORDS)[0]
    learned = learn(large, WORDS, method="adam", epochs=30, rate=0.1, state_dropout={"K": 0.5})
    after = log_likelihood(large, WORDS)[0]
    with torch.no_grad():
        assert after == pytest.approx(float(large(w=WORDS).sum()), abs=1e-4)
    assert after > before + 5
    assert len({round(h.objective, 6) for h in learned.history}) == 30


def test_a_run_goes_on_with_the_states_that_it_would_have_drawn() -> None:
    whole, first, second = (model() for _ in range(3))
    batch = Items({"w": WORDS})
    options = {"rate": 0.1, "seed": 4, "state_dropout": {"K": 0.5}}
    long = Adam(whole, **options)  # type: ignore[arg-type]
    for _ in range(4):
        long.step(batch)
    short = Adam(first, **options)  # type: ignore[arg-type]
    for _ in range(2):
        short.step(batch)
    second.load_state_dict(first.state_dict())
    again = Adam(second, **(options | {"seed": 9}))  # type: ignore[arg-type]
    again.load_state_dict(short.state_dict())
    for _ in range(2):
        again.step(batch)
    for name, parameter in whole.named_parameters():
        assert torch.equal(parameter, dict(second.named_parameters())[name])


@pytest.mark.parametrize(
    ("domain", "rate"), [("K", 1.0), ("K", -0.1), ("M", 0.5), ("W", 0.5), ("Q", 0.5), ("T", 0.5)]
)
def test_what_has_no_blocks_is_refused(domain: str, rate: float) -> None:
    with pytest.raises(GrammarError) as caught:
        StateDropout(model(), domain, rate)
    assert caught.value.diagnostics[0].code == "F476"
