"""Verify on long and peaked inputs: lost range is refuted, by numbers that are evaluated twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fgg.api import verify as verifying
from fgg.api.compile import compile, selected
from fgg.cli import main
from fgg.compiler import load, loads
from fgg.diagnostics import Diagnostic, GrammarError
from fgg.grammar import Grammar
from fgg.grammar.domains import with_sizes
from fgg.library import library_text
from fgg.runtime.interpret.interpret import interpret
from fgg.runtime.interpret.semirings.base import Letters
from fgg.runtime.interpret.semirings.log import Log
from fgg.runtime.program.program import Program
from fgg.runtime.reference.posterior import posterior
from fgg.runtime.verify import run as running
from fgg.runtime.verify.confirm import SecondEvaluation, log_value
from fgg.runtime.verify.floats import answer
from fgg.runtime.verify.items import Item
from fgg.runtime.verify.points import free_weights
from fgg.runtime.verify.result import PEAKED, Comparison, Verification
from fgg.runtime.verify.sides import GroundSide
from fgg.runtime.verify.stress import (
    TINY,
    Stress,
    best_of,
    log_z_of,
    settings_of,
    twice,
)

DIALECTS = """
domain T = {a, b}
domain W = {x, y}
factor init(-> T) = [.5, .5]
factor trans(T -> T) = eye
factor emit(T -> W) = [[.9, .1], [.1, .9]]
input w: W[n]
nonterminal S()
nonterminal X[i](T)
start S
rule begin: S -> init(t) X[0](t)
rule step: X[i](t) -> emit(t, w[i]) trans(t, u) X[i+1](u) for i < n - 1
rule last: X[i](t) -> emit(t, w[i]) for i == n - 1
"""
"""An HMM that cannot change its state: log Z of x^100 y^60 is -149.38."""


class Flushing(Log):
    """Logarithms that lose what numbers of a type with a scale for each cell would lose.

    The planted fault: an engine whose range certificate is switched off. States of a cell that are
    less than `floor` nats below the greatest of the cell become 0.
    """

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def contract(self, x: Tensor, xs: Letters, y: Tensor, ys: Letters, out: Letters) -> Tensor:
        return self.flushed(super().contract(x, xs, y, ys, out))

    def flushed(self, value: Tensor) -> Tensor:
        if value.dim() < 2 or not value.numel():
            return value
        top = value.detach().amax(-1, keepdim=True)
        return torch.where(value < top - self.floor, -torch.inf, value)


FLOORS = {torch.float32: 87.0 + 16.0, torch.float64: 708.0 + 37.0}


def lossy(program: Program, weights: Mapping[str, Any], inputs: Any, lengths: Any) -> Tensor:
    """log Z of a program without a certificate."""
    first = next(iter(weights.values()))
    ring = Flushing(FLOORS[first.dtype])
    plan = program._trees
    whole = program.whole(weights, plan.parameters)
    return torch.as_tensor(interpret(plan, whole, inputs or {}, lengths, ring).z).to(first.dtype)


@pytest.fixture
def flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs whose log Z, and all that follows from it, has lost range."""
    monkeypatch.setattr(
        Program,
        "log_z",
        lambda self, weights, inputs=None, lengths=None: lossy(self, weights, inputs, lengths),
    )


def peaked_row(found: Verification) -> Comparison:
    (row,) = (row for row in found.rows if row.quantity == PEAKED)
    return row


def small(name: str, query: str | None = None) -> Grammar:
    grammar = load(name)
    sizes = {k: v for k, v in {"k": 2, "d": 3, "nt": 2, "pt": 2, "words": 3, "r": 2}.items()}
    own = {k: v for k, v in sizes.items() if k in grammar.size}
    return selected(with_sizes(grammar, own), query)


# planted losses


