"""Triton programs give the numbers of tensor operations, and build for GPUs without spilling."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import fgg
from fgg.api.compile import selected
from fgg.compiler import load, loads
from fgg.compiler.driver import Expected, plan_of
from fgg.compiler.emit.simplify import passes
from fgg.compiler.emit.triton import emit
from fgg.compiler.emit.triton.launches import Unfit, launches
from fgg.compiler.emit.triton.module import refused
from fgg.diagnostics import GrammarError
from fgg.plan.backend import Situation, choose
from fgg.runtime.native import triton_engine
from fgg.runtime.native.triton_engine import no_place
from tests.conftest import Golden
from tests.helpers.compiled import SMALL, programs
from tests.helpers.kernels import spaces_of
from tests.helpers.places import ROOT

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def small(name: str) -> fgg.Grammar:
    """A library grammar with small sizes."""
    grammar = load(name)
    return load(name, sizes={size: n for size, n in SMALL.items() if size in grammar.size})


NAMES = [
    f"{grammar}:{query}:{space}"
    for grammar, _, query in (name.partition(":") for name in programs())
    for space in spaces_of(selected(small(grammar), query or None))
]
LARGE = [
    "pcfg:string:rank:",
    "pcfg_dense:string:state:",
    "hmm:string:state:k=40",
    "dmv:string:state:",
]
"""Sizes at which products of matrices are launches of their own."""
SHOWN = [
    *(f"pcfg:string:rank:r={r}" for r in (128, 256, 1024)),
    *("hmm:string:state:k=64", "hmm:string:state:k=1024", "eisner::state"),
]


def checked(task: str, *arguments: str, interpret: bool) -> Any:
    """What `tests.helpers.triton_checks` prints."""
    environ = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    if interpret:
        environ["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-W", "ignore", "-m", "tests.helpers.triton_checks", task]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@needs_triton
@pytest.mark.parametrize("part", [0, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
def test_numbers_of_the_library(part: int) -> None:
    names = NAMES[part::4] + LARGE[part : part + 1]
    done = checked("numbers", *names, interpret=True)
    assert done["same"] + done["refused"] == len(names) and done["refused"] <= 1


@needs_triton
@pytest.mark.parametrize(
    "seeds", [(0, 30), *(pytest.param((n, n + 90), marks=pytest.mark.slow) for n in (30, 120, 210))]
)
def test_numbers_of_random_grammars(seeds: tuple[int, int]) -> None:
    done = checked("random", *map(str, seeds), interpret=True)
    assert done["same"] > (seeds[1] - seeds[0]) / 3


TABLES = """
domain T = 4
domain W = 6
input w: W[n]
input table place[m]
factor init(-> T)
factor trans(T -> T)
factor emit(T -> W)
nonterminal S()
nonterminal X[i, j](T) for 0 <= i <= n, 0 <= j <= m
start S
rule begin: S         -> init(t) X[0, 0](t)
rule stay:  X[i,j](t) -> emit(t, w[i]) trans(t, u) X[i+1, j](u)              for i < n
rule move:  X[i,j](t) -> trans(t, u) emit(u, w[place[j]]) X[i+1, j+1](u)     for i < n, j < m
rule end:   X[n,m](t) ->
"""
"""Tensor operations turn `trans`; the other rules have kernels."""

FIVE = """
domain T = 2
domain W = 3
input w: W[n]
factor emit(T, W)
factor trans(T -> T)
nonterminal S()
nonterminal Y[a, b, c, d, i](T) for 0 <= a < 2, 0 <= b < 2, 0 <= c < 2, 0 <= d < 2, 0 <= i <= n
start S
rule begin: S              -> Y[0, 0, 0, 0, 0](t)
rule one:   Y[a,b,c,d,i](t) -> emit(t, w[i]) trans(t, u) Y[1-a,d,b,c,i+1](u)   for i < n
rule end:   Y[a,b,c,d,n](t) ->
"""
"""Cells of five indices."""


def written(text: str) -> Any:
    """The plan of a grammar's text."""
    return plan_of(selected(loads(text), None), Expected(), "state")


@needs_triton
def test_numbers_where_some_rules_have_no_kernels(tmp_path: Path) -> None:
    names = []
    for name, text in (("tables", TABLES), ("five", FIVE)):
        path = tmp_path / f"{name}.fgg"
        path.write_text(text, encoding="utf-8")
        names.append(f"{path}::state")
        assert refused(written(text))
    assert checked("numbers", *names, interpret=True) == {"same": 2, "refused": 0}


def test_cells_of_many_indices_stay_with_tensor_operations() -> None:
    assert set(refused(written(FIVE)).values()) == {"cells have more than 4 indices"}


@needs_triton
def test_charts_may_have_more_than_two_billion_numbers() -> None:
    assert checked("far", interpret=True) == [4 * 2**32, 4 * (2**32 + 1)]


def built(
    target: str, *names: str, dtype: str = "float32", points: str = "i32"
) -> list[Mapping[str, Any]]:
    """What the kernels of programs use, built for a compute capability."""
    usages: list[Mapping[str, Any]] = checked(
        "build", target, dtype, points, *names, interpret=False
    )
    assert usages
    return usages


