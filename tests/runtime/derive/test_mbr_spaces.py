"""Minimum Bayes risk where states of cells go together: the same in every space."""

from __future__ import annotations

import pytest
import torch

from fgg import GrammarError, compile, load, loads

SHARED = """
size k = 3
size d = 3
size r = 2
domain T = k
domain W = d
factor init(-> T)
factor next(T -> T) rank r
factor emit(T -> W)
nonterminal S()
nonterminal X(T)
nonterminal Y(T)
start S
rule begin: S    -> init(t) X(t)
rule more:  X(t) -> Y(t) next(t, u) X(u)
rule last:  X(t) -> Y(t)
rule word:  Y(t) -> emit(t, o)
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule more:  X[i]   -> Y[i] X[i+1]   for 0 <= i < n-1
  rule last:  X[n-1] -> Y[n-1]
  rule word:  Y[i]   -> o = w[i]
}
"""


@pytest.mark.parametrize("space", ["state", "auto"])
@pytest.mark.parametrize("seed", range(6))
def test_shared_nodes_have_one_state(space: str, seed: int) -> None:
    dense, other = (compile(loads(SHARED), space=s) for s in ("dense", space))
    weights = other.weights(seed=seed, dtype=torch.float64)
    words = {"w": [[0, 2, 1, 1, 0]]}
    (want,) = dense.posterior(weights, words).mbr()
    (found,) = other.posterior(weights, words).mbr()
    assert found.spans() == want.spans()
    assert found.log_weight == pytest.approx(want.log_weight, rel=1e-9)


def test_factors_too_large_to_multiply_out_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fgg.runtime.posterior.compiled_posterior.MAX_WHOLE", 4)
    words = {"w": [[0, 2, 1]]}
    shared = compile(loads(SHARED), space="state")
    with pytest.raises(GrammarError, match="too large") as caught:
        shared.posterior(shared.weights(seed=0), words).mbr()
    assert "`more`" in caught.value.diagnostics[0].help
    chain = compile(load("lhmm", sizes={"k": 3, "d": 3, "r": 2}), space="state")
    weights = chain.weights(seed=1, dtype=torch.float64)
    (found,) = chain.posterior(weights, words).mbr()
    monkeypatch.undo()
    (want,) = chain.posterior(weights, words).mbr()
    assert found.spans() == want.spans()
    assert found.log_weight == pytest.approx(want.log_weight, rel=1e-9)


def test_a_position_is_kept_once() -> None:
    program = compile(load("hmm", sizes={"k": 2, "d": 3}))
    with pytest.raises(GrammarError, match="kept twice"):
        program.posterior(program.weights(seed=0), {}, {"n": [3]}).moments({"w": [0, 0]})


@pytest.mark.parametrize("number", [0, -1, True])
def test_numbers_of_derivations_are_checked(number: int) -> None:
    program = compile(load("hmm", sizes={"k": 2, "d": 3}))
    weights = program.weights(seed=0)
    with pytest.raises(GrammarError, match="from 1 up"):
        program.posterior(weights, {"w": [[0, 1]]}).k_best(number)
    with pytest.raises(GrammarError, match="from 1 up"):
        program.posterior(weights, {"w": [[0, 1]]}).sample(number)
