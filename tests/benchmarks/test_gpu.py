"""The suite `gpu`: counts need no device, and times are taken on any device that there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu
from benchmarks.__main__ import tables_of
from benchmarks.page import page
from fgg.cli import main
from fgg.plan.devices import DEVICES

SMALL = (
    gpu.Case(grammar="pcfg", space="rank", n=6, batch=2, sizes={"r": 4, "words": 9}),
    gpu.Case(grammar="eisner", space="state", n=5, batch=2, sizes={}),
)


def counted() -> list[dict[str, Any]]:
    return [dict(record) for record in gpu.counts(SMALL)]


def test_every_program_is_counted_on_every_device() -> None:
    records = counted()
    names = {"torch", "triton", "TN-PCFG, torch", "TN-PCFG, Triton", "FlashInside", gpu.LEAST}
    pcfg = [r for r in records if r["at"] == SMALL[0].text]
    assert {(r["name"], r["device"]) for r in pcfg} == {(n, d) for n in names for d in DEVICES}
    eisner = [r for r in records if r["at"] == SMALL[1].text]
    assert {r["name"] for r in eisner} == {"torch", "triton", gpu.LEAST}
    for r in records:
        assert r["seconds"] > 0 and r["bytes"] > 0


def test_the_page_has_the_counts_from_records_alone() -> None:
    records = json.loads(json.dumps(counted()))
    data = {"about": {"commit": "0000000"}, "records": records}
    text, pictures = page(data, tables_of, lambda name: (), "performance")
    assert f"## {gpu.TITLE} (`gpu`)" in text and not pictures
    assert "FlashInside" in text and "nothing here was measured" in text


def test_times_are_taken_on_the_device_that_there_is() -> None:
    records = [dict(r) for r in gpu.measurements(torch.device("cpu"), 1, SMALL)]
    assert [(r["name"], r["role"]) for r in records] == [("torch", "measured")] * 2
    assert all(r["median"] > 0 and r["rounds"] == 1 for r in records)
    first, second = gpu.tables([*counted(), *records])
    assert len(second.rows) == 2 and first.title == gpu.TITLE


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_a_diagnostic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--device", "cuda"], ["gpu", "--device", "cuda"]):
        assert main(["bench", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == "" and "error[F437]: there is no GPU here" in err
    assert main(["bench", "--device", "gpu"]) == 2
    assert "did you mean `cuda`?" in capsys.readouterr().err


def test_other_suites_have_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert main(["bench", "hmm", "gpu", "--device", "cuda"]) == 2
    assert "`hmm` cannot be measured on `cuda`" in capsys.readouterr().err
