"""Vocabularies: which words are in them, what becomes of others, files."""

from pathlib import Path

import pytest

import fgg
from fgg.data import Example, Vocabulary, build_vocabulary, load_vocabulary, read, word_shape
from fgg.diagnostics import GrammarError
from fgg.grammar.domains import value_index

FILES = Path(__file__).parent / "files"
TEXT = [Example(words=tuple("b a c a b a <unk> d".replace("d", "Dogs-1").split()))]


def test_words_come_by_frequency_after_unknown_and_extra() -> None:
    built = build_vocabulary(TEXT, extra=("<eos>",))
    assert built.values == ("<unk>", "<eos>", "a", "b", "c", "Dogs-1")
    assert built.counts == (1, 0, 3, 2, 1, 1)


def test_rare_words_become_unknown() -> None:
    built = build_vocabulary(TEXT, least=2)
    assert built.values == ("<unk>", "a", "b")
    assert built.counts == (3, 3, 2)
    assert built.encode(["a", "x", "c", "b"]) == [1, 0, 0, 2]
    assert built.decode([2, 0]) == ["b", "<unk>"]
    assert build_vocabulary(TEXT, most=1).values == ("<unk>", "a")


def test_examples_count_as_often_as_they_occur() -> None:
    built = build_vocabulary([Example(words=("a",), count=5), Example(words=("b", "b"))])
    assert built.counts == (0, 5, 2)


def test_unknown_words_have_classes_by_shape() -> None:
    built = build_vocabulary(TEXT, least=2, shapes=True)
    assert built.values == ("<unk>", "<unk:capital-digit-hyphen>", "a", "b")
    assert built.counts == (2, 1, 3, 2)
    assert built.encode(["Cats-2", "Cats", "z"]) == [1, 0, 0]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("dog", ""),
        ("dogs", "s"),
        ("Dogs", "capital-s"),
        ("NATO", "capitals"),
        ("U", "capital"),
        ("B-52", "capital-digit-hyphen"),
        ("1984", "digit"),
        ("well-being", "hyphen-ing"),
        ("quality", "ity"),
        ("sly", ""),
        ("", ""),
    ],
)
def test_shapes(word: str, expected: str) -> None:
    assert word_shape(word) == expected


def test_without_a_word_for_unknown_ones_they_are_errors() -> None:
    built = build_vocabulary(TEXT, unknown=None, least=2)
    assert built.values == ("a", "b")
    with pytest.raises(GrammarError, match="`x` is not in the vocabulary"):
        built.encode(["x"])
    with pytest.raises(GrammarError, match=r"words\.txt:1: `the` is not"):
        list(read(FILES / "words.txt").map(built.encoded))


def test_corpora_are_encoded_as_they_are_read() -> None:
    corpus = read(FILES / "words.txt")
    built = build_vocabulary(corpus, least=2)
    assert built.values == ("<unk>", "the", "dog", "sleeps")
    assert [e.ids for e in corpus.map(built.encoded)][:2] == [(1, 2, 0), (1, 0, 3)]
    assert next(iter(corpus.map(built.replaced))).words == ("the", "dog", "<unk>")


@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("unknown", ["<unk>", None])
def test_files_give_back_what_was_saved(shapes: bool, unknown: str | None, tmp_path: Path) -> None:
    built = build_vocabulary(TEXT, least=2, unknown=unknown, shapes=shapes and unknown is not None)
    built.save(tmp_path / "vocab.json")
    assert load_vocabulary(tmp_path / "vocab.json") == built
    built.save(tmp_path / "vocab.txt")
    loaded = load_vocabulary(tmp_path / "vocab.txt")
    assert (loaded.values, loaded.unknown, loaded.shapes) == (
        built.values,
        built.unknown,
        built.shapes,
    )


def test_a_grammar_reads_a_saved_vocabulary(tmp_path: Path) -> None:
    build_vocabulary(TEXT).save(tmp_path / "vocab.txt")
    text = 'domain W = file("vocab.txt") factor f(-> W) nonterminal S() start S rule S -> f(w)'
    (tmp_path / "g.fgg").write_text(text)
    grammar = fgg.load(str(tmp_path / "g.fgg"))
    assert list(value_index(grammar, "W")) == list(build_vocabulary(TEXT).values)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.txt", "a\n\nb\n", "2: an empty line"),
        ("v.txt", "a\nb\na\n", "3: `a` is in line 1 already"),
        ("v.json", "{}", "does not hold a vocabulary"),
        ("v.json", '{"values": ["a", "a"]}', "does not hold a vocabulary"),
        ("v.json", '{"values": ["a"], "unknown": "b"}', "does not hold a vocabulary"),
        ("v.json", '{"values": ["a"], "counts": [1, 2]}', "does not hold a vocabulary"),
        ("v.json", '{"values": [1]}', "does not hold a vocabulary"),
        ("v.json", "[" * 100000, "does not hold a vocabulary"),
    ],
)
def test_bad_files_are_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(GrammarError, match=message):
        load_vocabulary(tmp_path / name)


def test_membership() -> None:
    assert "a" in Vocabulary(values=("<unk>", "a")) and len(Vocabulary(values=("<unk>", "a"))) == 2
