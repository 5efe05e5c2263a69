"""One factor used by several rules: its counts are those of all of them, in every method."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fgg
from fgg.runtime.forest.engine import machine_code
from fgg.runtime.learn import CVB, EM, VB, ExactCVB, Hastings, Items
from tests.oracles.learning_brute import Brute, Counts

# Two symbols with rules of their own that take their words from one distribution, `word`.
TEXT = """
domain W = 3 domain E = 2
factor top(-> E)
factor more(-> E)
factor word(-> W)
factor is0(E) = {0: 1} factor is1(E) = {1: 1}
nonterminal S() nonterminal A() start S
rule split: S -> top(e) is0(e) A S
rule stop:  S -> top(e) is1(e) word(o)
rule grow:  A -> more(e) is0(e) A S
rule leaf:  A -> more(e) is1(e) word(o)
query string(w: W[n]) {
  start S[0,n]
  rule split: S[i,j]   -> A[i,k] S[k,j] for i < k < j
  rule stop:  S[i,i+1] -> o = w[i]
  rule grow:  A[i,j]   -> A[i,k] S[k,j] for i < k < j
  rule leaf:  A[i,i+1] -> o = w[i]
}
"""
CORPUS = [["0", "1", "2"], ["1", "1", "0", "2"], ["2", "2"]]
ALPHA = {"top": [0.4, 1.2], "more": [0.3, 0.7], "word": [0.5, 0.2, 1.0]}
START = {"top": [0.6, 0.4], "more": [0.3, 0.7], "word": [0.5, 0.3, 0.2]}


class Tied(Brute):
    """The brute-force numbers with the counts of `S -> w` and `A -> w` joined as those of `W -> w`.

    Rules of words are two: the decision to stop, and the word.
    """

    def __init__(self) -> None:
        words = ["0", "1", "2"]
        rules: list[Any] = [["S", ["A", "S"]], *(["S", [w]] for w in words)]
        rules += [["A", ["A", "S"]], *(["A", [w]] for w in words)]
        full = {"alpha": [1.0] * 8, "theta0": [1.0] * 8, "nonterminals": ["S", "A"]}
        super().__init__({**full, "rules": rules, "corpus": CORPUS})
        self.rules = [("top", []), ("top", []), ("more", []), ("more", [])]
        self.rules += [("word", [w]) for w in words]
        self.alpha = [a for values in ALPHA.values() for a in values]
        self.theta = [t for values in START.values() for t in values]
        self.trees = [[_joined(counts) for counts in item] for item in self.trees]


def _joined(counts: Counts) -> Counts:
    split, *stops, grow, leaf0, leaf1, leaf2 = counts
    leaves = [leaf0, leaf1, leaf2]
    words = [a + b for a, b in zip(stops, leaves, strict=True)]
    return [split, sum(stops), grow, sum(leaves), *words]


def ready(method: Any) -> list[Any]:
    numbered = [[int(w) for w in sentence] for sentence in CORPUS]
    return [method.ready(Items({"w": [s]}, None, (i,))) for i, s in enumerate(numbered)]


def options(**more: Any) -> dict[str, Any]:
    weights = {name: torch.tensor(w, dtype=torch.float64) for name, w in START.items()}
    return {"weights": weights, **more}


@pytest.mark.parametrize("forests", [True, False])
def test_em_vb_and_cvb_of_a_shared_factor_are_those_of_enumeration(forests: bool) -> None:
    program, brute = fgg.compile(fgg.loads(TEXT)), Tied()
    model = program.model(dtype=torch.float64)
    em = EM(model, **options(forests=forests))
    for wanted in brute.em(3):
        assert em.sweep(ready(em)).objective == pytest.approx(wanted["loglik"], abs=1e-9)
    vb = VB(program.model(dtype=torch.float64), **options(prior=ALPHA, forests=forests))
    vb.sweep(ready(vb))
    for wanted in brute.vb(3):
        report = vb.sweep(ready(vb))
        assert report.objective == pytest.approx(wanted["neg_free_energy"], abs=1e-9)
    cvb = CVB(program.model(dtype=torch.float64), **options(prior=ALPHA, forests=forests))
    items = ready(cvb)
    for wanted in brute.cvb(3):
        report = cvb.sweep(items)
        tables = cvb.layout.tables(cvb.store.total)
        counts = [float(x) for name in ALPHA for x in tables[name].flatten()]
        assert counts == pytest.approx(wanted["counts"], abs=1e-9)
        if wanted["sweep"]:
            assert report.objective == pytest.approx(wanted["neg_free_energy_0"], abs=1e-9)


def test_samplers_and_exact_updates_take_shared_factors() -> None:
    program = fgg.compile(fgg.loads(TEXT))
    for kind in (Hastings, ExactCVB):
        if kind is ExactCVB and machine_code() is None:
            continue
        method: Any = kind(program.model(dtype=torch.float64), **options(prior=ALPHA))
        items = ready(method)
        for _ in range(3):
            report = method.sweep(items)
        words = method.layout.tables(method.store.total)["word"].sum()
        assert report.items == 3 and float(words) == pytest.approx(9.0)
