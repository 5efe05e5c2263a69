"""Plans carried out in every semiring, against the reference engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fgg.api.compile import compile
from fgg.compiler.resolve.load import loads
from fgg.diagnostics import GrammarError
from fgg.runtime.derive.mbr import cell_marginals
from fgg.runtime.interpret.interpret import interpret, outside
from fgg.runtime.reference.posterior import gradients
from fgg.runtime.reference.solve import solve
from tests.helpers.plans import CASES, case, needed

LENGTHS = (1, 2, 3)


def expected(name: str, query: str | None, semiring: str) -> list[Any]:
    """What the reference engine says, item by item."""
    found = []
    given = case(name, query)
    weights = given.weights(exactly=semiring == "gf")
    for n in LENGTHS:
        grammar = given.ground(n)
        value = solve(grammar, semiring, weights=needed(weights, grammar), seed=1).value
        found.append(value.item())
    return found


def code_of(failure: pytest.ExceptionInfo[GrammarError]) -> str:
    return failure.value.diagnostics[0].code


@pytest.mark.parametrize("semiring", ["log", "max", "boolean", "counting", "gf"])
@pytest.mark.parametrize(("name", "query"), CASES)
def test_plans_have_the_values_of_ground_grammars(
    name: str, query: str | None, semiring: str
) -> None:
    given = case(name, query)
    wanted = expected(name, query, semiring)
    weights = given.weights(exactly=semiring == "gf")
    inputs, lengths = given.batch(LENGTHS)
    for plan in (given.plan, given.folded):
        if semiring == "max" and plan is given.folded:
            continue  # sums in messages are not maxima over the user's rules
        found = interpret(plan, weights, inputs, lengths, semiring).z
        if semiring in ("log", "max"):
            np.testing.assert_allclose(found, wanted, rtol=1e-9)
        else:
            assert found.tolist() == wanted
    alone, own = given.batch([3])
    found = interpret(given.plan, weights, alone, own, semiring).z
    np.testing.assert_allclose(float(found[0]), float(wanted[2]), rtol=1e-9)


@pytest.mark.parametrize("name", ["hmm", "pcfg_dense", "odd"])
def test_real_numbers_and_fractions_agree(name: str) -> None:
    given = case(name, None if name == "odd" else "string")
    inputs, lengths = given.batch(LENGTHS)
    real = interpret(given.plan, given.weights(), inputs, lengths, "real").z
    exact = interpret(given.plan, given.weights(exactly=True), inputs, lengths, "exact").z
    np.testing.assert_allclose(real, exact.astype(float), rtol=1e-9)


@pytest.mark.parametrize(("name", "query"), CASES)
def test_outside_values_are_derivatives(name: str, query: str | None) -> None:
    given = case(name, query)
    inputs, lengths = given.batch(LENGTHS)
    plain = interpret(given.folded, given.weights(), inputs, lengths)
    found = cell_marginals(plain)
    scores = {f: torch.zeros_like(a).requires_grad_() for f, a in plain.arrays.items()}
    z = interpret(given.folded, given.weights(), inputs, lengths, scores=scores).z
    live = torch.isfinite(z)
    if not bool(live.any()):
        return
    slopes = torch.autograd.grad(z[live].sum(), list(scores.values()), allow_unused=True)
    for family, slope in zip(scores, slopes, strict=True):
        wanted = torch.zeros_like(found[family]) if slope is None else slope
        torch.testing.assert_close(found[family], wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["hmm", "pcfg_dense", "dmv", "pair_hmm"])
def test_gradients_are_those_of_the_reference_engine(name: str) -> None:
    given = case(name, "pair" if name == "pair_hmm" else "string")
    weights = {k: torch.tensor(w, requires_grad=True) for k, w in given.weights().items()}
    inputs, lengths = given.batch([3])
    z = interpret(given.folded, weights, inputs, lengths).z
    grammar = given.ground(3)
    wanted = gradients(grammar, weights=needed(given.weights(), grammar), seed=1)
    names = [name for name in weights if name in wanted]
    found = torch.autograd.grad(z.sum(), [weights[n] for n in names], allow_unused=True)
    for label, slope in zip(names, found, strict=True):
        # Expected counts: a weight of 0 has none, whatever its slope.
        own = torch.zeros_like(wanted[label]) if slope is None else slope * weights[label]
        torch.testing.assert_close(own, wanted[label] * weights[label], rtol=1e-8, atol=1e-10)


def test_second_derivatives_exist() -> None:
    given = case("hmm", "string")
    names = list(given.plan.parameters)
    inputs, lengths = given.batch([1, 3])

    def log_z(*values: torch.Tensor) -> torch.Tensor:
        weights = dict(zip(names, values, strict=True))
        z: torch.Tensor = interpret(given.folded, weights, inputs, lengths).z
        return z

    values = [torch.tensor(given.weights()[n], requires_grad=True) for n in names]
    assert torch.autograd.gradgradcheck(log_z, values)


def test_counting_outside_says_how_many_derivations_use_a_cell() -> None:
    given = case("pcfg_dense", "string")
    inputs, lengths = given.batch([3])
    charts = interpret(given.plan, given.weights(), inputs, lengths, "counting")
    above = outside(charts)
    names = [f for f in charts.arrays if f.startswith("X_")]
    through = sum((charts.arrays[f] * above.arrays[f]).sum() for f in names)
    assert through == 5 * charts.z[0]  # a binary tree with three leaves has five nodes


def test_outside_in_booleans_is_usefulness() -> None:
    given = case("pcfg_dense", "string")
    inputs, lengths = given.batch([4])
    sums = interpret(given.plan, given.weights(), inputs, lengths)
    truth = interpret(given.plan, given.weights(), inputs, lengths, "boolean")
    above = outside(truth)
    for family, uses in cell_marginals(sums).items():
        assert (truth.arrays[family] & above.arrays[family]).tolist() == (uses > 0).tolist()


def test_cells_are_read_by_index() -> None:
    given = case("pcfg_dense", "string")
    inputs, lengths = given.batch([2, 4])
    charts = interpret(given.plan, given.weights(), inputs, lengths)
    root = torch.as_tensor(given.weights()["root"]).log()
    for item, n in enumerate((2, 4)):
        value = charts.value("X_N", 0, n)[item]
        assert float((root + value).logsumexp(0)) == pytest.approx(float(charts.z[item]))
    assert not torch.isfinite(charts.value("X_P", 0, 2)).any()
    with pytest.raises(GrammarError) as failure:
        charts.value("X_N", 0)
    assert code_of(failure) == "F415"
    with pytest.raises(GrammarError) as failure:
        charts.value("Y", 0)
    assert code_of(failure) == "F415"


def test_long_inputs_do_not_underflow() -> None:
    given = case("hmm", "string")
    tokens = torch.zeros((2, 400), dtype=torch.long)
    charts = interpret(given.folded, given.weights(), {"w": tokens}, {"n": [400, 7]})
    assert torch.isfinite(charts.z).all()
    short = interpret(given.folded, given.weights(), {"w": tokens[:1, :7]})
    assert float(charts.z[1]) == pytest.approx(float(short.z[0]))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"weights": {}}, "F416"),
        ({"weights": {"trans": np.ones(3)}}, "F417"),
        ({"weights": {"trans": -np.ones((2, 2))}}, "F417"),
        ({"weights": {"trans": [["a", "b"], ["c", "d"]]}}, "F417"),
        ({"inputs": {"v": torch.zeros((1, 2), dtype=torch.long)}}, "F411"),
        ({"inputs": {"w": torch.full((1, 2), 9)}}, "F411"),
        ({"inputs": {"w": torch.zeros(2, dtype=torch.long)}}, "F411"),
        ({"inputs": {}}, "F301"),
        ({"lengths": {"n": [5]}}, "F411"),
        ({"semiring": "reals"}, "F415"),
    ],
)
def test_what_does_not_fit_is_reported(change: dict[str, Any], code: str) -> None:
    given = case("hmm", "string")
    weights = given.weights()
    if change.get("weights"):
        change = {**change, "weights": {**weights, **change["weights"]}}
    inputs = {"w": torch.zeros((1, 2), dtype=torch.long)}
    arguments = {"weights": weights, "inputs": inputs, "lengths": None, **change}
    with pytest.raises(GrammarError) as failure:
        interpret(given.plan, **arguments)
    assert code_of(failure) == code


def test_a_node_may_be_called_as_an_index() -> None:
    text = """
    domain T = 2
    factor f(T, T, T)
    factor g(T)
    nonterminal S()
    nonterminal X[i, j](T) for 0 <= i < j <= n
    input w: T[n]
    start S
    rule all:  S             -> X[0, n](i)
    rule pair: X[i, j](NODE) -> X[i, k](b) X[k, j](c) f(NODE, b, c)  for 0 <= i < k < j <= n
    rule one:  X[i, i+1](a)  -> g(a) a = w[i]                        for 0 <= i < n
    """
    weights = {"f": np.arange(1.0, 9.0).reshape(2, 2, 2), "g": np.array([1.0, 2.0])}
    plain, clash = (compile(loads(text.replace("NODE", name))) for name in ("a", "i"))
    tensors = {name: torch.from_numpy(weight) for name, weight in weights.items()}
    words = {"w": [[0, 1], [1, 0, 1, 1]]}
    wanted, post = plain.posterior(tensors, words), clash.posterior(tensors, words)
    torch.testing.assert_close(post.log_z, wanted.log_z)
    torch.testing.assert_close(post.charts("log").z, wanted.log_z)
    uses = post.rule_marginals("pair", nodes=["i"]).values
    torch.testing.assert_close(uses, wanted.rule_marginals("pair", nodes=["a"]).values)
