"""Training on log-potentials from files, beside sequences of words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import fgg
from fgg.cli import main

TEXT = """
domain T = {x, y}
domain V = {a, b, c}
factor init(-> T)
factor trans(T -> T)
factor emit(T -> V)
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> init(t) X(t)
rule step:  X(t) -> emit(t, o) trans(t, u) X(u)
rule last:  X(t) -> emit(t, o)
query string(w: V[n]) {
  input factor phi[i](T) for 0 <= i < n
  rule begin: S      -> X[0]
  rule step:  X[i]   -> phi[i](t) o = w[i] X[i+1]   for 0 <= i < n-1
  rule last:  X[n-1] -> phi[n-1](t) o = w[n-1]
}
"""
SENTENCES = ("a b a c", "b", "c a b", "a a c b b", "c c")
LENGTHS = [len(text.split()) for text in SENTENCES]


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A grammar, data with an empty line, and log-potentials in two kinds of files."""
    monkeypatch.chdir(tmp_path)
    Path("tagger.fgg").write_text(TEXT)
    Path("train.txt").write_text("\n".join((*SENTENCES[:2], "", *SENTENCES[2:])) + "\n")
    draw = np.random.default_rng(3)
    scores = [draw.normal(size=(length, 2)) for length in LENGTHS]
    save_file({f"phi.{i}": each for i, each in enumerate(scores)}, "each.safetensors")
    padded = np.zeros((len(LENGTHS), max(LENGTHS), 2))
    for place, each in zip(padded, scores, strict=True):
        place[: len(each)] = each
    np.savez("padded.npz", phi=padded)
    return scores


def train(*more: str, out: str = "run") -> int:
    return main(["train", "tagger.fgg", "--data", "train.txt", "--out", out, "--json", *more])


def weights_of(folder: str) -> dict[str, torch.Tensor]:
    return fgg.load_model(folder).detached()


def in_memory(scores: list[Any], places: list[int], epochs: int) -> dict[str, torch.Tensor]:
    model = fgg.compile(fgg.loads(TEXT)).model(seed=0, dtype=torch.float64)
    data = {"w": [SENTENCES[i].split() for i in places], "phi": [scores[i] for i in places]}
    return fgg.learn(model, data, method="em", epochs=epochs).model.detached()


def assert_equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.allclose(tensor, theirs[name], rtol=1e-9, atol=1e-12), name


@pytest.mark.parametrize("file", ["each.safetensors", "padded.npz"])
@pytest.mark.parametrize("tokens", ["3", "4096"])
def test_a_run_learns_what_the_same_data_in_memory_teach(
    scores: list[Any], file: str, tokens: str
) -> None:
    assert train("--potentials", file, "--epochs", "3", "--tokens", tokens) == 0
    assert_equal(weights_of("run"), in_memory(scores, [0, 1, 2, 3, 4], 3))


def test_items_that_are_left_out_keep_their_log_potentials(scores: list[Any]) -> None:
    options = ("--potentials", "each.safetensors", "--epochs", "2", "--min-length", "3")
    assert train(*options) == 0
    assert_equal(weights_of("run"), in_memory(scores, [0, 2, 3], 2))


def test_shuffled_batches_keep_items_and_log_potentials_together(scores: list[Any]) -> None:
    options = ("--method", "adam", "--dtype", "float64", "--epochs", "2", "--tokens", "4")
    assert train("--potentials", "padded.npz", *options) == 0
    assert train("--potentials", "each.safetensors", *options, out="other") == 0
    assert_equal(weights_of("run"), weights_of("other"))


