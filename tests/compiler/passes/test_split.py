"""Splitting: unions and products of nodes, nonterminals and factors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.compiler.passes.split import SplitImpossible, split, whole_unions
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.definitions import Slice
from fgg.grammar.domains import lengths, with_sizes
from fgg.grammar.printer import print_grammar
from fgg.grammar.provenance import origins_of, traced
from fgg.grammar.semantics import brute_force
from fgg.rewrite.conjoin import conjoin
from fgg.rewrite.ground import ground
from fgg.rewrite.plain import plain
from fgg.rewrite.rename import Renaming
from fgg.runtime.program.bind import bind
from fgg.runtime.reference.solve import solve
from tests.conftest import Golden
from tests.generators.grammars import any_grammars, finite_grammars, indexed_grammars
from tests.helpers.splitting import CLAMPED, NESTED, asked, is_atomic, observation
from tests.runtime.reference.test_library import CASES


@pytest.mark.parametrize(("name", "query"), CASES)
def test_library_grammars_keep_their_values(name: str, query: str | None) -> None:
    grammar = asked(name, query)
    result = split(grammar)
    assert is_atomic(result)
    assert split(result) is result
    assert not [d for d in check_grammar(result) if d.is_error]
    assert loads(print_grammar(result)) == result
    for n in (1, 2, 3, 4):
        inputs = observation(grammar, name, n)
        frames = {"n": n} if name == "ctc" else {}
        one = ground(grammar, inputs=inputs, lengths=frames)
        two = ground(result, inputs=inputs, lengths=frames)
        expected = float(solve(one, "real", seed=n).value)
        assert float(solve(two, "real", seed=n).value) == pytest.approx(expected, rel=1e-12)
        for semiring in ("exact", "gf") if result is not grammar and n < 4 else ():
            assert solve(one, semiring, seed=n).value == solve(two, semiring, seed=n).value


@pytest.mark.parametrize(
    ("name", "query"),
    [("pcfg", "string"), ("pcfg_la", "tree"), ("pair_hmm", "pair"), ("dyck", "string")],
)
def test_splitting_writes(name: str, query: str, golden: Golden) -> None:
    grammar = load(name)
    golden(print_grammar(split(conjoin(grammar, grammar.query[query]))), "fgg")


@pytest.mark.parametrize("name", ["pcfg", "pcfg_la", "pair_hmm", "hsmm", "lexpcfg"])
def test_sizes_can_be_set_after_splitting(name: str) -> None:
    grammar = load(name)
    query = conjoin(grammar, grammar.queries[-1])
    sizes = {s.name: 3 for s in grammar.sizes if not [*s.value.names()]}
    before, after = split(with_sizes(query, sizes)), with_sizes(split(query), sizes)
    if whole_unions(query) == whole_unions(with_sizes(query, sizes)):
        assert before == after
    inputs = observation(before, name, 2)
    one, two = (solve(ground(g, inputs=inputs), "gf", seed=0).value for g in (before, after))
    assert one == two


def test_a_grammar_of_atomic_nodes_is_returned_as_it_is() -> None:
    grammar = asked("hmm", "string")
    assert split(grammar) is grammar
    origins = origins_of(split(traced(grammar)))
    assert origins["step"].values(grammar, {"t": 1, "u": 0, "o": 1}) == {"t": 1, "u": 0, "o": 1}


def test_nested_unions_and_products_keep_the_value() -> None:
    grammar = loads(NESTED)
    result = split(grammar)
    assert is_atomic(result)
    assert loads(print_grammar(result)) == result
    expected = solve(grammar, "exact", seed=0).value.item()
    assert expected > 0
    assert solve(result, "exact", seed=0).value.item() == expected
    smaller = loads(NESTED.replace("{x, y, z}", "{x}"))  # enumeration grows fast
    weights = bind(smaller, seed=0)
    expected = brute_force(smaller, weights)
    assert brute_force(split(smaller), weights) == pytest.approx(expected)


@given(finite_grammars())
@settings(deadline=None)
def test_finite_grammars_keep_their_values(grammar: Grammar) -> None:
    try:
        result = split(grammar)
    except SplitImpossible:
        return
    assert is_atomic(result)
    np.testing.assert_allclose(brute_force(result, {}), brute_force(grammar, {}), rtol=1e-12)
    assert solve(result, "exact").value.item() == solve(grammar, "exact").value.item()


@given(any_grammars())
@settings(deadline=None)
def test_split_grammars_are_valid_and_print(grammar: Grammar) -> None:
    queries = grammar.queries
    for plain_grammar in [conjoin(grammar, q) for q in queries] or [grammar]:
        try:
            result = split(traced(plain_grammar))
        except SplitImpossible:
            continue
        assert is_atomic(result)
        assert split(result) is result
        assert {*origins_of(result)} == {rule.name for rule in result.rules}
        assert result.factors[: len(grammar.factors)] == grammar.factors
        assert loads(print_grammar(result)) == result


@given(indexed_grammars())
@settings(deadline=None)
def test_indexed_grammars_keep_their_values(grammar: Grammar) -> None:
    for whole in [conjoin(grammar, q) for q in grammar.queries] or [grammar]:
        free = {name: 2 for name in lengths(whole)}
        try:
            result = split(whole)
            one = ground(whole, lengths=free, limit=500)
            expected = solve(one, "real", seed=0).value
        except (SplitImpossible, GrammarError):
            continue
        two = ground(result, lengths=free)
        torch.testing.assert_close(solve(two, "real", seed=0).value, expected, rtol=1e-9, atol=0)


def test_random_parameters_do_not_depend_on_what_rules_use() -> None:
    grammar = loads(
        """
        domain A = 2
        domain B = 2
        domain U = A + B
        factor f(A)
        factor g(A)
        factor h(B)
        nonterminal S()
        nonterminal X(U)
        nonterminal Y(U)
        start S
        rule begin: S -> g(u.A) X(u)
        rule dead:  X(u) -> f(u.A) Y(u)
        rule alive: X(u) -> g(a) h(b)
        rule never: Y(u) -> h(u.B)
        """
    )
    result = split(grammar)
    assert {rule.name for rule in result.rules} == {"begin", "alive_A"}
    assert solve(result, "exact", seed=0).value == solve(grammar, "exact", seed=0).value


def test_ties_and_slices_go_together() -> None:
    grammar = loads(
        """
        domain A = 2
        domain B = 1
        domain U = A + B
        factor root(-> U) with tied = stationary(arc)
        factor arc(U -> U)
        factor keep(A)
        nonterminal S()
        start S
        rule one: S -> root(u) arc(u, v)
        rule two: S -> root(u) keep(u.A)
        """
    )
    result = split(grammar)
    assert is_atomic(result)
    one, two = (solve(item, "exact", seed=3).value.item() for item in (grammar, result))
    assert one == two > 1


def test_a_start_symbol_with_a_union_cannot_be_split() -> None:
    text = """
        domain A = 2
        domain B = 1
        domain U = A {sign} B
        factor f(U)
        nonterminal S(U)
        start S
        rule S(u) -> f(u)
        """
    for sign in "+*":
        with pytest.raises(SplitImpossible, match=r"start symbol `S`.*`U`"):
            split(loads(text.format(sign=sign)))


def test_very_many_variants_are_refused() -> None:
    nodes = ", ".join(f"u{i}" for i in range(9))
    text = """
        domain A = 5
        domain B = 5
        domain U = A + B
        factor f({domains})
        nonterminal S()
        start S
        rule all: S -> f({nodes})
        """.format(nodes=nodes, domains=", ".join("U" * 9))
    with pytest.raises(SplitImpossible, match="rule `all` would become 512 rules"):
        split(loads(text))


def test_a_start_symbol_without_rules_stays() -> None:
    grammar = loads(
        """
        domain A = 2
        domain B = 2
        domain U = A + B
        factor f(A)
        factor g(B)
        nonterminal S()
        start S
        rule S -> f(u.A) g(u.B) (u: U)
        """
    )
    result = split(grammar)
    assert [x.name for x in result.nonterminals] == ["S"] and not result.rules
    assert float(solve(result, "real", seed=0).value) == 0


def test_new_names_avoid_the_old_ones() -> None:
    grammar = loads(
        """
        domain A = 2
        domain B = 2
        domain U = A + B
        domain L = A * B
        factor f(U)
        factor f_A(L)
        nonterminal S()
        nonterminal X(U)
        nonterminal X_A()
        start S
        rule r:   S -> X(u) f(u) X_A
        rule r_A: X(u) -> f_A(l) f(u) f(l_A.U) (l_A: U2)
        rule x:   X_A ->
        domain U2 = U
        """
    )
    result = split(grammar)
    assert {x.name for x in result.nonterminals} == {"S", "X_A_2", "X_B", "X_A"}
    assert {f.name for f in result.factors} == {"f", "f_A", "f_A_2", "f_B", "f_A_L"}
    assert [rule.name for rule in result.rules][:2] == ["r_A_2", "r_B"]
    assert {"l_A_2", "l_B", "l_A"} < {*result.rules[2].rhs.by_name}
    assert solve(result, "exact", seed=0).value == solve(grammar, "exact", seed=0).value


def test_names_in_slices_are_renamed() -> None:
    result = split(loads(CLAMPED))
    names = {domain.name: f"{domain.name}x" for domain in result.domains}
    renamed = Renaming({}, names, {"f": "ff"}, {}).grammar(result)
    assert loads(print_grammar(renamed)) == renamed
    cut = renamed.factor["f_A"].definition
    assert isinstance(cut, Slice) and cut.source == "ff" and cut.axes[0].domain == "Ux"


def test_a_split_grammar_has_no_plain_form() -> None:
    with pytest.raises(GrammarError, match="F303"):
        plain(split(loads(CLAMPED)))
