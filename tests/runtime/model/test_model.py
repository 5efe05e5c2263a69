"""Models: initialisers, networks, frozen factors, and files that describe themselves."""

from __future__ import annotations

import copy
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import fgg
from fgg.runtime.model.model import Model
from fgg.runtime.model.nets import FactorNet

PCFG = """
size nt = 3 size pt = 4 size words = 6 size r = 5
domain N = nt domain P = pt domain C = N + P domain W = words
factor root(-> N) with net = residual(dim=8)
factor binary(N -> C, C) rank r with net = {net}
factor emit(P -> W) with net = residual(dim=8, layers=1)
nonterminal S() nonterminal X(C)
start S
rule root:   S    -> root(a.N) X(a)
rule binary: X(a) -> binary(a.N, b, c) X(b) X(c)
rule word:   X(a) -> emit(a.P, o)
query string(w: W[n]) {{
  rule root:   S        -> X[0,n]
  rule binary: X[i,j]   -> X[i,k] X[k,j]   for i < k < j
  rule word:   X[i,i+1] -> o = w[i]
}}"""
SENTENCES = [[0, 1, 2], [3, 4, 5, 0]]


def neural(net: str = "residual(dim=8, layers=2)", **options: object) -> Model:
    model = fgg.compile(fgg.loads(PCFG.format(net=net))).model(
        **{"dtype": torch.float64, **options}  # type: ignore[arg-type]
    )
    model.eval()
    return model


def mlp(net: FactorNet, x: Tensor) -> Tensor:
    """h(x) as [RS appendix A] writes it, layer by layer."""
    assert net.layers is not None
    y = torch.stack([net.layers.first @ row for row in x])
    for u, v in zip(net.layers.inner, net.layers.outer, strict=True):
        y = torch.stack([torch.relu(v @ torch.relu(u @ row)) + row for row in y])
    return y


def test_a_neural_pcfg_is_that_of_the_paper() -> None:
    model = neural()
    tables = model.shared.tables
    x_n, x_p, u = tables["x_8_N"], tables["x_8_P"], tables["u_8_R_binary"]
    nets = {name: net for name, net in model.nets.items() if isinstance(net, FactorNet)}
    start = (mlp(nets["root"], x_n) @ nets["root"].projection[0]).softmax(0)
    words = (mlp(nets["emit"], x_p) @ nets["emit"].projection.T).softmax(1)
    children = torch.cat([x_n, x_p])
    heads = (mlp(nets["binary_0"], x_n) @ u.T).softmax(1)
    left = (u @ mlp(nets["binary_1"], children).T).softmax(1)
    right = (u @ mlp(nets["binary_2"], children).T).softmax(1)
    for name, wanted in (
        ("root", start),
        ("emit", words),
        ("binary_0", heads),
        ("binary_1", left),
        ("binary_2", right),
    ):
        torch.testing.assert_close(model.weight(name), wanted)
    whole = torch.einsum("aq,qb,qc->abc", heads, left, right)
    torch.testing.assert_close(model.weight("binary"), whole)
    torch.testing.assert_close(whole.sum((1, 2)), torch.ones(3, dtype=torch.float64))


def test_projections_are_tied_or_not() -> None:
    assert sum(name.startswith("u_") for name in neural().shared.tables) == 1
    free = neural("residual(dim=8, tied=no)")
    assert not any(name.startswith("u_") for name in free.shared.tables)
    assert isinstance(net := free.nets["binary_0"], FactorNet)
    assert net.projection.shape == (5, 8)


