"""Weights by their logarithms, of any size: nothing is lost on the way to the reference engine."""

from __future__ import annotations

from math import exp, inf, log, sqrt

import numpy as np
import pytest
import torch

import fgg
from fgg.compiler import load_text, loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.grammar.values import Exp, Table
from fgg.json import to_json
from fgg.rewrite.ground import ground
from fgg.runtime.derive.decode_ground import sample, viterbi
from fgg.runtime.program.bind import Logs
from fgg.runtime.reference.posterior import differentiable_log_z, gradients, posterior
from fgg.runtime.reference.solve import solve

CHAIN = """
domain T = {a, b}
input factor phi[i](T, T) for 0 <= i < n
nonterminal S()
nonterminal X[i](T) for 0 <= i <= n
start S
rule begin: S -> X[0](t)
rule step: X[i](t) -> phi[i](t, u) X[i+1](u) for i < n
rule end: X[n](t) ->
"""
POTENTIALS = [
    [[[-800.0, -801.0], [-900.0, -inf]], [[-800.0, 0.0], [-1.0, -850.0]]],
    [[[1000.0, -1000.0], [-inf, 3.0]], [[-1000.0, -1000.5], [2.0, -1e9]]],
    [[[999.0, 1000.0], [1000.0, 998.5]], [[1000.0, 1001.0], [999.5, 1000.0]]],
]


def paths(phi: list[list[list[float]]]) -> torch.Tensor:
    """The log-weight of each path a, b, c through two factors."""
    first, second = (torch.tensor(x, dtype=torch.float64) for x in phi)
    return first[:, :, None] + second[None]


@pytest.mark.parametrize("phi", POTENTIALS)
def test_log_potentials_of_any_size_have_their_log_z_and_posterior(
    phi: list[list[list[float]]],
) -> None:
    flat = ground(loads(CHAIN), inputs={"phi": phi})
    logs = paths(phi)
    log_z = float(torch.logsumexp(logs.reshape(-1), 0))
    assert float(solve(flat, "log").value) == pytest.approx(log_z, abs=1e-9)
    assert float(solve(flat, "max").value) == pytest.approx(float(logs.max()))
    assert viterbi(flat).log_weight == pytest.approx(float(logs.max()))
    assert int(solve(flat, "counting").value) == int(torch.isfinite(logs).sum())
    found = (logs - log_z).exp()
    wanted = {"phi_0": found.sum(2), "phi_1": found.sum(0)}
    for name, counts in posterior(flat).counts.items():
        torch.testing.assert_close(counts, wanted[name], rtol=0, atol=1e-9)
    for name, slope in gradients(flat).items():
        torch.testing.assert_close(slope, wanted[name], rtol=0, atol=1e-9)
    assert len(sample(flat, 3, generator=np.random.default_rng(0))) == 3


def test_exact_semirings_take_exponentials_beyond_floats() -> None:
    flat = ground(loads(CHAIN), inputs={"phi": POTENTIALS[0]})
    found = solve(flat, "exact").value
    wanted = paths(POTENTIALS[0]).reshape(-1).tolist()
    top = max(wanted)
    ratio = found / (
        fgg.reference.solve(loads(f"factor f() = exp({top})\n{SCALAR}"), "exact").value
    )
    assert float(ratio) == pytest.approx(sum(exp(x - top) for x in wanted), rel=1e-12)
    huge = ground(loads(CHAIN), inputs={"phi": POTENTIALS[1]})
    with pytest.raises(GrammarError, match=r"F417.*too many digits"):
        solve(huge, "exact")


SCALAR = "nonterminal S() start S rule S -> f"


def test_only_what_no_float_holds_stays_a_logarithm() -> None:
    flat = ground(loads(CHAIN), inputs={"phi": POTENTIALS[0]})
    assert isinstance(flat.factor["phi_0"].value, Exp)
    assert isinstance(flat.factor["phi_1"].value, Exp)
    small = ground(loads(CHAIN), inputs={"phi": [[[-1.0, -inf], [0.0, 2.0]]]})
    assert small.factor["phi_0"].value == Table(((exp(-1), 0.0), (1.0, exp(2))))


