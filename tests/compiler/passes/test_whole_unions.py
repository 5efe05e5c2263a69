"""Unions that are left whole: the same values, and nothing else of them is seen."""

from __future__ import annotations

import pytest
import torch

import fgg
from fgg.compiler.passes.split import split, whole_unions
from fgg.diagnostics import GrammarError
from fgg.factors.maps import map_values
from fgg.rewrite.conjoin import conjoin

CHAIN = """
size a = 1
size b = 2
size c = 1
domain A = a
domain B = b
domain Q = A + B
domain C = c
domain U = Q + C
domain K = 2
domain P = U * K
domain W = 3
domain V = A + W              # a union that is read
factor first(-> U)
factor step(U, K -> U)
factor low(A -> W)
factor mid(B, K -> W)
factor high(C)
factor spin(-> K)
factor odd(Q, W)
factor seen(V)
nonterminal S()
nonterminal X(P)
start S
rule begin: S -> first(p.U) spin(p.K) X(p)
rule low:   X(p) -> low(p.U.Q.A, o) step(p.U, p.K, q.U) spin(q.K) X(q)
rule mid:   X(p) -> mid(p.U.Q.B, p.K, o) odd(p.U.Q, o) step(p.U, p.K, q.U) spin(q.K) X(q)
rule tied:  X(p) -> seen(v) low(v.A, o) mid(p.U.Q.B, p.K, o) step(p.U, p.K, q.U) spin(q.K) X(q)
rule high:  X(p) -> high(p.U.C)
query text(w: W[n]) {
  rule begin: S    -> X[0]
  rule low:   X[i] -> o = w[i] X[i+1]   for 0 <= i < n
  rule mid:   X[i] -> o = w[i] X[i+1]   for 0 <= i < n
  rule tied:  X[i] -> o = w[i] X[i+1]   for 0 <= i < n
  rule high:  X[n] ->
}
"""


def test_small_unions_are_left_whole_and_large_ones_are_not() -> None:
    grammar = fgg.loads(CHAIN)
    closed = conjoin(grammar, grammar.queries[0])
    assert whole_unions(closed) == {"Q", "U", "V"}
    found = split(closed)
    assert split(found) is found
    assert len(found.rules) == len(closed.rules)
    assert fgg.loads(str(found)) == found
    assert map_values(found, "U_C") == (3,)
    assert map_values(found, "U_Q_B") == (1, 2)
    large = fgg.loads(CHAIN, sizes={"b": 20})
    assert whole_unions(conjoin(large, large.queries[0])) == frozenset()


@pytest.mark.parametrize("sizes", [{}, {"a": 2, "c": 3}, {"b": 20}])
def test_programs_agree_with_the_reference(sizes: dict[str, int]) -> None:
    grammar = fgg.loads(CHAIN, sizes=sizes)
    program = fgg.compile(grammar)
    weights = program.weights(seed=1, dtype=torch.float64)
    words = [[0, 2, 1, 1], [2, 2, 0, 1]]
    own = {name: w.clone().requires_grad_() for name, w in weights.items()}
    log_z = program.log_z(own, {"w": words})
    torch.autograd.backward(log_z.sum())
    for item, found in zip(words, log_z.detach(), strict=True):
        ground = fgg.rewrite.ground(grammar, query="text", inputs={"w": item})
        arrays = {name: w.numpy() for name, w in weights.items()}
        assert float(found) == pytest.approx(
            float(fgg.reference.solve(ground, "log", weights=arrays).value)
        )
    other = {name: w.clone().requires_grad_() for name, w in weights.items()}
    total = torch.zeros((), dtype=torch.float64)
    for item in words:
        ground = fgg.rewrite.ground(grammar, query="text", inputs={"w": item})
        total = total + fgg.reference.solve(ground, "log", weights=other).value
    torch.autograd.backward(total)
    for name, tensor in own.items():
        if other[name].grad is not None:
            torch.testing.assert_close(tensor.grad, other[name].grad, msg=name)


def test_derivations_are_those_of_the_users_own_rules() -> None:
    grammar = fgg.loads(CHAIN)
    program = fgg.compile(grammar)
    weights = program.weights(seed=2, dtype=torch.float64)
    words = [[0, 2, 1]]
    (best,) = program.posterior(weights, {"w": words}).best()
    ground = fgg.rewrite.ground(grammar, query="text", inputs={"w": words[0]})
    arrays = {name: w.numpy() for name, w in weights.items()}
    expected = fgg.reference.solve(ground, "max", weights=arrays)
    assert best.log_weight == pytest.approx(float(expected.value))
    assert set(best.source_rules) <= {rule.name for rule in grammar.rules}
    for step in best.steps:
        assert set(step.values) == {node.name for node in step.rule.rhs.nodes}
        assert not any(name.startswith("p_") for name in step.values)
    marginals = program.posterior(weights, {"w": words}).marginals
    cells = marginals["X"]
    assert cells.shape[-1] == 8  # U * K, the user's own domain
    torch.testing.assert_close(cells[0].sum(-1), torch.ones(4, dtype=torch.float64))


def test_a_part_says_where_it_is() -> None:
    text = "domain A = 2\ndomain B = 3\ndomain U = B + A\nfactor at({}) = map(part)\n"
    rest = "nonterminal S()\nstart S\nrule S -> at(a, u)\n"
    assert map_values(fgg.loads(text.format("A -> U") + rest), "at") == (3, 4)
    with pytest.raises(GrammarError) as error:
        map_values(fgg.loads(text.format("U -> A") + rest), "at")
    assert error.value.diagnostics[0].code == "F492"