def test_each_piece_can_have_a_network_of_its_own() -> None:
    model = neural("each(linear(dim=8), linear(dim=8), residual(dim=8, layers=1, tied=no))")
    one, two = model.nets["binary_0"], model.nets["binary_1"]
    assert isinstance(one, FactorNet) and isinstance(two, FactorNet)
    u = model.shared.tables["u_8_R_binary"]
    torch.testing.assert_close(model.weight("binary_0"), (one.embeddings[0] @ u.T).softmax(1))
    torch.testing.assert_close(model.weight("binary_1"), (u @ two.embeddings[0].T).softmax(1))
    model(w=SENTENCES).sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(
    ("net", "kind", "init"),
    [
        ("residual(dim={})", "x", "normal"),
        ("residual(dim={}, init=xavier)", "x", "xavier"),
        ("residual(dim={}, init=kaiming)", "x", "kaiming"),
        ("linear(dim={})", "", "xavier"),
        ("linear(dim={}, init=normal)", "", "normal"),
        ("linear(dim={}, init=kaiming)", "", "kaiming"),
        ("states(dim={})", "z", "normal"),
        ("states(dim={}, init=xavier)", "z", "xavier"),
        ("states(dim={}, init=kaiming)", "z", "kaiming"),
    ],
)
def test_parameters_begin_as_an_initialiser_says(net: str, kind: str, init: str) -> None:
    size, dim = 300, 100
    text = f"""
    domain A = {size}
    factor first(-> A)
    factor f(A -> A) with net = {net.format(dim)}
    nonterminal S() start S
    rule S -> first(a) f(a, b)"""
    model = fgg.compile(fgg.loads(text)).model(seed=1, dtype=torch.float64)
    parameters = dict(model.named_parameters())
    embeddings = parameters[f"shared.tables.{kind}_{dim}_A" if kind else "nets.f.embeddings.0"]
    assert embeddings.shape == (size, dim)
    assert_begins(embeddings, init)
    matrices = [p for n, p in model.nets.named_parameters() if p.dim() == 2 and "embed" not in n]
    assert matrices
    for matrix in matrices:
        assert_begins(matrix, "xavier" if init == "normal" else init)


def assert_begins(matrix: torch.Tensor, init: str) -> None:
    """Check the variance and the greatest entry of a matrix that has just been made."""
    rows, columns = matrix.shape
    variance = {"normal": 1.0, "xavier": 2 / (rows + columns), "kaiming": 2 / columns}[init]
    assert float(matrix.detach().var()) == pytest.approx(variance, rel=0.05)
    bound = (6 / columns) ** 0.5
    greatest = float(matrix.detach().abs().max())
    assert (greatest <= bound) if init == "kaiming" else (greatest > 3 * variance**0.5)


def test_networks_of_several_nodes_and_of_products() -> None:
    text = """
    domain A = 2 domain B = 3 domain AB = A * B
    factor f(A, B -> A, B) with net = residual(dim=4)
    factor g(AB -> A) with net = residual(dim=4)
    factor h(A, B, A) with net = linear(dim=4)
    nonterminal S() start S
    rule S -> f(a, b, c, d) g(e, a) h(a, b, c)"""
    model = fgg.compile(fgg.loads(text)).model(dtype=torch.float64)
    f, g, h = (model.weight(name) for name in "fgh")
    assert f.shape == (2, 3, 2, 3) and g.shape == (6, 2) and h.shape == (2, 3, 2)
    torch.testing.assert_close(f.sum((2, 3)), torch.ones(2, 3, dtype=torch.float64))
    torch.testing.assert_close(g.sum(1), torch.ones(6, dtype=torch.float64))
    assert (h > 0).all() and len({round(float(x), 9) for x in h.detach().flatten()}) == 12


def test_dropout_is_there_in_training_only() -> None:
    model = neural("residual(dim=8, dropout=0.5)")
    assert torch.equal(model(w=SENTENCES), model(w=SENTENCES))
    model.train()
    assert not torch.equal(model(w=SENTENCES), model(w=SENTENCES))


def test_seeds_and_types_of_networks() -> None:
    one, two, other = neural(seed=3), neural(seed=3), neural(seed=4)
    assert torch.equal(one(w=SENTENCES), two(w=SENTENCES))
    assert not torch.equal(one(w=SENTENCES), other(w=SENTENCES))
    single = neural(seed=3, dtype=torch.float32)
    assert {p.dtype for p in single.parameters()} == {torch.float32}
    torch.testing.assert_close(single(w=SENTENCES).double(), one(w=SENTENCES), atol=1e-4, rtol=1e-4)
    assert torch.equal(copy.deepcopy(one)(w=SENTENCES), one(w=SENTENCES))


