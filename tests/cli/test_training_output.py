"""What `train` and `eval` show: epochs, curves, ends of items."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import fgg
from fgg.cli.commands.train import Bars
from fgg.runtime.train.evaluation import generates_ends
from tests.cli.test_commands import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text("the dog runs\na cat sees the dog\nthe cat sleeps\n")
    return tmp_path


def train(capsys: Capture, *words: str) -> str:
    code, _, err = run(capsys, "train", *words)
    assert code == 0, err
    return err


def test_the_epochs_of_a_resumed_run_are_counted_right(data: Path, capsys: Capture) -> None:
    new = ("hmm", "--set", "k=2", "--data", "data.txt", "--out", "run", "--epochs", "2")
    train(capsys, *new)
    assert "all 2 epochs are done" in train(capsys, "--resume", "--out", "run")
    err = train(capsys, "--resume", "--out", "run", "--epochs", "3")
    assert "resuming in epoch 3 of 3" in err and "epoch 3: log-likelihood" in err


def test_a_bar_shows_no_epoch_beyond_the_last() -> None:
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    with Progress(TextColumn("{task.description}"), console=Console(file=io.StringIO())) as bar:
        bars = Bars(bar)
        bars.epochs = 3
        bars.show(3)
        assert (bar.tasks[0].description, bar.tasks[0].visible) == ("epoch 3 of 3", True)
        bars.show(4)
        assert not bar.tasks[0].visible


def test_curves_show_the_objective_and_the_perplexity(data: Path, capsys: Capture) -> None:
    new = ("hmm", "--set", "k=2", "--data", "data.txt", "--out", "run", "--epochs", "2")
    train(capsys, *new)
    metrics = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    svg = Path("run/curves.svg").read_text()
    assert ">log-likelihood</text>" in svg and ">perplexity per token</text>" in svg
    assert svg.count("<circle") == 2 * len(metrics)


@pytest.mark.parametrize(
    ("name", "sizes", "ends"),
    [
        ("hmm", {"k": 2, "d": 3}, False),
        ("lcm", {"k": 2, "d": 3}, False),
        ("pcfg", {"nt": 2, "pt": 2, "words": 3, "r": 2}, True),
        ("dmv", {"tags": 2}, True),
        ("pair_hmm", {}, False),
        ("eisner", {}, False),
    ],
)
def test_a_model_that_is_told_the_length_generates_no_ends(
    name: str, sizes: dict[str, int], ends: bool
) -> None:
    model = fgg.compile(fgg.load(name, sizes=sizes)).model(seed=1)
    assert generates_ends(model.program, model.detached()) is ends


def test_eval_counts_ends_only_where_the_model_has_them(data: Path, capsys: Capture) -> None:
    for name, sizes, ends in (("hmm", ["k=2"], False), ("pcfg", ["nt=2", "pt=2", "r=2"], True)):
        new = (name, "--set", *sizes, "--data", "data.txt", "--epochs", "1")
        train(capsys, *new, "--out", name)
        for space in ("dense", "state"):
            code, out, _ = run(capsys, "eval", name, "--data", "data.txt", "--space", space)
            assert code == 0 and ("perplexity with ends" in out) is ends


def test_ranks_and_merges_are_declared_for_training(data: Path, capsys: Capture) -> None:
    common = ("--set", "k=3", "--data", "data.txt", "--epochs", "1")
    train(capsys, "hmm", *common, "--rank", "trans=2", "--out", "ranked")
    names = set(fgg.load_model("ranked").program.parameter_names)
    assert {"trans_0", "trans_1"} <= names and "trans" not in names
    train(capsys, "hmm", *common, "--merge-rule", "step", "--out", "merged")
    assert "emit_trans" in fgg.load_model("merged").program.grammar.factor
    code, _, err = run(
        capsys, "train", "ranked", "--rank", "emit=2", "--data", "data.txt", "--out", "more"
    )
    assert code == 2 and "a trained model keeps its ranks" in err
