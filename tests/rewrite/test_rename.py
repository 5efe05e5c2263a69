"""Renaming: new names for what a grammar is made of, put in consistently."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fgg.compiler import loads
from fgg.diagnostics import GrammarError
from fgg.grammar import Grammar
from fgg.grammar.printer import print_grammar
from fgg.grammar.semantics import brute_force
from fgg.rewrite.rename import rename
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
        ("domains", {"N": "a`b"}, "`N` cannot be renamed to a text that is not a name"),
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
