"""The reference engine against the definition: every semiring, on small grammars."""

from __future__ import annotations

from fractions import Fraction
from math import exp, isinf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from torch import Tensor

from fgg.compiler.resolve.load import load, loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Edge, Factor, Fragment, Grammar, Nonterminal, Reference, Rule
from fgg.grammar.semantics import brute_force
from fgg.grammar.values import Constant
from fgg.rewrite.ground import ground
from fgg.runtime.derive.decode_ground import viterbi
from fgg.runtime.interpret.semirings.modular import PRIME, Modular
from fgg.runtime.reference.solve import solve
from tests.helpers.engine_grammars import started_anywhere
from tests.oracles.enumeration import Tree, trees


def value(grammar: Grammar, semiring: str, **options: Any) -> Any:
    """The value of a grammar as a number, or as an array."""
    found = solve(grammar, semiring, **options).value
    if not isinstance(found, Tensor) and semiring in ("counting", "exact"):
        found = np.asarray(found, dtype=object)
    array = found.detach().numpy() if isinstance(found, Tensor) else np.asarray(found)
    return array[()] if array.ndim == 0 else array


def close(found: Any, expected: Any, tolerance: float = 1e-10) -> bool:
    """Whether numbers or arrays agree to a relative tolerance, with the same shape."""
    x, y = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    return x.shape == y.shape and bool(np.allclose(x, y, rtol=tolerance, atol=0))


def check_all_semirings(grammar: Grammar) -> None:
    """Compare every semiring with the sum over all derivations and assignments."""
    expected = np.asarray(brute_force(grammar, {}))
    assert close(value(grammar, "real"), expected)
    with np.errstate(divide="ignore"):
        logs = np.asarray(value(grammar, "log"))
        assert close(np.exp(logs), expected, 1e-10)
        finite = expected > 0
        assert np.array_equal(np.isneginf(logs), ~finite)
        assert np.allclose(logs[finite], np.log(expected[finite]), rtol=1e-10, atol=1e-10)
    cells: dict[tuple[int, ...], list[Tree]] = {i: [] for i in np.ndindex(*expected.shape)}
    for cell, tree in trees(grammar):
        cells[cell].append(tree)
    found = {s: np.asarray(value(grammar, s)) for s in ("boolean", "gf")}
    found |= {s: np.asarray(value(grammar, s), dtype=object) for s in ("counting", "exact")}
    best = np.asarray(value(grammar, "max"))
    for cell, below in cells.items():
        total = sum((tree.weight for tree in below), start=Fraction(0))
        assert found["counting"][cell] == len(below)
        assert type(found["counting"][cell]) is int
        assert found["boolean"][cell] == bool(below)
        assert found["exact"][cell] == total
        residue = total.numerator * pow(total.denominator, -1, PRIME) % PRIME
        assert found["gf"][cell] == residue
        if below:
            top = max(tree.weight for tree in below)
            assert exp(best[cell]) == pytest.approx(float(top), rel=1e-10, abs=0)
        else:
            assert best[cell] == -np.inf


@settings(max_examples=250)
@given(started_anywhere())
def test_every_semiring_agrees_with_enumeration(grammar: Grammar) -> None:
    check_all_semirings(grammar)


@pytest.mark.slow
@settings(max_examples=20_000, derandomize=False, database=None)
@given(started_anywhere())
def test_every_semiring_agrees_with_enumeration_on_twenty_thousand_grammars(
    grammar: Grammar,
) -> None:
    check_all_semirings(grammar)


