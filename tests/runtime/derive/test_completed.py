"""Inputs filled in by derivations: words, ids, tensors and parts, for every engine."""

from __future__ import annotations

import pytest
import torch

import fgg
from fgg import GrammarError

PARTS = """
domain N = {dog, cat}
domain P = {"."}
domain C = N + P
domain T = {D, V}
domain L = T * N
factor fc(C)
factor ft(T)
factor fn(N)
nonterminal S()
nonterminal X()
start S
rule first: S -> fc(c) X()
rule second: X -> ft(t) fn(m) fn(a.N) (a: C)
query q(c: C[n], l: L[n], u: C[n]) {
  rule first: S -> X c = c[0] for n == 1
  rule second: X -> t = l[0].T m = l[0].N a.N = u[0].N
}
"""


def test_what_is_given_stays_and_what_is_missing_is_filled_in() -> None:
    model = fgg.compile(fgg.load("tagger", sizes={"tags": 2, "words": 4}), "tagged").model(seed=1)
    best = model.posterior(w=[[3, -1, 1]], tag=["-1 1 -1"]).best()[0]
    filled = best.inputs("ids")
    assert filled["w"][0] == 3 and filled["w"][2] == 1 and filled["tag"][1] == 1
    assert all(token >= 0 for tokens in filled.values() for token in tokens)
    assert best.inputs() == {name: [str(x) for x in tokens] for name, tokens in filled.items()}
    assert tuple(best.inputs()["tag"]) == best.cell_values()
    tensors = best.inputs("tensors")
    assert torch.equal(tensors["w"], torch.tensor(filled["w"])) and tensors["w"].dtype == torch.long
    again = model.posterior(**{name: [tokens] for name, tokens in best.inputs().items()})
    assert again.best()[0] == best
    with pytest.raises(GrammarError, match="did you mean `words`"):
        best.inputs("word")


def test_parts_and_components_are_shown_by_name() -> None:
    program = fgg.compile(fgg.loads(PARTS))
    weights = {"fc": [0, 0, 1.0], "ft": [0, 1.0], "fn": [1.0, 0]}
    best = program.posterior(weights, {"c": [[-1]], "l": [[-1]], "u": [[-1]]}).best()[0]
    assert best.inputs("parts") == {
        "c": [{"P": "."}],
        "l": [{"T": "V", "N": "dog"}],
        "u": [{"N": "dog"}],
    }
    assert best.inputs() == {"c": ["."], "l": ["V*dog"], "u": ["dog"]}
    assert best.inputs("ids") == {"c": [2], "l": [2], "u": [0]}


TRIGRAM = """
domain T = 3
domain W = 4
factor first(-> T)
factor second(T -> T)
factor next(T, T -> T)
factor emit(T -> W)
nonterminal S()
nonterminal X(T, T)
start S
rule begin: S       -> first(t) second(t, u) X(t, u)
rule step:  X(t, u) -> emit(t, o) next(t, u, v) X(u, v)
rule last:  X(t, u) -> emit(t, o) emit(u, p)
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule step:  X[i]   -> o = w[i] X[i+1]                 for 0 <= i < n-2
  rule last:  X[n-2] -> o = w[n-2] p = w[n-1]
}
"""


def test_a_trigram_tagger_gives_a_tag_for_each_word() -> None:
    model = fgg.compile(fgg.loads(TRIGRAM)).model(seed=2)
    for words in ([0, 1], [3, 2, 1, 0, 0]):
        best = model.posterior(w=[words]).best()[0]
        tags = [step.values[name] for step in best.steps[1:] for name in ("t",)]
        assert best.cell_values() == (*map(str, tags), str(best.steps[-1].values["u"]))
        assert len(best.cell_values()) == len(words) and best.inputs("ids") == {"w": words}


def test_both_engines_fill_in_the_same() -> None:
    grammar = fgg.load("pcfg", sizes={"nt": 2, "pt": 3, "words": 4, "r": 2})
    program = fgg.compile(grammar)
    weights = program.weights(seed=4, dtype=torch.float64)
    from fgg.api.compile import Compilation

    with pytest.warns(UserWarning, match="F434"):
        slow = Compilation(model=grammar, query="string").on_reference("asked for")
    given = {"w": [[1, -1, -1, 2]]}
    fast, other = program.posterior(weights, given), slow.posterior(weights, given)
    assert fast.best()[0].inputs() == other.best()[0].inputs()
    filled = [d.inputs("ids")["w"] for d in other.sample(5, seed=1)[0]]
    assert all(w[0] == 1 and w[3] == 2 and min(w) >= 0 for w in filled)


def test_the_ground_grammar_has_no_inputs() -> None:
    ground = fgg.rewrite.ground(
        fgg.load("hmm", sizes={"k": 2, "d": 3}), query="string", lengths={"n": 2}
    )
    with pytest.raises(GrammarError) as caught:
        fgg.reference.viterbi(ground, seed=1).inputs()
    assert caught.value.diagnostics[0].code == "F498"


def test_rules_that_read_one_missing_token_twice_disagree_aloud() -> None:
    text = """
    domain W = 2
    factor a(W) = [0, 1]
    factor b(W) = [1, 0]
    nonterminal S()
    nonterminal X()
    start S
    rule one: S -> a(o) X()
    rule two: X -> b(o)
    query q(w: W[n]) {
      rule one: S -> X o = w[0] for n == 1
      rule two: X -> o = w[0]
    }
    """
    best = fgg.compile(fgg.loads(text)).model().posterior(w=[[-1]]).best()[0]
    with pytest.raises(GrammarError, match=r"read different values of `w.0.`"):
        best.inputs()
