"""`fggc eval` of grammars with weights; trained models are evaluated where training is tested."""

from __future__ import annotations

import json
from itertools import product
from math import exp, log
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import fgg
from fgg.cli import main

WEATHER = """
domain Weather = {sunny, rainy}
domain Mood = {happy, grumpy}
factor first(-> Weather) = [2/3, 1/3]
factor next(Weather -> Weather) = [[0.8, 0.2], [0.4, 0.6]]
factor mood(Weather -> Mood)VALUE
nonterminal S()
nonterminal Day(Weather)
start S
rule begin: S      -> first(t) Day(t)
rule step:  Day(t) -> mood(t, m) next(t, u) Day(u)
rule last:  Day(t) -> mood(t, m)
query moods(w: Mood[n]) {
  rule begin: S        -> Day[0]
  rule step:  Day[i]   -> Day[i+1] m = w[i]   for 0 <= i < n-1
  rule last:  Day[n-1] -> m = w[n-1]
}
"""
MOOD = [[0.9, 0.1], [0.25, 0.75]]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("moods.txt").write_text("happy grumpy happy\ngrumpy\n")
    Path("tagged.pos").write_text("happy/S grumpy/R happy/S\ngrumpy/R\n")
    Path("valued.fgg").write_text(WEATHER.replace("VALUE", f" = {MOOD}"))
    Path("free.fgg").write_text(WEATHER.replace("VALUE", ""))
    save_file({"mood": torch.tensor(MOOD)}, "mood.safetensors")


def scores(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, float]]:
    assert main(["eval", *words, "--json"]) == 0
    result: dict[str, dict[str, float]] = json.loads(capsys.readouterr().out)["scores"]
    return result


@pytest.mark.parametrize("file", [["valued.fgg"], ["free.fgg", "--params", "mood.safetensors"]])
def test_a_grammar_with_weights_is_evaluated(
    capsys: pytest.CaptureFixture[str], file: list[str]
) -> None:
    model = fgg.compile(fgg.load("valued.fgg")).model(dtype=torch.float64)
    wanted = float(model(w=["happy grumpy happy", "grumpy"]).sum())
    likelihood = scores(capsys, *file, "--data", "moods.txt")["likelihood"]
    assert likelihood["log_likelihood"] == pytest.approx(wanted)
    assert likelihood["perplexity"] == pytest.approx(exp(-wanted / 4))


def test_derivations_of_a_grammar_are_compared_with_annotation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    states = fgg.compile(fgg.load("valued.fgg")).model().predict(["happy grumpy happy", "grumpy"])
    gold = "SRSR".replace("S", "sunny ").replace("R", "rainy ").split()
    right = [a == b for a, b in zip([*states[0], *states[1]], gold, strict=True)]
    found = scores(capsys, "valued.fgg", "--data", "tagged.pos", "--score", "tags")
    assert found["tags"]["many_to_one"] == sum(right) / 4 > 0.5


def test_data_are_read_as_options_say(capsys: pytest.CaptureFixture[str]) -> None:
    Path("shouted.txt").write_text("HAPPY Grumpy happy\ngrumpy\n")
    lower = scores(capsys, "valued.fgg", "--data", "shouted.txt", "--lower", "--max-length", "1")
    assert lower["likelihood"]["items"] == 1
    assert main(["eval", "valued.fgg", "--data", "shouted.txt"]) == 2
    error = capsys.readouterr().err
    assert "shouted.txt:1" in error and "`HAPPY`" in error


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["free.fgg"], "F416", "no weights for `mood`"),
        (["tagger"], "F478", "fields of inputs `w`, `tag` are not given"),
        (["nothing.fgg"], "F401", "nothing.fgg"),
    ],
)
def test_what_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], words: list[str], code: str, message: str
) -> None:
    more = ["--query", "tagged", "--seed", "1"] if words == ["tagger"] else []
    assert main(["eval", *words, "--data", "moods.txt", *more]) == 2
    error = capsys.readouterr().err
    assert code in error and message in error


def entropy(probabilities: list[float]) -> float:
    return -sum(p * log(p) for p in probabilities if p)


def test_usage_is_that_of_all_sequences_of_states(capsys: pytest.CaptureFixture[str]) -> None:
    first, step = [2 / 3, 1 / 3], [[0.8, 0.2], [0.4, 0.6]]
    emitted, moved, total = [0.0, 0.0], [0.0, 0.0], 0.0
    for text in ([0, 1, 0], [1]):
        counts = []
        for states in product(range(2), repeat=len(text)):
            weight = first[states[0]] * MOOD[states[0]][text[0]]
            for i in range(1, len(text)):
                weight *= step[states[i - 1]][states[i]] * MOOD[states[i]][text[i]]
            counts.append((weight, states))
        total = sum(weight for weight, _ in counts)
        for weight, states in counts:
            for i, state in enumerate(states):
                emitted[state] += weight / total
                moved[state] += weight / total * (i < len(states) - 1)
    usage = scores(capsys, "valued.fgg", "--data", "moods.txt", "--score", "usage")["usage"]
    rows = list(map(entropy, MOOD))
    share = [count / sum(emitted) for count in emitted]
    assert usage["mood entropy"] == pytest.approx(sum(rows) / 2)
    in_use = sum(s * h for s, h in zip(share, rows, strict=True))
    assert usage["mood entropy_in_use"] == pytest.approx(in_use)
    assert usage["mood occupancy"] == pytest.approx(exp(entropy(share)))
    assert usage["mood distributions"] == 2
    assert usage["mood used_once_or_more"] == sum(count >= 1 for count in emitted)
    share = [count / sum(moved) for count in moved]
    assert usage["next occupancy"] == pytest.approx(exp(entropy(share)))
    assert usage["first entropy"] == usage["first entropy_in_use"] == pytest.approx(entropy(first))
    assert "first occupancy" not in usage


def test_usage_of_blocks_and_of_pieces_of_low_rank(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ids.txt").write_text("0 1 5 2\n3 3 4\n")
    sizes = ["--set", "m=2", "k=3", "d=6", "--seed", "1"]
    options = ["--data", "ids.txt", "--score", "usage"]
    usage = scores(capsys, "hmm_blocks", *sizes, *options, "--format", "ids")["usage"]
    assert usage["emit distributions"] == 2 * 3 and usage["trans distributions"] == 2 * 3
    assert 0 < usage["emit entropy"] <= log(3) and 1 <= usage["emit occupancy"] <= 6
    sizes = ["--set", "k=4", "r=3", "d=6", "--seed", "1", "--space", "rank"]
    usage = scores(capsys, "hmm_rank", *sizes, *options, "--format", "ids")["usage"]
    assert usage["step_0 distributions"] == 4 and usage["step_2 distributions"] == 3
    assert 1 <= usage["step_2 occupancy"] <= 3
