"""`fggc identify`: one model, and sweeps."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fgg.api.identify import IdentificationModel
from fgg.api.sweep import points, read_ranges
from fgg.cli import main

SMALL = ["--sweep", "d=2..3", "k=2..d", "L=2..4", "--jobs", "1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> dict[str, Any]:
    assert main(["identify", *words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_exit_code_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--set", "k=2", "d=3"]
    good = asked(capsys, 0, "hmm", *sizes, "--length", "3")
    assert (good["rank"], good["parameters"], good["moments"]) == (7, 7, 27)
    assert (good["deficiency"], good["verdict"], good["observed"]) == (0, "yes", "**")
    assert good["agree"] and len(good["float64"]["singular_values"]) == 7
    bad = asked(capsys, 1, "hmm", *sizes, "--length", "n=3", "--moments", "12")
    assert (bad["rank"], bad["deficiency"], bad["verdict"]) == (5, 2, "no")
    assert len(bad["directions"]) == 2 and bad["undetermined"] == ["init", "trans", "emit"]
    none = asked(capsys, 2, "hmm", *sizes, "--length", "2", "--moments", "123")
    assert (none["ok"], none["rank"], none["verdict"]) == (False, None, "undefined")
    assert [d["code"] for d in none["diagnostics"]] == ["F451"]


def test_positions_and_directions(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, 1, "pcfg_i", "--set", "k=2", "d=2", "--length", "3", "--positions", "1,3")
    assert found["observed"] == "1,3" and found["rank"] == 3
    for eta in ("e2", "1/2,0.25"):
        words = ["pcfg_ie", "--set", "k=2", "d=2", "--length", "3", "--moments", "***e1"]
        assert asked(capsys, 0, *words, "--direction", eta)["rank"] == 5


def test_singular_values_are_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["identify", "lcm", "--set", "k=2", "d=2", "--length", "3", "--moments", "all"]
    assert main([*words, "--plot", "values.svg"]) == 0
    root = ElementTree.fromstring((folder / "values.svg").read_text("utf-8"))
    dots = [item for item in root.iter() if item.tag.endswith("circle")]
    assert len(dots) == 3


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["hmm"], "F415"),
        (["hmm", "--length", "x"], "F415"),
        (["hmm", "lcm", "--length", "3"], "F415"),
        (["hmm", "--length", "3", "--moments", "12", "--positions", "1"], "F415"),
        (["hmm", "--length", "3", "--positions", "a"], "F415"),
        (["hmm", "--length", "3", "--positions", "²"], "F415"),
        (["hmm", "--length", "3", "--moments", "***e1", "--direction", "e"], "F415"),
        (["hmm", "--length", "3", "--moments", "***e1", "--direction", "e²"], "F415"),
        (["hmm", "--length", "3", "--moments", "***e1", "--direction", "1e999999999,1"], "F415"),
        (
            [
                "hmm",
                "--set",
                "d=2",
                "--length",
                "3",
                "--moments",
                "***e1",
                "--direction",
                "1e400,1",
            ],
            "F456",
        ),
        (["hmm", "--length", "3", "--seed", "x"], "F415"),
        (["hmm", "--length", "3", "--plot", "nowhere/x.svg"], "F413"),
        (["hmm", "--length", "3", "--plot", "x.svg", "--no-float"], "F415"),
        (["hmm", "--length", "3", "--plot", "x.png"], "F415"),
        (["hmm", "--length", "3", "--direction", "e1"], "F415"),
        (["hmm", "--length", "3", "-o", "x.csv"], "F415"),
        (["hmm", "--length", "3", "-o", "x.svg", "--no-float"], "F415"),
        (["lcm", "--set", "k=1", "d=2", "--length", "2", "-o", "x.svg"], "F412"),
        (["hmm", "--length", "3", "--set", "k=5000", "d=5000"], "F420"),
        (["hmm", "--sweep", "L=3..4", "-o", "x.png"], "F415"),
        (["hmm", "--sweep", "k=2..3"], "F457"),
        (["hmm", "--sweep", "z=2..3", "L=3"], "F457"),
        (["hmm", "--sweep", "k=3..2", "L=3"], "F457"),
        (["hmm", "--sweep", "k=2..d", "L=3"], "F457"),
        (["hmm", "--sweep", "k=1..999999", "d=1..9", "L=3"], "F457"),
        (["hmm", "--sweep", "k=0..2", "L=3"], "F410"),
        (["hmm", "--sweep", "L=0..2"], "F457"),
        (["hmm", "--sweep", "k=2", "L=2,2000"], "F457"),
        (["hmm", "--sweep", "L=2..3", "--length", "4"], "F457"),
        (["pair_hmm", "--sweep", "n=2..3", "m=2..3"], "F457"),
        (["hmm", "--sweep", "d=2..3", "k=2", "L=3", "--direction", "1,1"], "F456"),
        (["hmm", "--sweep", "L=3", "-o", "nowhere/x.csv"], "F413"),
        (["hmm", "--sweep", "L=3", "-o", ".csv/"], "F415"),
        (["hmm", "--sweep", "L=3", "--results", "/dev/zero"], "F401"),
        (["crf", "--sweep", "L=2..3"], "F453"),
        (["hmm", "--sweep", "k=4000", "d=4000", "L=3"], "F420"),
    ],
)
def test_what_cannot_be_asked(
    words: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(capsys, 2, *words)
    assert [d["code"] for d in found["diagnostics"]] == [code]


def test_ranges_speak_of_earlier_ones() -> None:
    found = points(read_ranges(["d=2..3", "k=2..d+1,7", "L=4"]))
    assert [(p["d"], p["k"]) for p in found] == [
        (2, 2), (2, 3), (2, 7), (3, 2), (3, 3), (3, 4), (3, 7),
    ]  # fmt: skip
    assert all(p["L"] == 4 for p in found)


def test_a_sweep_makes_the_table_in_every_form(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forms = ["txt", "csv", "json", "tex", "svg"]
    outputs = [word for form in forms for word in ("-o", f"t.{form}")]
    assert main(["identify", "hmm", "dep_ies", *SMALL, *outputs]) == 0
    text = capsys.readouterr().out
    assert text == (folder / "t.txt").read_text("utf-8")
    lines = text.splitlines()
    assert lines[0].split() == ["12", "**", "123e1", "123", "***", "***e1"]
    assert "L ≥ 3" in lines[1] and "dep_ies, 12: L ≥ 2 at d = 2" in lines
    with (folder / "t.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == (3 * 3 + 2 * 3) * 6
    one = next(
        r
        for r in rows
        if (r["grammar"], r["observed"], r["d"], r["L"]) == ("dep_ies", "12", "3", "2")
    )
    assert (one["k"], one["parameters"], one["rank"], one["verdict"]) == ("", "6", "5", "no")
    data = json.loads((folder / "t.json").read_text("utf-8"))
    assert data["table"]["hmm"]["12"] == "no" and len(data["entries"]) == len(rows)
    errors = [entry["error"] for entry in data["entries"]]
    assert data["error"] == pytest.approx(sum(errors)) and 0 < data["error"] < 1e-10
    assert lines[-1].endswith(f"but for a probability of {data['error']:.1g}")
    tex = (folder / "t.tex").read_text("utf-8")
    assert r"dep\_ies & $L \ge 3^*$" in tex and tex.count(r"\\") == 3
    picture = ElementTree.fromstring((folder / "t.svg").read_text("utf-8"))
    titles = [item.text or "" for item in picture.iter() if item.tag.endswith("title")]
    assert sum("L = " in title for title in titles) == len(rows)


def test_a_sweep_goes_on_from_its_results(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["hmm", "--sweep", "k=2..3", "d=2", "L=2..3", "--jobs", "1", "--results", "r.jsonl"]
    whole = asked(capsys, 0, *words, "--moments", "12", "**")
    path = folder / "r.jsonl"
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 8
    # As if the run had been stopped in the middle of a line.
    path.write_text("\n".join(lines[:5]) + "\n" + lines[5][:20], "utf-8")
    made: list[int] = []
    original = IdentificationModel.identify

    def counted(
        self: IdentificationModel, length: int, moments: Sequence[str], **options: Any
    ) -> Any:
        made.append(len(moments))
        return original(self, length, moments, **options)

    monkeypatch.setattr(IdentificationModel, "identify", counted)
    again = asked(capsys, 0, *words, "--moments", "12", "**")
    assert again == whole and sum(made) == 3
    made.clear()
    assert asked(capsys, 0, *words, "--moments", "12", "**") == whole and not made
    assert len(path.read_text("utf-8").splitlines()) == 8
    path.write_text("my notes", "utf-8")
    assert asked(capsys, 2, *words)["diagnostics"][0]["code"] == "F457"
    assert path.read_text("utf-8") == "my notes"
    path.unlink()
    other = [word if word != "d=2" else "d=3" for word in words]
    assert len(asked(capsys, 0, *other, "--moments", "12")["entries"]) == 4


def test_grammars_of_the_same_name_have_a_row_each(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(str(files("fgg.grammars") / "lcm.fgg")).read_text("utf-8")
    for name, value in (("a", ""), ("b", " = uniform")):
        (folder / name).mkdir()
        changed = text.replace("factor class(-> T)", f"factor class(-> T){value}")
        (folder / name / "x.fgg").write_text(changed, "utf-8")
    words = ["--sweep", "k=2", "d=2", "L=3", "--jobs", "1", "--results", "r.jsonl"]
    words += ["--moments", "**"]
    found = asked(capsys, 0, "a/x.fgg", "b/x.fgg", "a/x.fgg", *words)
    assert [(e["grammar"], e["parameters"]) for e in found["entries"]] == [("x", 3), ("x_2", 2)]
    again = asked(capsys, 0, "b/x.fgg", "a/x.fgg", *words)
    assert [(e["grammar"], e["parameters"]) for e in again["entries"]] == [("x", 2), ("x_2", 3)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_is_stopped_leaves_no_processes(folder: Path, number: int) -> None:
    command = [sys.executable, "-m", "fgg", "identify", "cnf", "--jobs", "2"]
    command += ["--sweep", "d=7..8", "k=7..8", "L=8..9"]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *sys.path]))
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    found: set[int] = set()
    for _ in range(6000):
        found = children(process.pid)
        if len(found) == 3:  # two that compute, and one that looks after semaphores
            break
        time.sleep(0.1)
    assert len(found) == 3
    time.sleep(3)  # imports
    process.send_signal(number)
    assert process.wait(300) == (130 if number == signal.SIGINT else -number)
    for _ in range(3000):
        if not any(Path(f"/proc/{child}").exists() for child in found):
            return
        time.sleep(0.1)
    raise AssertionError("processes are left")


def children(parent: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.add(int(path.parent.name))
    return found


def test_processes_find_the_same_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lcm", "--sweep", "k=2..3", "d=2", "L=3", "--moments", "123"]
    assert asked(capsys, 0, *words, "--jobs", "2") == asked(capsys, 0, *words, "--jobs", "1")


def test_moves_are_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["identify", "hmm", "--set", "k=2", "d=2", "--length", "3", "--moments", "12"]
    assert main([*words, "-o", "moves.svg"]) == 1
    root = ElementTree.fromstring((folder / "moves.svg").read_text("utf-8"))
    texts = [item.text or "" for item in root.iter() if item.tag.endswith("text")]
    assert any(text.startswith("trans[") for text in texts)
    assert sum("moments differ by" in text for text in texts) == texts.count(
        "0 to 1; gray: before, green: after"
    )


def test_several_lengths_are_asked_about_jointly(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dep_ies", "--set", "d=3", "--moments", "12", "--no-float", "--length"]
    assert asked(capsys, 1, *words, "2")["deficiency"] == 1
    both = asked(capsys, 0, *words, "2", "3")
    assert both["lengths"] == [{"n": 2}, {"n": 3}] and both["moments"] == 18
    assert asked(capsys, 2, *words, "2", "2")["diagnostics"][0]["code"] == "F411"


def test_solutions_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lcm", "--set", "k=2", "d=2", "--length", "3", "--moments", "123", "--no-float"]
    solutions = asked(capsys, 0, *words, "--solutions", "4")["solutions"]
    assert solutions["starts"] == 4 and solutions["possible"] == 2 and solutions["others"] == 0
    assert solutions["renamings"] == len(solutions["tables"])
    main(["identify", *words, "--solutions", "2"])
    assert "of 2 starts reached the moments" in capsys.readouterr().out


def test_weights_of_a_file_are_asked_about(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    tables = {"class": np.array([0.5, 0.5]), "emit": np.array([[0.25, 0.75], [0.25, 0.75]])}
    save_file(tables, "same.safetensors")
    words = ["lcm", "--set", "k=2", "d=2", "--length", "3", "--moments", "123"]
    assert asked(capsys, 0, *words)["rank"] == 3
    assert asked(capsys, 1, *words, "--params", "same.safetensors")["rank"] == 1
