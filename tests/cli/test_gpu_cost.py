"""`fggc compile --emit cost --device GPU`: what programs would do on a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fgg.cli import main
from tests.conftest import Golden

PCFG = ("pcfg", "--space", "rank", "--length", "n=40", "--set", "r=1000")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["compile", *arguments])
    out = capsys.readouterr()
    assert "Traceback" not in out.err
    return code, out.out, out.err


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, _ = run(capsys, *arguments, "--emit", "cost", "--json")
    assert code == 0
    return json.loads(out)["gpu"]


def test_table_of_a_pcfg(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    code, out, _ = run(capsys, *PCFG, "--emit", "cost", "--device", "a100")
    assert code == 0
    golden(out[out.index("on NVIDIA") :])


def test_json_has_what_the_table_has(capsys: pytest.CaptureFixture[str]) -> None:
    gpu = report(capsys, *PCFG, "--device", "h100")
    assert gpu["device"] == "h100" and gpu["memory"]["fits"] and not gpu["tensor_operations"]
    steps = {(row["pass"], row["rule"], row["program"]): row for row in gpu["steps"]}
    binary = steps["inside", "binary", "triton"]
    assert binary["launches"] == 39 and binary["launches_a_level"] == 1
    assert binary["seconds"] >= binary["roofline_seconds"] > 0
    programs = {row["program"] for row in gpu["passes"]}
    assert programs == {"torch", "triton", "TN-PCFG, torch", "TN-PCFG, Triton", "FlashInside"}
    for program in ("torch", "triton"):
        rows = [row for row in gpu["passes"] if row["program"] == program]
        assert rows[-1]["pass"] == "whole"
        assert rows[-1]["launches"] == sum(row["launches"] for row in rows[:-1])
        mine = [row["launches"] for row in gpu["steps"] if row["program"] == program]
        assert sum(mine) == rows[-1]["launches"]


def test_double_precision_takes_longer(capsys: pytest.CaptureFixture[str]) -> None:
    """An RTX 4090 multiplies doubles 64 times as slowly; published programs have none."""
    narrow = report(capsys, *PCFG, "--device", "rtx4090")
    wide = report(capsys, *PCFG, "--device", "rtx4090", "--dtype", "float64")
    seconds = [
        next(
            row["seconds"]
            for row in gpu["passes"]
            if row["program"] == "triton" and row["pass"] == "whole"
        )
        for gpu in (narrow, wide)
    ]
    assert 10 < seconds[1] / seconds[0] < 64
    assert {row["program"] for row in wide["passes"]} == {"torch", "triton"}


def test_what_does_not_fit_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    large = (*PCFG, "--batch", "4000", "--emit", "cost", "--device")
    code, out, _ = run(capsys, *large, "rtx4090")
    assert code == 0 and "more than the 24 GB of the device" in out.splitlines()[-1]
    assert not report(capsys, *PCFG, "--batch", "4000", "--device", "rtx4090")["memory"]["fits"]


def test_rules_without_kernels_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    gpu = report(capsys, "ctc", "--length", "n=5", "m=3", "--device", "a100")
    assert gpu["tensor_operations"]["inside label"] == "tables say where cells are"
    out = run(capsys, "ctc", "--length", "n=5", "m=3", "--device", "a100", "--emit", "cost")[1]
    assert "inside label stays tensor operations: tables say where cells are" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--emit", "cost", "--device", "a10O"), 2, "did you mean `a100`"),
        (("--emit", "cost", "--device", "tpu"), 2, "there are `a100`, `h100`, `rtx4090`"),
        (("--emit", "plan", "--device", "a100"), 2, "`--device` goes with `--emit cost`"),
        (("--device", "a100"), 2, "`--device` goes with `--emit cost`"),
        (("--emit", "cost", "--device", "a100", "--length", "n=9999"), 2, "at most 4,096 levels"),
    ],
)
def test_bad_options(
    arguments: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capsys, "hmm", *arguments)
    assert (found, out) == (code, "") and message in err
