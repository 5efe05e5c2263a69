"""Readers: what each format gives, packed or not, and what is said of bad lines."""

import bz2
import gzip
import itertools
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from fgg.data import Corpus, Example, brackets, find, read
from fgg.diagnostics import GrammarError

FILES = Path(__file__).parent / "files"


def problems(corpus: Corpus) -> list[tuple[str, str]]:
    with pytest.raises(GrammarError) as caught:
        list(corpus)
    return [(d.code, d.message.split(":", 1)[1]) for d in caught.value.diagnostics]


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def test_words_are_what_stands_between_spaces() -> None:
    examples = list(read(FILES / "words.txt"))
    assert [e.words for e in examples[:2]] == [("the", "dog", "barks"), ("the", "cat", "sleeps")]
    assert [e.place.rsplit(":", 1)[1] for e in examples] == ["1", "2", "4", "5"]
    assert len(list(read(FILES / "words.txt", blank=True))) == 5


def test_ids_are_numbers() -> None:
    assert [e.ids for e in read(FILES / "sample.ids")] == [(0, 1, 2), (0, -1, 2, 7)]


def test_the_last_slash_parts_word_and_tag() -> None:
    assert [(e.words, e.tags) for e in read(FILES / "sample.pos")][1] == (
        ("and/or", "it", "sleeps"),
        ("CCONJ", "PRON", "VERB"),
    )


def test_conllu_gives_words_tags_heads_and_relations() -> None:
    first, second = read(FILES / "sample.conllu")
    assert first.words == ("We", "do", "not", "agree", ".")
    assert first.tags == ("PRON", "AUX", "PART", "VERB", "PUNCT")
    assert first.fine_tags == ("PRP", "VBP", "RB", "VB", ".")
    assert first.heads == (4, 4, 4, 0, 4)
    assert second.relations == ("root", "amod:x", "flat")
    assert first.place.endswith(":3")


def test_columns_are_read_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "dog\tx\tNOUN\nbarks\ty\tVERB\n\n#\tz\tSYM\n")
    examples = list(read(path, format="columns", columns=("word", "", "tag")))
    assert [(e.words, e.tags, e.heads) for e in examples] == [
        (("dog", "barks"), ("NOUN", "VERB"), None),
        (("#",), ("SYM",), None),
    ]


def test_trees_give_spans_parents_first() -> None:
    first, second = read(FILES / "sample.trees")
    assert first.words == ("we", "agree", "now", ".")
    assert first.spans == ((0, 4, "S"), (0, 1, "NP"), (1, 3, "VP"), (2, 3, "ADVP"))
    assert second.words == ("Take", "2,5", "apples")
    assert second.spans == ((0, 3, "S"), (0, 3, "VP"), (1, 3, "NP=2"))
    assert brackets(second) == "(S (VP (VB Take) (NP=2 (CD 2,5) (NNS apples))))"


def test_structures_give_pairs() -> None:
    one, two = read(FILES / "sample.dbn")
    assert (one.name, one.pairs, two.pairs) == ("one", ((0, 8), (1, 7), (2, 6)), ())
    assert two.words == ("A", "C", "G", "U")


def test_morphs_give_segments() -> None:
    one, two = read(FILES / "morphs.tsv", format="morphs")
    assert (one.name, one.segments, one.count) == ("abantu", ((0, 3), (3, 6)), 3)
    assert (two.words, two.segments, two.count) == (tuple("hamba"), ((0, 4), (4, 5)), 1)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("name", ["words.txt", "words.txt.gz"])