def assert_no_spill(usages: list[Mapping[str, Any]]) -> None:
    for usage in usages:
        assert usage["spilled"] == 0 and usage["registers"] <= 255, usage
        assert usage["shared"] <= 48 * 1024, usage
    assert any(usage["shared"] for usage in usages), "products of matrices share tiles"


@needs_triton
def test_kernels_are_built_without_spilling() -> None:
    assert_no_spill(built("80", *SHOWN[:1], *SHOWN[-2:]))


@needs_triton
def test_kernels_of_float64_fit_into_old_gpus() -> None:
    """A block of compute capability 7.5 has 64 KB; also with more than 2^31 points."""
    usages = built("75", "hmm:string:state:k=64", dtype="float64", points="i64")
    assert max(usage["shared"] for usage in usages) <= 64 * 1024


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize(("target", "most"), [("70", 64), ("75", 64), ("80", 99)])
def test_kernels_of_float64_fit(target: str, most: int) -> None:
    """Capabilities 8.6 and 8.9 run what is built for 8.0, and have 99 KB a block."""
    usages = built(target, *SHOWN[:1], *LARGE[1:], dtype="float64")
    assert max(usage["shared"] for usage in usages) <= most * 1024


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("target", ["80", "90"])
def test_the_showpieces_are_built_without_spilling(target: str) -> None:
    assert_no_spill(built(target, *SHOWN))


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("target", ["80", "90"])
@pytest.mark.parametrize("part", range(4))
def test_all_kernels_are_built(part: int, target: str) -> None:
    assert {usage["program"] for usage in built(target, *NAMES[part::4])}


def plan(name: str, space: str, **sizes: int) -> Any:
    return plan_of(selected(load(name, sizes=sizes), None), Expected(), space)


def test_few_launches_a_level() -> None:
    """Three of a rank-space PCFG inside, six outside."""
    made = plan("pcfg", "rank")
    for kernel, most in zip(passes(made), (3, 6), strict=True):
        (stage,) = [stage for stage in kernel.stages if stage.levels is not None]
        assert sum(len(launches(made, block)) for block in stage.blocks) == most


def test_what_stays_with_tensor_operations_is_said() -> None:
    assert refused(plan("pcfg", "rank")) == {} == refused(plan("eisner", "state"))
    assert "tables say where cells are" in refused(plan("ctc", "state")).values()
    (block,) = [b for b in passes(plan("ctc", "state"))[0].blocks if b.rule.name == "label"]
    with pytest.raises(Unfit):
        launches(plan("ctc", "state"), block)


@pytest.mark.parametrize(("name", "space"), [("pcfg", "rank"), ("eisner", "state")])
def test_program(name: str, space: str, golden: Golden) -> None:
    golden(emit(plan(name, space)), "py.txt")


def test_names_of_a_grammar_are_no_danger() -> None:
    text = """
domain T = 3
factor tl(T -> T)
factor at(-> T)
input points: T[n]
nonterminal S()
nonterminal R[i](T) for 0 <= i < n
start S
rule begin: S -> at(there) R[0](there)
rule triton: R[i](b) -> tl(b, B) R[i+1](B) b = points[i]   for i < n - 1
rule gap: R[n-1](top) ->  top = points[n-1]
"""
    compile(emit(plan_of(selected(loads(text), None), Expected(), "state")), "module", "exec")


def test_a_gpu_takes_kernels() -> None:
    assert choose(Situation(device="cuda")).backend == "triton"
    old = choose(Situation(device="cuda", no_triton="Triton is not installed"))
    assert (old.backend, old.reason) == ("torch", "Triton is not installed")


def test_without_triton_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_engine, "find_spec", lambda name: None)
    with pytest.raises(GrammarError) as error:
        fgg.compile(load("hmm"), backend="triton")
    (found,) = error.value.diagnostics
    assert found.code == "F436" and "pip install" in str(found.help)


def test_a_triton_that_cannot_be_loaded_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise OSError("libcuda.so.1: no such file")

    monkeypatch.setattr(triton_engine, "find_spec", lambda name: name)
    monkeypatch.setattr(triton_engine, "import_module", broken)
    assert triton_engine.no_triton() == "Triton cannot be loaded: libcuda.so.1: no such file"


def test_where_kernels_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_engine, "find_spec", lambda name: name)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert "not on a CPU" in no_place(torch.device("cpu"), torch.float32)
    assert "float16" in no_place(torch.device("cuda"), torch.float16)
    assert "mps" in no_place(torch.device("mps"), torch.float32)
    program = fgg.compile(load("hmm", sizes={"k": 2, "d": 3}), backend="triton")
    with pytest.raises(GrammarError) as error:
        program.log_z(program.weights(seed=0), {"w": [[0, 1]]})
    assert [d.code for d in error.value.diagnostics] == ["F436"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (6, 1))
    assert "7.0" in no_place(torch.device("cuda"), torch.float32)
