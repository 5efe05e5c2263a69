"""The calls of docs/howto/models.md beside those of the libraries they are compared with."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import fgg


def tagger() -> tuple[fgg.Model, list[list[int]]]:
    model = fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4})).model(seed=3, dtype=torch.float64)
    return model, [[0, 1, 3], [2, 2, 1, 0, 3], [1]]


def test_hmmlearn() -> None:
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    model, sentences = tagger()
    weights = {name: w.numpy() for name, w in model.detached().items()}
    theirs = hmmlearn.CategoricalHMM(n_components=3, init_params="", n_iter=2, tol=0)
    theirs.startprob_, theirs.transmat_ = weights["init"], weights["trans"]
    theirs.emissionprob_, theirs.n_features = weights["emit"], 4
    tokens = [[token] for words in sentences for token in words]
    lengths = [len(words) for words in sentences]
    assert model.score(sentences) == pytest.approx(theirs.score(tokens, lengths), rel=1e-9)
    states = [int(state) for path in model.predict(sentences) for state in path]
    assert states == theirs.predict(tokens, lengths).tolist()
    marginals = model.posterior(w=sentences[:1]).marginals["X"][0]
    ours = marginals.numpy()
    assert ours == pytest.approx(theirs.predict_proba(tokens[:3], lengths[:1]), abs=1e-9)
    best = model.posterior(w=sentences[:1]).best()[0]
    log_prob, path = theirs.decode(tokens[:3], lengths[:1])
    assert best.log_weight == pytest.approx(log_prob, rel=1e-9)
    assert [int(s) for s in best.cell_values()] == path.tolist()
    draws = model.sample(5, lengths=4, seed=0)
    assert len(theirs.sample(4, random_state=0)[0]) == len(draws[0].inputs()["w"]) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(tokens, lengths)
    model.fit(sentences, epochs=2)
    fitted = model.detached()
    for name, numbers in (("trans", theirs.transmat_), ("emit", theirs.emissionprob_)):
        assert fitted[name].numpy() == pytest.approx(numbers, abs=1e-6), name


def chain() -> tuple[Any, Any, fgg.Posterior, fgg.Posterior]:
    """A linear chain of torch-struct and of the library, twice, with the same scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch_struct = pytest.importorskip("torch_struct")
    generator = torch.Generator().manual_seed(5)
    n, k = 5, 3
    theirs, ours = [], []
    text = """
    domain T = 3
    input factor first(T)
    input factor phi[i](T, T) for 0 <= i < n-1
    nonterminal S()
    nonterminal X[i](T) for 0 <= i < n
    start S
    rule begin: S       -> first(t) X[0](t)
    rule step:  X[i](t) -> phi[i](t, u) X[i+1](u)   for i < n-1
    rule last:  X[n-1](t) ->
    """
    program = fgg.compile(fgg.loads(text))
    for _ in range(2):
        scores = torch.randn(1, n - 1, k, k, generator=generator, dtype=torch.float64)
        # torch-struct: [batch, position, next, previous]
        theirs.append(torch_struct.LinearChainCRF(scores))
        inputs = {
            "first": torch.zeros(1, k, dtype=torch.float64),
            "phi": scores.transpose(-1, -2).clone(),
        }
        ours.append(program.posterior({}, inputs))
    return theirs[0], theirs[1], ours[0], ours[1]


@pytest.mark.filterwarnings("ignore")
def test_torch_struct() -> None:
    dist, other, post, second = chain()
    assert torch.allclose(post.log_z, dist.partition)
    marginals = post.counts["phi"].transpose(-1, -2)
    assert torch.allclose(marginals, dist.marginals, atol=1e-9)
    assert torch.allclose(post.entropy(), dist.entropy)
    assert torch.allclose(post.cross_entropy(second), dist.cross_entropy(other))
    assert torch.allclose(post.kl(second), dist.kl(other))
    best = post.best()
    assert best[0].log_weight == pytest.approx(float(dist.max), rel=1e-9)
    sequence, _ = dist.struct.from_parts(dist.argmax)
    assert [int(x) for x in best[0].cell_values()] == sequence[0].tolist()
    assert torch.allclose(post.log_prob(best), dist.log_prob(dist.argmax))
    ranked = post.k_best(3)[0]
    top = dist.kmax(3)
    assert [d.log_weight for d in ranked] == pytest.approx(top.flatten().tolist(), rel=1e-9)
    assert len(post.sample(4, seed=0)[0]) == len(dist.sample((4,))) == 4
    assert int(post.charts("counting").z[0]) == int(dist.count) == 3**5


