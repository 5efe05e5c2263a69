"""Verify on long and peaked inputs: lost range is refuted, by numbers that are evaluated twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fgg.api import verify as verifying
from fgg.cli import main
from fgg.compiler import load, loads
from fgg.runtime.interpret.interpret import interpret
from fgg.runtime.interpret.semirings.base import Letters
from fgg.runtime.interpret.semirings.log import Log
from fgg.runtime.posterior.compiled_posterior import CompiledPosterior
from fgg.runtime.program.program import CompiledProgram, Program
from fgg.runtime.verify.result import PEAKED, Comparison, Verification
from tests.helpers.peaked import DIALECTS


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
    plan = program.compiled.trees
    whole = program.whole(weights, plan.parameters)
    return torch.as_tensor(interpret(plan, whole, inputs or {}, lengths, ring).z).to(first.dtype)


@pytest.fixture
def flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs whose log Z, and all that follows from it, has lost range."""
    monkeypatch.setattr(
        CompiledProgram,
        "log_z",
        lambda self, weights, inputs=None, lengths=None: lossy(self, weights, inputs, lengths),
    )


def peaked_row(found: Verification) -> Comparison:
    (row,) = (row for row in found.rows if row.quantity == PEAKED)
    return row


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
@pytest.mark.parametrize(
    "name", ["hmm", *(pytest.param(n, marks=pytest.mark.slow) for n in ("hsmm", "pair_hmm"))]
)
def test_a_loss_of_range_is_refuted_in_library_grammars(name: str) -> None:
    found = verifying.verify(load(name), space="dense", trials=1, length=2, items=6)
    assert found.verdict == "refuted", str(found)
    assert found.counterexample is not None and found.counterexample.confirmed


def test_a_gradient_that_loses_small_products_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    original = CompiledProgram.log_z

    class Lossy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, w: Tensor) -> Tensor:
            return w.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return torch.where(grad > 1e20, 0.0, grad)

    def planted(
        self: CompiledProgram, weights: Any, inputs: Any = None, lengths: Any = None
    ) -> Tensor:
        own = {n: Lossy.apply(w) for n, w in weights.items()}  # type: ignore[no-untyped-call]
        return original(self, own, inputs, lengths)

    def counts(self: CompiledPosterior) -> Any:
        tensors = {n: torch.as_tensor(w) for n, w in self.weights.items()}
        leaves = {n: w.detach().clone().requires_grad_() for n, w in tensors.items()}
        torch.autograd.backward(planted(self.program, leaves, self.inputs, self.lengths).sum())
        return {n: w.grad * w.detach() for n, w in leaves.items() if w.grad is not None}

    monkeypatch.setattr(CompiledProgram, "log_z", planted)
    monkeypatch.setattr(CompiledPosterior, "counts", property(counts))
    text = "domain A = 2 factor f(A) factor g(A) nonterminal S() start S rule S -> f(a) g(a)"
    found = verifying.verify(loads(text), trials=1)
    assert found.verdict == "refuted"
    assert found.counterexample is not None
    assert found.counterexample.quantity.startswith(("expected counts", "gradients"))
    assert "equally often" in peaked_row(found).note


# engines as they are


@pytest.mark.parametrize("name", ["crf", "eisner", pytest.param("pcfg", marks=pytest.mark.slow)])
def test_peaked_inputs_break_no_law_where_nothing_is_lost(name: str) -> None:
    found = verifying.verify(load(name), space="dense", trials=1, length=2, items=6)
    assert found.proved, str(found)
    assert peaked_row(found).holds


@pytest.mark.parametrize("name", ["hmm", "hmm_rank", "hsmm", "lcm", "lhmm", "semicrf"])
def test_long_and_peaked_inputs_of_chains_have_right_numbers(name: str) -> None:
    assert verifying.verify(load(name), trials=1, length=2, items=6).proved


def test_the_chain_that_cannot_change_its_state_has_right_numbers() -> None:
    assert verifying.verify(loads(DIALECTS), trials=1, length=2, items=6).proved


def test_peaked_inputs_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = verifying.verify(load("hmm"), trials=1, length=2, items=6, peaked=False)
    assert PEAKED not in {row.quantity for row in found.rows} and found.proved
    command = ["verify", "hmm", "--length", "2", "--items", "6", "--no-peaked", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "proved"


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
