"""Draws from a model: their distribution, their lengths and inputs, and the corpora they make."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pytest
import torch

import fgg
from fgg import GrammarError
from fgg.cli import main

STOPPING = """
domain T = {D, N}
domain W = {the, dog, runs}
factor init(-> T)
factor next(T -> T)
factor stop(T -> B)
domain B = {go, end}
factor emit(T -> W)
nonterminal S()
nonterminal X(T)
start S
rule begin: S    -> init(t) X(t)
rule step:  X(t) -> emit(t, o) stop(t, b) go(b) next(t, u) X(u)
rule last:  X(t) -> emit(t, o) stop(t, b) end(b)
factor go(B) = {go: 1}
factor end(B) = {end: 1}
query string(w: W[n]) {
  rule begin: S      -> X[0]
  rule step:  X[i]   -> o = w[i] X[i+1]   for 0 <= i < n-1
  rule last:  X[n-1] -> o = w[n-1]
}
"""


def stopping() -> fgg.Model:
    return fgg.compile(fgg.loads(STOPPING)).model(seed=3, dtype=torch.float64)


def test_strings_are_drawn_with_their_probabilities() -> None:
    model = stopping()
    number = 4000
    drawn = Counter(tuple(d.inputs()["w"]) for d in model.sample(number, seed=1))
    words = ("the", "dog", "runs")
    strings = [*product(words), *product(words, repeat=2)]
    chances = model(w=[list(words) for words in strings]).exp().tolist()
    for string, chance in zip(strings, chances, strict=True):
        assert abs(drawn[string] / number - chance) < 5 * (chance / number) ** 0.5


def test_the_weight_of_a_draw_is_that_of_its_inputs_derivation() -> None:
    grammar = fgg.load("pcfg", sizes={"nt": 2, "pt": 3, "words": 4, "r": 2})
    model = fgg.compile(grammar).model(seed=1, dtype=torch.float64)
    for derivation in model.sample(20, seed=0):
        words = derivation.inputs()["w"]
        assert len(words) == derivation.observed.lengths["n"]  # type: ignore[union-attr]
        if len(words) < 5:
            ranked = model.posterior(w=[words]).k_best(5000)[0]
            same = [d for d in ranked if d == derivation]
            assert same and same[0].log_weight == pytest.approx(derivation.log_weight, rel=1e-9)
            assert same[0].inputs() == derivation.inputs()


@pytest.mark.parametrize("name", ["dmv", "dyck", "pair_hmm", "rna", "lpcfg"])
def test_grammars_that_stop_say_how_long_their_draws_are(name: str) -> None:
    sizes = {"pair_hmm": {"k": 2}, "dmv": {"tags": 2}, "lpcfg": {"n": 2}}.get(name, {})
    grammar = fgg.load(name)
    grammar = fgg.load(name, sizes={k: v for k, v in sizes.items() if k in grammar.size})
    model = fgg.compile(grammar, next(iter(grammar.query))).model(seed=0, dtype=torch.float64)
    try:
        derivations = model.sample(5, seed=2)
    except GrammarError as error:
        assert {d.code for d in error.diagnostics} <= {"F424", "F499"} and "lengths" in str(error)
        return
    for derivation in derivations:
        inputs = {key: [value] for key, value in derivation.inputs("ids").items()}
        if any(not value[0] for value in inputs.values()):
            continue
        log_z = float(model(**inputs)[0].detach())
        assert derivation.log_weight <= log_z + 1e-9


def test_a_model_that_does_not_stop_is_drawn_from_at_given_lengths() -> None:
    model = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 3})).model(seed=1)
    with pytest.raises(GrammarError, match="does not stop by itself") as caught:
        model.sample(2)
    assert caught.value.diagnostics[0].code == "F424"
    assert [len(d.inputs()["w"]) for d in model.sample(3, lengths=4)] == [4, 4, 4]
    lengths = Counter(len(d.inputs()["w"]) for d in model.sample(300, lengths=[2, 5, 5], seed=0))
    assert set(lengths) == {2, 5} and 150 < lengths[5] < 250
    one, two = (model.sample(4, lengths=[1, 2, 3], seed=5) for _ in range(2))
    assert one == two


def test_a_query_that_leaves_lengths_open_is_refused() -> None:
    model = fgg.compile(fgg.load("morphology"), "word").model(seed=0)
    with pytest.raises(GrammarError) as caught:
        model.sample(1, seed=0)
    assert caught.value.diagnostics[0].code == "F499"


def test_a_generated_corpus_is_read_by_train(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopping().save(tmp_path / "one.fggm")
    command = ["sample", str(tmp_path / "one.fggm"), "--number", "200", "--seed", "1"]
    assert main([*command, "--form", "input"]) == 0
    corpus = capsys.readouterr().out
    drawn = [" ".join(d.inputs()["w"]) for d in stopping().sample(200, seed=1)]
    assert corpus.splitlines() == drawn
    path = tmp_path / "corpus.txt"
    path.write_text(corpus)
    train = ["train", str(tmp_path / "one.fggm"), "--data", str(path), "--epochs", "3"]
    assert main([*train, "--field", "w=words", "--out", str(tmp_path / "run")]) == 0
    trained = fgg.load_model(tmp_path / "run")
    lines = [line.split() for line in drawn]
    with torch.no_grad():
        assert trained(w=lines).sum() > stopping()(w=lines).sum()
    assert trained.vocabulary["W"] == ("the", "dog", "runs")


def test_words_with_tags_are_written_as_train_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "tagged.pos"
    data.write_text("the/D dog/N runs/V\na/D cat/N\n" * 2)
    run = ["train", "tagger", "--query", "tagged", "--data", str(data), "--field", "tag=tags"]
    assert main([*run, "--epochs", "1", "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    sample = ["sample", str(tmp_path / "run"), "--length", "n=3", "--number", "4", "--seed", "1"]
    assert main([*sample, "--form", "input"]) == 0
    more = tmp_path / "more.pos"
    more.write_text(capsys.readouterr().out)
    assert len([e for e in fgg.data.read(more) if e.tags is not None and len(e) == 3]) == 4
    assert main(["eval", str(tmp_path / "run"), "--data", str(more)]) == 0
