"""One trained artefact: a file or a run folder that every command and `load_model` take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import fgg
from fgg import GrammarError
from fgg.api.saved import is_model
from fgg.cli import main
from fgg.runtime.model.saving import read_tensors, write

TEXT = "The dog runs\na dog sees the cat\nthe cat sleeps\na cat runs\nthe 2 dogs run\n"
TAGGED = "The/D dog/N runs/V\na/D dog/N sees/V the/D cat/N\nthe/D cat/N sleeps/V\n"


@pytest.fixture
def tagger(tmp_path: Path) -> Path:
    """A tagger trained on words in lower case, saved away from its run."""
    data = tmp_path / "tagged.pos"
    data.write_text(TAGGED * 2)
    run = ["train", "tagger", "--query", "tagged", "--data", str(data), "--field", "tag=tags"]
    run += ["--lower", "--min-count", "3", "--option", "pseudo=0.1", "--epochs", "2"]
    assert main([*run, "--out", str(tmp_path / "run")]) == 0
    path = tmp_path / "english.fggm"
    fgg.load_model(tmp_path / "run").save(path)
    return path


def test_words_go_in_and_words_come_out(tagger: Path) -> None:
    for path in (tagger, tagger.parent / "run"):
        model = fgg.load_model(path, query="string")
        tags = [d.cell_values() for d in model.posterior(w=["THE dog sleeps", "a cat"]).best()]
        assert tags == [("D", "N", "V"), ("D", "N")]
        assert model.vocabulary["W"][0] == "<unk>" and set(model.vocabulary["T"]) == {"D", "N", "V"}


def test_a_text_is_read_as_its_lists_and_ids_are(tagger: Path) -> None:
    model = fgg.load_model(tagger, query="string")
    index = {word: number for number, word in enumerate(model.vocabulary["W"])}
    ids = [[index["the"], index["dog"], index["<unk>"], -1]]
    texts = (["The dog hops -1"], [["THE", "dog", "hops", None]], torch.tensor(ids), ids)
    values = [float(model(w=given)[0].detach()) for given in texts]
    assert values == pytest.approx([values[0]] * 4, rel=1e-12)


def test_the_shell_gives_what_python_gives(
    tagger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = fgg.load_model(tagger, query="string")
    want = float(model(w=["the dog runs"])[0].detach())
    for file in (str(tagger), str(tagger.parent / "run")):
        capsys.readouterr()
        given = [file, "--query", "string", "--input", "w=The dog runs"]
        assert main(["run", *given, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["log_z"] == pytest.approx(want, rel=1e-9)
        assert main(["run", *given, "--ground", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["log_z"] == pytest.approx(want, rel=1e-9)
        assert main(["decode", *given, "--form", "values"]) == 0
        assert capsys.readouterr().out.split("\t")[1] == "D N V\n"
        data = tagger.parent / "more.txt"
        data.write_text("The dog runs\n")
        assert main(["eval", file, "--query", "string", "--data", str(data), "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)["scores"]["likelihood"]
        assert scores["log_likelihood"] == pytest.approx(want, rel=1e-9)
        for command in (["check"], ["show"], ["explain"], ["verify", "--length", "2"]):
            assert main([command[0], file, "--query", "string", *command[1:]]) in (0, 2)
        assert main(["check", file]) == main(["show", file, "--emit", "fgg"]) == 0
        capsys.readouterr()


def test_weights_of_a_model_serve_the_grammar_it_was_made_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = fgg.compile(fgg.load("pcfg", sizes={"nt": 2, "pt": 3, "words": 4, "r": 2})).model(
        seed=3, dtype=torch.float64
    )
    model.save(tmp_path / "pcfg.fggm")
    sizes = ["--set", "nt=2", "pt=3", "words=4", "r=2"]
    given = ["--params", str(tmp_path / "pcfg.fggm"), "--input", "w=0 1 2 3", "--json"]
    want = float(model(w=[[0, 1, 2, 3]])[0].detach())
    for more in ([], ["--ground"]):
        assert main(["run", "pcfg", *sizes, *given, *more]) == 0
        assert json.loads(capsys.readouterr().out)["log_z"] == pytest.approx(want, rel=1e-9)
    other = fgg.compile(fgg.load("pcfg", sizes={"nt": 2, "pt": 3, "words": 4, "r": 2})).model()
    other.load(tmp_path / "pcfg.fggm")
    assert float(other(w=["0 1 2 3"])[0].detach()) == pytest.approx(want, rel=1e-5)


def test_training_begins_with_a_trained_model(
    tagger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tagger.parent / "more.pos"
    data.write_text("A/D bird/N sings/V\n")
    more = ["train", str(tagger), "--data", str(data), "--out", str(tagger.parent / "more")]
    assert main([*more, "--epochs", "0"]) == 0
    before, after = fgg.load_model(tagger), fgg.load_model(tagger.parent / "more")
    assert after.preprocessing == before.preprocessing and after.vocabulary == before.vocabulary
    for name, tensor in before.state_dict().items():
        assert torch.equal(tensor, after.state_dict()[name])
    assert main([*more[:-1], str(tagger.parent / "two"), "--epochs", "1"]) == 0
    assert "has 3 values" not in capsys.readouterr().err, "the vocabulary stays as it is"


def test_a_vocabulary_from_data_is_announced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, ids = tmp_path / "words.txt", tmp_path / "some.ids"
    words.write_text(TEXT)
    ids.write_text("7 3 3\n2 -1 3\n")
    begin = ["train", "hmm", "--set", "k=2", "--epochs", "1"]
    assert main([*begin, "--data", str(words), "--out", str(tmp_path / "words")]) == 0
    noted = capsys.readouterr().err
    assert "`W` has 12 values, not 100, the words of the data by frequency: <unk>, the," in noted
    assert main([*begin, "--data", str(ids), "--out", str(tmp_path / "ids")]) == 0
    assert "`W` has" not in capsys.readouterr().err
    model = fgg.load_model(tmp_path / "ids")
    assert model.weight("emit").shape == (2, 100), "ids are the ids of the grammar"
    assert model.weight("emit")[:, 3].sum() > model.weight("emit")[:, 0].sum()


def test_a_grammar_without_names_takes_the_numbers_of_one_with_names(tmp_path: Path) -> None:
    data = tmp_path / "words.txt"
    data.write_text(" ".join(f"word{i}" for i in range(100)) + "\n")
    begin = ["train", "hmm", "--set", "k=2", "--data", str(data), "--epochs", "1"]
    assert main([*begin, "--out", str(tmp_path / "run")]) == 0
    model = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 101})).model(dtype=torch.float64)
    model.load(tmp_path / "run" / "model.safetensors")
    trained = fgg.load_model(tmp_path / "run")
    assert torch.equal(model(w=[[1, 2, 3]]), trained(w=[[1, 2, 3]]))
    other = fgg.compile(fgg.load("hmm", sizes={"k": 2, "d": 100})).model()
    with pytest.raises(GrammarError, match="another grammar"):
        other.load(tmp_path / "run" / "model.safetensors")


@pytest.mark.parametrize(
    ("entry", "text", "code"),
    [
        ([["the", "two"]], "`two` is not a value of `Word`", "F411"),
        ([["1"]], "the id is a number", "F411"),
        ([[True]], "True is neither a number nor a word", "F411"),
        ([[5]], "5 is not a value of `Word`", "F411"),
    ],
)
def test_words_are_names_and_numbers_are_ids(entry: object, text: str, code: str) -> None:
    source = str(fgg.load("hmm", sizes={"k": 2})).replace("domain W = d", 'domain W = {the, "2"}')
    grammar = fgg.loads(source.replace("W", "Word"))
    model = fgg.compile(grammar).model(seed=0)
    assert torch.equal(model(w=[["the", "2"]]), model(w=[[0, 1]]))
    assert torch.equal(model(w=[["the", "-1"]]), model(w=[[0, -1]]))
    with pytest.raises(GrammarError) as caught:
        model(w=entry)
    (problem,) = caught.value.diagnostics
    assert problem.code == code and text in f"{problem.message} {problem.help}"


def test_a_file_of_weights_alone_is_no_model(tmp_path: Path) -> None:
    write(tmp_path / "weights.safetensors", {"emit": torch.ones(2, 2)}, {})
    assert is_model(tmp_path / "weights.safetensors") and not is_model(tmp_path / "none")
    assert main(["check", str(tmp_path / "weights.safetensors")]) == 2
    with pytest.raises(GrammarError, match="does not say which grammar"):
        fgg.load_model(tmp_path / "weights.safetensors")
    (tmp_path / "run").mkdir()
    with pytest.raises(GrammarError, match="holds no model"):
        fgg.load_model(tmp_path / "run")
    (tmp_path / "run" / "settings.json").write_text("{}")
    with pytest.raises(GrammarError, match="no epoch has ended"):
        fgg.load_model(tmp_path / "run")


def test_a_size_larger_than_the_vocabulary_leaves_values_for_later(tmp_path: Path) -> None:
    data = tmp_path / "words.txt"
    data.write_text(TEXT)
    begin = ["train", "hmm", "--set", "k=2", "d=20", "--data", str(data), "--epochs", "1"]
    assert main([*begin, "--out", str(tmp_path / "run")]) == 0
    model = fgg.load_model(tmp_path / "run")
    assert model.vocabulary["W"][-1] == "<unused:19>" and model.weight("emit").shape == (2, 20)
    assert json.loads(read_tensors(tmp_path / "run" / "model.safetensors")[0]["sizes"])["d"] == 20
