"""What is done to examples, and that it gives the published forms of real data."""

from pathlib import Path

import pytest

from fgg.data import (
    Example,
    as_characters,
    as_tags,
    bare_labels,
    keep,
    normal,
    of_length,
    read,
    without_punctuation,
)
from fgg.diagnostics import GrammarError
from tests.helpers.real_data import real

FILES = Path(__file__).parent / "files"


def test_case_and_digits() -> None:
    example = Example(words=("The", "tbx15", "3.5,", "1984"))
    for lower, digits, words in [
        (True, None, ("the", "tbx15", "3.5,", "1984")),
        (False, "each", ("The", "tbx00", "0.0,", "0000")),
        (True, "number", ("the", "tbxN", "N", "N")),
    ]:
        changed = normal(lower=lower, digits=digits)(example)
        assert changed is not None and changed.words == words


def test_words_hang_from_the_nearest_head_that_is_left() -> None:
    first, second = map(without_punctuation, read(FILES / "sample.conllu"))
    assert (first.words, first.heads) == (("We", "do", "not", "agree"), (4, 4, 4, 0))
    assert (second.words, second.heads) == (("Good", "news"), (2, 0))  # the root was a bracket


def test_phrases_without_words_are_gone() -> None:
    example = Example(
        words=("a", "b", "c"),
        tags=("X", ".", "Y"),
        spans=((0, 3, "S"), (0, 2, "S"), (0, 1, "NP"), (1, 2, "P"), (2, 3, "VP")),
    )
    left = without_punctuation(example)
    assert left.spans == ((0, 2, "S"), (0, 1, "S"), (0, 1, "NP"), (1, 2, "VP"))
    alone = keep(example, [True, False, False])
    assert alone.spans == ((0, 1, "S"), (0, 1, "NP"))  # S over S became one


def test_segments_and_pairs_follow_their_words() -> None:
    example = Example(
        words=tuple("abcd"), segments=((0, 2), (2, 3), (3, 4)), pairs=((0, 3), (1, 2))
    )
    left = keep(example, [True, True, False, True])
    assert (left.segments, left.pairs) == (((0, 2), (2, 3)), ((0, 2),))


def test_lengths_filter() -> None:
    corpus = read(FILES / "words.txt")
    assert len(list(corpus.map(of_length(1, 3)))) == 3
    assert len(list(corpus.map(of_length(4)))) == 1


def test_labels_are_cut() -> None:
    assert [s[2] for s in bare_labels(list(read(FILES / "sample.trees"))[1]).spans or ()] == [
        "S",
        "VP",
        "NP",
    ]
    assert bare_labels(list(read(FILES / "sample.conllu"))[1]).relations == ("root", "amod", "flat")
    assert bare_labels(Example(words=("a",), spans=((0, 1, "-X-1"),))).spans == ((0, 1, "-X"),)


def test_characters_and_tags() -> None:
    example = Example(words=("the", "dog"), tags=("D", "N"))
    assert as_characters(example).words == tuple("thedog")
    assert as_characters(example).segments == ((0, 3), (3, 6))
    assert as_tags(example).words == ("D", "N")
    with pytest.raises(GrammarError, match="F485"):
        as_tags(Example(words=("a",)))


@pytest.mark.parametrize("most", [10, 15])
def test_the_short_sentences_of_ewt_are_made_from_all(most: int) -> None:
    made = read(real("ewt/test.tsv.xz"), format="columns").map(
        without_punctuation, bare_labels, of_length(1, most)
    )
    given = list(read(real(f"ewt/dmv{most}.test.tsv"), format="columns"))
    assert len(given) == {10: 1227, 15: 1560}[most]
    for one, other in zip(made, given, strict=True):
        assert (one.words, one.tags, one.fine_tags) == (other.words, other.tags, other.fine_tags)
        assert (one.heads, one.relations) == (other.heads, other.relations)


def test_the_trees_of_induction_are_made_from_the_supervised_ones() -> None:
    made = read(real("craft_trees/dev.sup.trees.xz")).map(
        without_punctuation, bare_labels, normal(lower=True, digits="number"), of_length(1)
    )
    given = list(read(real("craft_trees/dev.trees.xz")))
    assert len(given) == 2780
    for one, other in zip(made, given, strict=True):
        assert (one.words, one.tags, one.spans) == (other.words, other.tags, other.spans)
