"""Other names for what a grammar is made of, and unions of grammars."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fgg.check.grammar import check_grammar
from fgg.compiler import load, loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.rewrite.ground import ground
from fgg.rewrite.rename import rename
from fgg.rewrite.union import union
from tests.conftest import Golden
from tests.generators.grammars import any_grammars, finite_grammars

EVERYTHING = """
size k = 2
size m = 2 * k
domain N = k
domain P = m
domain C = N + P
input table left[k]
factor trans(N -> N)
factor first(-> N) with tied = stationary(trans)
factor group(N -> P) = map(runs)
factor spread(-> N) with blocks = group
factor pair(N, C) rank k
nonterminal S()
nonterminal X[i](C) for 0 <= i < k
start S
rule begin: S       -> first(a.N) X[k-1](a)
rule step:  X[i](a) -> pair(a.N, b) X[left[i]](b)   for i < k
rule end:   X[i](a) -> trans(a.N, d.N) spread(d.N) group(d.N, e.P) (d: C) (e: C)
query ask(w: N[n], v: P[k]) {
  input factor phi[j](N) for 0 <= j < k
  nonterminal S[l] for 0 <= l < k
  start S[k-1]
  rule begin: S[l]  -> X phi[l](a.N) a.N = w[l]
  rule step:  X     -> X b.P = v[k-1]
  rule end:   X     ->
}
"""


def test_names_change_everywhere(golden: Golden) -> None:
    result = rename(
        loads(EVERYTHING),
        sizes={"k": "m", "m": "size"},
        domains={"N": "Noun", "C": "a b"},
        factors={"trans": "pair", "pair": "trans", "phi": "psi", "group": "part"},
        nonterminals={"X": "Y"},
        rules={"step": "end", "end": "step"},
    )
    golden(print_grammar(result), "fgg")
    assert loads(print_grammar(result)) == result


def test_a_prefix_goes_everywhere_but_to_what_is_given_at_run_time() -> None:
    result = rename(loads(EVERYTHING), prefix="my_", factors={"pair": "pair"})
    assert set(result.size) == {"my_k", "my_m"}
    assert set(result.domain) == {"my_N", "my_P", "my_C"}
    assert set(result.factor) == {"my_trans", "my_first", "my_group", "my_spread", "pair"}
    assert set(result.nonterminal) == {"my_S", "my_X"}
    assert [rule.name for rule in result.rules] == ["my_begin", "my_step", "my_end"]
    assert set(result.table) == {"left"}
    assert [item.name for item in result.queries[0].input_factors] == ["phi"]
    assert loads(print_grammar(result)) == result


@pytest.mark.parametrize(
    ("kind", "names", "message"),
    [
        ("sizes", {"q": "r"}, "there is no size `q`"),
        ("factors", {"S": "T"}, "there is no factor `S`"),
        ("domains", {"N": "P"}, "`N` and `P` would both be called `P`"),
        ("domains", {"N": "k"}, "`k` and `N` would both be called `k`"),
        ("factors", {"trans": "X"}, "`trans` and `X` would both be called `X`"),
        ("factors", {"trans": "phi"}, "`trans` and `phi` would both be called `phi`"),
        ("rules", {"end": "step"}, "`step` and `end` would both be called `step`"),
        ("sizes", {"k": "i"}, "`i` cannot name a size: it is an index or a length"),
        ("sizes", {"k": "n"}, "`n` cannot name a size: it is an index or a length"),
        ("domains", {"N": "a`b"}, "`N` cannot be renamed to a text that is no name"),
    ],
)
def test_names_that_do_not_fit_are_refused(kind: str, names: dict[str, str], message: str) -> None:
    with pytest.raises(GrammarError) as error:
        rename(loads(EVERYTHING), **{kind: names})  # type: ignore[arg-type]
    assert [(d.code, d.message) for d in error.value.diagnostics] == [("F304", message)]


def test_a_renaming_that_changes_nothing_returns_its_argument() -> None:
    grammar = loads(EVERYTHING)
    assert rename(grammar) is grammar
    assert rename(grammar, domains={"N": "N"}, prefix="") is grammar


@given(any_grammars())
def test_renamed_grammars_can_be_renamed_back(grammar: Grammar) -> None:
    result = rename(grammar, prefix="new ")
    assert loads(print_grammar(result)) == result
    back = rename(
        result,
        sizes={f"new {name}": name for name in grammar.size},
        domains={f"new {name}": name for name in grammar.domain},
        factors={f"new {name}": name for name in grammar.factor},
        nonterminals={f"new {name}": name for name in grammar.nonterminal},
        rules={f"new {rule.name}": rule.name for rule in grammar.rules},
    )
    assert back == grammar


@given(finite_grammars())
@settings(max_examples=50)
def test_renaming_keeps_the_value(grammar: Grammar) -> None:
    np.testing.assert_array_equal(
        brute_force(rename(grammar, prefix="x"), {}), brute_force(grammar, {})
    )


ONE = """
domain T = 2
factor f(T) = [1, 2]
nonterminal S()
nonterminal X(T)
start S
rule go:  S    -> X(a)
rule end: X(a) -> f(a)
"""
TWO = ONE.replace("f(a)", "f(a) g(a, b)") + "factor g(T, T) = 1\n"


def test_values_of_a_union_add_up(golden: Golden) -> None:
    one, two = loads(ONE, name="one.fgg"), loads(TWO, name="two.fgg")
    result = union(one, two)
    assert brute_force(result, {}) == 3 + 6
    assert not check_grammar(result)
    golden(print_grammar(result), "fgg")


@given(finite_grammars(), finite_grammars())
@settings(max_examples=40)
def test_unions_of_any_grammars_add_up(one: Grammar, two: Grammar) -> None:
    one, two = rename(one, prefix="a"), rename(two, prefix="b")
    result = union(one, two)
    assert not [d for d in check_grammar(result) if d.is_error]
    np.testing.assert_allclose(
        brute_force(result, {}),
        np.array(brute_force(one, {})) + np.array(brute_force(two, {})),
        rtol=1e-9,
    )


def test_a_grammar_may_occur_twice() -> None:
    grammar = loads(ONE)
    assert brute_force(union(grammar, grammar, grammar), {}) == 9
    assert union(grammar) == grammar


def test_rules_of_shared_nonterminals_are_pooled() -> None:
    one, two = loads(ONE), loads(TWO)
    result = union(one, two, shared=("X", "S"))
    assert result.start.label == "S" and set(result.nonterminal) == {"S", "X"}
    assert [rule.name for rule in result.rules] == ["go", "end", "go_2", "end_2"]
    assert brute_force(result, {}) == 2 * (3 + 6)
    apart = union(one, two, shared=("X",))
    assert set(apart.nonterminal) == {"S", "S_2", "S_3", "X"}
    assert brute_force(apart, {}) == 2 * (3 + 6)


def test_the_start_symbol_can_be_chosen() -> None:
    one, two = loads(ONE), loads(TWO)
    pooled = union(one, two, shared=("X",), start="X")
    np.testing.assert_allclose(brute_force(pooled, {}), [3, 6])
    named = union(one, two, start="Both")
    assert named.start.label == "Both" and brute_force(named, {}) == 9


def test_start_symbols_with_nodes_are_joined_node_by_node() -> None:
    one, two = (loads(text.replace("start S", "start X")) for text in (ONE, TWO))
    np.testing.assert_allclose(brute_force(union(one, two), {}), [3, 6])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("domain T = 2", "domain T = {a, b}", "domain `T` is declared differently"),
        ("[1, 2]", "[1, 3]", "factor `f` is declared differently in two grammars"),
        ("domain T = 2", "size T2 = 2\nsize f2 = 3\ndomain T = T2", "domain `T` is declared"),
        ("start S", "start X", "have different domains"),
    ],
)
def test_grammars_that_do_not_fit_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(GrammarError, match=f"F304.*{message}"):
        union(loads(ONE), loads(TWO.replace(old, new)))


def test_kinds_of_names_must_agree() -> None:
    other = "size T = 2\nnonterminal S()\nstart S\nrule S ->"
    with pytest.raises(GrammarError, match="`T` is a domain in one grammar, a size in another"):
        union(loads(ONE), loads(other))
    with pytest.raises(GrammarError, match="`i` is a size, but an index or a length"):
        union(loads(EVERYTHING), loads(other.replace("T", "i")))
    with pytest.raises(GrammarError, match="no grammar has a nonterminal `Z`"):
        union(loads(ONE), loads(TWO), shared=("Z",))
    with pytest.raises(GrammarError, match="nonterminal `X` is declared differently"):
        union(loads(ONE), loads("nonterminal X()\nstart X\nrule X ->"), shared=("X",))


def test_a_nonterminal_that_is_a_factor_elsewhere_is_renamed() -> None:
    result = union(loads(ONE), loads("nonterminal f()\nstart f\nrule f ->"))
    assert set(result.nonterminal) == {"S_2", "S", "X", "f_2"}
    assert brute_force(result, {}) == 4


def test_queries_of_the_same_name_ask_all_grammars() -> None:
    hmm = load("hmm", sizes={"k": 2, "d": 3})
    other = rename(hmm, factors={"emit": "emit2"})
    result = union(hmm, other)
    assert not [d for d in check_grammar(result) if d.is_error]
    assert loads(print_grammar(result)) == result
    weights = {
        "init": [0.25, 0.75],
        "trans": [[0.5, 0.5], [0.125, 0.875]],
        "emit": [[0.5, 0.25, 0.25], [0, 0.5, 0.5]],
        "emit2": [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]],
    }
    inputs = {"w": [1, 2, 0]}
    values = [
        np.array(brute_force(ground(g, query="string", inputs=inputs), weights))
        for g in (hmm, other, result)
    ]
    assert values[2] == pytest.approx(values[0] + values[1])


def test_queries_with_starts_of_their_own_are_joined() -> None:
    text = """
    domain W = 2
    factor f(W) = [1, 3]
    nonterminal X()
    start X
    rule more: X -> f(a) X()
    rule last: X -> f(a)
    query string(w: W[n]) {
      start X[0]
      rule more: X[i]   -> X[i+1] a = w[i]   for 0 <= i < n-1
      rule last: X[n-1] -> a = w[n-1]
    }
    """
    grammar = loads(text)
    inputs = {"w": [1, 0, 1]}
    for result, times in ((union(grammar, grammar), 2), (union(grammar), 1)):
        ground_grammar = ground(result, query="string", inputs=inputs)
        assert brute_force(ground_grammar, {}) == 9 * times
    pooled = union(grammar, grammar, shared=("X",))  # two ways to take each of three steps
    assert brute_force(ground(pooled, query="string", inputs=inputs), {}) == 9 * 8


def test_queries_that_differ_are_refused() -> None:
    hmm = load("hmm")
    other = loads(print_grammar(hmm).replace("w: W[n]", "w: W[n], v: W[n]"))
    with pytest.raises(GrammarError, match="query `string` has different inputs"):
        union(hmm, other)