@pytest.mark.usefixtures("flushing")
def test_a_loss_of_range_in_a_chain_that_cannot_change_its_state_is_refuted() -> None:
    found = verifying.verify(loads(DIALECTS), trials=1, length=2, items=6)
    assert found.verdict == "refuted" and peaked_row(found).holds is False
    example = found.counterexample
    assert example is not None and example.confirmed
    assert example.quantity.startswith("log Z")
    most = {1000: 625, 160: 100}[example.lengths["n"]]
    wanted = log(0.5) + most * log(0.9) + (example.lengths["n"] - most) * log(0.1)
    assert example.wanted == pytest.approx(wanted, rel=1e-6)
    assert isinstance(example.found, float) and isinstance(example.wanted, float)
    assert example.found < example.wanted - 10


@pytest.mark.usefixtures("flushing")
@pytest.mark.parametrize("name", ["hmm", "hsmm", "pair_hmm"])
def test_a_loss_of_range_is_refuted_in_library_grammars(name: str) -> None:
    found = verifying.verify(load(name), space="dense", trials=1, length=2, items=6)
    assert found.verdict == "refuted", str(found)
    assert found.counterexample is not None and found.counterexample.confirmed


def test_a_gradient_that_loses_small_products_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Program.log_z

    class Lossy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, w: Tensor) -> Tensor:
            return w.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return torch.where(grad > 1e20, 0.0, grad)

    def planted(self: Program, weights: Any, inputs: Any = None, lengths: Any = None) -> Tensor:
        own = {n: Lossy.apply(w) for n, w in weights.items()}  # type: ignore[no-untyped-call]
        return original(self, own, inputs, lengths)

    def counts(self: Program, weights: Any, inputs: Any = None, lengths: Any = None) -> Any:
        leaves = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}
        torch.autograd.backward(planted(self, leaves, inputs, lengths).sum())
        return {n: w.grad * w.detach() for n, w in leaves.items() if w.grad is not None}

    monkeypatch.setattr(Program, "log_z", planted)
    monkeypatch.setattr(Program, "expected_counts", counts)
    text = "domain A = 2 factor f(A) factor g(A) nonterminal S() start S rule S -> f(a) g(a)"
    found = verifying.verify(loads(text), trials=1)
    assert found.verdict == "refuted"
    assert found.counterexample is not None
    assert found.counterexample.quantity.startswith(("expected counts", "gradients"))
    assert "equally often" in peaked_row(found).note


def test_numbers_that_contradict_the_law_of_two_copies_are_found() -> None:
    grammar = small("hmm")
    program, free = compile(grammar, space="dense"), free_weights(grammar)
    rng = np.random.default_rng(0)
    settings = settings_of(grammar, program.plan, free, (), rng)
    both = compile(twice(grammar), space="dense")
    assert not [
        v
        for v in Stress(program, lambda s: best_of(program, s), both).violations(
            replace(settings, short=settings.short[:1])
        )
    ]
    wrong = compile(grammar, space="dense")  # one copy only
    laws = {
        v.law
        for v in Stress(program, lambda s: best_of(program, s), wrong).violations(
            replace(settings, short=settings.short[:1])
        )
    }
    assert laws == {"two independent copies have twice the log Z"}


# engines as they are


@pytest.mark.parametrize("name", ["crf", "pcfg", "eisner"])
def test_peaked_inputs_break_no_law_where_nothing_is_lost(name: str) -> None:
    found = verifying.verify(load(name), space="dense", trials=1, length=2, items=6)
    assert found.proved, str(found)
    assert peaked_row(found).holds


@pytest.mark.parametrize("name", ["hmm", "hmm_rank", "hsmm", "lcm", "lhmm", "semicrf"])
def test_long_and_peaked_inputs_of_chains_have_right_numbers(name: str) -> None:
    assert verifying.verify(load(name), trials=1, length=2, items=6).proved


def test_the_chain_that_cannot_change_its_state_has_right_numbers() -> None:
    assert verifying.verify(loads(DIALECTS), trials=1, length=2, items=6).proved