NASTY = {
    "nothing at all": "rule s: S ->",
    "a node that nothing touches": "rule s: S -> (u: T)",
    "two pieces": "rule s: S -> f(a, b) g(c) f(d, d)",
    "an edge that touches a node twice": "rule s: S -> f(a, a) h(a, b, a)",
    "an edge that touches a node three times": "rule s: S -> h(a, a, a) h(b, c, b)",
    "one label many times": "rule s: S -> f(a, b) f(b, c) f(c, a) f(a, c)",
    "the same external node twice": "rule s: S -> X(a, b) f(a, b)\nrule x: X(a, a) -> g(a)",
    "an external node that nothing touches": "rule s: S -> X(a, b) g(a)\nrule x: X(a, b) ->",
    "a nonterminal on one node twice": "rule s: S -> X(a, a)\nrule x: X(a, b) -> f(b, a)",
    "both at once": "rule s: S -> X(b, b)\nrule x: X(a, a) -> f(a, b) g(b)",
    "a nonterminal without rules": "rule s: S -> X(a, b)\nrule t: S -> g(a)",
    "parts of nodes": "rule s: S -> g(c.T) X(c.T, d.T) v(c) (d: C)\nrule x: X(a, b) -> f(b, a)",
    "a part of a node twice": "rule s: S -> f(c.T, c.T) v(c)",
    "two parts that exclude each other": "rule s: S -> g(c.T) w(c.U) v(c)",
    "components": "rule s: S -> (l: L) g(l.T) w(l.U) f(l.T, a) X(l.T, a)\n"
    "rule x: X(a, b) -> f(a, b)",
    "equal rules": "rule s: S -> g(a)\nrule t: S -> g(a)\nrule u: S -> X(a, b) X(b, a)\n"
    "rule x: X(a, b) -> f(a, b)\nrule y: X(b, a) -> f(a, b)",
}
HEADER = """
domain T = 2
domain U = 3
domain C = T + U
domain L = T * U
factor f(T, T) = [[1, 2], [0.5, 0]]
factor g(T) = [3, 0.25]
factor h(T, T, T) = [[[1, 2], [3, 4]], [[5, 6], [0, 8]]]
factor v(C) = [1, 2, 3, 4, 5]
factor w(U) = [1, 0, 2]
nonterminal S()
nonterminal X(T, T)
start S
"""


@pytest.mark.parametrize("name", NASTY)
def test_a_nasty_fragment_has_its_value_in_every_semiring(name: str) -> None:
    check_all_semirings(loads(HEADER + NASTY[name]))


def test_a_path_means_what_it_means_at_its_own_domain() -> None:
    grammar = loads("""
        domain N = 2
        domain P = 2
        domain C = N + P
        domain D = P + N
        factor f(N) = [2, 3]
        factor u(C) = [1, 10, 100, 1000]
        factor v(D) = [1, 10, 100, 1000]
        nonterminal S()
        nonterminal X(C)
        nonterminal Y(D)
        start S
        rule s: S -> X(a) u(a)
        rule t: S -> Y(a) v(a)
        rule x: X(a) -> f(a.N)
        rule y: Y(a) -> f(a.N)
    """)
    assert value(grammar, "real") == 2 + 30 + 200 + 3000


def test_a_start_symbol_with_external_nodes_has_a_matrix() -> None:
    grammar = loads("""
        domain A = 2
        domain B = 3
        factor f(A, B) = [[1, 2, 3], [4, 5, 6]]
        nonterminal S(B, A)
        start S
        rule s: S(b, a) -> f(a, b)
    """)
    assert value(grammar, "real").tolist() == [[1, 4], [2, 5], [3, 6]]
    assert value(grammar, "counting").tolist() == [[1, 1]] * 3
    assert np.allclose(np.exp(value(grammar, "log")), [[1, 4], [2, 5], [3, 6]])


def test_a_fragment_of_many_nodes_is_contracted_along_its_shape() -> None:
    nodes = 60
    edges = " ".join(f"f(x{i}, x{i + 1})" for i in range(nodes))
    grammar = loads(
        "domain T = 2\nfactor f(T, T) = [[1, 2], [3, 1]]\nnonterminal S()\nstart S\n"
        f"rule s: S -> {edges}"
    )
    matrix = np.array([[1, 2], [3, 1]], dtype=object)
    expected = np.ones(2, dtype=object)
    for _ in range(nodes):
        expected = matrix @ expected
    assert value(grammar, "exact") == sum(expected)
    assert value(grammar, "counting") == 2 ** (nodes + 1)
    assert value(grammar, "log") == pytest.approx(log(sum(expected)), rel=1e-12)


def test_a_factor_of_high_arity_is_no_problem() -> None:
    arity = 20
    places = ", ".join(f"x{i}" for i in range(arity))
    heads = ", ".join(["T"] * arity)
    grammar = loads(
        f"domain T = {{only}}\nfactor f({heads}) = 0.5\nnonterminal S()\nnonterminal X({heads})\n"
        f"start S\nrule s: S -> X({places})\nrule x: X({places}) -> f({places})"
    )
    assert value(grammar, "real") == 0.5
    assert value(grammar, "exact") == Fraction(1, 2)


