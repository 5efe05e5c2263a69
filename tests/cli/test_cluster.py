"""`fggc cluster`."""

import json
import lzma
from pathlib import Path

import pytest

from fgg.cli import main
from fgg.clusters import read_blocks

TEXT = "the dog barks\na dog sleeps\nthe cat sleeps\na cat barks\n"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text(TEXT)
    Path("words.txt.xz").write_bytes(lzma.compress(TEXT.encode()))


def test_blocks_and_paths_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["cluster", "words.txt", "-c", "3", "--by-line", "-o", "b.txt", "--paths", "p.txt"]
    assert main(command) == 0
    assert capsys.readouterr().out == (
        "6 words, 12 tokens, 3 clusters\naverage mutual information 1.0000 bits\n"
    )
    found = read_blocks("b.txt")
    assert found["the"] == found["a"] and found["dog"] == found["cat"]
    assert found["barks"] == found["sleeps"] and len({*found.values()}) == 3
    assert len(Path("p.txt").read_text().splitlines()) == 6


def test_packed_data_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "words.txt", "-c", "2"]) == 0
    plain = capsys.readouterr().out
    assert main(["cluster", "words.txt.xz", "-c", "2"]) == 0
    assert capsys.readouterr().out == plain


@pytest.mark.parametrize("method", ["uniform", "frequency"])
def test_other_methods(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "words.txt", "-c", "2", "--method", method, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["words"], found["tokens"], found["clusters"]) == (6, 12, 2)
    assert main(["cluster", "words.txt", "-c", "2", "--method", method, "--paths", "p"]) == 2


def test_rare_words_and_vocabularies(capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.txt").write_text(TEXT + "The cow 12\n")
    assert main(["cluster", "more.txt", "-c", "2", "--lower", "--digits", "each"]) == 0
    words = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert "The" not in words and "00" in words
    assert main(["cluster", "more.txt", "-c", "2", "--least", "2"]) == 0
    words = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert "<unk>" in words and "cow" not in words
    Path("vocab.txt").write_text("<unk>\nthe\n")
    assert main(["cluster", "more.txt", "-c", "2", "--vocab", "vocab.txt"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_folder_that_is_not_there_is_noticed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "words.txt", "-c", "2", "-o", "none/b.txt"]) == 2
    assert "F413" in capsys.readouterr().err


def test_bad_items_are_skipped_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.pos").write_text("the/D dog/N\nbad\n")
    assert main(["cluster", "a.pos", "-c", "2"]) == 2
    assert "error[F485]: a.pos:2: `bad` is not `word/TAG`" in capsys.readouterr().err
    assert main(["cluster", "a.pos", "-c", "2", "--skip-bad", "--json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (note["code"], note["message"]) == ("F487", "1 item was skipped")


@pytest.mark.parametrize("number", ["0", "-1", "x", "99999999999"])
def test_numbers_of_clusters_that_make_no_sense(number: str) -> None:
    assert main(["cluster", "words.txt", "-c", number]) == 2