@pytest.mark.filterwarnings("ignore")
def test_supar() -> None:
    structs = pytest.importorskip("supar.structs")
    generator = torch.Generator().manual_seed(6)
    n, k = 5, 3
    text = """
    domain T = 3
    input factor begin(T)
    input factor trans(T, T)
    input factor phi[i](T) for 0 <= i < n
    nonterminal S()
    nonterminal X[i](T) for 0 <= i < n
    start S
    rule begin: S       -> begin(t) phi[0](t) X[0](t)
    rule step:  X[i](t) -> trans(t, u) phi[i+1](u) X[i+1](u)   for i < n-1
    rule last:  X[n-1](t) ->
    """
    program = fgg.compile(fgg.loads(text))
    dists, posts = [], []
    for _ in range(2):
        scores = torch.randn(1, n, k, generator=generator, dtype=torch.float64)
        trans = torch.randn(k + 1, k + 1, generator=generator, dtype=torch.float64)
        trans[:-1, -1] = 0
        inputs = {"begin": trans[None, -1, :-1], "trans": trans[None, :-1, :-1], "phi": scores}
        posts.append(program.posterior({}, {name: x.clone() for name, x in inputs.items()}))
        dists.append(structs.LinearChainCRF(scores, trans))
    (dist, other), (post, second) = dists, posts
    assert torch.allclose(post.log_z, dist.log_partition)
    assert torch.allclose(post.counts["phi"], dist.marginals, atol=1e-9)
    assert torch.allclose(post.entropy(), dist.entropy)
    assert torch.allclose(post.cross_entropy(second), dist.cross_entropy(other))
    assert torch.allclose(post.kl(second), dist.kl(other))
    best = post.best()
    assert best[0].log_weight == pytest.approx(float(dist.max), rel=1e-9)
    assert [int(x) for x in best[0].cell_values()] == dist.argmax[0].tolist()
    assert torch.allclose(post.log_prob(best), dist.log_prob(dist.argmax))
    ranked = post.k_best(3)[0]
    assert [d.log_weight for d in ranked] == pytest.approx(dist.kmax(3).flatten().tolist())
    paths = [[int(x) for x in d.cell_values()] for d in ranked]
    assert paths == dist.topk(3)[0].T.tolist()


@pytest.mark.filterwarnings("ignore")
def test_fggs() -> None:
    fggs = pytest.importorskip("fggs")
    pytest.importorskip("fggs.typing", reason="fggs 0.1 of PyPI cannot read JSON")
    text = """
    domain T = {a, b}
    factor root(T) = [0.5, 0.3]
    factor link(T, T, T) = [[[0.1, 0.05], [0.03, 0.2]], [[0.04, 0.06], [0.07, 0.02]]]
    factor leaf(T, T) = [[0.4, 0.1], [0.2, 0.5]]
    nonterminal S()
    nonterminal X(T)
    start S
    rule top:    S    -> root(t) X(t)
    rule branch: X(t) -> link(t, u, v) X(u) X(v)
    rule end:    X(t) -> leaf(t, w)
    """
    grammar = fgg.loads(text)
    data = fgg.json.to_json(grammar)
    theirs, (ours, _) = fggs.json_to_fgg(data), fgg.json.from_json(data)
    assert ours is not None
    value = float(fggs.sum_product(theirs, method="newton", tol=1e-12))
    assert float(fgg.reference.solve(ours, "real").value) == pytest.approx(value, rel=1e-5)
    best = fgg.reference.viterbi(ours)
    for factor in theirs.factors.values():  # `viterbi` takes weights for logarithms
        factor.weights = factor.weights.log()
    graph, values = fggs.viterbi(theirs, ()).derive()
    weights = {name: factor.weights.to_dense() for name, factor in theirs.factors.items()}
    edges = [(weights[e.label.name], tuple(values[n] for n in e.nodes)) for e in graph.edges()]
    total = sum(float(weight[place]) for weight, place in edges)
    assert best.log_weight == pytest.approx(total, rel=1e-5)
    cut = fgg.json.to_json(fgg.rewrite.factorise(ours).grammar)
    for whole in (fggs.factorize_fgg(fggs.json_to_fgg(data)), fggs.json_to_fgg(cut)):
        assert float(fggs.sum_product(whole, method="newton", tol=1e-12)) == pytest.approx(value)


def test_entropy_of_a_view_that_requires_gradients_later() -> None:
    text = """
    domain T = 3
    input factor phi[i](T, T) for 0 <= i < n-1
    nonterminal S()
    nonterminal X[i](T) for 0 <= i < n
    start S
    rule begin: S       -> X[0](t)
    rule step:  X[i](t) -> phi[i](t, u) X[i+1](u)   for i < n-1
    rule last:  X[n-1](t) ->
    """
    program = fgg.compile(fgg.loads(text))
    scores = torch.randn(1, 4, 3, 3, dtype=torch.float64)
    post = program.posterior({}, {"phi": scores.transpose(-1, -2)})
    want = float(program.posterior({}, {"phi": scores.transpose(-1, -2)}).entropy())
    assert post.counts["phi"].shape == (1, 4, 3, 3)
    scores.requires_grad_()
    assert float(post.entropy().detach()) == pytest.approx(want, rel=1e-9)
