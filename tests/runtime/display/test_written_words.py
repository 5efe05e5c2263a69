"""Answers and pictures show the words that a user wrote, not the values that they were read as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import fgg
from fgg.cli import main
from fgg.data import read
from fgg.data.preprocess import normal, without_punctuation
from fgg.data.preprocessing import Preprocessing
from fgg.inputs.written import written_words
from fgg.runtime.model.model import Model
from fgg.runtime.program.reference_program import ReferenceProgram

PCFG = """
domain N = {s, np, vp}  domain W = {"<unk>", the, dog, runs}
factor root(-> N) = {s: 1}
factor binary(N -> N, N) = {s: {np: {vp: 1}}, np: {np: {np: 1}}, vp: {vp: {np: 1}}}
factor emit(N -> W) = {np: {the: 1/3, dog: 1/3, "<unk>": 1/3}, s: {the: 1}, vp: {runs: 1}}
nonterminal S() nonterminal X(N) start S
rule root: S -> root(a) X(a)
rule binary: X(a) -> binary(a, b, c) X(b) X(c)
rule word: X(a) -> emit(a, o)
query string(w: W[n]) {
  rule root: S -> X[0,n]
  rule binary: X[i,j] -> X[i,k] X[k,j] for i < k < j
  rule word: X[i,i+1] -> o = w[i]
}
"""
PARTS = """
domain P = {ba, na, b}
factor part(-> P)
nonterminal S() nonterminal X() start S
rule begin: S -> X
rule more: X -> part(o) X
rule last: X -> part(o)
query word(s: P[n, n+1]) {
  rule begin: S    -> X[0]
  rule more:  X[i] -> o = s[i,j] X[j]  for i < j < n
  rule last:  X[i] -> o = s[i,n]
}
"""


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagger")
    (folder / "english.pos").write_text(
        "The/D dog/N runs/V\nA/D cat/N sees/V the/D 12/N\nthe/D cat/N sleeps/V\n"
    )
    fgg.train(
        fgg.load("tagger"),
        folder / "english.pos",
        folder / "run",
        query="tagged",
        fields={"tag": "tags"},
        preprocessing={"lower": True, "digits": "each"},
        epochs=2,
        pseudo=0.1,
    )
    return folder / "run"


@pytest.fixture(scope="module")
def model(tagger: Path) -> Model:
    return fgg.load_model(tagger, query="string")


TYPED = "The Zebra Sleeps 1999"


def test_python_shows_words_as_they_are_written(model: Model) -> None:
    sentences: list[Any] = [TYPED, ["A", None, "runs"], [2, 0]]
    post = model.posterior(w=sentences)
    first, second, third = post.best()
    assert first.inputs() == {"w": TYPED.split()}
    assert first.inputs("ids")["w"][1] == 0 == model.vocabulary["W"].index("<unk>")
    given, decided, last = second.inputs()["w"]
    assert (given, last) == ("A", "runs") and decided in model.vocabulary["W"]
    assert third.inputs()["w"] == [model.vocabulary["W"][2], "<unk>"]
    for derivation in (first, post.mbr()[0], post.sample(2, seed=0)[0][1], post.k_best(2)[0][1]):
        text = "\n".join([*derivation.lines(), derivation.to_svg(), derivation.to_svg("rules")])
        assert all(word in text for word in TYPED.split())
        assert "unk" not in text and "zebra" not in text and "0000" not in text
    lines = list(post.beliefs()[-1].lines())
    assert [line.split()[1] for line in lines[2:]] == TYPED.split()
    assert "Zebra" in post.draw().svg() and "Zebra" in post._repr_html_()
    # The words are beside the tokens: numbers are those of the tokens.
    assert first == model.posterior(w=[first.inputs("ids")["w"]]).best()[0]
    expected = torch.tensor([d.log_weight for d in (first, second, third)]) - post.log_z
    assert torch.allclose(post.log_prob([first, second, third]), expected)


def test_words_are_shown_that_a_grammar_itself_reads_as_unknown() -> None:
    program = fgg.compile(fgg.loads(PCFG))
    weights = program.weights({}, seed=0)
    for post in (
        program.posterior(weights, {"w": [["the", "zebra", "runs"]]}),
        program.posterior(weights, {"w": [[1, 0, 3]]}, words={"w": [("the", "zebra", "runs")]}),
    ):
        tree = post.best()[0]
        assert tree.written() == "(s (np (np the) (np zebra)) (vp runs))"
        assert "zebra" in tree.to_svg() and "unk" not in tree.to_svg()
    assert "<unk>" in program.posterior(weights, {"w": [[1, 0, 3]]}).best()[0].written()


def test_derivations_of_the_reference_engine_show_them() -> None:
    program = fgg.compile(fgg.loads(PCFG))
    slow = ReferenceProgram(grammar=program.grammar, compiler=program.compiler)
    post = slow.posterior(program.weights({}, seed=0), {"w": [["the", "zebra", "runs"]]})
    assert post.best()[0].written() == "(s (np (np the) (np zebra)) (vp runs))"
    assert post.sample(1, seed=1)[0][0].inputs() == {"w": ["the", "zebra", "runs"]}


def test_parts_are_those_of_what_is_written() -> None:
    model = fgg.compile(fgg.loads(PARTS)).model(seed=0)
    model.preprocessing = Preprocessing({"s": "parts"}, {"characters": True, "lower": True})
    best = model.posterior(s=["BaNa"]).best()[0]
    assert best.written() == "Ba/part Na/part"
    assert best.inputs()["s"][0][2] == "Ba" and best.inputs()["s"][0][1] == "B"
    assert best.inputs()["s"][1][2] == "-2"  # `a` is no part


@pytest.mark.parametrize("form", ["--input", "--data"])
@pytest.mark.parametrize("command", [["decode"], ["sample", "--seed", "1"]])
def test_the_shell_shows_words_as_they_are_written(
    tagger: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    form: str,
) -> None:
    file, picture = tmp_path / "typed.txt", tmp_path / "tags.svg"
    file.write_text(TYPED + "\n")
    given = [form, f"w={TYPED}" if form == "--input" else str(file)]
    shell = [command[0], str(tagger), *command[1:], *given]
    if form == "--data":
        shell += ["--query", "string"]
    for shown in ("tree", "input"):
        assert main([*shell, "--form", shown, "-o", str(picture)]) == 0
        for text in (capsys.readouterr().out, picture.read_text()):
            assert all(word in text for word in TYPED.split()) and "unk" not in text
    assert main([*shell, "--json"]) == 0
    assert "<unk>" in json.dumps(json.loads(capsys.readouterr().out)["items"])  # its value


def test_run_shows_words_as_they_are_written(
    tagger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "tags.svg"
    shell = ["run", str(tagger), "--query", "string", "--input", f"w={TYPED}", "--marginals"]
    assert main([*shell, "--decode", "viterbi", "-o", str(picture)]) == 0
    for text in (capsys.readouterr().out, picture.read_text()):
        assert all(word in text for word in TYPED.split()) and "unk" not in text


def test_a_file_for_a_grammar_shows_its_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grammar, data = tmp_path / "g.fgg", tmp_path / "data.txt"
    grammar.write_text(PCFG)
    data.write_text("the zebra runs\n")
    assert main(["decode", str(grammar), "--data", str(data)]) == 0
    assert "(s (np (np the) (np zebra)) (vp runs))" in capsys.readouterr().out


def test_examples_keep_their_words_through_changes(tmp_path: Path) -> None:
    data = tmp_path / "data.pos"
    data.write_text("The/DT 1999/CD ,/, Zebra/NN\n")
    changes = (normal(lower=True), normal(digits="each"), without_punctuation)
    (example,) = read(data).map(*changes)
    assert example.words == ("the", "0000", "zebra")
    assert example.written == ("The", "1999", "Zebra")


def test_words_are_taken_from_every_form_of_inputs() -> None:
    import numpy as np

    words = written_words({"w": ["a b", ["a", 1], [0, 1]], "v": torch.tensor([[0]])})
    assert words == {"w": [("a", "b"), ("a", None), None]}
    assert written_words({"w": np.array([["a", "b"]])}) == {"w": [("a", "b")]}
