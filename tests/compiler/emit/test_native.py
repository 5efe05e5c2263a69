"""Passes as machine code give what tensor operations give, and what the reference engine gives."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import fgg
from fgg.api.compile import compile
from fgg.compiler import loads
from fgg.compiler.passes.cpd import cpd
from fgg.diagnostics import GrammarError
from fgg.grammar.domains import with_sizes
from fgg.runtime.native import build as native_build
from fgg.runtime.native.engine import NativeEngine
from fgg.runtime.program.prepared_batch import Run
from fgg.runtime.program.program import Program
from tests.compiler.test_compiled import COMPILED, SPACES, source
from tests.compiler.test_random import HEAD, STEPPED
from tests.generators.indexed import write_grammar
from tests.helpers.native import needs_compiler
from tests.oracles.comparing import (
    Item,
    collated,
    compare,
    lengths_of,
    random_item,
    random_weights,
    reference,
)

# Every kind of plan in the usual run; the others take as long to build and have nothing new.
QUICK = {
    ("crf", "tags"),
    ("ctc", None),
    ("dmv", "string"),
    ("eisner", None),
    ("hmm", "string"),
    ("hmm_blocks", "string"),
    ("hsmm", "string"),
    ("lexpcfg", "string"),
    ("morphology", "word"),
    ("pair_hmm", "pair"),
    ("pcfg", "string"),
    ("pcfg_dense", "string"),
    ("pcfg_la", "tree"),
    ("rna", "string"),
    ("semicrf", "segments"),
}


def jit(grammar: fgg.Grammar, **options: Any) -> Program:
    """A program whose passes are machine code."""
    return compile(grammar, fallback=False, jit=True, **options)


def random_run(program: Program, items: list[Item], dtype: torch.dtype, seed: int) -> Run:
    weights = program.weights(seed=seed, dtype=dtype)
    for weight in weights.values():
        weight.requires_grad_()
    inputs, lengths = collated(items, dtype)
    run = program.start(weights, inputs, lengths or None)
    run.batch.spare = True
    return run


def items_of(grammar: fgg.Grammar, sizes: list[int], rng: random.Random, **options: Any) -> Any:
    names = lengths_of(grammar)
    return [random_item(grammar, {n: max(0, s) for n in names}, rng, **options) for s in sizes]


@torch.no_grad()
def same(run: Run, tolerance: float = 1e-10) -> Tensor:
    """Assert that charts, their adjoints and the leaves' gradients are the module's."""
    engine, module = run.program.engine, run.program.module
    assert isinstance(engine, NativeEngine)
    assert engine.fits(run.batch, run.leaves), engine.failed
    own = engine.inside(run.leaves, run.scales, run.batch)
    wanted = module.inside(run.leaves, run.scales, run.batch)
    log_z = module.result(wanted[1], run.batch)
    torch.testing.assert_close(engine.result(own[1], run.batch), log_z, atol=tolerance, rtol=1e-9)
    gradient = torch.linspace(0.5, 1.5, len(log_z), dtype=log_z.dtype)
    adjoints = engine.outside(run.leaves, run.scales, *own, run.batch, gradient)
    others = module.outside(run.leaves, run.scales, *wanted, run.batch, gradient)
    assert list(adjoints[0]) == list(others[0]) and list(adjoints[1]) == list(others[1])
    for name, found in adjoints[0].items():
        size = float(others[0][name].abs().max()) if found.numel() else 0.0
        torch.testing.assert_close(
            found, others[0][name], atol=tolerance * (1 + size), rtol=1e-6, msg=name
        )
    for name in adjoints[1]:
        one, two = (
            slopes[name] * values[name] if name in values else slopes[name]
            for slopes, values in ((adjoints[1], own[0]), (others[1], wanted[0]))
        )
        torch.testing.assert_close(one, two, atol=tolerance, rtol=1e-6, msg=name)
    assert isinstance(log_z, Tensor)
    return log_z


def check_program(name: str, query: str | None, space: str) -> None:
    grammar = source(name, query)
    program = jit(grammar, space=space)
    rng = random.Random(7)
    finite = 0
    for sizes in ([3, 3], [5, 1, 4], [0, 2]):
        for missing in (0.0, 0.2):
            items = items_of(grammar, sizes, rng, missing=missing)
            run = random_run(program, items, torch.float64, seed=len(sizes))
            finite += int(torch.isfinite(same(run)).sum())
    assert finite or name in ("pcfg_la", "pcfg_i", "pcfg_ie")  # random tables are no trees


@needs_compiler
@pytest.mark.parametrize(
    ("name", "query", "space"), [case for case in SPACES if case[:2] in QUICK and case[0] != "pcfg"]
)
def test_library(name: str, query: str | None, space: str) -> None:
    check_program(name, query, space)


@needs_compiler
@pytest.mark.parametrize("space", ["dense", "state", "rank"])
def test_spaces(space: str) -> None:
    check_program("pcfg", "string", space)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "query", "space"), [case for case in SPACES if case[:2] not in QUICK]
)
def test_the_whole_library(name: str, query: str | None, space: str) -> None:
    check_program(name, query, space)


def test_quick_ones_are_in_the_library() -> None:
    assert QUICK <= set(COMPILED)


def against_reference(seed: int) -> bool:
    """Whether a random grammar could be compared with the reference engine."""
    made = write_grammar(random.Random(seed).choice)
    if made is None:
        return False
    grammar, rng = made[0], random.Random(seed)
    try:
        program = jit(grammar)
    except GrammarError:
        return False
    pieces = cpd(grammar)
    weights = random_weights(pieces, rng, zero=0.1)
    known = []
    for size in (3, 4, 1):
        item = random_item(grammar, {n: size for n in lengths_of(grammar)}, rng)
        answer = reference(pieces, item, weights)
        if answer is not None:
            known.append((item, answer))
    if not known:
        return False
    compare(program, [i for i, _ in known], [a for _, a in known], weights)
    return any(np.isfinite(a.log_z) for _, a in known)


@needs_compiler
@pytest.mark.parametrize("claim", ["two indices", "two indices and a level"])
def test_heads_with_coefficients(claim: str) -> None:
    grammar, rng = loads(HEAD + STEPPED[claim]), random.Random(1)
    weights = random_weights(grammar, rng)
    items = [random_item(grammar, {"n": n}, rng) for n in (5, 2, 4, 0)]
    answers = [reference(grammar, item, weights) for item in items]
    compare(jit(grammar), items, [a for a in answers if a is not None], weights)


@needs_compiler
def test_random_grammars() -> None:
    assert sum(against_reference(seed) for seed in range(20)) >= 5


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_grammars(block: int) -> None:
    for seed in range(100 + 50 * block, 150 + 50 * block):
        against_reference(seed)


@needs_compiler
@pytest.mark.parametrize("sizes", [{"nt": 40, "pt": 50, "r": 60, "words": 30}])
def test_large_states_are_matrix_products(sizes: dict[str, int]) -> None:
    for space in ("state", "rank"):
        program = jit(fgg.load("pcfg", sizes=sizes), space=space)
        assert "matmul(blas" in program.engine.native.source
        rng = random.Random(2)
        items = items_of(program.grammar, [6, 9, 2], rng, missing=0.1)
        same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_without_a_matrix_product_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    target = "fgg.runtime.native.engine.matrix_product"
    monkeypatch.setattr(target, lambda dtype: ctypes.c_void_p(None))
    program = jit(fgg.load("pcfg", sizes={"nt": 20, "pt": 30, "r": 25, "words": 9}), space="rank")
    items = items_of(program.grammar, [5, 7], random.Random(2))
    same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_single_precision_holds_at_any_length() -> None:
    grammar = fgg.load("hmm", sizes={"k": 12, "d": 40})
    program = jit(grammar)
    generator = torch.Generator().manual_seed(3)
    exact = {
        name: torch.softmax(6 * torch.randn(w.shape, generator=generator, dtype=torch.float64), -1)
        for name, w in program.weights(seed=0).items()
    }
    words = torch.randint(40, (3, 700), generator=generator)
    wanted = program.log_z(exact, {"w": words})
    single = {name: w.float().requires_grad_() for name, w in exact.items()}
    found = program.log_z(single, {"w": words})
    assert float(wanted.min()) < -1000
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=0)
    torch.autograd.backward(found.sum())
    slopes = program.expected_counts(exact, {"w": words})
    for name, weight in single.items():
        assert weight.grad is not None
        torch.testing.assert_close(
            weight.grad.double() * exact[name], slopes[name], rtol=1e-3, atol=1e-3
        )


@needs_compiler
def test_gradients_are_differences() -> None:
    program = jit(with_sizes(fgg.load("pcfg"), {"nt": 2, "pt": 2, "r": 3, "words": 3}))
    weights = {
        n: w.requires_grad_() for n, w in program.weights(seed=1, dtype=torch.float64).items()
    }
    inputs = {"w": torch.tensor([[0, 2, 1, -1]])}

    def log_z(*values: Tensor) -> Tensor:
        return program.log_z(dict(zip(weights, values, strict=True)), inputs)

    assert torch.autograd.gradcheck(log_z, tuple(weights.values()))


@needs_compiler
def test_all_questions_have_the_same_answers() -> None:
    grammar = with_sizes(fgg.load("hmm"), {"k": 3, "d": 4})
    fast, plain = jit(grammar), compile(grammar)
    weights = plain.weights(seed=2, dtype=torch.float64)
    inputs = {"w": torch.tensor([[0, 3, 1, 2, 2], [1, 1, 0, -1, 3]])}
    for name, found in fast.marginals(weights, inputs).items():
        torch.testing.assert_close(found, plain.marginals(weights, inputs)[name])
    for name, found in fast.expected_counts(weights, inputs).items():
        torch.testing.assert_close(found, plain.expected_counts(weights, inputs)[name])
    torch.testing.assert_close(fast.entropy(weights, inputs), plain.entropy(weights, inputs))
    best = [d.log_weight for d in fast.decode(weights, inputs)]
    assert best == pytest.approx([d.log_weight for d in plain.decode(weights, inputs)])
    once = [str(d) for d in fast.sample(weights, inputs, seed=5)]
    assert once == [str(d) for d in plain.sample(weights, inputs, seed=5)]
    # Derivatives of derivatives are as without it.
    leaf = weights["trans"].clone().requires_grad_()
    log_z = fast.log_z({**weights, "trans": leaf}, inputs).sum()
    (slope,) = torch.autograd.grad(log_z, leaf, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), leaf)
    assert bool(torch.isfinite(second).all()) and float(second.abs().max()) > 0


@needs_compiler
def test_programs_can_be_copied() -> None:
    program = jit(with_sizes(fgg.load("hmm"), {"k": 2, "d": 3}))
    weights, inputs = program.weights(seed=1), {"w": [[0, 1, 2]]}
    wanted = program.log_z(weights, inputs)
    for again in (copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        assert isinstance(again.engine, NativeEngine)
        torch.testing.assert_close(again.log_z(weights, inputs), wanted)


@needs_compiler
def test_names_do_not_reach_the_text() -> None:
    text = """
    domain T = 2
    domain `*/ system("x"); /*` = 3
    factor `int main(` (T -> `*/ system("x"); /*`)
    factor `T`(T -> T)
    input w: `*/ system("x"); /*`[n]
    nonterminal S()
    nonterminal `return`[i](T) for 0 <= i < n
    start S
    rule `// \\`: S -> `return`[0](t)
    rule step: `return`[i](t) -> `int main(`(t, w[i]) `T`(t, u) `return`[i+1](u)  for i < n - 1
    rule last: `return`[n-1](t) -> `int main(`(t, w[n-1])
    """
    grammar = loads(text)
    program = jit(grammar)
    code = [line.partition("//")[0] for line in program.engine.native.source.splitlines()]
    assert not any("system" in line or "main" in line for line in code)
    items = items_of(grammar, [3, 4], random.Random(1))
    same(random_run(program, items, torch.float64, seed=1))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    grammar = with_sizes(fgg.load("hmm"), {"k": 5, "d": 7})
    program = jit(grammar)
    weights, inputs = program.weights(seed=1), {"w": [[0, 1, 2]]}
    with pytest.warns(UserWarning, match=r"F435.*no C\+\+ compiler"):
        found = program.log_z(weights, inputs)
    torch.testing.assert_close(found, compile(grammar).log_z(weights, inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.log_z(weights, inputs)  # it is said once


def test_a_compiler_that_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*) echo broken 1.0; exit 0;; esac\n'
        'echo "error: I will not" >&2\nexit 1\n'
    )
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    program = jit(with_sizes(fgg.load("hmm"), {"k": 6, "d": 5}))
    with pytest.warns(UserWarning, match="I will not"):
        program.log_z(program.weights(seed=1), {"w": [[0, 1, 4]]})
    assert not [p for p in native_build.folder().iterdir() if p.name.startswith("build-")]


@needs_compiler
@pytest.mark.parametrize("size", [0, 10, 5000, 12000])
def test_a_broken_file_is_made_again(size: int) -> None:
    program = jit(with_sizes(fgg.load("hmm"), {"k": 7, "d": 6 + size}))
    source = f"{program.engine.native.source}// {size}\n"
    path = native_build.path_of(source, torch.float32)
    native_build.build(source, torch.float32, path)
    whole = path.read_bytes()
    assert len(whole) > 12000
    path.write_bytes(whole[:size])  # as after a crash: loading it would end the process
    native_build.library(source, torch.float32)
    assert len(path.read_bytes()) > 12000


@needs_compiler
def test_arguments_of_the_compiler_count(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = set()
    for named in ("", "c++ -ffast-math", "c++ -g"):
        monkeypatch.setenv("CXX", named)
        paths.add(native_build.path_of("text", torch.float32))
    assert len(paths) == 3
    # Infinities mean something, whatever the compiler is told.
    monkeypatch.setenv("CXX", "c++ -ffast-math")
    program = jit(with_sizes(fgg.load("pair_hmm"), {"letters": 2}))
    items = items_of(program.grammar, [2, 3], random.Random(2), missing=0.0)
    same(random_run(program, items, torch.float64, seed=1))


@needs_compiler
def test_numbers_that_are_too_large_are_computed_with_more_range() -> None:
    text = """
    domain T = 2
    factor f(T)
    factor g(T)
    nonterminal S()
    nonterminal X(T)
    start S
    rule s: S -> X(t)
    rule t: S -> g(t)
    rule a: X(t) -> f(t) f(t) X(t)
    rule c: X(t) ->
    query q(w: T[n]) {
      rule s: S -> X[0]
      rule t: S ->
      rule a: X[i] -> X[i+1] for 0 <= i < n
      rule c: X[n] ->
    }
    """
    inputs = {"w": [[-1, -1, -1]]}
    for program in (compile(loads(text)), jit(loads(text))):
        weights = {"f": torch.tensor([1e25, 1.0]), "g": torch.tensor([0.5, 0.5])}
        assert float(program.log_z(weights, inputs)) == pytest.approx(345.39, abs=0.01)
        assert program.ranges.float64 == 1


@needs_compiler
def test_a_pass_can_be_stopped() -> None:
    script = """
