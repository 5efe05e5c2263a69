"""Networks of states: the equations, entry by entry."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import fgg
from fgg.diagnostics import GrammarError
from fgg.runtime.learn import learn
from fgg.runtime.model.model import Model
from fgg.runtime.model.state_nets import Normed, StateNet, within_blocks

M, K, D, H = 3, 2, 7, 6
TEXT = """
domain M = 3
domain K = 2
domain T = M * K
domain W = 7
factor clusters(W -> M) = map(cycle)
factor init(-> T) with net = {net}
factor trans(T -> T) with net = {net}
factor emit(T -> W) with blocks = clusters, net = {net}
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> init(t) X(t)
rule step:  X(t) -> emit(t, o) trans(t, u) X(u)
rule last:  X(t) -> emit(t, o)
query string(w: W[n]) {{
  rule begin: S      -> X[0]
  rule step:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
  rule last:  X[n-1] -> o = w[n-1]
}}
"""


def model(net: str) -> Model:
    grammar = fgg.loads(TEXT.format(net=net), name="large")
    return fgg.compile(grammar).model(seed=2, dtype=torch.float64).eval()


def mlp(net: Normed, x: Tensor) -> Tensor:
    """Equation 13 for one vector, in plain words."""
    d = (x @ net.first).clamp(min=0)
    e = (d @ net.second).clamp(min=0) + d
    return (e - e.mean()) / (e.var(unbiased=False) + 1e-5) ** 0.5


@pytest.mark.parametrize("factored", [False, True])
def test_logits_are_those_of_the_equations(factored: bool) -> None:
    parameterised = model(f"states(dim={H}, factored={'yes' if factored else 'no'})")
    tables = dict(parameterised.shared.tables.items())
    trans, emit, init = (parameterised.nets[n] for n in ("trans", "emit", "init"))
    width = H // 2 if factored else H
    assert set(tables) == {f"z_{width}_T", f"z_{H}_W"} | ({f"z_{width}_M"} if factored else set())

    def state(side: object, t: int) -> Tensor:
        e = tables[f"z_{width}_T"][t]
        if factored:
            block = tables[f"z_{width}_M"][t // K]
            e = mlp(side.joined, torch.cat([block, e]))  # type: ignore[attr-defined]
        return mlp(side.layers, e)  # type: ignore[attr-defined]

    for t in range(M * K):
        row = torch.stack([state(trans.left, t) @ state(trans.right, u) for u in range(M * K)])
        torch.testing.assert_close(parameterised.weight("trans")[t], (row / H**0.5).softmax(-1))
        words = [w for w in range(D) if w % M == t // K]
        row = torch.stack([state(emit.left, t) @ tables[f"z_{H}_W"][w] for w in words])
        torch.testing.assert_close(
            parameterised.weight("emit")[t % K, words], (row / H**0.5).softmax(-1)
        )
    start = parameterised.state_dict()["nets.init.left.vector"][0]
    row = torch.stack([start @ state(init.right, u) for u in range(M * K)])
    torch.testing.assert_close(parameterised.weight("init"), (row / H**0.5).softmax(-1))


def test_products_within_blocks_are_those_of_each_word_with_its_block() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(4, 3, 5, generator=generator)
    words = torch.randn(9, 5, generator=generator)
    blocks = torch.tensor([2, 0, 0, 3, 2, 3, 0, 2, 0])  # nothing in block 1
    wanted = torch.stack([states[b] @ w for b, w in zip(blocks, words, strict=True)], -1)
    torch.testing.assert_close(within_blocks(states, words, blocks), wanted)


def test_training_moves_embeddings_and_networks() -> None:
    parameterised = model("states(dim=8, factored=yes, dropout=0.1)").float()
    before = {n: p.detach().clone() for n, p in parameterised.named_parameters()}
    words = [[0, 1, 2, 5], [6, 1, 3], [4, 4, 6, 2]]
    learned = learn(parameterised, words, method="adam", epochs=40, rate=0.02)
    assert learned.history[-1].objective > learned.history[0].objective + 2
    moved = [n for n, p in parameterised.named_parameters() if not torch.equal(p, before[n])]
    assert set(moved) == set(before)


def test_a_saved_model_has_the_same_weights(tmp_path: object) -> None:
    parameterised = model("states(dim=8, factored=yes)")
    path = f"{tmp_path}/large.safetensors"
    parameterised.save(path)
    again = fgg.load_model(path)
    for name, weight in parameterised.detached().items():
        assert torch.equal(weight, again.detached()[name])


def test_a_factor_with_two_nodes_on_a_side_is_refused() -> None:
    text = str(fgg.load("cnf", sizes={"k": 2, "d": 3}))
    assert "binary(N -> N, N)" in text
    two = text.replace("binary(N -> N, N)", "binary(N -> N, N) with net = states(dim=4)")
    grammar = fgg.loads(two, name="two")
    with pytest.raises(GrammarError) as caught:
        fgg.compile(grammar).model()
    assert caught.value.diagnostics[0].code == "F470"


@pytest.mark.parametrize(
    "net", ["states(dim=7, factored=yes)", "states(layers=2)", "states(dim=1)"]
)
def test_wrong_networks_are_refused_with_their_code(net: str) -> None:
    with pytest.raises(GrammarError) as caught:
        model(net)
    assert "F134" in {d.code for d in caught.value.diagnostics}


def test_networks_are_of_their_kind() -> None:
    parameterised = model("states")
    assert all(isinstance(net, StateNet) for net in parameterised.nets.values())
    assert parameterised.kind("trans") == "network"