def test_packed_files_are_known_by_what_they_hold(
    pack: Callable[[bytes], bytes], name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(pack((FILES / "words.txt").read_bytes()))
    words = [e.words for e in read(FILES / "words.txt")]
    assert [e.words for e in read(tmp_path / name)] == words


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_file_cut_off_is_reported(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    data = pack(b"the dog barks\n" * 5000)
    (tmp_path / "a.txt").write_bytes(data[: len(data) // 2])
    with pytest.raises(GrammarError, match=r"F480.*cannot be unpacked"):
        list(read(tmp_path / "a.txt"))


def test_files_that_are_not_there_are_reported(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(GrammarError, match="F401"):
            list(read(path, format="words"))


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "\ufeffone\r\ntwo\x0bthree\u2028four\n")
    assert [e.words for e in read(path)] == [("one",), ("two", "three", "four")]


def test_a_corpus_is_read_as_it_is_used_and_again(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "a b\n" * 1000)
    corpus = read(path, path)
    assert [e.words for e in itertools.islice(corpus, 2)] == [("a", "b")] * 2
    assert len(list(corpus)) == len(list(corpus)) == 2000


def test_bytes_that_are_not_text_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\nbad \xe9\ngood\n")
    assert problems(read(tmp_path / "a.txt")) == [("F481", "2: byte 5 is not UTF-8")]
    corpus = read(tmp_path / "a.txt", skip=True)
    assert [e.words for e in corpus] == [("good",), ("good",)]
    assert corpus.skipped.count == 1


ROW = "\t".join("1 dog dog NOUN NN _ 0 root _ _".split())
BAD = [
    ("a.ids", "0 1\n1 x\n", "F482", "2: `x` is not a number"),
    ("a.ids", "0 -3\n", "F482", "1: `-3` is not an id"),
    ("a.ids", "99999999999\n", "F482", "1: `99999999999` is not a number"),
    ("a.pos", "a/B /C\n", "F485", "1: `/C` is not `word/TAG`"),
    ("a.conllu", f"{ROW}\n2\tbarks\n", "F483", "2: 2 columns; 10 are expected"),
    ("a.conllu", ROW.replace("1", "2") + "\n", "F483", "1: word 1 has the number `2`"),
    ("a.conllu", ROW.replace("\t0\t", "\t_x\t") + "\n", "F483", "1: `_x` is not a head"),
    ("a.conllu", ROW.replace("\t0\t", "\t1\t") + "\n", "F483", "1: word 1 is below itself"),
    ("a.trees", "(S (NN dog)\n(S (NN cat))\n", "F484", "1: a bracket is not closed"),
    ("a.trees", "(S (NN dog)", "F484", "1: a bracket is not closed"),
    ("a.trees", "(S (NN dog)))\n", "F484", "1: a bracket closes nothing"),
    ("a.trees", "(S (NN dog) cat)\n", "F484", "1: `cat` stands among phrases"),
    ("a.trees", "(S (NN big dog))\n", "F484", "1: `(NN big dog)` is not a leaf"),
    ("a.trees", "dog\n", "F484", "1: `dog` stands outside of brackets"),
    ("a.dbn", ">x\nAC\n.\n", "F484", "3: 2 letters, but 1 signs"),
    ("a.dbn", ">x\nAC\n()\nAC\n", "F484", "4: a line that belongs to no `>name`"),
    ("a.dbn", ">x\nAC\n).\n", "F484", "3: sign 1, `)`, closes nothing"),
    ("a.dbn", ">x\nAC\n(.\n", "F484", "3: bracket 1 is not closed"),
    ("a.dbn", ">x\nAC\n[.\n", "F484", "3: sign 1, `[`, is not one of `(`, `.`, `)`"),
    ("a.dbn", ">x\nAC\n", "F484", "1: a name without letters and brackets"),
    ("morphs", "word\two rt\n", "F485", "1: the parts of `word` are `wo rt`"),
    ("morphs", "word\two rd\tx\tmany\n", "F485", "1: `many` is not a count"),
]


@pytest.mark.parametrize(("name", "text", "code", "message"), BAD)
def test_bad_lines_are_reported_with_their_numbers(
    name: str, text: str, code: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, name, text)
    format = None if "." in name else name
    assert problems(read(path, format=format)) == [(code, message)]
    corpus = read(path, format=format, skip=True)
    left = list(corpus)
    assert corpus.skipped.count == 1
    warning = corpus.skipped.warning()
    assert warning is not None and warning.code == "F487" and message in warning.help
    assert all(isinstance(e, Example) for e in left)


def test_several_bad_lines_are_reported_at_once_but_not_too_many(tmp_path: Path) -> None:
    path = written(tmp_path, "a.pos", "a/B\nx\ny z\n" * 100)
    reported = problems(read(path))
    assert len(reported) == 20
    assert reported[:2] == [
        ("F485", "2: `x` is not `word/TAG`"),
        ("F485", "3: `y` is not `word/TAG`"),
    ]
    corpus = read(path, skip=True)
    assert len(list(corpus)) == 100 and corpus.skipped.count == 200
    assert len(list(corpus)) == 100 and corpus.skipped.count == 200  # of each pass


def test_heads_that_go_round_are_found_wherever_they_are(tmp_path: Path) -> None:
    rows = [("a", "2"), ("b", "3"), ("c", "2"), ("d", "0")]
    path = written(tmp_path, "a.tsv", "".join(f"{w}\t{h}\n" for w, h in rows))
    corpus = read(path, format="columns", columns=("word", "head"))
    assert problems(corpus) == [("F483", "2: word 2 is below itself")]


def test_formats_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GrammarError, match="did you mean `trees`"):
        read("a.txt", format="tree")
    with pytest.raises(GrammarError, match=r"format of `a\.tsv` does not follow"):
        read("a.tsv")
    with pytest.raises(GrammarError, match="F486"):
        read("a.tsv", format="columns", columns=("tag",))
    with pytest.raises(GrammarError, match="F486"):
        read("a.txt", columns=("word",))


def test_data_that_are_not_there_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FGG_DATA", str(tmp_path))
    with pytest.raises(GrammarError, match=r"(?s)there is no `a\.txt`.*set `FGG_DATA`"):
        find("a.txt")
    assert find(written(tmp_path, "a.txt", "").name) == tmp_path / "a.txt"
