"""Devices: which can be used, and how much memory they have; all without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import fgg
from fgg.cli import main
from fgg.diagnostics import GrammarError
from fgg.runtime.devices import usable_device
from fgg.runtime.memory import available_bytes, require
from fgg.runtime.program.prepared_batch import prepared
from fgg.runtime.program.program import CompiledProgram
from tests.helpers.compiled import compiled

CUDA = torch.device("cuda")
GB = 10**9


def refused(call: Callable[[], object]) -> tuple[str, str, str]:
    with pytest.raises(GrammarError) as error:
        call()
    (found,) = error.value.diagnostics
    return found.code, found.message, str(found.help)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs of 24 GB, of which 5 GB are free and 2 GB kept by torch; 1 GB of these is in use."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5 * GB, 24 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2 * GB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1 * GB)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpu", "did you mean `cuda`?"),
        ("cudaa", "did you mean `cuda`?"),
        ("mps", "devices are `cpu`, `cuda`"),
        ("CUDA", "did you mean `cuda`?"),
        ("", "devices are `cpu`, `cuda`"),
        ("cuda:x", "several GPUs are `cuda:0`, `cuda:1`, …"),
        ("cuda:", "several GPUs are `cuda:0`, `cuda:1`, …"),
    ],
)
def test_unknown_devices_are_named(name: str, hint: str) -> None:
    code, message, found = refused(lambda: usable_device(name))
    assert code == "F437" and f"`{name}`" in message and found == hint


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_none() -> None:
    assert usable_device("cpu").type == "cpu"
    code, message, _ = refused(lambda: usable_device("cuda"))
    assert code == "F437" and message.startswith("there is no GPU here: ")


def test_there_are_as_many_gpus_as_there_are(two_gpus: None) -> None:
    assert usable_device("cuda").type == "cuda" and usable_device("cuda:1").index == 1
    code, message, hint = refused(lambda: usable_device("cuda:2"))
    assert (code, message) == ("F437", "there is no device `cuda:2`")
    assert hint == "there are GPUs up to `cuda:1`"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "gpu"])
def test_training_on_what_is_not_there_is_refused(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a b\nb a\n")
    arguments = ["--data", str(words), "--out", str(tmp_path / "run"), "--device", device]
    assert main(["train", "hmm", *arguments]) == 2
    assert "F437" in capsys.readouterr().err and not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["tpu", "mps", "cuda:x", torch.device("meta")])
def test_weights_are_made_where_programs_compute(device: str | torch.device) -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    code, message, _ = refused(lambda: program.weights(seed=0, device=device))
    assert code == "F437" and f"`{device}`" in message
    code, message, _ = refused(lambda: program.weights(seed=0, dtype=torch.int64))
    assert (code, message) == ("F415", "parameters cannot be of type `int64`")


def test_weights_elsewhere_are_refused() -> None:
    program = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3}))
    weights = {name: w.to("meta") for name, w in program.weights(seed=0).items()}
    code, message, _ = refused(lambda: program.log_z(weights, {"w": [[0, 1]]}))
    assert (code, message) == ("F437", "programs cannot compute on `meta`, where the weights are")


def test_what_torch_keeps_is_free_too(two_gpus: None) -> None:
    assert available_bytes(CUDA) == 6 * GB
    require(6 * GB, CUDA, "this batch")
    code, message, _ = refused(lambda: require(7 * GB, CUDA, "this batch"))
    assert code == "F420"
    assert message == "this batch needs about 7 GB; of 24 GB on `cuda`, 6 GB are free"


def test_tensor_operations_need_more_than_kernels(two_gpus: None) -> None:
    """Kernels keep intermediate results in registers; tensor operations write them to memory."""
    model = fgg.load("pcfg_dense", sizes={"nt": 30, "pt": 60})
    tensors = fgg.compile(model, backend="torch").compiled
    at = ({"n": [40] * 16}, 16, torch.float32)
    most = tensors.compiler.intermediate_bytes(tensors.plan, {"n": 40}, 16, 4)
    on_cpu = tensors.bytes_of(*at, torch.device("cpu"))
    assert most > 0 and tensors.bytes_of(*at, CUDA) == on_cpu + 2 * most
    tensors.compiler.backend.asked = "triton"
    assert tensors.bytes_of(*at, CUDA) == on_cpu


def test_a_batch_that_does_not_fit_is_refused_before_anything_is_made(two_gpus: None) -> None:
    """No tensor can be made on this device: what is refused has made none."""
    program = compiled("pcfg:string")
    assert isinstance(program, CompiledProgram)
    weights = program.weights(seed=0)
    collated = program.collate({"w": [[0] * 8000]})
    code, message, _ = refused(lambda: prepared(program, weights, collated, torch.float32, CUDA))
    assert code == "F420" and "of 24 GB on `cuda`, 6 GB are free" in message
