"""`fggc format`: in place, as a filter, and as a check."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from fgg.cli import main

MESSY, NEAT = "size k=2  # two\n", "size k = 2  # two\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.fgg"
    path.write_text(MESSY)
    return path


def test_files_are_formatted_in_place(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", str(file)]) == 0
    assert capsys.readouterr().out == f"changed {file}\n"
    assert file.read_text() == NEAT
    assert main(["format", str(file)]) == 0
    assert capsys.readouterr().out == ""


def test_a_check_changes_nothing_and_fails(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "--check", "--json", str(file)]) == 1
    assert json.loads(capsys.readouterr().out) == {"ok": False, "changed": [str(file)]}
    assert file.read_text() == MESSY
    main(["format", str(file)])
    assert main(["format", "--check", str(file)]) == 0


def test_standard_input_goes_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(MESSY))
    assert main(["format", "-"]) == 0
    assert capsys.readouterr().out == NEAT


def test_files_with_errors_stay_and_so_do_all_others(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.fgg"
    wrong.write_text("size =")
    assert main(["format", str(file), str(wrong)]) == 1
    assert "wrong.fgg:1" in capsys.readouterr().err
    assert file.read_text() == MESSY
    assert main(["format", str(tmp_path / "none.fgg")]) == 2


def test_grammars_of_the_library_are_not_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "hmm"]) == 2
    assert "fggc show hmm --emit fgg > hmm.fgg" in capsys.readouterr().err
