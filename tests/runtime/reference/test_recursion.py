"""Recursive components: the least non-negative solution, wherever it is finite."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import exp, inf, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgg.compiler.resolve.load import loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.semantics import brute_force
from fgg.runtime.reference.solve import solve
from tests.helpers.engine_grammars import recursive_grammars, scalars
from tests.oracles.enumeration import kleene
from tests.runtime.reference.test_solve import value

SEMIRINGS = ("real", "log", "max", "counting", "boolean", "exact", "gf")


def real(grammar: Grammar, **options: Any) -> Any:
    """The value in `real`, after checking that `log` agrees."""
    found = value(grammar, "real", **options)
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(found))
    both = np.asarray(value(grammar, "log", **options))
    assert np.allclose(both, logs, rtol=1e-10, atol=1e-10)
    return found


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 0.999, 0.99999, 1 - 1e-9])
def test_a_geometric_series_has_its_closed_form(p: float) -> None:
    grammar = scalars("S -> p S; S -> q", p=p, q=0.4)
    exactly = Fraction("0.4") / (1 - Fraction(repr(p)))  # weights are taken at their word
    assert real(grammar) == pytest.approx(float(exactly), rel=1e-10)
    assert value(grammar, "exact") == exactly
    assert exp(value(grammar, "max")) == pytest.approx(0.4)


def root(a: float, b: float) -> float:
    """The least solution of x = a x^2 + b."""
    return (1 - sqrt(1 - 4 * a * b)) / (2 * a)


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.7), (0.7, 0.3), (0.6, 0.4), (2.0, 0.1), (1e-3, 9.0)])
def test_branching_has_the_least_root(a: float, b: float) -> None:
    grammar = scalars("S -> a S S; S -> b", a=a, b=b)
    assert real(grammar) == pytest.approx(root(a, b), rel=1e-10)


@pytest.mark.parametrize(("a", "b", "expected"), [(1.0, 0.25, 0.5), (2.5, 0.1, 0.2), (0.5, 0.5, 1)])
def test_critical_branching_is_solved_to_the_last_digits(
    a: float, b: float, expected: float
) -> None:
    solution = solve(scalars("S -> b; S -> a S S", a=a, b=b), "real")
    assert float(solution.value) == pytest.approx(expected, rel=1e-12)
    assert solution.critical
    assert [w.code for w in solution.warnings] == ["F431"]


def test_branching_near_criticality_keeps_as_many_digits_as_it_can() -> None:
    rng = np.random.default_rng(0)
    for distance in 10 ** rng.uniform(-4, 0, size=60):
        a = float(rng.uniform(0.1, 2))
        b = (1 - float(distance) ** 2) / (4 * a)
        found = float(value(scalars("S -> b; S -> a S S", a=a, b=b), "real"))
        assert found == pytest.approx(root(a, b), rel=1e-10 / distance)


def test_a_cubic_recursion_has_the_least_root() -> None:
    grammar = scalars("S -> a S S S; S -> b S; S -> c", a=0.2, b=0.1, c=0.3)
    roots = np.roots([0.2, 0, -0.9, 0.3])
    expected = min(r.real for r in roots if abs(r.imag) < 1e-9 and r.real > 0)
    assert real(grammar) == pytest.approx(expected, rel=1e-10)


def test_mutual_recursion_is_solved_together() -> None:
    grammar = scalars(
        "S -> a X Y; S -> b; X -> a S S; X -> c Y; Y -> c X; Y -> b S; Y -> d Z; Z -> d Z; Z -> a",
        **{"a": 0.3, "b": 0.2, "c": 0.25, "d": 0.5},
    )
    s = x = y = 0.0
    z = 0.3 / 0.5
    for _ in range(2000):
        s, x, y = 0.3 * x * y + 0.2, 0.3 * s * s + 0.25 * y, 0.25 * x + 0.2 * s + 0.5 * z
    assert real(grammar) == pytest.approx(s, rel=1e-10)
    found = solve(grammar, "real")
    for name, expected in (("X", x), ("Y", y), ("Z", z)):
        assert float(found.raw(name)) == pytest.approx(expected, rel=1e-10)


MATRIX = """
domain T = 3
factor m(T, T) = [[0.1, 0.3, 0.2], [0.05, 0.2, 0.4], [0.3, 0.1, 0.1]]
factor u(T, T) = [[1, 0, 2], [0.5, 1, 0], [0, 0.25, 1]]
nonterminal X(T, T)
start X
rule stop: X(a, b) -> u(a, b)
"""


def test_a_matrix_valued_linear_recursion_is_a_matrix_inverse() -> None:
    grammar = loads(MATRIX + "rule step: X(a, b) -> m(a, c) X(c, b)")
    m = np.array([[0.1, 0.3, 0.2], [0.05, 0.2, 0.4], [0.3, 0.1, 0.1]])
    u = np.array([[1, 0, 2], [0.5, 1, 0], [0, 0.25, 1]])
    assert np.allclose(real(grammar), np.linalg.solve(np.eye(3) - m, u), rtol=1e-10)
    exactly = value(grammar, "exact")
    assert np.allclose(exactly.astype(float), np.linalg.solve(np.eye(3) - m, u), rtol=1e-12)


def test_a_matrix_valued_quadratic_recursion_is_its_fixed_point() -> None:
    grammar = loads(
        MATRIX.replace("m(T, T)", "unused(T, T)")
        + "factor e() = 0.05\nrule step: X(a, b) -> e X(a, c) X(c, b)"
    )
    u = np.array([[1, 0, 2], [0.5, 1, 0], [0, 0.25, 1]])
    x = np.zeros((3, 3))
    for _ in range(3000):
        x = u + 0.05 * x @ x
    assert np.allclose(real(grammar), x, rtol=1e-10)


@pytest.mark.parametrize(
    ("rules", "weights"),
    [
        ("S -> two S; S -> one", {"two": 2.0, "one": 1.0}),
        ("S -> S; S -> one", {"one": 1.0}),
        ("S -> S S; S -> one", {"one": 1.0}),
        ("S -> S S; S -> a", {"a": 0.2500001}),
        ("S -> two X; S -> one; X -> S; X -> one", {"two": 2.0, "one": 1.0}),
        ("S -> S S S; S -> half; S -> half S", {"half": 0.5}),
    ],
)
def test_a_sum_that_diverges_is_infinite(rules: str, weights: dict[str, float]) -> None:
    grammar = scalars(rules, **weights)
    assert real(grammar) == inf
    assert value(grammar, "counting") == inf
    assert value(grammar, "boolean")
    assert "F432" in [w.code for w in solve(grammar, "log").warnings]


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_recursion_that_never_ends_is_zero(semiring: str) -> None:
    zero = {"log": -inf, "max": -inf}.get(semiring, 0)
    assert value(scalars("S -> S"), semiring) == zero
    assert value(scalars("S -> X S; X -> S X; X -> two", two=2.0), semiring) == zero


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_a_cycle_of_weight_zero_adds_nothing(semiring: str) -> None:
    one = {"log": 0, "max": 0}.get(semiring, 1)
    assert value(scalars("S -> z S; S -> o", z=0.0, o=1.0), semiring) == one
    assert value(scalars("S -> z S S; S -> o; S -> z X; X -> S", z=0.0, o=1.0), semiring) == one


@pytest.mark.parametrize("semiring", ["real", "log", "max", "counting", "boolean", "exact"])
def test_zero_times_infinity_is_zero(semiring: str) -> None:
    one = {"log": 0, "max": 0}.get(semiring, 1)
    rest = "X -> two X; X -> o"
    grammar = scalars(f"S -> z X; S -> o; {rest}", z=0.0, o=1.0, two=2.0)
    assert value(grammar, semiring) == one
    grammar = scalars(f"S -> z X S; S -> o; {rest}", z=0.0, o=1.0, two=2.0)
    assert value(grammar, semiring) == one
    grammar = scalars(f"S -> Y X; S -> o; Y -> Y; {rest}", o=1.0, two=2.0)
    assert value(grammar, semiring) == one


@pytest.mark.parametrize("semiring", ["real", "log", "counting", "exact"])
def test_infinity_below_a_recursion_reaches_only_what_can_end(semiring: str) -> None:
    one = {"log": 0}.get(semiring, 1)
    grammar = scalars("S -> X; S -> o; Y -> Y; Y -> o; X -> Y X", o=1.0)
    assert value(grammar, semiring) == one
    grammar = scalars("S -> X; S -> o; Y -> Y; Y -> o; X -> Y X; X -> h", o=1.0, h=0.5)
    assert value(grammar, semiring) == inf


PARTLY = """
domain T = 4
factor m(T, T) = [[1, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2]]
factor u(T) = [1, 1, 3, 0]
nonterminal X(T)
rule stop: X(a) -> u(a)
rule step: X(a) -> m(a, b) X(b)
"""


def test_one_cell_may_be_infinite_and_others_not() -> None:
    found = real(loads(PARTLY + "start X"))
    assert found.tolist() == [inf, 2, 3, 0]  # the last one never ends
    assert value(loads(PARTLY + "start X"), "counting").tolist() == [inf, inf, 1, 0]
    exactly = value(loads(PARTLY + "start X"), "exact").tolist()
    assert exactly == [inf, 2, 3, 0]


@pytest.mark.parametrize(
    ("pick", "expected"),
    [
        *(("[1, 1, 1, 1]", inf), ("[0, 1, 1, 1]", 5), ("[0, 0, 0, 9]", 0)),
        *(("[0, 3, 1, 0]", 9), ("[1, 0, 0, 0]", inf)),
    ],
)
def test_an_infinite_cell_counts_where_it_is_used(pick: str, expected: float) -> None:
    rest = f"factor w(T) = {pick}\nnonterminal S()\nstart S\n"
    assert real(loads(PARTLY + rest + "rule s: S -> X(a) w(a)")) == expected
    above = "factor h() = 0.5\nrule s: S -> X(a) w(a)\nrule t: S -> h S"
    assert real(loads(PARTLY + rest + above)) == 2 * expected


def test_a_large_critical_system_is_solved_or_refused_but_never_wrong() -> None:
    grammar = loads("""
        domain T = 50
        factor h() = 0.5
        factor c() = 0.01
        factor u(T) = 0.02
        nonterminal S()
        nonterminal X(T)
        start S
        rule s: S -> X(a) u(a)
        rule a: X(a) -> h
        rule b: X(a) -> c X(b) X(b)
    """)
    try:
        found = float(value(grammar, "real"))
    except GrammarError as error:
        assert [d.code for d in error.diagnostics] == ["F418"]
    else:
        assert found == pytest.approx(1, rel=1e-10)


def test_gamblers_ruin_with_many_states_is_a_linear_solve() -> None:
    size = 200
    steps = np.zeros((size, size))
    for i in range(1, size - 1):
        steps[i, i - 1], steps[i, i + 1] = 0.55, 0.45
    grammar = loads(f"""
        domain T = {size}
        factor step(T, T)
        factor stop(T)
        nonterminal X(T)
        start X
        rule stop: X(a) -> stop(a)
        rule step: X(a) -> step(a, b) X(b)
    """)
    stop = np.zeros(size)
    stop[0] = 1
    found = value(grammar, "real", weights={"step": steps, "stop": stop})
    ratio = 0.55 / 0.45
    places = np.arange(size)
    expected = (ratio**places - ratio ** (size - 1)) / (1 - ratio ** (size - 1))
    assert np.allclose(found[:150], expected[:150], rtol=1e-9)


def test_a_nonlinear_recursion_has_no_exact_solution() -> None:
    for semiring in ("exact", "gf"):
        with pytest.raises(GrammarError, match="F419"):
            value(scalars("S -> a S S; S -> a", a=0.25), semiring)


def test_a_prime_field_solves_linear_recursion_as_fractions_do() -> None:
    grammar = scalars("S -> p X; S -> q; X -> q S; X -> p X; X -> p", p=0.25, q=0.5)
    exactly = value(grammar, "exact")
    prime = 2**31 - 1
    residue = exactly.numerator * pow(exactly.denominator, -1, prime) % prime
    assert value(grammar, "gf") == residue


def test_a_recursion_that_is_too_large_is_refused() -> None:
    grammar = loads("""
        domain T = 80
        factor f(T, T) = 0.001
        nonterminal X(T, T)
        start X
        rule stop: X(a, b) -> f(a, b)
        rule step: X(a, b) -> f(a, c) X(c, b)
    """)
    with pytest.raises(GrammarError, match="F420"):
        value(grammar, "real")


@settings(max_examples=40)
@given(st.floats(0.01, 0.45), st.floats(0.05, 0.5), st.floats(0.01, 0.3))
def test_deeper_truncations_rise_to_the_value_and_never_exceed_it(
    a: float, b: float, c: float
) -> None:
    grammar = scalars("S -> a S X; S -> b; X -> c X; X -> b", a=a, b=b, c=c)
    whole = float(real(grammar))
    parts = [float(np.asarray(brute_force(grammar, {}, max_depth=d))) for d in range(6)]
    assert all(x <= y for x, y in pairwise(parts))
    assert parts[-1] <= whole * (1 + 1e-12)
    assert whole - parts[-1] < whole * 0.9


@settings(max_examples=80)
@given(recursive_grammars())
def test_random_recursive_grammars_have_the_limit_of_plain_iteration(grammar: Grammar) -> None:
    try:
        found = solve(grammar, "real")
    except GrammarError as error:
        assert {d.code for d in error.diagnostics} == {"F418"}
        return
    logs, support = solve(grammar, "log"), solve(grammar, "boolean")
    with np.errstate(all="ignore"):
        rounds = list(kleene(grammar, rounds=60))
        for name, low in rounds[-1].items():
            high = np.asarray(found.raw(name).detach())
            assert np.array_equal(high > 0, np.asarray(support.raw(name)))
            sure = np.isfinite(low)
            assert (low[sure] <= high[sure] * (1 + 1e-9)).all()
            still = sure & (np.abs(low - rounds[30][name]) <= 1e-13 * low)
            assert np.allclose(high[still], low[still], rtol=1e-8, atol=0)
            in_logs = np.asarray(logs.raw(name).detach())
            assert np.allclose(in_logs, np.log(high), rtol=1e-9, atol=1e-9)
