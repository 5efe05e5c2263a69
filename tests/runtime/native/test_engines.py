"""Programs that choose their backend themselves: when they build, and that nobody notices."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor

import fgg
from fgg.api.compile import compile
from fgg.plan import backend as rule
from fgg.plan.backend import BackendChoice
from fgg.progress import notes_to
from fgg.runtime.native import build as native_build
from fgg.runtime.program.program import CompiledProgram
from tests.helpers.native import needs_compiler

INPUTS = {"w": [[0, 1, 2, 1], [2, 2, 0]]}


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of tensor operations that cost much: the fourth inside pass pays for a build."""
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 0.36)


def hmm(backend: str = "auto") -> CompiledProgram:
    return compile(fgg.load("hmm", sizes={"k": 3, "d": 3}), backend=backend).compiled


def log_z(program: CompiledProgram, dtype: torch.dtype = torch.float64) -> Tensor:
    return program.log_z(program.weights(seed=1, dtype=dtype), INPUTS)


def test_a_short_script_builds_nothing(built: list[str]) -> None:
    program = hmm()
    for _ in range(5):
        log_z(program)
    assert not built and program.backend.backend == "torch"
    assert program.backend.reason.startswith("machine code would have saved ")
    assert not list(native_build.folder().iterdir())


@needs_compiler
def test_a_program_turns_to_machine_code_when_it_has_worked_enough(
    built: list[str], dear: None
) -> None:
    program, plain = hmm(), hmm(backend="torch")
    notes: list[str] = []
    chosen = []
    with notes_to(notes.append):
        for _ in range(6):
            torch.testing.assert_close(log_z(program), log_z(plain), rtol=1e-12, atol=0)
            chosen.append(program.backend.backend)
    assert chosen == [*3 * ["torch"], *3 * ["cpp"]]
    assert built == ["float64"] and notes == [native_build.BUILDING]
    # What is there is taken as soon as a look is worth it; the other type has its own count.
    again = hmm()
    log_z(again)
    assert again.backend == BackendChoice("cpp", "machine code is there already")
    log_z(again, torch.float32)
    assert again.backend.backend == "torch" and built == ["float64"]


@needs_compiler
def test_one_batch_has_one_backend(built: list[str], dear: None) -> None:
    program = hmm()
    weights = {n: w.requires_grad_() for n, w in program.weights(seed=1).items()}
    early = program.log_z(weights, INPUTS)
    assert program.backend.backend == "torch"
    while program.backend.backend == "torch":
        log_z(program, torch.float32)
    torch.autograd.backward(early.sum())
    wanted = {n: w.detach().requires_grad_() for n, w in weights.items()}
    torch.autograd.backward(hmm(backend="torch").log_z(wanted, INPUTS).sum())
    for name, weight in weights.items():
        assert weight.grad is not None and torch.equal(weight.grad, wanted[name].grad)  # type: ignore[arg-type]


@needs_compiler
def test_a_large_batch_is_worth_it_by_itself(
    built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 3.0)
    program = hmm()
    log_z(program)
    assert program.backend.backend == "cpp" and built == ["float64"]


def test_without_a_compiler_auto_says_nothing(
    built: list[str], dear: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    program = hmm()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            log_z(program)
    assert program.backend == BackendChoice("torch", "there is no C++ compiler (no-such-compiler)")


def test_a_build_that_fails_is_tried_once(
    built: list[str], dear: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.write_text('#!/bin/sh\ncase "$*" in *--version*) exit 0;; esac\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    program, plain = hmm(), hmm(backend="torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(6):
            assert torch.equal(log_z(program), log_z(plain))
    assert built == ["float64"]
    assert program.backend.backend == "torch" and "refused" in program.backend.reason


def test_a_settled_choice_overrules_the_count(built: list[str], dear: None) -> None:
    program = hmm()
    with program.compiler.backend.on(BackendChoice("torch", "for a test")):
        for _ in range(5):
            log_z(program)
        assert program.backend.reason == "for a test" and not built
        assert program.summing.compiler.backend is program.compiler.backend


def test_programs_of_a_model_share_what_was_asked_for() -> None:
    program = compile(fgg.load("pcfg_la"), "string", backend="torch")
    again = pickle.loads(pickle.dumps(program))
    for other in (program.for_query("tree"), program.compiled.states, again):
        assert other.compiler.backend.asked == "torch"
