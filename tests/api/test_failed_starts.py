"""Runs that cannot begin leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgg import GrammarError, load
from fgg.api.train import history, start
from fgg.cli import main
from fgg.diagnostics import refuse
from fgg.runtime.train.run_settings import SETTINGS
from tests.helpers.runs import WORDS, on_a_small_disk, settings


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return path


UNREADABLE = {
    "a held-out word": ("hmm", "the dog runs\n", "the zebra runs\n", ["--no-unknown"], "F488"),
    "a word that the grammar lacks": ("listed", "the dog runs\n", "", [], "F488"),
    "a held-out tag": ("tagger", "the/D dog/N\n", "the/D dog/V\n", [], "F488"),
    "no tags": ("tagger", "the/D dog/N\n", "PLAIN", [], "F478"),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("made", [False, True])
def test_a_run_with_data_that_cannot_be_read_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, backend: str, made: bool
) -> None:
    name, data, valid, options, code = UNREADABLE[case]
    run, listed = tmp_path / "run", tmp_path / "listed.fgg"
    text = str(load("hmm", sizes={"k": 2})).replace("domain W = d", "domain W = {the, dog}")
    listed.write_text(text)
    ending = "pos" if name == "tagger" else "txt"
    files = [tmp_path / f"data.{ending}", tmp_path / f"valid.{ending}"]
    if valid == "PLAIN":
        files[1], valid = tmp_path / "valid.txt", "the dog\n"
    for file, content in zip(files, (data, valid), strict=True):
        file.write_text(content)
    if name == "tagger":
        options = [*options, "--query", "tagged", "--field", "tag=tags"]
    if made:
        run.mkdir()
    command = ["train", str(listed) if name == "listed" else name, "--data", str(files[0])]
    command += ["--valid", str(files[1])] if valid else []
    assert main([*command, *options, "--backend", backend, "--out", str(run)]) == 2
    error = capsys.readouterr().err
    assert f"error[{code}]: {files[bool(valid)]}:1: " in error
    assert list(run.iterdir()) == [] if made else not run.exists()


def test_a_new_run_that_fails_in_its_first_sweep_leaves_nothing_behind(
    tmp_path: Path, corpus: Path
) -> None:
    run = tmp_path / "run"

    def failing(_: object) -> None:
        refuse("F420", "there is no memory for it")

    trainer = start(run, settings(corpus), tick=failing)
    assert (run / SETTINGS).exists()
    with pytest.raises(GrammarError, match="F420"):
        trainer.run()
    assert not run.exists()
    # What has been trained is kept.
    start(run, settings(corpus, epochs=1)).run()
    with pytest.raises(GrammarError, match="F420"):
        start(run, None, resume=True, given={"epochs": 2}, tick=failing).run()
    start(run, None, resume=True, given={"epochs": 2}).run()
    assert len(history(run)) == 2


def test_a_disk_that_is_full_when_a_run_begins_has_nothing_of_it_left(
    tmp_path: Path, corpus: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    command = ["train", "hmm", "--set", "k=2", "--data", str(corpus), "--out", str(run)]
    assert on_a_small_disk(300, *command).returncode == 2
    assert [path.name for path in run.iterdir()] == ["notes.txt"]
