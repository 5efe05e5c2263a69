"""`fggc unmix`: what it prints and writes, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import fgg
from fgg.api.unmix import draw
from fgg.cli import main

TRUTH = {
    "root": np.array([0.4, 0.6]),
    "child": np.array([[0.8, 0.2], [0.3, 0.7]]),
    "emit": np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5]]),
}
SIZES = ["--set", "k=2", "d=4"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with samples of three words."""
    monkeypatch.chdir(tmp_path)
    grammar = fgg.load("pcfg_ie", sizes={"k": 2, "d": 4})
    own = draw(grammar, TRUTH, 3, 4_000, seed=0)
    own = np.random.default_rng(0).permutation(own)
    lines = (" ".join(map(str, row)) for row in own.tolist())
    Path("samples.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return tmp_path


def test_exact_moments_give_the_weights_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["unmix", "pcfg_ie", *SIZES, "--exact", "--seed", "1", "--json"]
    assert main([*command, "--params-out", "found.safetensors"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and not found["projected"]
    assert max(found["errors"].values()) < 1e-9
    assert found["mixing"] == {
        "rows": 3,
        "columns": 3,
        "rank": 3,
        "used": ["length 3: 1 2; 3", "length 3: 1 3; 2", "length 3: 2 3; 1"],
    }
    # What is written is a model: its own moments give it back.
    again = ["unmix", "pcfg_ie", *SIZES, "--exact", "--params", "found.safetensors", "--json"]
    assert main(again) == 0
    assert max(json.loads(capsys.readouterr().out)["errors"].values()) < 1e-9


def test_samples_give_an_estimate_and_a_plot(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["unmix", "pcfg_ie", *SIZES, "--data", "samples.txt", "--refine", "5"]
    assert main([*command, "--plot", "error.svg", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    levels = found["log_likelihoods"]
    assert len(levels) == 6 and levels[-1] > levels[0]
    assert found["gradient"] > 1e-7 and "F465" in [d["code"] for d in found["diagnostics"]]
    picture = ElementTree.parse(folder / "error.svg").getroot()
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) >= 3
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "refined: 5 steps" in shown and "emit [2, 4]" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pcfg_ie"], "moments come either from `--data`"),
        (["pcfg_ie", "--exact", "--data", "samples.txt"], "moments come either from `--data`"),
        (["pcfg_ie", "--exact", "--refine", "3"], "`--refine` needs sentences"),
        (["pcfg_ie", "--exact"], "no weights for"),
        (["pcfg_ie", "--exact", "--seed", "0", "--max-length", "40"], "from 2 to 12"),
        (["pcfg_ie", "--data", "nothing.txt"], "there is no file `nothing.txt`"),
        (["pcfg_ie", "--set", "k=2", "d=3", "--data", "samples.txt"], "is not a value of"),
    ],
)
def test_wrong_commands_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["unmix", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_grammar_that_cannot_be_unmixed_is_the_answer_no(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["unmix", "dep_i", "--exact", "--seed", "0", "--method", "spectral"]) == 1
    assert "error[F460]" in capsys.readouterr().err


def test_moments_are_matched_where_there_is_no_linear_algebra(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["unmix", "dep_ie", "--set", "d=2", "--exact", "--seed", "0"]
    assert main(command) == 0
    assert "12 moments `***` of sentences of 2, 3 words" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["method"] == "moments" and report["mixing"] is None
    assert max(report["errors"].values()) < 1e-8
    assert main(["unmix", "cnf", "--set", "k=2", "d=3", "--exact", "--seed", "0"]) == 1
    assert "error[F461]" in capsys.readouterr().err


def test_errors_say_how_many_sentences_are_needed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["unmix", "lcm", "--set", "k=2", "d=4", "--data", "samples.txt"]
    matched = [*command, "--method", "moments", "--errors", "--within", "0.02"]
    assert main([*matched, "--json"]) == 0
    limits = json.loads(capsys.readouterr().out)["precision"]
    assert limits["sentences"] == 4_000 and limits["lengths"] == {"3": 4_000}
    greatest = np.max(limits["errors"]["emit"])
    needed = 4_000 * (1.959964 * greatest / 0.02) ** 2
    assert limits["needed"]["emit"] == pytest.approx(needed, rel=1e-3)
    assert main(["unmix", "lcm", "--set", "k=2", "d=2", "--exact", "--seed", "0", "--errors"]) == 0
    assert "class: ±0.05 needs " in capsys.readouterr().out
    assert main([*command, "--errors"]) == 2
    assert "those of the greatest likelihood or of moment matching" in capsys.readouterr().err
    assert main([*command, "--within", "0.1"]) == 2
    assert "`--within` belongs to `--errors`" in capsys.readouterr().err
    assert main([*matched[:-1], "0"]) != 0


def test_no_picture_is_left_behind_where_nothing_was_found(folder: Path) -> None:
    Path("four.txt").write_text("0 1 0\n1 0 0\n0 1 0\n1 0 1\n", "utf-8")
    command = ["unmix", "pcfg_ie", "--set", "k=2", "d=2", "--data", "four.txt"]
    assert main([*command, "--plot", "error.svg"]) == 1
    assert not (folder / "error.svg").exists()