@pytest.mark.parametrize("phi", POTENTIALS)
def test_logarithms_print_and_parse_back(phi: list[list[list[float]]]) -> None:
    flat = ground(loads(CHAIN), inputs={"phi": phi})
    assert loads(print_grammar(flat)).factors == flat.factors


def test_a_grammar_may_state_logarithms() -> None:
    grammar = loads(f"domain T = 3 factor g(T) = exp([-800, zero, -801]) {ONE}")
    assert float(solve(grammar, "log").value) == pytest.approx(-800 + log(1 + exp(-1)))
    loads(f"domain T = 2 factor g(-> T) = exp([{log(0.25)}, {log(0.75)}]) {ONE}")
    for text, code in (
        ("factor g(-> T) = exp([0, 0])", "F128"),
        ("factor g(T) = exp([0])", "F125"),
        ("factor g(T) = exp([0, one])", "F132"),
        ("factor g(T) = exp(0, 0)", "F132"),
        ("factor g(T) = [0, zero]", "F132"),
    ):
        codes = [d.code for d in load_text(f"domain T = 2 {text} {ONE}")[1]]
        assert code in codes, text


ONE = "nonterminal S() start S rule S -> g(t)"


def test_programs_and_json_refuse_logarithms_that_are_no_floats() -> None:
    grammar = loads(f"domain T = 2 factor g(T) = exp([-800, 0]) {ONE}")
    with pytest.raises(GrammarError, match=r"F417.*floats cannot hold them"):
        fgg.compile(grammar).weights()
    with pytest.raises(GrammarError, match="F407"):
        to_json(grammar)
    small = loads(f"domain T = 2 factor g(T) = exp([-2, zero]) {ONE}")
    program = fgg.compile(small)
    found = program.log_z(program.weights(dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([-2.0], dtype=torch.float64))


def test_tensors_of_logarithms_carry_gradients() -> None:
    flat = ground(loads(CHAIN), lengths={"n": 2})
    logs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in POTENTIALS[0]]
    weights = {f"phi_{i}": Logs(x) for i, x in enumerate(logs)}
    value = solve(flat, "log", weights=weights).value
    slopes = torch.autograd.grad(value, logs)
    other = torch.logsumexp(paths([x.detach().tolist() for x in logs]).reshape(-1), 0)
    torch.testing.assert_close(value.detach(), other)
    assert all(float(slope.sum()) == pytest.approx(1.0) for slope in slopes)
    with pytest.raises(GrammarError, match=r"F417.*shape"):
        solve(flat, "log", weights={**weights, "phi_0": Logs(np.zeros(3))})
    with pytest.raises(GrammarError, match=r"F417.*NaN or \+inf"):
        solve(flat, "log", weights={**weights, "phi_0": Logs(np.full((2, 2), inf))})


# in recursions, which are solved over the reals


def branching(a: float, b: float) -> Grammar:
    """x = e^a x^2 + e^b."""
    return loads(f"""
        factor f() = exp({a!r})
        factor g() = exp({b!r})
        nonterminal S()
        start S
        rule two: S -> f S S
        rule none: S -> g
    """)


@pytest.mark.parametrize("size", [-2000.0, -900.0, 900.0, 2000.0])
def test_a_recursion_takes_weights_of_any_size(size: float) -> None:
    grammar = branching(log(0.4) - size, log(0.5) + size)
    root = (1 - sqrt(1 - 4 * 0.4 * 0.5)) / (2 * 0.4)
    assert float(solve(grammar, "log").value) == pytest.approx(log(root) + size, abs=1e-11)
    slope = 1 / sqrt(1 - 4 * 0.4 * 0.5)
    counts = posterior(grammar).counts
    assert float(counts["g"]) == pytest.approx((1 + slope) / 2, rel=1e-9)
    assert float(counts["f"]) == pytest.approx((slope - 1) / 2, rel=1e-9)


