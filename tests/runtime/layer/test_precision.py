"""Inference is in float32 or float64, whatever type parameters have and torch would choose."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import fgg
from fgg import GrammarError
from fgg.runtime.program.program import Program

WORDS = torch.tensor([[0, 1, 2, 4], [3, 4, 0, 1]])


def program_of(name: str, space: str = "auto") -> Program:
    sizes = {"hmm": {"k": 3, "d": 5}, "pcfg": {"nt": 3, "pt": 4, "r": 2, "words": 5}}
    return fgg.compile(fgg.load(name, sizes=sizes.get(name, {"k": 3})), space=space)


def answers(program: Program) -> dict[str, Tensor]:
    """Numbers of all kinds, with gradients."""
    weights = {name: w.requires_grad_() for name, w in program.weights(seed=0).items()}
    inputs: dict[str, object] = {"w": WORDS}
    post = program.posterior(weights, inputs)
    log_z = program.log_z(weights, inputs)
    slopes = torch.autograd.grad(log_z.sum(), list(weights.values()))
    return {
        "log_z": log_z,
        "posterior": post.log_z,
        "entropy": post.entropy(),
        "kl": post.kl(program.posterior(weights, inputs)),
        "moments": post.moments({"w": [0, 1]}),
        "log": post.charts("log").z,
        **{f"marginals {name}": x for name, x in post.marginals.items()},
        **{f"counts {name}": x for name, x in post.counts.items()},
        **{f"slopes {name}": x for name, x in zip(weights, slopes, strict=True)},
    }


@pytest.mark.parametrize(("name", "space"), [("hmm", "state"), ("pcfg", "state"), ("pcfg", "rank")])
def test_autocast_changes_no_number(name: str, space: str) -> None:
    program = program_of(name, space)
    plain = answers(program)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = answers(program)
        assert torch.is_autocast_enabled("cpu"), "outside of the engine it is on"
    for kind in plain:
        assert torch.equal(plain[kind], cast[kind]), kind


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_parameters_of_half_the_size_are_computed_with_in_float32(dtype: torch.dtype) -> None:
    program = program_of("hmm")
    model = program.model(seed=0, dtype=dtype)
    assert {p.dtype for p in model.parameters()} == {dtype}
    wide = program.model(seed=0)
    wide.load_state_dict(model.state_dict())  # the same numbers in float32
    log_z = model(w=WORDS)
    assert log_z.dtype == torch.float32 and torch.equal(log_z, wide(w=WORDS))
    torch.autograd.backward(log_z.sum())
    torch.autograd.backward(wide(w=WORDS).sum())
    for one, two in zip(model.parameters(), wide.parameters(), strict=True):
        assert one.grad is not None and two.grad is not None and one.grad.dtype == dtype
        assert torch.equal(one.grad, two.grad.to(dtype))
    post = model.posterior(w=WORDS)
    assert {x.dtype for x in (*post.marginals.values(), *post.counts.values())} == {torch.float32}
    assert post.best()[0].log_weight == pytest.approx(wide.posterior(w=WORDS).best()[0].log_weight)


def test_values_of_the_grammar_are_not_rounded_to_half_the_size() -> None:
    whole = str(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    text = whole.replace("factor init(-> T)", "factor init(-> T) = [1/3, 2/3]")
    assert text != whole
    model = fgg.compile(fgg.loads(text), query="string").model(dtype=torch.bfloat16)
    assert torch.equal(model.weight("init"), torch.tensor([1 / 3, 2 / 3]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_potentials_of_half_the_size_are_computed_with_in_float32(dtype: torch.dtype) -> None:
    program = program_of("crf")
    weights = program.weights(seed=0)
    score = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    score.requires_grad_()
    log_z = program.log_z(weights, {"score": score})
    wide = score.detach().float().requires_grad_()
    assert torch.equal(log_z, program.log_z(weights, {"score": wide}))
    (one,) = torch.autograd.grad(log_z.sum(), score)
    (two,) = torch.autograd.grad(program.log_z(weights, {"score": wide}).sum(), wide)
    assert one.dtype == dtype and torch.equal(one, two.to(dtype))
    counts = program.posterior(weights, {"score": score}).counts["score"]
    assert torch.equal(counts, program.posterior(weights, {"score": wide}).counts["score"])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_network_under_autocast_trains_a_layer_in_float32(compiled: bool) -> None:
    torch.manual_seed(0)
    program = program_of("crf")
    weights = program.weights(seed=0)
    linear = torch.nn.Linear(4, 3)
    features = torch.randn(2, 5, 4)

    def log_z() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            score = linear(features)
            assert score.dtype == torch.bfloat16
            return program.log_z(weights, {"score": score})

    torch.compiler.reset()
    value = (torch.compile(log_z, backend="aot_eager") if compiled else log_z)()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        score = linear(features)
    assert torch.equal(value, program.log_z(weights, {"score": score.float()}))
    torch.autograd.backward(value.sum())
    assert linear.weight.grad is not None and linear.weight.grad.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ({"dtype": torch.int64}, "F415", "parameters cannot be of type `int64`"),
        ({"dtype": torch.complex64}, "F415", "parameters cannot be of type `complex64`"),
        ({"dtype": "float32"}, "F415", "parameters cannot be of type `float32`"),
        ({"device": "gpu7"}, "F437", "programs cannot compute on `gpu7`"),
        ({"device": torch.device("meta")}, "F437", "programs cannot compute on `meta`"),
    ],
)
def test_other_types_and_devices_are_refused(options: dict[str, Any], code: str, told: str) -> None:
    with pytest.raises(GrammarError) as caught:
        program_of("hmm").model(**options)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and told in diagnostic.message


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(GrammarError, match="F437"):
        program_of("hmm").model(device="cuda")


def test_a_model_is_made_on_its_device() -> None:
    model = program_of("hmm").model(seed=1, device="cpu", dtype=torch.float64)
    assert {(p.device.type, p.dtype) for p in model.parameters()} == {("cpu", torch.float64)}
