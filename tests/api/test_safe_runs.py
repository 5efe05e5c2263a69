"""Runs refuse what would make them wrong: other data, damaged files, full disks, a second run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import fgg
from fgg import GrammarError, load
from fgg.api.train import MODEL, history, start
from fgg.cli import main
from fgg.runtime.learn import CVB
from fgg.runtime.train.digests import digest
from fgg.runtime.train.run_folder import METRICS, POINTER, same_state
from fgg.runtime.train.run_settings import SETTINGS, load_settings
from tests.helpers.runs import WORDS, on_a_small_disk, settings


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return path


def refused(call: Callable[[], object]) -> str:
    """The message of a refusal to resume, and its help."""
    with pytest.raises(GrammarError) as caught:
        call()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "F479"
    return f"{diagnostic.message}\n{diagnostic.help}"


def resumed(folder: Path, **given: Any) -> str:
    return refused(lambda: start(folder, None, resume=True, given=given))


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


# two trainings in one folder


def test_a_second_training_in_a_folder_is_refused_while_the_first_one_is_going_on(
    tmp_path: Path, corpus: Path
) -> None:
    trainer = start(tmp_path / "run", settings(corpus))
    for resume in (False, True):
        with pytest.raises(GrammarError, match="F496"):
            start(tmp_path / "run", settings(corpus), resume=resume)
    command = [sys.executable, "-m", "fgg", "train", "--resume", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2 and f"process {os.getpid()}" in done.stderr
    trainer.run()
    start(tmp_path / "run", None, resume=True, given={"epochs": 3}).run()
    assert len(history(tmp_path / "run")) == 3


# data, vocabularies, options and grammars that have changed


@pytest.mark.parametrize("method", ["em", "cvb"])
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (WORDS[:-1], "had 75 bytes and has 58"),
        ([*WORDS, "a dog runs"], "had 75 bytes and has 86"),
        (WORDS[::-1], "it has as many bytes as before, but other ones"),
        ([*WORDS[:-1], "dog runs the cow"], "it has as many bytes as before, but other ones"),
    ],
)
def test_a_run_is_not_resumed_with_other_data(
    tmp_path: Path, corpus: Path, method: str, lines: list[str], told: str
) -> None:
    run = tmp_path / "run"
    start(run, settings(corpus, method)).run()
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    write(corpus, lines)
    message = resumed(run, epochs=4)
    assert told in message and "--migrate" in message
    assert {p.name: p.read_bytes() for p in run.iterdir() if p.is_file()} == before
    write(corpus, WORDS)
    start(run, None, resume=True, given={"epochs": 4}).run()
    assert len(history(run)) == 4


def test_data_are_checked_before_the_first_epoch_is_done(tmp_path: Path, corpus: Path) -> None:
    start(tmp_path / "run", settings(corpus))
    write(corpus, WORDS[:-1])
    assert "has been changed" in resumed(tmp_path / "run")


def test_missing_data_are_refused_and_moved_data_are_not(tmp_path: Path, corpus: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "moved.txt"
    start(run, settings(corpus)).run()
    corpus.rename(other)
    with pytest.raises(GrammarError, match="F401"):
        start(run, None, resume=True)
    start(run, None, resume=True, given={"data": (str(other),), "epochs": 3}).run()
    assert load_settings(run).data == (str(other),) and len(history(run)) == 3


def test_the_order_and_the_number_of_data_files_count(tmp_path: Path, corpus: Path) -> None:
    other = tmp_path / "other.txt"
    write(other, ["the dog sleeps"])
    start(tmp_path / "run", settings(corpus, data=(str(corpus), str(other)))).run()
    swapped = resumed(tmp_path / "run", data=(str(other), str(corpus)))
    assert "in another order" in swapped
    assert "began with 2 data files, not 1" in resumed(tmp_path / "run", data=(str(corpus),))


def test_other_held_out_data_are_refused(tmp_path: Path, corpus: Path) -> None:
    held = tmp_path / "held.txt"
    write(held, WORDS[:2])
    start(tmp_path / "run", settings(corpus, valid=(str(held),))).run()
    write(held, WORDS[:1])
    assert "its held-out data have been changed" in resumed(tmp_path / "run")


def test_other_options_vocabularies_and_grammars_are_refused(tmp_path: Path, corpus: Path) -> None:
    run = tmp_path / "run"
    start(run, settings(corpus)).run()
    other = settings(corpus, options={"pseudo": 0.1})
    assert "another `options`" in refused(lambda: start(run, other, resume=True))

    kept = (run / SETTINGS).read_text()
    (run / SETTINGS).write_text(kept.replace('"budget": 12', '"budget": 24'))
    assert f"the options in {SETTINGS} have been changed" in resumed(run)
    (run / SETTINGS).write_text(kept.replace("rule step", "rule stap"))
    assert "the grammar of the run" in resumed(run)
    (run / SETTINGS).write_text(kept)

    words = (run / "vocabulary-W.json").read_text()
    (run / "vocabulary-W.json").write_text(words.replace('"runs"', '"rums"'))
    assert "the vocabulary of the run" in resumed(run)
    (run / "vocabulary-W.json").write_text(words)
    start(run, None, resume=True, given={"epochs": 3}).run()


def test_data_that_change_under_a_run_stop_it_before_a_checkpoint(
    tmp_path: Path, corpus: Path
) -> None:
    run, left = tmp_path / "run", [4]

    def tick(_: object) -> None:
        left[0] -= 1
        if not left[0]:
            write(corpus, WORDS[:2])

    trainer = start(run, settings(corpus, epochs=50), tick=tick)
    assert "while the run was reading it" in refused(trainer.run)
    done = len(history(run))
    write(corpus, WORDS)
    start(run, None, resume=True, given={"epochs": done + 1}).run()
    whole = start(tmp_path / "whole", settings(corpus, epochs=done + 1))
    whole.run()
    assert (run / MODEL).read_bytes() == (tmp_path / "whole" / MODEL).read_bytes()


# migration


def test_a_migrated_cvb_run_drops_the_counts_of_items_that_vanished(
    tmp_path: Path, corpus: Path
) -> None:
    run, asked = tmp_path / "run", settings(corpus, "cvb")
    start(run, asked).run()
    write(corpus, WORDS[:2])
    trainer = start(run, None, resume=True, migrate=True, given={"epochs": 3})
    assert isinstance(trainer.method, CVB) and not trainer.method.store.units
    before = load_file(run / MODEL)
    assert same_state(trainer.model.state_dict(), before), "the model stays"
    trainer.run()
    # The counts are those of the two items that there are: three words, and five.
    assert float(trainer.method.store.total.sum()) == pytest.approx(2 * 8, abs=1e-9)
    assert len(history(run)) == 3
    # From now on the run belongs to the new data.
    start(run, None, resume=True, given={"epochs": 4}).run()
    write(corpus, WORDS)
    assert "has been changed" in resumed(run)


def test_a_migrated_run_equals_one_that_begins_with_the_model(tmp_path: Path, corpus: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other.txt"
    start(run, settings(corpus, epochs=1)).run()
    write(other, WORDS[:3])
    model = fgg.load_model(run)
    items = {"w": [list(example.words) for example in fgg.data.read(other)]}
    learned = fgg.learn(model, items, method="em", epochs=1)
    given = {"data": (str(other),), "epochs": 2}
    start(run, None, resume=True, migrate=True, given=given).run()
    migrated = fgg.load_model(run).state_dict()
    for name, tensor in learned.model.state_dict().items():
        torch.testing.assert_close(migrated[name], tensor)


def test_a_run_migrates_to_another_method(tmp_path: Path, corpus: Path) -> None:
    run = tmp_path / "run"
    start(run, settings(corpus, epochs=1)).run()
    asked = settings(corpus, "adam", epochs=3, options={"rate": 0.1})
    assert "another `method`" in refused(lambda: start(run, asked, resume=True))
    start(run, asked, resume=True, migrate=True).run()
    kinds = [entry["details"].keys() for entry in history(run)]
    assert "rate" not in kinds[0] and "rate" in kinds[1] and len(kinds) == 3
    assert load_settings(run).method == "adam"


def test_other_held_out_data_leave_the_counts(tmp_path: Path, corpus: Path) -> None:
    held = tmp_path / "held.txt"
    write(held, WORDS[:2])
    run = tmp_path / "run"
    start(run, settings(corpus, "cvb", valid=(str(held),))).run()
    write(held, WORDS[:1])
    trainer = start(run, None, resume=True, migrate=True)
    assert isinstance(trainer.method, CVB) and len(trainer.method.store.units) == len(WORDS)
    assert trainer.at.best is None


def test_another_grammar_never_migrates(tmp_path: Path, corpus: Path) -> None:
    run = tmp_path / "run"
    start(run, settings(corpus)).run()
    other = settings(corpus, grammar=str(load("hmm", sizes={"k": 3})))
    message = refused(lambda: start(run, other, resume=True, migrate=True))
    assert "another `grammar`" in message and "another folder" in message


def test_migration_from_the_shell(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "run")]
    begin = ["train", "hmm", "--set", "k=2", "--data", str(corpus), "--epochs", "1"]
    assert main([*begin, *out]) == 0
    write(corpus, WORDS[:2])
    assert main(["train", "--resume", "--epochs", "2", *out]) == 2
    said = capsys.readouterr().err
    assert "F479" in said and "`--migrate` continues" in said
    assert main(["train", "--migrate", "--epochs", "2", *out]) == 2  # only with --resume
    assert main(["train", "--resume", "--migrate", "--epochs", "2", *out]) == 0
    assert "continuing with other data" in capsys.readouterr().err


# damage


@pytest.mark.parametrize("name", [POINTER, "model.safetensors", "method-0.safetensors"])
def test_two_flipped_bits_in_a_checkpoint_are_found(
    tmp_path: Path, corpus: Path, name: str
) -> None:
    run = tmp_path / "run"
    start(run, settings(corpus)).run()
    (place,) = run.glob("checkpoint-*/")
    path = run / name if name == POINTER else place / name
    data = bytearray(path.read_bytes())
    spot = data.index(b'"epoch": 2') + 9 if name == POINTER else len(data) - 12
    data[spot] ^= 1
    data[spot + (3 if name != POINTER else 0)] ^= 1 if name != POINTER else 2
    path.write_bytes(data)
    assert "checksum does not fit" in resumed(run)


def test_two_flipped_bits_in_a_model_are_found(tmp_path: Path, corpus: Path) -> None:
    start(tmp_path / "run", settings(corpus)).run()
    path = tmp_path / "run" / MODEL
    whole = path.read_bytes()
    for spot in (len(whole) - 5, whole.index(b"rule"), whole.index(b'"shape"') + 9):
        data = bytearray(whole)
        data[spot] ^= 1
        data[spot + 1] ^= 1
        path.write_bytes(data)
        with pytest.raises(GrammarError) as caught:
            fgg.load_model(path)
        assert caught.value.diagnostics[0].code == "F471"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"checksum": 1}', "null"])
def test_a_checkpoint_that_is_none_is_refused(tmp_path: Path, corpus: Path, text: str) -> None:
    start(tmp_path / "run", settings(corpus)).run()
    (tmp_path / "run" / POINTER).write_text(text)
    assert "the checkpoint in" in resumed(tmp_path / "run")


# what killed processes leave behind


def test_what_killed_processes_left_is_removed_and_other_files_are_not(
    tmp_path: Path, corpus: Path
) -> None:
    run = tmp_path / "run"
    start(run, settings(corpus)).run()
    stale = [run / ".model.safetensors.abcdefgh", run / ".metrics.jsonl.12345678"]
    other = [run / ".notes.txt.abcdefgh", run / ".model.safetensors.bak", run / "notes.txt"]
    for path in (*stale, *other):
        path.write_text("text")
    half, foreign = run / "checkpoint-77", run / "checkpoint-500"
    half.mkdir()
    (half / "model.safetensors").write_text("half of")
    foreign.mkdir()
    (foreign / "optimizer.pt").write_text("that of another program")
    start(run, None, resume=True, given={"epochs": 3}).run()
    assert not any(path.exists() for path in (*stale, half, run / "lock"))
    assert all(path.exists() for path in (*other, foreign))


# disks


def test_a_disk_that_is_full_is_told_of_and_the_run_can_be_resumed(
    tmp_path: Path, corpus: Path
) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    begin = ["train", "hmm", "--set", "k=2", "--data", str(corpus)]
    assert main([*begin, "--epochs", "3", "--out", str(whole)]) == 0
    # No file of the start fits, then none of a checkpoint, then no model, then no metrics.
    size = os.path.getsize(whole / MODEL) - 1
    for most, epochs in ((100, 2), (size, 2)):
        done = on_a_small_disk(most, *begin, "--epochs", str(epochs), "--out", str(run))
        assert done.returncode == 2 and "F413" in done.stderr and "Trace" not in done.stderr
        assert "file too large" in done.stderr
        assert not [path for path in run.rglob("*") if path.name.startswith(".")]
        if most == 100:
            assert not run.exists() or not (run / SETTINGS).exists()
            shutil.rmtree(run, ignore_errors=True)
    assert main(["train", "--resume", "--out", str(run)]) == 0
    metrics = os.path.getsize(run / METRICS)
    done = on_a_small_disk(metrics, "train", "--resume", "--epochs", "3", "--out", str(run))
    assert done.returncode == 2 and "metrics" not in str(list(run.glob(".*")))
    assert len(history(run)) == 2 and (run / METRICS).read_bytes().endswith(b"\n")
    assert main(["train", "--resume", "--epochs", "3", "--out", str(run)]) == 0
    assert (run / MODEL).read_bytes() == (whole / MODEL).read_bytes()


def test_a_folder_that_is_removed_meanwhile_is_told_of_and_not_made_again(
    tmp_path: Path, corpus: Path
) -> None:
    run, left = tmp_path / "run", [4]

    def tick(_: object) -> None:
        left[0] -= 1
        if not left[0]:
            shutil.rmtree(run)

    trainer = start(run, settings(corpus, epochs=20), tick=tick)
    with pytest.raises(GrammarError, match="F413"):
        trainer.run()
    assert not run.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_without_leave_to_write_is_told_of(tmp_path: Path, corpus: Path) -> None:
    run = tmp_path / "run"
    trainer = start(run, settings(corpus, epochs=20))
    run.chmod(0o500)
    try:
        with pytest.raises(GrammarError, match="F413"):
            trainer.run()
        with pytest.raises(GrammarError, match="F413"):
            start(run / "inner", settings(corpus))
    finally:
        run.chmod(0o700)


def test_a_run_folder_that_is_a_file_is_told_of(tmp_path: Path, corpus: Path) -> None:
    with pytest.raises(GrammarError, match="F413"):
        start(corpus, settings(corpus))
    assert corpus.read_text().splitlines() == WORDS


def test_equal_options_of_python_and_of_the_folder_are_no_difference(
    tmp_path: Path, corpus: Path
) -> None:
    asked = settings(corpus, "adam", options={"betas": (0.9, 0.99), "rate": 0.1})
    start(tmp_path / "run", asked).run()
    start(tmp_path / "run", replace(asked, epochs=3), resume=True).run()
    assert len(history(tmp_path / "run")) == 3
    assert json.loads((tmp_path / "run" / SETTINGS).read_text())["epochs"] == 3


def test_a_run_of_two_processes_is_not_resumed_by_one_unless_it_migrates(
    tmp_path: Path, corpus: Path
) -> None:
    run = tmp_path / "run"
    start(run, settings(corpus)).run()
    entries = json.loads((run / POINTER).read_text())
    del entries["checksum"]
    entries["world"] = 2
    (run / POINTER).write_text(json.dumps({**entries, "checksum": digest(entries)}))
    kept = (run / SETTINGS).read_text()
    (run / SETTINGS).write_text(kept.replace('"world": 1', '"world": 2'))
    assert "belongs to 2 processes, not 1" in resumed(run)
    start(run, None, resume=True, migrate=True, given={"epochs": 3}).run()
    assert len(history(run)) == 3 and load_settings(run).world == 1
