"""Pictures of sentences: nothing overlaps that should not, and nothing leaves the page."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from fgg.draw import Format, TooLarge, render
from fgg.draw.marks import Text
from fgg.draw.picture import Picture
from fgg.draw.sentence import (
    Arc,
    Span,
    arc_picture,
    segment_picture,
    tag_picture,
    tree_picture,
)

WORDS = "a very large dog ran".split()
TREE = Span(
    "S",
    0,
    5,
    (
        Span("NP-with-a-long-name", 0, 4, (Span("Det", 0, 1), Span("NX", 1, 4))),
        Span("VP", 4, 5, (Span("an intransitive verb", 4, 5),)),
    ),
)
PICTURES = (
    tree_picture("tree", WORDS, [TREE]),
    arc_picture("arcs", WORDS, [Arc(None, 4), Arc(4, 3), Arc(3, 0), Arc(3, 2, "amod"), Arc(2, 1)]),
    arc_picture("pairs", list("GGAAACC"), [Arc(0, 6), Arc(1, 5)], heads=False),
    tag_picture("tags", WORDS * 10, [["D", "A", "A", "N", "V"] * 10]),
    segment_picture("segments", [(["ba", "na"], "stem"), (["s"], "")]),
)


def written(picture: Picture) -> list[Text]:
    return [mark for mark in picture.marks if isinstance(mark, Text)]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.title)
def test_texts_lie_on_the_page_and_not_on_each_other(picture: Picture) -> None:
    boxes = [text.box() for text in written(picture) if text.text]
    for box in boxes:
        assert 0 <= box.left and box.right <= picture.width
        assert 0 <= box.top and box.bottom <= picture.height
    assert not [1 for i, a in enumerate(boxes) for b in boxes[:i] if a.overlap(b) > 1]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.title)
@pytest.mark.parametrize("format", ["svg", "png", "pdf", "tikz"])
def test_every_format_has_the_picture(picture: Picture, format: Format) -> None:
    content = render(picture, format)
    start = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF-1.4", "tikz": b"% "}[format]
    assert content.startswith(start)
    if format == "svg":
        ElementTree.fromstring(content)


def test_long_sentences_of_tags_are_broken_into_lines() -> None:
    picture = PICTURES[3]
    assert picture.width < 1000
    assert len({text.place[1] for text in written(picture)}) >= 4


def test_an_arc_rises_above_those_inside_it() -> None:
    from fgg.draw.marks import Stroke

    picture = arc_picture("t", list("abcd"), [Arc(0, 3), Arc(1, 2)], heads=False)
    tops = [m.route.box().top for m in picture.marks if isinstance(m, Stroke)]
    assert tops[0] < tops[1] - 10


def test_a_deep_tree_is_drawn_and_a_huge_sentence_is_refused() -> None:
    tree = Span("X", 399, 400)
    for start in reversed(range(399)):
        tree = Span("X", start, 400, (Span("P", start, start + 1), tree))
    assert tree_picture("deep", ["w"] * 400, [tree]).height > 400 * 40
    with pytest.raises(TooLarge, match="1,001 positions"):
        tag_picture("t", ["w"] * 1001, [["x"] * 1001])