class Own(torch.nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.part = torch.nn.Parameter(torch.ones(shape, dtype=torch.float64))

    def forward(self) -> Tensor:
        return self.part.cumsum(-1)


def test_a_network_of_the_users_own() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    model = program.model(dtype=torch.float64, nets={"emit": Own(2, 3)})
    assert model.kind("emit") == "network" and model.kind("trans") == "scalar"
    wanted = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).softmax(0)
    torch.testing.assert_close(model.weight("emit"), wanted.expand(2, 3))
    model(w=[[0, 1]]).sum().backward()
    assert model.nets["emit"].part.grad is not None
    wrong: list[dict[str, Any]] = [{"emti": Own(2, 3)}, {"emit": Own(3, 2)}, {"emit": 3}]
    for nets in wrong:
        with pytest.raises(fgg.GrammarError, match="F470"):
            program.model(dtype=torch.float64, nets=nets)


@pytest.mark.parametrize(
    ("init", "spread"), [("uniform", 1e-12), ("normal(0.01)", 0.02), ("normal", 3.0)]
)
def test_initialisers(init: str, spread: float) -> None:
    text = f"domain T = 50 factor f(T -> T) with init = {init} nonterminal S() start S"
    model = fgg.compile(fgg.loads(f"{text} rule S -> f(a, b)")).model(seed=0, dtype=torch.float64)
    logs = model.weight("f").detach().log()
    deviation = float(logs.std())
    assert deviation <= spread and (spread < 0.1 or deviation > 0.5)


def test_a_dirichlet_start_is_sparse() -> None:
    text = "domain T = 50 factor f(T -> T) with init = dirichlet({}) nonterminal S() start S"
    entropies = []
    for alpha in (0.001, 0.1, 10):
        grammar = fgg.loads(f"{text.format(alpha)} rule S -> f(a, b)")
        weights = fgg.compile(grammar).model(seed=1, dtype=torch.float64).weight("f").detach()
        torch.testing.assert_close(weights.sum(1), torch.ones(50, dtype=torch.float64))
        entropies.append(float(torch.special.entr(weights).sum(1).mean()))
    assert entropies[0] < 0.1 < entropies[1] < entropies[2] < math.log(50)


# files


def test_a_saved_model_describes_itself(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    (tmp_path / "vocab.txt").write_text("the\ndog\nbarks\n")
    np.save(tmp_path / "given.npy", np.array([0.25, 0.75]))
    (tmp_path / "g.fgg").write_text(
        """
        size k = 2
        domain T = k domain W = file("vocab.txt")
        factor init(-> T) = load("given.npy")
        factor trans(T -> T)
        factor emit(T -> W) with net = residual(dim=4)
        nonterminal S() nonterminal X(T) start S
        rule begin: S    -> init(t) X(t)
        rule step:  X(t) -> emit(t, o) trans(t, u) X(u)
        rule last:  X(t) -> emit(t, o)
        query string(w: W[n]) {
          rule begin: S      -> X[0]
          rule step:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
          rule last:  X[n-1] -> o = w[n-1]
        }
        query second(w: W[n]) {
          rule begin: S      -> X[0]
          rule step:  X[i]   -> X[i+1]   for 0 <= i < n-1
          rule last:  X[n-1] -> o = w[n-1]
        }"""
    )
    grammar = fgg.load(str(tmp_path / "g.fgg"))
    model = fgg.compile(grammar, "string").model(seed=5)
    model.eval()
    model.save(path, vocabulary={"W": ["the", "dog", "barks"]})
    for name in ("vocab.txt", "given.npy", "g.fgg"):
        (tmp_path / name).unlink()
    again = fgg.load_model(path)
    item = [["the", "dog"], ["barks"]]
    assert torch.equal(again(w=item), model(w=item))
    assert again.vocabulary == {"W": ("the", "dog", "barks")}
    other = fgg.load_model(path, query="second")
    assert other.program.compiler.query == "second"
    assert torch.equal(other.weight("trans"), model.weight("trans"))
    # Saving again loses nothing.
    again.save(tmp_path / "two.safetensors")
    assert fgg.load_model(tmp_path / "two.safetensors").vocabulary == again.vocabulary
    assert (tmp_path / "two.safetensors").stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_parameters_of_another_grammar_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "hmm.safetensors"
    hmm = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3})).model()
    hmm.save(path)
    fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3})).model(seed=9).load(path)
    with pytest.raises(fgg.GrammarError, match=r"F472.*`size k = 3`, there `size k = 2`"):
        fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 3})).model().load(path)
    with pytest.raises(fgg.GrammarError, match="F472"):
        fgg.compile(fgg.load("lhmm", sizes={"k": 2, "d": 3, "r": 2})).model().load(path)


