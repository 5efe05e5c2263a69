"""The edges of the operating system: devices, links, closed streams, endless files, encodings."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fgg.cli import main

LINUX = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and /dev/zero")


def fggc(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line as a shell runs it."""
    line = command.replace("fggc", f"{sys.executable} -m fgg", 1)
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd(), **environment},
    )


def assert_refused(result: subprocess.CompletedProcess[str], code: str) -> None:
    assert result.returncode == 2, result
    assert code in result.stderr and "Traceback" not in result.stderr and "bug" not in result.stderr


@LINUX
@pytest.mark.parametrize(
    "command", ["fggc show pcfg > /dev/full", "fggc draw hmm -o - > /dev/full", "fggc show hmm >&-"]
)
def test_output_that_cannot_be_written_is_an_error(command: str) -> None:
    assert_refused(fggc(command), "F413")


@LINUX
def test_closed_input_and_endless_files_are_refused() -> None:
    assert_refused(fggc("fggc check - <&-"), "F401")
    assert_refused(fggc("fggc check /dev/zero"), "F401")


def test_a_closed_pipe_is_no_error() -> None:
    result = fggc("fggc show pcfg | head -1")
    assert (result.returncode, result.stdout, result.stderr) == (0, "pcfg\n", "")


def test_a_terminal_without_greek_still_gets_text() -> None:
    result = fggc("fggc show hmm --emit equations", PYTHONIOENCODING="ascii")
    assert result.returncode == 0 and "emit(t, o)" in result.stdout


def test_links_are_followed_and_modes_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.svg", tmp_path / "link.svg"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert main(["draw", "hmm", "-o", str(link)]) == 0
    assert link.is_symlink() and "<svg" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_pipe_is_written_to_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    assert main(["draw", "hmm", "--format", "svg", "-o", str(pipe)]) == 0
    out, _ = reader.communicate(timeout=300)
    assert out.startswith(b"<svg") and stat.S_ISFIFO(pipe.stat().st_mode)


def test_missing_folders_are_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "hmm", "-o", str(tmp_path / "a" / "b.svg")]) == 2
    assert "F413" in capsys.readouterr().err and not (tmp_path / "a").exists()


def test_a_file_where_a_folder_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["draw", "hmm", "--each", "-o", str(tmp_path / "file")]) == 2
    assert "it is not a folder" in capsys.readouterr().err


def test_two_values_for_one_length_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "hmm", "--length", "n=3", "n=4"]) == 2
    assert "two values" in capsys.readouterr().err


def test_an_empty_file_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ""]) == 2
    assert "the file's name is empty" in capsys.readouterr().err


def test_json_says_that_queries_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "hmm", "--emit", "json"]) == 0
    assert "left out: string" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "kind"), [("--epochs", "a whole number"), ("--rate", "a number")]
)
def test_values_of_options_are_called_as_people_call_them(
    option: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "hmm", option, "x"]) == 2
    assert f"argument {option}: {kind} is expected, not 'x'" in capsys.readouterr().err


def test_a_folder_does_not_hide_a_library_grammar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hmm").mkdir()
    Path("models").mkdir()
    assert main(["check", "hmm"]) == 0
    Path("own.fgg").write_text('use "hmm"\nstart S\n')
    assert main(["check", "own.fgg"]) == 0
    assert main(["check", "models"]) == 2
    assert "it is a folder" in capsys.readouterr().err


def test_parameters_that_do_not_fit_are_refused_before_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a b\nb a\n")
    run = tmp_path / "run"
    assert (
        main(["train", "hmm", "--set", "k=2000000", "--data", str(words), "--out", str(run)]) == 2
    )
    said = capsys.readouterr().err
    assert "error[F420]: factor `trans` with 4,000,000,000,000 parameters needs about" in said
    assert not run.exists()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    ],
)
def test_no_memory_is_no_bug(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(arguments: object) -> int:
        raise error

    monkeypatch.setattr("fgg.cli.commands.check.run", fails)
    assert main(["check", "hmm"]) == 2
    said = capsys.readouterr().err
    assert "F420" in said and "bug" not in said