def test_a_linear_recursion_adds_up_over_long_ways() -> None:
    grammar = loads("""
        domain T = 8
        factor step(T, T)
        factor stop(T)
        factor half() = 0.5
        nonterminal S()
        nonterminal X(T)
        start S
        rule begin: S -> X(a) first(a)
        rule again: X(a) -> half X(a)
        rule step: X(a) -> step(a, b) X(b)
        rule stop: X(a) -> stop(a)
        factor first(T) = [1, 0, 0, 0, 0, 0, 0, 0]
    """)
    step, stop = np.zeros((8, 8)), np.zeros(8)
    for i in range(7):
        step[i, i + 1] = 1e-200
    stop[7] = 1e-100
    solution = solve(grammar, "log", weights={"step": step, "stop": stop})
    assert float(solution.value) == pytest.approx(8 * log(2) + (7 * -200 - 100) * log(10))
    assert not solution.warnings


def test_a_cycle_that_gains_weight_diverges_at_any_size() -> None:
    assert float(solve(branching(900 + log(0.6), -900 + log(0.5)), "log").value) == inf
    wide = solve(branching(-1000.0, 5000.0), "log")
    assert float(wide.value) == inf and [w.code for w in wide.warnings] == ["F432"]


# how well critical values are known


def test_a_critical_value_is_as_uncertain_as_its_rounded_weights_make_it() -> None:
    grammar = loads(
        "factor f() factor g() nonterminal S() start S rule two: S -> f S S rule none: S -> g"
    )
    weights = {"f": 0.625, "g": 0.4}
    solution = solve(grammar, "real", weights=weights)
    (method,) = solution.methods
    assert method.critical and 1e-9 < method.error < 1e-7
    assert [w.code for w in solution.warnings] == ["F431"]
    assert "moves its value by a relative" in solution.warnings[0].message
    moved = solve(grammar, "real", weights={**weights, "f": 0.625 * (1 - 2**-53)})
    gap = abs(float(moved.value) / float(solution.value) - 1)
    assert 1e-9 < gap < 2 * method.error


def test_rounding_may_decide_whether_a_critical_sum_diverges() -> None:
    grammar = loads(
        "factor f() factor g() nonterminal S() start S rule two: S -> f S S rule none: S -> g"
    )
    above = solve(grammar, "real", weights={"f": 0.7, "g": 0.25 / 0.7})
    assert float(above.value) == inf and above.critical
    assert [w.code for w in above.warnings] == ["F431", "F432"]
    assert "decides whether it diverges" in above.warnings[0].message
    far = solve(grammar, "real", weights={"f": 0.7, "g": 0.36})
    assert float(far.value) == inf and not far.critical


def test_a_value_near_criticality_has_an_error_that_grows_with_the_distance() -> None:
    errors = []
    for distance in (1e-2, 1e-4, 1e-6):
        grammar = branching(log(0.5), log((1 - distance**2) / 2))
        (method,) = solve(grammar, "real").methods
        errors.append(method.error)
    assert errors[0] < 1e-13 < errors[2] < 1e-8 and errors == sorted(errors)


# derivatives in weights of 0


@pytest.mark.parametrize("size", [0.0, -1000.0, 1000.0])
def test_a_weight_of_zero_has_its_derivative_at_any_size(size: float) -> None:
    grammar = loads(f"""
        domain T = 2
        factor base() = exp({size})
        factor f(T)
        factor g(T) = [2, 1]
        nonterminal S()
        start S
        rule S -> base f(a) g(a)
    """)
    f = torch.tensor([0.0, 0.5], dtype=torch.float64, requires_grad=True)
    log_z = differentiable_log_z(grammar, {"f": f})
    assert float(log_z.detach()) == pytest.approx(size + log(0.5))
    torch.autograd.backward(log_z)
    torch.testing.assert_close(f.grad, torch.tensor([4.0, 2.0], dtype=torch.float64))
    found = gradients(grammar, weights={"f": [0.0, 0.5]})
    torch.testing.assert_close(found["f"], f.grad)