def test_files_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(fgg.GrammarError, match="F401"):
        fgg.load_model(tmp_path / "none.safetensors")
    (tmp_path / "text").write_text("no model")
    with pytest.raises(fgg.GrammarError, match="F471"):
        fgg.load_model(tmp_path / "text")
    (tmp_path / "coin.fgg").write_text("nonterminal S() start S rule S ->")
    with pytest.raises(fgg.GrammarError, match="not the text of a grammar"):
        fgg.load_model(tmp_path / "coin.fgg")
    save_file({"init": torch.ones(2)}, tmp_path / "weights")
    with pytest.raises(fgg.GrammarError, match="F471"):
        fgg.load_model(tmp_path / "weights")
    model = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3})).model()
    with pytest.raises(fgg.GrammarError, match="F413"):
        model.save(tmp_path / "no" / "folder")
    model.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(fgg.GrammarError, match="F471"):
        fgg.load_model(tmp_path / "cut")


def test_a_file_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    model = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3})).model(seed=1)
    model.save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(fgg.GrammarError, match="F413"):
        fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3})).model(seed=2).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_model_with_a_network_of_the_users_own_needs_it_again(tmp_path: Path) -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    model = program.model(dtype=torch.float64, nets={"emit": Own(2, 3)})
    model.save(tmp_path / "m")
    with pytest.raises(fgg.GrammarError, match="F470"):
        fgg.load_model(tmp_path / "m")
    again = fgg.load_model(tmp_path / "m", nets={"emit": Own(2, 3)})
    assert torch.equal(again(w=[[0, 2]]), model(w=[[0, 2]]))


@pytest.mark.parametrize(
    ("attribute", "code"),
    [
        ("net = residual(dim=0)", "F134"),
        ("net = residual(depth=2)", "F134"),
        ("net = residual(init=orthogonal)", "F134"),
        ("net = states(init=0.1)", "F134"),
        ("net = residual(dim=8, dropout=1)", "F134"),
        ("net = linear(dim=8, layers=2)", "F134"),
        ("net = each(linear(dim=8), linear(dim=8))", "F134"),
        ("net = each(linear(dim=8), linear(dim=8), residual(dim=8))", None),
        ("net = none", None),
        ("net = residual", None),
        ("init = zero", "F134"),
        ("init = normal(-1)", "F134"),
        ("init = dirichlet(0.5)", None),
        ("net = residual(dim=8), init = normal", "F208"),
    ],
)
def test_attributes_of_learning_are_checked(attribute: str, code: str | None) -> None:
    from fgg.compiler import load_text

    text = f"""domain T = 2
    factor f(T -> T, T) rank 2 with {attribute}
    nonterminal S() start S
    rule S -> f(a, b, c)"""
    _, diagnostics, _ = load_text(text)
    assert [d.code for d in diagnostics] == ([] if code is None else [code])


def test_factors_may_have_names_that_torch_uses_itself(tmp_path: Path) -> None:
    text = """
domain D = 3
factor children(-> D)
factor keys(D -> D)
nonterminal S()
start S
rule S -> children(a) keys(a, o)
query q(w: D[n]) { rule S: S -> o = w[0] }
"""
    program = fgg.compile(fgg.loads(text), "q")
    model = program.model(seed=1, dtype=torch.float64)
    weights = model.weights()
    expected = (weights["children"] @ weights["keys"])[1].log()
    torch.testing.assert_close(model(w=[[1]])[0], expected)
    model.save(tmp_path / "model.fggm")
    loaded = fgg.load_model(tmp_path / "model.fggm", query="q")
    torch.testing.assert_close(loaded.weights()["keys"], weights["keys"])
