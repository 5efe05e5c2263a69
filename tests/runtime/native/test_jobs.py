"""Jobs have one backend, which their data decide: neither the cache nor the clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import fgg
from fgg.api.compile import compile
from fgg.plan import backend as rule
from fgg.runtime.learn.fitting import log_likelihood
from fgg.runtime.native import build as native_build
from fgg.runtime.native.jobs import Job
from fgg.runtime.program.inputs import Collated
from fgg.runtime.program.program import CompiledProgram, Program
from tests.helpers.native import needs_compiler

DATA = [[0, 1, 2, 1], [2, 2, 0], [1], [0, 0, 1]]


def hmm(backend: str = "auto") -> CompiledProgram:
    return compile(fgg.load("hmm", sizes={"k": 3, "d": 3}), backend=backend).compiled


def batches(program: CompiledProgram, number: int) -> Iterator[tuple[Program, Collated]]:
    for _ in range(number):
        yield program, program.collate({"w": DATA})


@needs_compiler
def test_a_job_looks_at_no_more_batches_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 0.014)  # a tenth of a build in each batch
    program = hmm()
    work = batches(program, 50)
    choice = Job(batches=work, dtype=torch.float32).choice()
    assert choice.backend == "cpp" and len(list(work)) == 50 - 10
    few = batches(program, 4)
    assert Job(batches=few, dtype=torch.float32).choice().backend == "torch"
    few = batches(program, 4)
    assert Job(batches=few, dtype=torch.float32, times=3).choice().backend == "cpp"
    few = batches(program, 4)
    once = Job(batches=few, dtype=torch.float32, times=3, derivatives=False)
    assert once.choice().backend == "torch"


def test_jobs_that_cannot_have_machine_code_look_at_no_batch() -> None:
    work = batches(hmm(), 5)
    other = Job(batches=work, dtype=torch.float32, device=torch.device("meta"))
    assert other.choice().reason == "Triton programs run on CUDA devices, not on `meta`"
    assert Job(batches=work, dtype=torch.bfloat16).choice().backend == "torch"
    assert Job(batches=work, dtype=torch.float32, times=0).choice().backend == "torch"
    assert len(list(work)) == 5


def test_the_reference_engine_has_no_backend() -> None:
    with pytest.warns(UserWarning, match="F434"):
        program = compile(fgg.load("branching"))
    model = program.model(seed=0, dtype=torch.float64)
    collated = hmm().collate({"w": DATA})
    assert Job(batches=[(program, collated)], dtype=torch.float64).choice().backend == "torch"
    with Job(batches=[(program, collated)], dtype=torch.float64).on_one_backend(model.program):
        assert model.program is program


@needs_compiler
def test_learning_decides_by_its_data_and_not_by_the_cache(
    built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def learned(epochs: int, backend: str = "auto") -> dict[str, torch.Tensor]:
        program = hmm(backend)
        result = fgg.learn(program, DATA, method="em", epochs=epochs, seed=3)
        seen.append(program.backend.backend)
        return result.model.detached()

    # A sweep saves 0.18 s, a build takes 0.9 s.
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 0.02)
    short = learned(2)
    wanted = learned(2, backend="cpp")  # now machine code is in the cache
    again = learned(2)
    long, plain = learned(9), learned(9, backend="torch")
    assert seen == ["torch", "cpp", "torch", "cpp", "torch"] and built == ["float64"]
    for name, weights in short.items():
        assert torch.equal(weights, again[name])
        torch.testing.assert_close(weights, wanted[name], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(long[name], plain[name], rtol=1e-9, atol=1e-12)


@needs_compiler
def test_evaluation_takes_machine_code_that_is_there(
    built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 0.05)
    program = hmm()
    total = log_likelihood(program.model(seed=1), DATA)
    assert program.backend.backend == "torch"
    native_build.library(program.cpp.whole, "float32")
    program = hmm()
    assert log_likelihood(program.model(seed=1), DATA) == pytest.approx(total)
    assert program.backend.reason == "machine code is there already"


def test_what_was_computed_before_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 0.001)
    program = hmm()
    before = program.engines.saved_so_far
    fgg.learn(program, DATA, epochs=2)
    once = program.engines.saved_so_far
    assert before == 0 < once
    fgg.learn(program, DATA, epochs=2)
    assert program.engines.saved_so_far == pytest.approx(2 * once)