def test_a_resumed_run_equals_an_uninterrupted_one_and_other_log_potentials_are_refused(
    scores: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("--potentials", "each.safetensors", "--epochs", "1") == 0
    Path("each.safetensors").rename("moved.safetensors")
    again = ["train", "--resume", "--out", "run", "--epochs", "3"]
    assert main(again) == 2
    assert main([*again, "--potentials", "moved.safetensors"]) == 0
    assert_equal(weights_of("run"), in_memory(scores, [0, 1, 2, 3, 4], 3))
    scores[1] = scores[1] + 1
    save_file({f"phi.{i}": each for i, each in enumerate(scores)}, "moved.safetensors")
    capsys.readouterr()
    assert main([*again[:-1], "4"]) == 2
    assert "`moved.safetensors` has been changed" in capsys.readouterr().err
    assert main([*again[:-1], "4", "--migrate"]) == 0


def test_held_out_data_decoding_and_evaluation_have_log_potentials_of_their_own(
    scores: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("valid.txt").write_text("a b\nc\n")
    held_out = [np.array([[0.5, -1.0], [2.0, 0.0]]), np.array([[1.0, -2.0]])]
    save_file({f"phi.{i}": each for i, each in enumerate(held_out)}, "valid.safetensors")
    more = ("--valid", "valid.txt", "--valid-potentials", "valid.safetensors")
    assert train("--potentials", "padded.npz", "--epochs", "1", *more) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    model = fgg.load_model("run")
    log_z = model.posterior(w=[["a", "b"], ["c"]], phi=held_out).log_z.detach()
    assert metrics[-1]["valid"] == pytest.approx(float((-log_z.sum() / 3).exp()))
    items = ["run", "--data", "valid.txt", "--potentials", "valid.safetensors", "--json"]
    assert main(["eval", *items]) == 0
    likelihood = json.loads(capsys.readouterr().out)["scores"]["likelihood"]
    assert likelihood["log_likelihood"] == pytest.approx(float(log_z.sum()))
    assert main(["eval", "run", "--data", "valid.txt"]) == 2
    assert "log-potentials `phi` are not given" in capsys.readouterr().err
    assert main(["decode", *items]) == 0
    best = model.posterior(w=[["a", "b"], ["c"]], phi=held_out).best()
    decoded = json.loads(capsys.readouterr().out)["items"]
    assert [d["log_weight"] for (d,) in decoded] == pytest.approx([d.log_weight for d in best])


def test_python_trains_on_the_same_files(scores: list[Any]) -> None:
    model = fgg.train(fgg.loads(TEXT), "train.txt", "py", epochs=3, potentials="padded.npz")
    assert_equal(model.detached(), in_memory(scores, [0, 1, 2, 3, 4], 3))


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"phi": np.zeros((4, 5, 2))}, "has log-potentials of 4 items; the data 5"),
        ({"phi": np.zeros((6, 5, 2))}, "has log-potentials of 6 items; the data 5"),
        ({"phi": np.zeros((5, 5, 3))}, "train.txt:1: `phi` has shape (1, 5, 3)"),
        ({"phi": np.zeros((5, 4, 2))}, "train.txt:5: `phi` has (4,) positions"),
        ({"phi": np.full((5, 5, 2), np.nan)}, "train.txt:1: `phi` has log-potentials that are NaN"),
        ({"phi": np.zeros(())}, "without an axis for the items"),
        ({"psi": np.zeros((5, 5, 2))}, "no input factor or length `psi`"),
        ({"phi": np.zeros((5, 5, 2)), "n": np.array([1])}, "`phi` 5, `n` 1"),
        ({}, "differ: none"),
    ],
)
def test_files_that_do_not_fit_are_refused_before_a_run_begins(
    scores: list[Any], capsys: pytest.CaptureFixture[str], arrays: dict[str, Any], text: str
) -> None:
    np.savez("bad.npz", **arrays)
    assert train("--potentials", "bad.npz") == 2
    assert text in capsys.readouterr().out
    assert not Path("run/settings.json").exists()


def test_a_short_item_of_a_batch_is_not_padded_silently(
    scores: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    scores[2] = scores[2][:1]
    save_file({f"phi.{i}": each for i, each in enumerate(scores)}, "each.safetensors")
    assert train("--potentials", "each.safetensors") == 2
    assert "train.txt:4: `phi` has (1,) positions; the lengths need (3,)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["tagger.fgg"], "log-potentials `phi` are not given"),
        (["tagger.fgg", "--potentials", "none.npz"], "none.npz"),
        (["tagger.fgg", "--potentials", "padded.npz", "--skip-bad"], "not left out"),
        (["tagger.fgg", "--potentials", "padded.npz", "--valid", "train.txt"], "not given"),
        (["tagger.fgg", "--potentials", "padded.npz", "--valid-potentials", "padded.npz"], "no he"),
        (["hmm", "--potentials", "padded.npz"], "`hmm_string` has no input factor"),
    ],
)
def test_calls_that_lack_something_are_refused(
    scores: list[Any], capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert main(["train", *arguments, "--data", "train.txt", "--out", "run"]) == 2
    assert text in capsys.readouterr().err
