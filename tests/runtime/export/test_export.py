"""Exported programs give what programs give, whatever the lengths and batches."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fgg.api.compile import compile
from fgg.compiler.resolve.load import load, loads
from fgg.diagnostics import GrammarError
from fgg.runtime.export.call import Exported, load_exported
from fgg.runtime.export.export import export_program, exported_program, program_signature, reference
from fgg.runtime.export.module import PlanModule
from fgg.runtime.export.signature import Signature
from fgg.runtime.program.program import Program
from tests.helpers.plans import OWN

SIZES: dict[str, dict[str, int]] = {
    "hmm": {"k": 3, "d": 5},
    "pcfg_dense": {"nt": 2, "pt": 3, "words": 5},
    "eisner": {},
    "pair_hmm": {"letters": 3},
    "semicrf": {"k": 3, "lmax": 3},
    "rna": {},
}
BATCHES = [(1, 0), (2, 3), (5, 9)]
"""Batches, and how much longer than the least the longest item is."""


@cache
def program_of(name: str) -> Program:
    grammar = loads(OWN[name]) if name in OWN else load(name)
    return compile(grammar, sizes=SIZES.get(name, {}))


def signature_of(name: str) -> Signature:
    return program_signature(program_of(name), torch.float64, 1024)


def module_of(name: str) -> PlanModule:
    return PlanModule(program_of(name).compiled.plan, signature_of(name))


def examples(known: Signature) -> list[tuple[Tensor, ...]]:
    """Batches of mixed lengths with missing tokens."""
    found = []
    for seed, (batch, more) in enumerate(BATCHES):
        high = {name: known.least + more + i for i, name in enumerate(known.lengths)}
        found.append(known.example(batch, high, seed))
    return found


def replaced(known: Signature, arguments: tuple[Tensor, ...], **new: Tensor) -> tuple[Tensor, ...]:
    return tuple(
        new.get(argument.name, value)
        for argument, value in zip(known.arguments, arguments, strict=True)
    )


def by_name(known: Signature, arguments: tuple[Tensor, ...]) -> dict[str, Tensor]:
    return {a.name: v for a, v in zip(known.arguments, arguments, strict=True)}


def agree(name: str, run: Any, tolerance: float = 1e-9) -> None:
    """Check a form of a program on batches, on an impossible string and on empty ones."""
    program, known = program_of(name), signature_of(name)
    batches = examples(known)
    last = by_name(known, batches[-1])
    for argument in known.arguments:
        if argument.kind == "tokens":
            impossible = last[argument.name].clone()
            impossible[1] = -2
            impossible[2] = -1
            batches.append(replaced(known, batches[2], **{argument.name: impossible}))
        if argument.kind == "lengths":
            short = torch.arange(len(last[argument.name]))
            batches.append(replaced(known, batches[2], **{argument.name: short}))
    for arguments in batches:
        with torch.no_grad():
            found, wanted = run(*arguments), reference(program, known, arguments)
        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [*SIZES, *OWN, "ctc", "hsmm", "morphology"])
def test_a_plan_with_one_shape_for_all_levels_gives_the_same_log_z(name: str) -> None:
    agree(name, module_of(name))


def test_an_exported_graph_serves_all_lengths_and_has_loops() -> None:
    exported = exported_program(program_of("hmm"), dtype=torch.float64)
    targets = [str(node.target) for node in exported.graph.nodes]
    assert targets.count("while_loop") == 1
    agree("hmm", exported.module())


def test_lengths_and_tokens_out_of_range_give_nan() -> None:
    known, module = signature_of("hmm"), module_of("hmm")
    arguments = examples(known)[2]
    named = by_name(known, arguments)
    lengths = named["n"].clone()
    lengths[0] = named["w"].shape[1] + 1
    lengths[1] = -1
    words = named["w"].clone()
    words[2, 0] = 5
    words[3, 0] = -3
    found = module(*replaced(known, arguments, n=lengths, w=words))
    assert found.isnan().tolist() == [True, True, True, True, False]


def described(name: str) -> Exported:
    """A program called by name, not compiled."""
    known = signature_of(name).described()
    return Exported(module_of(name), {**known, "max_length": 64, "max_batch": 8})


def test_a_loaded_program_pads_what_is_shorter_than_it_was_compiled_for() -> None:
    program = program_of("rna")
    weights = program.weights(seed=0, dtype=torch.float64)
    run = described("rna")
    words = torch.tensor([[0, 1], [2, -1]])
    assert run.signature["least"] > 2
    wanted = program.log_z(weights, {"w": words}, [2, 1])
    torch.testing.assert_close(run(weights, {"w": words}, [2, 1]), wanted)
    torch.testing.assert_close(run(weights, {"w": words}), program.log_z(weights, {"w": words}))


@pytest.mark.parametrize(
    ("inputs", "lengths", "code"),
    [
        ({"w": torch.zeros(2, 3).long()}, [3, 4], "F411"),
        ({"w": torch.zeros(2, 3).long()}, [3, 3, 3], "F411"),
        ({"w": torch.zeros(2, 3)}, [3, 3], "F411"),
        ({"w": torch.zeros(2, 3, 1).long()}, [3, 3], "F411"),
        ({"w": torch.zeros(2, 65).long()}, None, "F411"),
        ({"w": torch.zeros(9, 3).long()}, None, "F411"),
        ({"v": torch.zeros(2, 3).long()}, [3, 3], "F411"),
        ({"w": torch.zeros(2, 3).long()}, {"m": [3, 3]}, "F411"),
        ({}, None, "F301"),
    ],
)
def test_a_loaded_program_refuses_what_does_not_fit(
    inputs: dict[str, Tensor], lengths: Any, code: str
) -> None:
    weights = program_of("hmm").weights(seed=0, dtype=torch.float64)
    with pytest.raises(GrammarError) as caught:
        described("hmm")(weights, inputs, lengths)
    assert caught.value.diagnostics[0].code == code


def test_a_loaded_program_refuses_weights_that_do_not_fit() -> None:
    weights = program_of("hmm").weights(seed=0, dtype=torch.float64)
    words = {"w": torch.zeros(2, 3).long()}
    for wrong, code in (
        ({"trans": torch.zeros(2, 2)}, "F417"),
        ({"trans": None}, "F416"),
    ):
        given: dict[str, Any] = {n: w for n, w in {**weights, **wrong}.items() if w is not None}
        with pytest.raises(GrammarError) as caught:
            described("hmm")(given, words)
        assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("model.bin", {}, "F415"),
        ("nowhere/model.pt2", {}, "F413"),
        ("folder.pt2", {}, "F413"),
        ("model.pt2", {"dtype": torch.float16}, "F415"),
        ("model.pt2", {"max_length": 3}, "F415"),
        ("model.pt2", {"max_batch": 1}, "F415"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_leaves_nothing(
    tmp_path: Path, name: str, options: dict[str, Any], code: str
) -> None:
    (tmp_path / "folder.pt2").mkdir()
    with pytest.raises(GrammarError) as caught:
        export_program(program_of("hmm"), tmp_path / name, **options)
    assert caught.value.diagnostics[0].code == code
    assert [p.name for p in tmp_path.iterdir()] == ["folder.pt2"]


def test_without_a_compiler_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.exc import InvalidCxxCompiler

    def fail(*_: object, **__: object) -> None:
        raise InvalidCxxCompiler

    monkeypatch.setattr("torch._inductor.aoti_compile_and_package", fail)
    monkeypatch.setattr("fgg.runtime.export.export.exported_program", lambda *_, **__: None)
    with pytest.raises(GrammarError) as caught:
        export_program(program_of("hmm"), tmp_path / "model.pt2")
    assert caught.value.diagnostics[0].code == "F413"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_a_compiled_package_gives_the_same_log_z(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    export_program(program_of(name), path, dtype=torch.float64)
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt2"]
    loaded = load_exported(path)
    assert [a["name"] for a in loaded.signature["arguments"]] == [
        a.name for a in signature_of(name).arguments
    ]
    agree(name, loaded.run)
