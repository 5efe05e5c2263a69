"""Which backend `auto` chooses, and why, in every situation; no clock and no compiler is asked."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

import fgg
from fgg.diagnostics import GrammarError
from fgg.plan.backend import (
    LOOKING,
    Backend,
    BackendChoice,
    Situation,
    batches_until,
    building_seconds,
    check_backend,
    choose,
    duration,
    saved_by_passes,
)
from fgg.plan.sizes import environment

WORTH_IT = Situation(saving=5.0, building=2.0)


@pytest.mark.parametrize(
    ("situation", "choice"),
    [
        (WORTH_IT, "cpp: machine code saves at least 5 s and takes about 2 s to build"),
        (replace(WORTH_IT, dtype="float64"), "cpp: machine code saves at least 5 s and takes "),
        (replace(WORTH_IT, saving=2.0), "cpp: machine code saves at least 2 s and takes about 2 s"),
        (
            replace(WORTH_IT, saving=1.9),
            "torch: machine code would save about 1.9 s and take about 2 s to build",
        ),
        (replace(WORTH_IT, cached=True), "cpp: machine code is there already"),
        (replace(WORTH_IT, saving=LOOKING, cached=True), "cpp: machine code is there already"),
        (
            replace(WORTH_IT, saving=0.09, cached=True),
            "torch: machine code is there, but would save only about 90 ms",
        ),
        (replace(WORTH_IT, saving=0.09, building=0.01), "torch: machine code would save about "),
        (replace(WORTH_IT, no_compiler="there is none"), "torch: there is none"),
        (replace(WORTH_IT, no_compiler="there is none", cached=True), "torch: there is none"),
        (replace(WORTH_IT, device="cuda"), "triton: the numbers are on `cuda`"),
        (replace(WORTH_IT, device="cuda", no_triton="there is none"), "torch: there is none"),
        (
            replace(WORTH_IT, dtype="bfloat16"),
            "torch: machine code has no numbers of type bfloat16",
        ),
    ],
)
def test_the_choice_and_its_reason(situation: Situation, choice: str) -> None:
    assert str(choose(situation)).startswith(choice)


def test_more_work_never_turns_machine_code_off() -> None:
    for cached in (False, True):
        at = Situation(cached=cached, building=3.0)
        chosen = [choose(replace(at, saving=s / 10)).backend for s in range(60)]
        assert chosen == sorted(chosen, reverse=True) and {*chosen} == {"torch", "cpp"}


def test_the_number_of_batches_until_machine_code_pays() -> None:
    at = Situation(saving=0.01, building=2.0)
    assert batches_until(at) == 200
    assert choose(replace(at, saving=200 * at.saving)).backend == "cpp"
    assert choose(replace(at, saving=199 * at.saving)).backend == "torch"
    assert batches_until(replace(at, cached=True)) == 10
    assert batches_until(replace(at, saving=7.0)) == 1
    for never in ({"saving": 0.0}, {"device": "cuda"}, {"no_compiler": "none"}):
        assert batches_until(replace(at, **never)) is None


def test_what_machine_code_saves_grows_with_lengths_and_batches() -> None:
    plan = fgg.compile(fgg.load("pcfg_dense", sizes={"nt": 3, "pt": 4, "words": 5})).compiled.plan

    def saved(length: int, batch: int, width: int = 4) -> float:
        return saved_by_passes(plan, environment({"n": [length]}), batch, width)

    assert saved(10, 1) < saved(20, 1) < saved(20, 8) < saved(20, 8, 8)
    assert saved(20, 1) / saved(10, 1) == pytest.approx(2, rel=0.2), "calls are most of it"
    small = fgg.compile(fgg.load("hmm", sizes={"k": 3, "d": 4})).compiled.plan
    assert 0.5 < building_seconds(small) < building_seconds(plan) < 10


def test_durations_are_short_texts() -> None:
    texts = [duration(s) for s in (0.0, 0.00213, 0.2, 1.0, 12.34, 99.7, 4321.0)]
    assert texts == ["0 ms", "2.1 ms", "200 ms", "1 s", "12 s", "100 s", "4321 s"]


def test_a_settled_choice_holds_for_a_while() -> None:
    backend, torch, cpp = Backend(), BackendChoice("torch", "a"), BackendChoice("cpp", "b")
    assert backend.choice is None
    with backend.on(torch):
        assert backend.choice == torch
        with backend.on(cpp):
            assert backend.choice == torch, "a part of a job has the backend of the job"
    assert backend.choice is None
    asked = Backend("cpp")
    with asked.on(torch):
        assert asked.choice == BackendChoice("cpp", "it was asked for")


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(GrammarError, match="there is no backend `opencl`"):
        check_backend("opencl")
    with pytest.raises(GrammarError, match="there is no backend `jax`"):
        fgg.compile(fgg.load("hmm"), backend="jax")
    with pytest.raises(GrammarError, match="machine code for the CPU has no launches"):
        fgg.compile(fgg.load("hmm"), backend="cpp", cuda_graph=True)
    assert choose(Situation(saving=inf)).backend == "cpp"
