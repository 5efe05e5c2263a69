"""Programs whose passes are machine code answer, copy, stop and step aside as others do."""

from __future__ import annotations

import copy
import ctypes
import pickle
import signal
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import fgg
from fgg.api.compile import compile
from fgg.compiler import loads
from fgg.grammar.domains import with_sizes
from fgg.runtime.native import build as native_build
from fgg.runtime.prelude.batch import Batch
from tests.helpers.native import in_cpp, needs_compiler


@needs_compiler
def test_single_precision_holds_at_any_length() -> None:
    grammar = fgg.load("hmm", sizes={"k": 12, "d": 40})
    program = in_cpp(grammar)
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
    slopes = program.posterior(exact, {"w": words}).counts
    for name, weight in single.items():
        assert weight.grad is not None
        torch.testing.assert_close(
            weight.grad.double() * exact[name], slopes[name], rtol=1e-3, atol=1e-3
        )


@needs_compiler
def test_gradients_are_differences() -> None:
    program = in_cpp(with_sizes(fgg.load("pcfg"), {"nt": 2, "pt": 2, "r": 3, "words": 3}))
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
    fast, plain = in_cpp(grammar), compile(grammar, backend="torch")
    weights = plain.weights(seed=2, dtype=torch.float64)
    inputs = {"w": torch.tensor([[0, 3, 1, 2, 2], [1, 1, 0, -1, 3]])}
    for name, found in fast.posterior(weights, inputs).marginals.items():
        torch.testing.assert_close(found, plain.posterior(weights, inputs).marginals[name])
    for name, found in fast.posterior(weights, inputs).counts.items():
        torch.testing.assert_close(found, plain.posterior(weights, inputs).counts[name])
    torch.testing.assert_close(
        fast.posterior(weights, inputs).entropy(), plain.posterior(weights, inputs).entropy()
    )
    best = [d.log_weight for d in fast.posterior(weights, inputs).best()]
    assert best == pytest.approx([d.log_weight for d in plain.posterior(weights, inputs).best()])
    once = [str(d) for d in fast.posterior(weights, inputs).sample(seed=5)]
    assert once == [str(d) for d in plain.posterior(weights, inputs).sample(seed=5)]
    # Derivatives of derivatives are as without it.
    leaf = weights["trans"].clone().requires_grad_()
    log_z = fast.log_z({**weights, "trans": leaf}, inputs).sum()
    (slope,) = torch.autograd.grad(log_z, leaf, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), leaf)
    assert bool(torch.isfinite(second).all()) and float(second.abs().max()) > 0


@needs_compiler
def test_programs_can_be_copied() -> None:
    program = in_cpp(with_sizes(fgg.load("hmm"), {"k": 2, "d": 3}))
    weights, inputs = program.weights(seed=1), {"w": [[0, 1, 2]]}
    wanted = program.log_z(weights, inputs)
    for again in (copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        assert again.compiled.backend.backend == "cpp"
        torch.testing.assert_close(again.log_z(weights, inputs), wanted)


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
    for program in (compile(loads(text), backend="torch"), in_cpp(loads(text))):
        weights = {"f": torch.tensor([1e25, 1.0]), "g": torch.tensor([0.5, 0.5])}
        assert float(program.log_z(weights, inputs)) == pytest.approx(345.39, abs=0.01)
        assert program.ranges.float64 == 1


class Stop(Exception):
    """What the user's signal raises."""


SIGNAL = """
#include <csignal>
extern "C" {
int asked = 0;
int (*handle)();
int check() { ++asked; std::raise(SIGUSR1); return handle(); }
}
"""
"""A look at signals that always sees a new one."""


@needs_compiler
def test_a_pass_can_be_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    native_build.build(SIGNAL, "float32", tmp_path / "signal.so")
    watch = ctypes.PyDLL(str(tmp_path / "signal.so"))
    host = native_build.host("float32")
    ctypes.c_void_p.in_dll(watch, "handle").value = host.check
    fields = {name: getattr(host, name) for name, *_ in host._fields_}
    fields["check"] = ctypes.cast(watch.check, ctypes.c_void_p).value
    watched = native_build.Host(**fields)
    target = "fgg.runtime.native.engine.host"

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stop

    program = in_cpp(fgg.load("pcfg_dense", sizes={"nt": 30, "pt": 30, "words": 5}))
    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with monkeypatch.context() as patched, pytest.raises(Stop):
            patched.setattr(target, lambda dtype: watched)
            # A pass of a minute, which looks for signals once in a tenth of a second.
            program.log_z(program.weights(seed=0), {"w": torch.zeros(2, 900, dtype=torch.long)})
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ctypes.c_int.in_dll(watch, "asked").value == 1, "it went on"
    assert program.log_z(program.weights(seed=0), {"w": [[0, 1, 2]]}).isfinite().all()


@needs_compiler
def test_other_devices_have_tensor_operations() -> None:
    program = in_cpp(with_sizes(fgg.load("hmm"), {"k": 2, "d": 3}))
    batch = Batch(1, {"n": [2]}, {}, torch.float32, torch.device("cpu"))
    engine = program.compiled.engines.native
    assert engine.fits(batch, {"x": torch.zeros(1)})
    with FakeTensorMode():
        assert not engine.fits(batch, {"x": torch.zeros(1)})
    batch.device = torch.device("meta")
    assert not engine.fits(batch, {"x": torch.zeros(1)})