import signal, threading, os
import torch
import fgg
torch.set_num_threads(1)
program = fgg.compile(fgg.load("pcfg_dense", sizes={"nt": 30, "pt": 30, "words": 5}), jit=True)
weights = program.weights(seed=0)
program.log_z(weights, {"w": [[0, 1, 2]]})
pid = os.getpid()
threading.Timer(1.0, lambda: os.kill(pid, signal.SIGINT)).start()
too_late = threading.Timer(20.0, lambda: os.kill(pid, signal.SIGKILL))  # before the pass ends
too_late.start()
try:
    program.log_z(weights, {"w": torch.zeros(2, 900, dtype=torch.long)})
except KeyboardInterrupt:
    too_late.cancel()
    print("stopped")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "stopped\n", done.stderr


@needs_compiler
def test_other_devices_have_tensor_operations() -> None:
    program = jit(with_sizes(fgg.load("hmm"), {"k": 2, "d": 3}))
    batch = program.module.Batch(1, {"n": [2]}, {}, torch.float32, torch.device("cpu"))
    assert program.engine.fits(batch, {"x": torch.zeros(1)})
    with FakeTensorMode():
        assert not program.engine.fits(batch, {"x": torch.zeros(1)})
    batch.device = torch.device("meta")
    assert not program.engine.fits(batch, {"x": torch.zeros(1)})


@needs_compiler
def test_machine_code_is_kept_where_only_the_user_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    native_build.folder.cache_clear()
    try:
        mine = tmp_path / "mine"
        monkeypatch.setenv("FGG_CACHE", str(mine))
        assert native_build.folder() == mine and mine.stat().st_mode & 0o077 == 0
        native_build.folder.cache_clear()
        mine.chmod(0o777)
        assert native_build.folder() != mine
        native_build.folder.cache_clear()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("FGG_CACHE", "near")
        assert native_build.folder() == tmp_path / "near"
        native_build.folder.cache_clear()
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("FGG_CACHE", str(tmp_path / "file"))
        assert native_build.folder() != tmp_path / "file"
    finally:
        native_build.folder.cache_clear()