def test_counts_are_exact_beyond_machine_integers() -> None:
    lines = ["nonterminal S()", "start S", "rule S -> X0 X0"]
    for i in range(8):
        lines += [f"nonterminal X{i}()", f"rule a{i}: X{i} -> X{i + 1} X{i + 1} X{i + 1}"]
        lines += [f"rule b{i}: X{i} ->"]
    lines += ["nonterminal X8()", "rule c: X8 ->", "rule d: X8 ->"]
    expected = 2
    for _ in range(8):
        expected = expected**3 + 1
    found = value(loads("\n".join(lines)), "counting")
    assert found == expected**2 and found > 2**5000


def chain(length: int) -> Grammar:
    """`S` and so many nonterminals, each of which halves the weight of the next one."""
    heads = ["S", *(f"X{i}" for i in range(length))]
    half, rules = Edge(label="half"), []
    for i, head in enumerate(heads):
        body = (half, Edge(label=heads[i + 1])) if i < length else ()
        rules.append(Rule(name=f"r{i}", lhs=head, rhs=Fragment(edges=body)))
    return Grammar(
        start=Reference(label="S"),
        factors=(Factor(name="half", domains=(), value=Constant(0.5)),),
        nonterminals=tuple(Nonterminal(name=head) for head in heads),
        rules=tuple(rules),
    )


def test_ten_thousand_nonterminals_in_a_chain_are_solved() -> None:
    n = 10_000
    grammar = chain(n)
    assert float(value(grammar, "log")) == pytest.approx(n * log(0.5), rel=1e-12)
    best = viterbi(grammar)
    assert len(best.steps) == n + 1
    assert best.log_weight == pytest.approx(n * log(0.5), rel=1e-12)
    assert best.brackets().count("(") == n + 1
    assert value(chain(2000), "exact") == Fraction(1, 2**2000)


def check_hmm(n: int) -> None:
    """Compare log Z of a string of n words with the forward algorithm."""
    rng = np.random.default_rng(5)
    grammar = load("hmm", sizes={"k": 2, "d": 3})
    shapes: dict[str, tuple[int, ...]] = {"init": (2,), "trans": (2, 2), "emit": (2, 3)}
    weights = {name: rng.dirichlet(np.ones(s[-1]), size=s[:-1]) for name, s in shapes.items()}
    w = rng.integers(0, 3, size=n)
    forward, expected = weights["init"] * weights["emit"][:, w[0]], 0.0
    for word in w[1:]:
        expected += log(forward.sum())
        forward = (forward / forward.sum()) @ weights["trans"] * weights["emit"][:, word]
    expected += log(forward.sum())
    finite = ground(grammar, query="string", inputs={"w": w.tolist()})
    found = float(value(finite, "log", weights=weights))
    assert found < -n / 2 and not isinf(found)
    assert found == pytest.approx(expected, rel=1e-10)


def test_a_long_hidden_markov_model_does_not_underflow() -> None:
    check_hmm(2000)


@pytest.mark.slow
def test_a_hidden_markov_model_of_twenty_thousand_words_does_not_underflow() -> None:
    check_hmm(20_000)


def test_an_indexed_grammar_must_be_grounded_first() -> None:
    with pytest.raises(GrammarError, match="F303"):
        solve(load("eisner"), "real", seed=0)


def test_a_field_of_any_prime_below_two_to_the_thirty_first_serves() -> None:
    grammar = loads(
        "domain T = 3\nfactor f(T) = [1/3, 2/5, 4]\nnonterminal S()\nstart S\nrule S -> f(a) f(b)"
    )
    total = (Fraction(1, 3) + Fraction(2, 5) + 4) ** 2
    for prime in (2, 7, 101, 2**31 - 1):
        if total.denominator % prime:
            residue = total.numerator * pow(total.denominator, -1, prime) % prime
            assert int(solve(grammar, Modular(prime)).value) == residue
    with pytest.raises(GrammarError, match="no residue modulo 5"):
        solve(grammar, Modular(5))
