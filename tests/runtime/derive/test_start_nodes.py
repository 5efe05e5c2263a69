"""Start symbols whose nodes are unions or products."""

from __future__ import annotations

from math import exp

import pytest
import torch

import fgg

CHAIN = """
domain A = 2
domain B = {x, y}
domain C = A + B
domain W = {u, v}
factor root(-> C)
factor step(C -> C)
factor emit(C -> W)
nonterminal S(C)
nonterminal X(C)
start S
rule one:  S(c) -> root(c) X(c)
rule more: X(c) -> emit(c, o) step(c, d) X(d)
rule last: X(c) -> emit(c, o)
query q(w: W[n]) {
  rule one:  S      -> X[0]
  rule more: X[i]   -> X[i+1] o = w[i]  for 0 <= i < n-1
  rule last: X[n-1] -> o = w[n-1]
}
"""

PAIR = """
domain A = {1, 2, 3}
domain B = {x, y}
domain C = A + B
domain D = {p, q}
domain E = C * D
domain W = {u, v}
factor root(-> E)
factor turn(D -> C)
factor emit(C -> W)
nonterminal S(E, C)
nonterminal X(C)
start S
rule one:  S(e, f) -> root(e) X(e.C) turn(e.D, f) X(f)
rule word: X(c) -> emit(c, o)
query q(w: W[n]) {
  rule one:  S    -> X[0] X[1]
  rule word: X[i] -> o = w[i]  for 0 <= i < n
}
"""


@pytest.mark.parametrize("text", [CHAIN, PAIR], ids=["union", "product"])
def test_all_derivations_are_those_of_the_reference_engine(text: str) -> None:
    grammar = fgg.loads(text)
    model = fgg.compile(grammar).model(seed=1, dtype=torch.float64)
    post = model.posterior(w=["u v"])
    listed = post.k_best(1000)[0]
    finite = fgg.rewrite.ground(grammar, query="q", inputs={"w": ["u", "v"]})
    wanted = fgg.reference.k_best(finite, 1000, weights=model.detached())
    assert [d.log_weight for d in listed] == pytest.approx([d.log_weight for d in wanted])
    assert listed[0].cell_values() == wanted[0].cell_values()
    assert {d.rules[0] for d in listed} == {"one"}
    z = float(post.log_z.detach().exp())
    assert sum(exp(d.log_weight) for d in listed) == pytest.approx(z)
    shares = torch.tensor([exp(d.log_weight) / z for d in listed], dtype=torch.float64)
    assert float(post.entropy().detach()) == pytest.approx(float(-(shares * shares.log()).sum()))
    assert float(post.log_prob([listed[3]]).detach().exp()) == pytest.approx(float(shares[3]))


def test_values_of_the_start_symbol_are_drawn_as_often_as_they_are_probable() -> None:
    model = fgg.compile(fgg.loads(CHAIN)).model(seed=1, dtype=torch.float64)
    post = model.posterior(w=["u v v"])
    draws = post.sample(4000, seed=0)[0]
    first = torch.tensor([step.values["c"] for step in (d.steps[0] for d in draws)])
    shares = torch.bincount(first, minlength=4) / len(draws)
    assert torch.allclose(shares.double(), post.marginals["S"][0], atol=0.03)
    assert draws[0].inputs()["w"] == ["u", "v", "v"]


def test_the_start_symbol_counts_in_minimum_bayes_risk_and_in_rule_marginals() -> None:
    model = fgg.compile(fgg.loads(CHAIN)).model(seed=2, dtype=torch.float64)
    post = model.posterior(w=["u v", "v v u"])
    for item, best in enumerate(post.mbr(families=["S"], states=True)):
        assert best.steps[0].values["c"] == int(post.marginals["S"][item].argmax())
    counts = post.rule_marginals("one", ["c"])
    assert torch.allclose(counts.at(), post.marginals["S"])


def test_collapsed_methods_draw_derivations_that_begin_with_a_union() -> None:
    sentences = [["u", "v"], ["v", "v", "u"], ["u"]]
    for method in ("hastings", "cvb"):
        model = fgg.compile(fgg.loads(CHAIN)).model(seed=2, dtype=torch.float64)
        fgg.learn(model, {"w": sentences}, method=method, epochs=2, prior=0.5)
        assert model(w=sentences).isfinite().all()