def test_refusals_are_counted_and_are_no_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(self: Program, weights: Any, inputs: Any = None, lengths: Any = None) -> Tensor:
        raise GrammarError([Diagnostic(code="F427", message="too large")])

    grammar = small("pcfg")
    program, free = compile(grammar, space="dense"), free_weights(grammar)
    settings = settings_of(grammar, program.plan, free, (), np.random.default_rng(0))
    best = [best_of(program, s) for s in settings.short]
    assert all(np.isfinite(value) for values in best for value in values)
    monkeypatch.setattr(Program, "log_z", refusing)
    stress = Stress(program, lambda s: best_of(program, s), None)
    assert not list(stress.violations(settings)) and stress.refused == 2 * 9


def test_peaked_inputs_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = verifying.verify(load("hmm"), trials=1, length=2, items=6, peaked=False)
    assert PEAKED not in {row.quantity for row in found.rows} and found.proved
    command = ["verify", "hmm", "--length", "2", "--items", "6", "--no-peaked", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "proved"


# settings


def test_weights_are_sticky_identities_and_extremes() -> None:
    grammar = small("hmm")
    program, free = compile(grammar, space="dense"), free_weights(grammar)
    settings = settings_of(grammar, program.plan, free, (), np.random.default_rng(0))
    by_name = {s.name: s.point.leaves for s in settings.short}
    sticky = by_name["sticky weights in float64"][("trans", None)]
    assert (np.diag(sticky) > 0.9).all() and sticky[0, 1] < 2 * TINY[torch.float64]
    dialects = by_name["dialects weights in float32"][("trans", None)]
    assert np.array_equal(dialects, np.eye(2))
    extreme = by_name["extreme weights in float64"][("emit", None)]
    assert extreme.max() > 1e50 and extreme.min() < 1e-50
    tokens = [item.inputs["w"].tolist() for item in settings.long[0].items]
    assert tokens == [[0] * 100 + [2] * 60, [0] * 60 + [2] * 100]
    given = loads(DIALECTS)
    longest = settings_of(
        given, compile(given, space="dense").plan, free_weights(given), (), np.random.default_rng(0)
    )
    assert longest.long[0].items[0].lengths == {"n": 1000}


def test_extreme_log_potentials_reach_a_thousand() -> None:
    grammar = small("crf", "tags")
    program, free = compile(grammar, space="dense"), free_weights(grammar)
    settings = settings_of(grammar, program.plan, free, (), np.random.default_rng(0))
    (extreme, *_) = (s for s in settings.short if s.kind == "extreme")
    (logs,) = (x for x in extreme.items[0].inputs.values() if x.dtype.kind == "f")
    assert logs.max() > 900 and logs.min() < -900


@pytest.mark.parametrize("name", ["hmm", "pcfg", "dyck"])
def test_two_copies_have_twice_the_log_z(name: str) -> None:
    grammar = small(name, next(iter(load(name).query)))
    one, two = compile(grammar, space="dense"), compile(twice(grammar), space="dense")
    free = free_weights(grammar)
    settings = settings_of(grammar, one.plan, free, (), np.random.default_rng(0))
    for setting in settings.long:
        single, double = (log_z_of(p, setting, torch.float64) for p in (one, two))
        assert single is not None and double is not None
        torch.testing.assert_close(2 * single[0], double[0])


# a second evaluation


def test_a_second_evaluation_has_log_z_uses_and_cells_of_the_posterior() -> None:
    grammar = small("hmm")
    free = free_weights(grammar)
    point = free.real("peaked", np.random.default_rng(3))
    source = GroundSide(grammar)
    item = Item({"n": 3}, {"w": np.array([0, 2, -1])})
    other, flat = SecondEvaluation(source, free, point), source.flat(item)
    assert flat is not None
    found = posterior(flat, weights=point.weights(flat))
    assert other.log_z(item) == pytest.approx(found.log_z, rel=1e-13)
    for name, counts in found.counts.items():
        if name not in grammar.factor:
            continue
        for place in np.ndindex(*counts.shape):
            again = other.uses(item, grammar.factor[name], place)
            assert again == pytest.approx(float(counts[place]), abs=1e-10), name
    for nonterminal in flat.nonterminals:
        family, index = nonterminal.origin or (nonterminal.name, ())
        counts = found.nonterminals[nonterminal.name]
        for state in np.ndindex(*counts.shape):
            again = other.cell(item, family, index, state)
            assert again == pytest.approx(float(counts[state]), abs=1e-10)


def test_a_second_evaluation_iterates_recursions() -> None:
    grammar = loads(
        "factor a() = 0.4 factor b() = 0.5 nonterminal S() start S "
        "rule two: S -> a S S rule none: S -> b"
    )
    root = (1 - (1 - 4 * 0.4 * 0.5) ** 0.5) / 0.8
    assert log_value(grammar, {}) == pytest.approx(log(root), rel=1e-13)
    critical = loads(
        "factor a() = 0.5 nonterminal S() start S rule two: S -> a S S rule none: S -> a"
    )
    assert log_value(critical, {}) is None  # it does not settle


def test_numbers_that_a_second_evaluation_contradicts_stay_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = answer

    def wrong(source: Any, item: Any, point: Any) -> Any:
        return replace(original(source, item, point), log_z=-1.0)

    monkeypatch.setattr(running, "answer", wrong)
    found = verifying.verify(load("hmm"), trials=1, length=2, items=6, peaked=False)
    assert found.verdict == "undecided" and found.counterexample is None
    assert any("second evaluation" in reason for reason in found.reasons)


# recursions


TABLES = """
size k = 2
domain A = k
domain B = k
domain C = A + B
factor binary(A, C, C)
factor leaf(B)
factor root(A)
input table left[m]
input table right[m]
nonterminal S()
nonterminal X[v](C) for 0 <= v < m
start S
rule root: S -> root(a.A) X[0](a) for m >= 1
rule two: X[v](a) -> binary(a.A, b, c) X[left[v]](b) X[right[v]](c)
rule leaf: X[v](a) -> leaf(a.B)
"""


@pytest.mark.parametrize("seed", range(3))
def test_children_by_tables_without_an_order_are_undecided_with_the_reason(seed: int) -> None:
    found = verifying.verify(loads(TABLES), seed=seed, length=3)
    assert found.verdict == "undecided" and found.counterexample is None
    assert any("no bound" in reason for reason in found.reasons)
    assert all(row.holds for row in found.rows) and found.alive > 5


CRITICAL = """
domain A = 1
domain B = 1
domain C = A + B
factor two(C) = {two}
factor none(C) = 0.5
nonterminal S()
nonterminal X(C)
start S
rule S -> X(a)
rule two: X(a) -> two(a) X(b) X(c)
rule none: X(a) -> none(a)
"""


@pytest.mark.parametrize("two", ["0.125", "0.125000001", "0.3"])
def test_recursions_that_are_critical_or_diverge_are_never_refuted(two: str) -> None:
    found = verifying.verify(loads(CRITICAL.replace("{two}", two)))
    assert found.verdict == "undecided" and found.counterexample is None


def test_recursive_grammars_that_differ_are_refuted_with_a_counterexample() -> None:
    text = CRITICAL.replace("{two}", "0.05")
    other = loads(text.replace("none(C) = 0.5", "none(C) = 0.4"))
    found = verifying.verify(loads(text), other)
    assert found.verdict == "refuted"
    example = found.counterexample
    assert example is not None and example.quantity == "log Z" and example.confirmed
    assert isinstance(example.found, float) and isinstance(example.wanted, float)
    assert example.found < example.wanted


def test_undecided_is_exit_code_1_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tables.fgg"
    path.write_text(TABLES, "utf-8")
    assert main(["verify", str(path), "--length", "2"]) == 1
    assert "undecided: exact comparison: derivations of" in capsys.readouterr().out
    assert main(["verify", str(path), "--length", "2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "undecided" and not found["ok"] and found["reasons"]


def test_counterexamples_of_exact_comparisons_are_confirmed_by_enumeration() -> None:
    other = loads(library_text("hmm").replace("trans(t, u)", "trans(u, t)"))
    found = verifying.verify(load("hmm"), other, trials=1, length=3)
    assert found.counterexample is not None
    assert "one by one" in found.counterexample.confirmed
