"""`--backend` on every command that computes, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fgg.cli import main
from fgg.plan import backend as rule
from tests.helpers.native import needs_compiler

HMM = ("hmm", "--set", "k=3", "d=3", "--input", "w=0,1,2", "--seed", "1")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    return code, out.out, out.err


@pytest.mark.parametrize(
    "command", ["train", "eval", "decode", "sample", "run", "verify", "compile"]
)
def test_every_command_that_computes_has_the_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "--backend {auto,torch,cpp,triton}" in capsys.readouterr().out
    code, _, err = run(capsys, command, "hmm", "--backend", "jax")
    assert code == 2 and "jax" in err


@needs_compiler
def test_backends_print_the_same(built: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    sample = [run(capsys, "sample", *HMM, "--backend", name) for name in ("torch", "cpp", "auto")]
    assert len({out for _, out, _ in sample}) == 1 and [code for code, _, _ in sample] == [0] * 3
    assert [err for _, _, err in sample] == [
        "",
        "building machine code: this takes some seconds, once\n",
        "",
    ]
    value = [run(capsys, "run", *HMM, "--backend", name) for name in ("torch", "cpp", "auto")]
    assert len({(out, err) for _, out, err in value}) == 1, "nothing is built twice"
    assert built == ["float64"]


@needs_compiler
def test_a_quiet_command_builds_quietly(
    built: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "run", *HMM, "--backend", "cpp", "--json")
    assert (code, err, built) == (0, "", ["float64"]) and json.loads(out)["log_z"] < 0


@needs_compiler
def test_a_command_with_much_to_do_builds(
    built: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 3.0)
    code, _, err = run(capsys, "decode", *HMM, "--method", "mbr")
    assert code == 0 and built and err.startswith("building machine code")


def test_without_a_compiler_only_cpp_warns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 3.0)
    assert run(capsys, "sample", *HMM)[2] == ""
    code, _, err = run(capsys, "sample", *HMM, "--backend", "cpp")
    assert code == 0 and err.startswith("warning[F435]: there is no C++ compiler")
    code, _, err = run(capsys, "verify", "hmm", "--backend", "cpp")
    assert code == 2 and "machine code cannot be compared" in err


@needs_compiler
def test_the_cost_tells_the_backend_and_the_reason(
    built: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cost = ("compile", "hmm", "--set", "k=3", "d=3", "--emit", "cost", "--dtype", "float64")
    last = run(capsys, *cost)[1].splitlines()[-1]
    assert last == (
        "backend        torch: machine code would save about 2.7 ms and take about 1.3 s to "
        "build; cpp from about 460 such batches on"
    )
    report = json.loads(run(capsys, *cost, "--json")[1])["backend"]
    assert report == {
        "asked": "auto",
        "backend": "torch",
        "reason": "machine code would save about 2.7 ms and take about 1.3 s to build",
        "batches": 462,
    }
    large = run(capsys, *cost, "--length", "n=20000")[1].splitlines()[-1]
    assert large.startswith("backend        cpp: machine code saves at least 1.4 s")
    assert not built, "nothing is built to tell"
    run(capsys, "run", *HMM, "--backend", "cpp")
    last = run(capsys, *cost)[1].splitlines()[-1]
    assert last.endswith(
        "torch: machine code is there, but would save only about 2.7 ms; "
        "cpp from about 37 such batches on"
    )
    asked = run(capsys, *cost, "--backend", "cpp")[1].splitlines()[-1]
    assert asked == "backend        cpp: it was asked for"


def test_the_cost_tells_that_there_is_no_compiler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    reason = "backend        torch: there is no C++ compiler (no-such-compiler)"
    code, out, err = run(capsys, "compile", "hmm", "--emit", "cost")
    assert code == 0 and out.splitlines()[-1] == reason and "F435" not in err
    code, out, err = run(capsys, "compile", "hmm", "--emit", "cost", "--backend", "cpp")
    assert code == 0 and out.splitlines()[-1] == reason and "F435" in err


@needs_compiler
def test_a_run_is_trained_and_scored_by_machine_code(
    built: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("the dog runs\na dog sees the cat\nthe cat sleeps\n" * 3)
    folder = str(tmp_path / "run")
    options = ("--data", str(words), "--epochs", "2", "--out", folder)
    code, _, err = run(capsys, "train", "hmm", "--set", "k=3", *options, "--backend", "cpp")
    assert code == 0 and "building machine code" in err
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["backend"] == "cpp"
    scores = [
        run(capsys, "eval", folder, "--data", str(words), "--backend", name)
        for name in ("cpp", "torch", "auto")
    ]
    assert len({(code, out) for code, out, _ in scores}) == 1 and built == ["float64"]
