"""Training runs: they end as they would have, whatever happens to them on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fgg import GrammarError, load, load_model
from fgg.api.train import MODEL, history, start
from fgg.cli import main
from fgg.plan import backend as rule
from fgg.runtime.train import RunSettings
from fgg.runtime.train.run_folder import same_state
from fgg.runtime.train.run_settings import load_settings
from tests.helpers.native import needs_compiler

WORDS = ["the dog runs", "a dog sees the cat", "the cat sleeps", "a cat runs", "dog runs the cat"]
METHODS = ("em", "vb", "cvb", "hastings", "gibbs", "online-em", "adam")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS * 3) + "\n")
    return path


def settings(corpus: Path, method: str = "em", **more: Any) -> RunSettings:
    given: dict[str, Any] = {
        "grammar": str(load("hmm", sizes={"k": 3})),
        "query": "string",
        "method": method,
        "epochs": 3,
        "dtype": "float32" if method == "adam" else "float64",
        "budget": 0 if method in ("cvb", "hastings") else 12,
        "options": {"prior": 0.1} if method in ("vb", "cvb", "hastings", "gibbs") else {},
        "data": (str(corpus),),
    }
    return RunSettings(**{**given, **more})


def stopped_after(batches: int) -> Callable[[], bool]:
    """Asks to stop when so many batches are done."""
    left = [batches]

    def stopping() -> bool:
        left[0] -= 1
        return left[0] == 0

    return stopping


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batches", [7])
def test_a_run_taken_up_again_ends_bit_for_bit_as_one_that_never_stopped(
    tmp_path: Path, corpus: Path, method: str, batches: int
) -> None:
    asked = settings(corpus, method, valid=(str(corpus),))
    whole = start(tmp_path / "whole", asked)
    whole.run()
    parts = tmp_path / "parts"
    trainer = start(parts, asked, stopping=stopped_after(batches))
    for _ in range(60):
        if trainer.run().finished:
            break
        trainer = start(parts, asked, resume=True, stopping=stopped_after(batches))
    assert trainer.at.finished and trainer.at.number > 3
    assert same_state(whole.model.state_dict(), trainer.model.state_dict())
    assert same_state(whole.method.state_dict(), trainer.method.state_dict())
    assert same_state(load_file(tmp_path / "whole" / MODEL), load_file(parts / MODEL))
    one, two = history(tmp_path / "whole"), history(parts)
    for entry in (*one, *two):
        del entry["seconds"], entry["tokens_per_second"]
    assert one == two and len(one) == 3


def test_a_run_that_is_killed_can_be_taken_up(tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "fgg", "train", "hmm", "--set", "k=3", "--data", str(corpus)]
    command += ["--out", str(folder), "--method", "adam", "--epochs", "400", "--tokens", "12"]
    command += ["--save-every", "0"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        for _ in range(6000):
            if (folder / "settings.json").exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    at = json.loads((folder / "checkpoint.json").read_text())
    epochs = at["position"]["epoch"] + 2
    assert main(["train", "--resume", "--out", str(folder), "--epochs", str(epochs)]) == 0
    assert len(history(folder)) == epochs
    whole = tmp_path / "whole"
    again = ["train", "hmm", "--set", "k=3", "--data", str(corpus), "--out", str(whole)]
    again += ["--method", "adam", "--epochs", str(epochs), "--tokens", "12"]
    assert main(again) == 0
    assert same_state(load_file(whole / MODEL), load_file(folder / MODEL))


@pytest.mark.parametrize(
    "method", ["em", *(pytest.param(m, marks=pytest.mark.slow) for m in ("vb", "adam"))]
)
def test_two_processes_fit_what_one_does(tmp_path: Path, corpus: Path, method: str) -> None:
    one = tmp_path / "one"
    options = ["hmm", "--set", "k=3", "--data", str(corpus), "--method", method]
    options += ["--epochs", "2", "--tokens", "12", "--dtype", "float64"]
    options += ["--prior", "0.1"] if method == "vb" else []
    assert main(["train", *options, "--out", str(one)]) == 0
    two = tmp_path / "two"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-port", str(20000 + os.getpid() % 20000)]
    command += ["-m", "fgg", "train", *options, "--out", str(two)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    single, double = load_file(one / MODEL), load_file(two / MODEL)
    assert single.keys() == double.keys()
    for name, tensor in single.items():
        assert torch.allclose(tensor, double[name], rtol=1e-9, atol=1e-11), name


def test_a_small_run_has_tensor_operations_and_says_why(
    tmp_path: Path, corpus: Path, built: list[str]
) -> None:
    start(tmp_path / "run", settings(corpus, epochs=1)).run()
    kept = load_settings(tmp_path / "run")
    assert kept.backend == "torch" and not built
    assert kept.backend_reason.startswith("machine code would save about ")
    # What the run keeps to is no other setting than `auto`; another backend is.
    start(tmp_path / "run", settings(corpus), resume=True)
    with pytest.raises(GrammarError, match="another `backend`"):
        start(tmp_path / "run", settings(corpus, backend="cpp"), resume=True)


@needs_compiler
def test_a_run_keeps_the_backend_that_its_data_are_worth(
    tmp_path: Path, corpus: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 0.02)
    asked = settings(corpus, valid=(str(corpus),))
    whole = start(tmp_path / "whole", asked)
    whole.run()
    kept = load_settings(tmp_path / "whole")
    assert kept.backend == "cpp" and built == ["float64"]
    assert kept.backend_reason.startswith("machine code saves at least ")
    start(tmp_path / "short", replace(asked, epochs=1))
    assert load_settings(tmp_path / "short").backend == "cpp", "epochs only say when to stop"
    # Later, when calls cost nothing, the run has machine code all the same.
    trainer = start(tmp_path / "parts", asked, stopping=stopped_after(7))
    trainer.run()
    monkeypatch.setattr(rule, "SAVED_A_PRODUCT", 0.0)
    again = start(tmp_path / "parts", None, resume=True)
    assert again.run().finished and again.model.program.compiler.backend.asked == "cpp"
    assert same_state(whole.model.state_dict(), again.model.state_dict())
    plain = start(tmp_path / "plain", replace(asked, backend="torch"))
    plain.run()
    assert load_settings(tmp_path / "plain").backend_reason == "it was asked for"
    for name, tensor in plain.model.state_dict().items():
        torch.testing.assert_close(tensor, whole.model.state_dict()[name], rtol=1e-8, atol=1e-9)


def test_a_run_that_is_asked_for_machine_code_without_a_compiler(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.warns(UserWarning, match="F435"):
        start(tmp_path / "run", settings(corpus, backend="cpp"))
    kept = load_settings(tmp_path / "run")
    assert (kept.backend, kept.backend_reason) == (
        "torch",
        "there is no C++ compiler (no-such-compiler)",
    )


def test_a_folder_with_a_run_is_not_written_over(tmp_path: Path, corpus: Path) -> None:
    start(tmp_path / "run", settings(corpus)).run()
    before = (tmp_path / "run" / MODEL).read_bytes()
    with pytest.raises(GrammarError) as caught:
        start(tmp_path / "run", settings(corpus, seed=1))
    assert caught.value.diagnostics[0].code == "F479"
    with pytest.raises(GrammarError, match="another `seed`"):
        start(tmp_path / "run", settings(corpus, seed=1), resume=True)
    assert (tmp_path / "run" / MODEL).read_bytes() == before


def test_a_finished_run_can_go_on_for_more_epochs(tmp_path: Path, corpus: Path) -> None:
    start(tmp_path / "run", settings(corpus)).run()
    trainer = start(tmp_path / "run", settings(corpus, epochs=5), resume=True)
    trainer.run()
    assert len(history(tmp_path / "run")) == 5
    whole = start(tmp_path / "whole", settings(corpus, epochs=5))
    whole.run()
    assert same_state(whole.model.state_dict(), trainer.model.state_dict())


def test_a_run_stops_early_where_held_out_data_get_no_better(tmp_path: Path, corpus: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("runs the\ncat the dog a\n")
    asked = settings(corpus, epochs=200, valid=(str(other),), patience=2)
    at = start(tmp_path / "run", asked).run()
    epochs = history(tmp_path / "run")
    assert at.finished and len(epochs) < 200
    best = min(entry["valid"] for entry in epochs)
    assert epochs[-1]["valid"] > best and epochs[-2]["valid"] > best
    assert load_model(tmp_path / "run").vocabulary["W"][0] == "<unk>"


def test_held_out_data_are_looked_at_several_times_an_epoch(tmp_path: Path, corpus: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("runs the\ncat the dog a\n")
    asked = settings(
        corpus,
        "adam",
        epochs=40,
        valid=(str(other),),
        checks=3,
        patience=6,
        options={"rate": 0.3, "patience": 1, "factor": 0.5},
    )
    trainer = start(tmp_path / "run", asked)
    at = trainer.run()
    epochs = history(tmp_path / "run")
    checks = [x for entry in epochs for x in (*entry["checks"], entry["valid"])]
    assert all(len(entry["checks"]) == 2 for entry in epochs[:-1]) and len(epochs) < 40
    best = checks.index(min(checks))
    within = len(epochs[-1]["checks"]) + 1
    assert at.finished and at.waited == 6
    # The run ends six checks after the best one, even within an epoch.
    assert best + 6 in (len(checks) - 1, len(checks) - 2) and within <= 3
    assert epochs[-1]["details"]["rate"] <= 0.3 / 4  # every second check without progress halves it
    saved = load_model(tmp_path / "run")
    assert not same_state(saved.state_dict(), trainer.model.state_dict())
    # Stopped in the middle, it goes on as it would have.
    start(tmp_path / "parts", asked, stopping=stopped_after(7)).run()
    again = start(tmp_path / "parts", asked, resume=True)
    assert again.run().waited == 6
    assert same_state(again.model.state_dict(), trainer.model.state_dict())
    assert [entry["checks"] for entry in history(tmp_path / "parts")] == [
        entry["checks"] for entry in epochs
    ]


def test_evaluation_agrees_with_the_metrics(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["train", "hmm", "--set", "k=3", "--data", str(corpus), "--valid", str(corpus)]
    assert main([*run, "--out", str(tmp_path / "run"), "--epochs", "2", "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert trained["finished"] and (tmp_path / "run" / "curves.svg").exists()
    assert main(["eval", str(tmp_path / "run"), "--data", str(corpus), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]["likelihood"]
    assert scores["perplexity"] == pytest.approx(trained["metrics"][-1]["valid"], rel=1e-9)
    assert scores["tokens"] == trained["metrics"][-1]["tokens"]


def test_state_dropout_is_an_option_and_goes_on_as_it_would_have(
    tmp_path: Path, corpus: Path
) -> None:
    ends = []
    for name, epochs in (("whole", ["4"]), ("parts", ["2", "4"])):
        out = tmp_path / name
        begin = ["train", "hmm_blocks", "--set", "m=2", "k=4", "--data", str(corpus)]
        begin += ["--method", "adam", "--option", "state_dropout=K:0.5", "--rate", "0.05"]
        assert main([*begin, "--epochs", epochs[0], "--out", str(out)]) == 0
        for more in epochs[1:]:
            assert main(["train", "--resume", "--epochs", more, "--out", str(out)]) == 0
        assert (
            json.loads((out / "settings.json").read_text())["options"]["state_dropout"]["K"] == 0.5
        )
        ends.append(load_file(out / MODEL))
    assert ends[0]["logits.trans"].shape == (8, 8)
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["train", "hmm", "--out", "x"], "F415"),
        (["train", "--out", "x", "--data", "y"], "F415"),
        (["train", "--resume", "--out", "nothing"], "F479"),
        (["train", "hmm", "--data", "nothing.txt", "--out", "x"], "F401"),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--option", "rat=1"], "F476"),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--checks", "0"], "F415"),
        (
            ["train", "hmm", "--data", "DATA", "--valid", "DATA", "--out", "x", "--checks", "2"],
            "F476",
        ),
        (
            ["train", "hmm", "--data", "DATA", "--out", "x", "--checks", "2", "--method", "adam"],
            "F478",
        ),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--field", "v=words"], "F478"),
        (
            [
                *("train", "hmm", "--data", "DATA", "--out", "x", "--method", "adam"),
                *("--option", "state_dropout=T:0.5"),
            ],
            "F476",
        ),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--set", "d=2"], "F478"),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--epochs", "-1"], "F415"),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--option", "pseudo=some"], "F476"),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--option", "weights=1"], "F476"),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--option", "dtype=int"], "F476"),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--option", "skip=3"], "F476"),
        (
            [
                *("train", "hmm", "--data", "DATA", "--out", "x", "--method", "adam"),
                *("--option", "betas=0.9"),
            ],
            "F476",
        ),
        (
            [
                *("train", "hmm", "--data", "DATA", "--out", "x", "--method", "adam"),
                *("--rate", "nan"),
            ],
            "F476",
        ),
        (["train", "hmm", "--data", "EMPTY", "--out", "x"], "F478"),
        (["train", "hmm", "--data", "DATA", "--valid", "EMPTY", "--out", "x"], "F478"),
        (["train", "hmm", "--data", "DATA", "--out", "x", "--query", "strin"], "F409"),
        (["eval", "nothing", "--data", "DATA"], "F408"),
    ],
)
def test_what_does_not_fit_is_said(
    tmp_path: Path,
    corpus: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    code: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    names = {"DATA": str(corpus), "EMPTY": str(empty)}
    assert main([*(names.get(option, option) for option in options), "--json"]) in (1, 2)
    output = json.loads(capsys.readouterr().out)
    assert [d["code"] for d in output["diagnostics"]] == [code]
    assert not (tmp_path / "x" / "settings.json").exists()


def test_a_wrong_query_is_told_of_by_the_grammars_name(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["train", "hmm", "--data", str(corpus), "--out", str(tmp_path / "x"), "--query", "a"]
    assert main(run) == 2
    assert "`hmm` has no query `a`" in capsys.readouterr().err


def test_equal_runs_write_equal_files(tmp_path: Path, corpus: Path) -> None:
    command = [sys.executable, "-m", "fgg", "train", "hmm", "--set", "k=2", "--data", str(corpus)]
    for name in ("one", "two"):  # in processes of their own: order by hashes differs
        done = subprocess.run([*command, "--epochs", "1", "--out", str(tmp_path / name)])
        assert done.returncode == 0
    one, two = ((tmp_path / name / MODEL).read_bytes() for name in ("one", "two"))
    assert one == two


def test_an_impossible_held_out_item_is_told_of_and_the_last_model_kept(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("the zebra\nthe dog runs\n")
    out = tmp_path / "run"
    run = ["train", "hmm", "--set", "k=2", "--data", str(corpus), "--valid", str(other)]
    assert main([*run, "--epochs", "3", "--patience", "1", "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "held out inf (1 impossible)" in said and "--min-count 2" in said
    assert [entry["impossible"] for entry in history(out)] == [1, 1, 1]
    assert main(["eval", str(out), "--data", str(corpus), "--json"]) == 0
    log_likelihood = json.loads(capsys.readouterr().out)["scores"]["likelihood"]["log_likelihood"]
    # The objective is that of the weights before the last M step.
    assert log_likelihood > history(out)[-1]["objective"]


def test_decoding_reads_data_as_the_run_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.pos"
    text.write_text("The/D dog/N runs/V\na/D Cat/N sees/V the/_ dog/N\n")
    run = str(tmp_path / "run")
    begin = ["train", "tagger", "--query", "tagged", "--data", str(text), "--field", "tag=tags"]
    more = ["--lower", "--min-count", "2", "--epochs", "3", "--max-length", "5"]
    assert main([*begin, *more, "--out", run]) == 0
    assert set(load_model(run).vocabulary["T"]) == {"D", "N", "V"}
    plain = tmp_path / "b.txt"
    plain.write_text("THE DOG hops\nthe cow sees the dog the dog\n")
    capsys.readouterr()
    decode = ["decode", run, "--query", "string", "--form", "values"]
    assert main([*decode, "--data", str(plain)]) == 0
    lines = [line.split("\t")[1].split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["D", "N", "V"] and len(lines[1]) == 7
    assert main([*decode, "--input", "w=the dog hops"]) == 0
    assert capsys.readouterr().out.split("\t")[1].split() == lines[0]
    assert main([*decode[:2], "--data", str(text), "--form", "values"]) == 0  # the run's own query
    assert "D N V" in capsys.readouterr().out
    assert main(["decode", run, "--query", "tagged", "--data", str(plain)]) == 2
    assert "F478" in capsys.readouterr().err
    score = ["eval", run, "--query", "string", "--data", str(text), "--score", "tags", "--json"]
    assert main(score) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["tags"]["many_to_one"] == 1


def test_no_epochs_give_the_start(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["train", "hmm", "--set", "k=2", "--data", str(corpus), "--epochs", "0"]
    assert main([*run, "--out", str(tmp_path / "run")]) == 0
    assert main(["eval", str(tmp_path / "run"), "--data", str(corpus)]) == 0


def test_an_item_without_derivations_is_told_of_with_a_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("dog\nthe dog\n")
    run = ["train", "pcfg", "--set", "nt=2", "pt=2", "r=2", "--data", str(text), "--epochs", "1"]
    assert main([*run, "--out", str(tmp_path / "one")]) == 2
    said = capsys.readouterr().err
    assert "item 0 has no derivation" in said and "--option skip=yes" in said
    assert main([*run, "--option", "skip=yes", "--out", str(tmp_path / "two")]) == 0
