"""Splitting: unions and products of nodes, nonterminals, factors, clamps and input factors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.compiler.passes.split import SplitImpossible, split, split_with_origin
from fgg.compiler.passes.whole_unions import whole_unions
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar, Origin, Product, Union
from fgg.grammar.domains import domain_size, select, size_values, with_sizes
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.grammar.slices import SplitRule, slice_of
from fgg.rewrite.conjoin import conjoin, lengths
from fgg.rewrite.ground import ground
from fgg.rewrite.plain import plain
from fgg.rewrite.rename import Renaming
from fgg.runtime.derive.decode_ground import viterbi
from fgg.runtime.program.bind import bind
from fgg.runtime.reference.solve import solve
from tests.conftest import Golden
from tests.generators.grammars import any_grammars, finite_grammars, indexed_grammars
from tests.runtime.reference.test_library import CASES, scores, small, trees


def is_atomic(grammar: Grammar) -> bool:
    nodes = [node for rule in grammar.rules for node in rule.rhs.nodes]
    edges = [edge for rule in grammar.rules for edge in rule.rhs.edges]
    domains = {node.domain for node in nodes}
    domains |= {d for edge in edges for d in grammar.signature(edge.label) or ()}
    whole = whole_unions(grammar)
    return not (
        any(isinstance(grammar.domain[d].shape, Union | Product) for d in domains - whole)
        or any(a.path for edge in edges for a in edge.attachments)
        or any(clamp.attachment.path for rule in grammar.rules for clamp in rule.rhs.clamps)
    )


def asked(name: str, query: str | None) -> Grammar:
    grammar = small(name)
    return grammar if query is None else conjoin(grammar, grammar.query[query])


def observation(grammar: Grammar, name: str, n: int) -> dict[str, Any]:
    """Inputs of length n with random tokens, some of them missing."""
    rng = np.random.default_rng(n)
    inputs: dict[str, Any] = {}
    if name == "ctc":
        inputs["y"] = [1 + i % 2 for i in range((n + 1) // 2)]
    elif grammar.tables:
        inputs |= trees(n)
    extents = {
        **{x: n for item in grammar.inputs for e in item.shape for x in e.names()},
        **({"m": 2 * n - 1} if "left" in inputs else {}),
        **size_values(grammar),
    }
    for item in grammar.inputs:
        shape = [e.evaluate(extents) or 0 for e in item.shape]
        inputs[item.name] = rng.integers(-1, domain_size(grammar, item.domain), shape).tolist()
    return {**inputs, **scores(name, n)}


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
    result, origins = split_with_origin(grammar)
    assert result is grammar
    assert origins["step"].values(grammar, {"t": 1, "u": 0, "o": 1}) == {"t": 1, "u": 0, "o": 1}


NESTED = """
domain A = 2
domain B = {x, y, z}
domain U = A + B
domain L = A * U
domain V = L + B
domain M = V * A2
domain A2 = A
factor f(V, M)
factor g(M -> V)
factor h(A, U)
nonterminal S()
nonterminal X(M, U)
nonterminal Y(V)
start S
rule begin: S -> g(m, v) X(m, m.V.L.U) f(v, m) Y(v)
rule twice: S -> Y(v) Y(v) f(v, m) Y(m.V)
rule one:   X(m, u) -> h(m.A2.A, u) Y(m.V)
rule same:  X(m, u) -> h(u.A, u) f(m.V, m) (n: L)
rule end:   Y(v) -> h(v.L.A, v.L.U)
rule part:  Y(v) -> h(a, v.L.U) h(v.L.A, w.U) (w: L)
rule other: Y(v) -> (v: V)
"""


def test_nested_unions_and_products_keep_the_value() -> None:
    grammar = loads(NESTED)
    result = split(grammar)
    assert is_atomic(result)
    assert loads(print_grammar(result)) == result
    expected = solve(grammar, "exact", seed=0).value.item()
    assert expected > 0
    assert solve(result, "exact", seed=0).value.item() == expected
    weights = bind(grammar, seed=0)
    assert brute_force(result, weights) == pytest.approx(brute_force(grammar, weights))


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
            result, origins = split_with_origin(plain_grammar)
        except SplitImpossible:
            continue
        assert is_atomic(result)
        assert split(result) is result
        assert {*origins} == {rule.name for rule in result.rules}
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


CLAMPED = """
domain A = {a, b}
domain B = 3
domain U = A + B
domain L = A * U
factor f(U)
factor g(A, U)
factor h(L)
input w: U[n]
input p: L[n]
nonterminal S[i]() for 0 <= i <= n
nonterminal X[i](U)
start S[0]
rule union:   S[i] -> f(u) u = w[i] X[i](u) S[i+1] for i < n
rule pair:    S[i] -> h(l) l = p[i] X[i](l.U) S[i+1] for i < n
rule part:    S[i] -> g(l.A, l.U) (l: L) l.U = w[i] S[i+1] for i < n
rule partial: S[i] -> f(u) u.A = p[i].A u = p[i].U S[i+1] for i < n
rule one:     X[i](u) -> g(u.A, u) u = w[i] for 0 <= i < n
rule two:     X[i](u) -> f(u) for 0 <= i < n
rule end:     S[n] ->
"""


def test_clamps_of_unions_and_products_keep_the_value() -> None:
    grammar = loads(CLAMPED)
    result = split(grammar)
    assert is_atomic(result)
    assert loads(print_grammar(result)) == result
    for w, p in product(range(-2, 5), range(-2, 10)):
        inputs = {"w": [w, 1], "p": [p, -1]}
        one, two = ground(grammar, inputs=inputs), ground(result, inputs=inputs)
        assert solve(two, "exact", seed=0).value == solve(one, "exact", seed=0).value
    free = {"n": 2}
    one, two = ground(grammar, lengths=free), ground(result, lengths=free)
    assert solve(two, "exact", seed=0).value == solve(one, "exact", seed=0).value


def test_a_part_of_an_input_matches_its_own_tokens_only() -> None:
    grammar = loads(
        """
        domain A = 2
        domain B = 3
        domain U = A + B
        factor f(B) = [2, 3, 5]
        input w: U[1]
        nonterminal S()
        start S
        rule S -> f(b) b = w[0].B
        """
    )
    found = [
        float(solve(ground(grammar, inputs={"w": [token]}), "real").value)
        for token in (-2, -1, 0, 1, 2, 3, 4)
    ]
    assert found == [0, 10, 0, 0, 2, 3, 5]


@pytest.mark.parametrize(
    ("written", "code"), [("w[0].C", "F105"), ("w[0].A", "F148"), ("w[0].B.B", "F105")]
)
def test_a_part_that_an_input_does_not_have_is_an_error(written: str, code: str) -> None:
    with pytest.raises(GrammarError, match=code):
        loads(
            f"""
            domain A = 2
            domain B = 3
            domain C = 1
            domain U = A + B
            factor f(B)
            input w: U[1]
            nonterminal S()
            start S
            rule S -> f(b) b = {written}
            """
        )


SCORED = """
domain A = 2
domain B = 2
domain U = A + B
domain L = A * U
input factor phi[i](U, L) for 0 <= i < n
input factor psi[i](A) for 0 <= i < n
factor f(U -> U)
nonterminal S()
nonterminal X[i](U) for 0 <= i <= n
start S
rule begin: S -> X[0](u)
rule step:  X[i](u) -> phi[i](u, l) f(l.U, v) psi[i](l.A) X[i+1](v) for i < n
rule same:  X[i](u) -> phi[i](l.U, l) psi[i](u.A) X[i+1](u) for i < n
rule end:   X[n](u) ->
"""


def test_input_factors_are_sliced() -> None:
    grammar = loads(SCORED)
    result = split(grammar)
    assert is_atomic(result)
    assert loads(print_grammar(result)) == result
    cut = slice_of(result.input_factor["phi_A_B"])
    assert cut is not None and cut.source == "phi"
    rng = np.random.default_rng(0)
    phi, psi = rng.normal(size=(3, 4, 8)).tolist(), rng.normal(size=(3, 2)).tolist()
    for inputs in ({"phi": phi, "psi": psi}, {"psi": psi}, {}):
        one = ground(grammar, lengths={"n": 3}, inputs=inputs)
        two = ground(result, lengths={"n": 3}, inputs=inputs)
        expected = float(solve(one, "log", seed=1).value)
        assert float(solve(two, "log", seed=1).value) == pytest.approx(expected, rel=1e-12)


def mapped_back(grammar: Grammar, seed: int) -> None:
    """Check that the best derivation of the split grammar is one of the grammar, as good."""
    result, origins = split_with_origin(grammar)
    weights = bind(grammar, seed=seed)
    best, expected = viterbi(result, weights=weights), viterbi(grammar, weights=weights)
    assert best.log_weight == pytest.approx(expected.log_weight, rel=1e-12)
    sources = {rule.name: rule for rule in grammar.rules}
    total = 0.0
    whole = []
    for step in best.steps:
        origin: SplitRule = origins[step.rule.name]
        source = sources[origin.source]
        assert step.rule.origin == (source.origin or Origin(rule=source.name))
        values = origin.values(grammar, step.values)
        assert {*values} == {node.name for node in source.rhs.nodes}
        touched = []
        for edge in source.rhs.edges:
            place = [
                select(grammar, source.rhs.by_name[a.node].domain, a.path, values[a.node])
                for a in edge.attachments
            ]
            if edge.label in grammar.nonterminal:
                touched.append(place)
            else:
                total += float(np.log(weights[edge.label][tuple(place)]))
        whole.append(([values[x] for x in source.rhs.externals], touched))
    assert total == pytest.approx(best.log_weight, rel=1e-12)
    for number, step in enumerate(best.steps):
        for place, child in zip(whole[number][1], step.children, strict=True):
            assert whole[child][0] == place


@pytest.mark.parametrize(
    ("name", "query"),
    [("pcfg_la", "tree"), ("pcfg_la", "string"), ("pair_hmm", "pair"), ("lexpcfg", "string")],
)
def test_derivations_map_back(name: str, query: str) -> None:
    grammar = asked(name, query)
    for n in (2, 3):
        mapped_back(ground(grammar, inputs=observation(grammar, name, n)), n)


def test_nested_derivations_map_back() -> None:
    for seed in range(3):
        mapped_back(loads(NESTED), seed)


def test_gradients_reach_the_source_of_a_slice() -> None:
    grammar = loads(NESTED)
    result = split(grammar)
    weights = {name: torch.tensor(array) for name, array in bind(grammar, seed=0).items()}
    found = []
    for item in (grammar, result):
        leaf = weights["f"].clone().requires_grad_()
        value = solve(item, "log", weights={**weights, "f": leaf}).value
        found.append(torch.autograd.grad(value, leaf)[0])
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)


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
    cut = slice_of(renamed.factor["f_A"])
    assert cut is not None and cut.source == "ff" and cut.axes[0].domain == "Ux"


def test_a_split_grammar_has_no_plain_form() -> None:
    with pytest.raises(GrammarError, match="F303"):
        plain(split(loads(CLAMPED)))


@pytest.mark.parametrize(
    "attribute",
    ["slice = nothing(U(A))", "slice = f(A)", "slice = f(U(B))", "slice = f(U(A), A)", "slice = f"],
)
def test_a_slice_that_cannot_be_is_an_error(attribute: str) -> None:
    with pytest.raises(GrammarError, match="F134"):
        loads(
            f"""
            domain A = 2
            domain B = 1
            domain U = A + B
            factor f(U)
            factor g(A) with {attribute}
            nonterminal S()
            start S
            rule S -> g(a)
            """
        )


def test_an_input_factor_has_no_attribute_but_slice() -> None:
    with pytest.raises(GrammarError, match="F133"):
        loads(
            """
            domain A = 2
            input factor phi(A) with prior = dirichlet(1)
            nonterminal S()
            start S
            rule S -> phi(a)
            """
        )
