"""Files of pictures: SVG that every renderer shows, and PDF."""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import fgg
from fgg.diagnostics import GrammarError
from fgg.draw import MissingExtra, draw_grammar, render
from fgg.draw.geometry import Box
from fgg.draw.marks import Shape, Text, segment
from fgg.draw.picture import Sketch
from tests.draw import examples

SVG = "{http://www.w3.org/2000/svg}"


def sketch(*texts: str) -> Sketch:
    marks = [Text(text=text, place=(50, 20 + 20 * i), size=12) for i, text in enumerate(texts)]
    box = Shape(box=Box(1, 2, 30, 40), radius=5, fill="#ff0000", line="#000000", width=1)
    line = segment((0, 0), (10, 10), "#00ff00", 1)
    return Sketch(title="a (b)", width=200, height=100, painted=(box, line, *marks))


def page(data: bytes) -> str:
    """The operators of a PDF's only page."""
    content = re.search(rb"/Length (\d+) >>\nstream\n", data)
    assert content is not None
    start = content.end()
    return zlib.decompress(data[start : start + int(content.group(1))]).decode("latin-1")


def test_no_text_of_an_svg_is_hidden_under_its_halo() -> None:
    svg = render(draw_grammar(examples.pcfg()), "svg").decode()
    assert "paint-order" not in svg
    texts = list(ElementTree.fromstring(svg).iter(f"{SVG}text"))
    halos = [i for i, text in enumerate(texts) if text.get("stroke")]
    assert halos
    for i in halos:
        assert texts[i].get("fill") == "none" and texts[i].get("aria-hidden") == "true"
        assert texts[i + 1].text == texts[i].text and texts[i + 1].get("fill") != "none"


def test_pdf_has_one_page_of_the_size_of_the_picture_and_a_sound_table() -> None:
    data = render(sketch("x"), "pdf")
    assert data.startswith(b"%PDF-1.4") and data.endswith(b"%%EOF\n")
    assert b"/MediaBox [0 0 150 75]" in data
    start = int(data.rsplit(b"startxref\n", 1)[1].split(b"\n")[0])
    assert data[start:].startswith(b"xref\n0 10\n")
    for number, entry in enumerate(data[start:].split(b"\n")[3:12], 1):
        assert data[int(entry[:10]) :].startswith(b"%d 0 obj" % number)


def test_pdf_writes_latin_text_with_helvetica_and_greek_with_symbol() -> None:
    operators = page(render(sketch("für α ≤ b"), "pdf"))
    shown = re.findall(r"/F(\d) 12 Tf .*? <([0-9a-f]+)> Tj", operators)
    assert [(font, bytes.fromhex(codes)) for font, codes in shown] == [
        ("0", "für ".encode("cp1252")),
        ("3", b"a"),
        ("0", b" "),
        ("3", b"\xa3"),
        ("0", b" b"),
    ]


def test_pdf_paints_other_characters_as_images_and_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("PIL")
    picture = sketch("犬 dog")
    assert " BI /IM true " in page(render(picture, "pdf"))
    for name in ("PIL", "PIL.Image", "PIL.ImageFont"):
        monkeypatch.setitem(sys.modules, name, None)
    from fgg.draw.writers import png

    png._font.cache_clear()
    with pytest.raises(MissingExtra, match="Pillow"):
        render(picture, "pdf")
    assert render(sketch("dog"), "pdf").startswith(b"%PDF")


def test_pictures_are_saved_in_the_format_of_their_ending(tmp_path: Path) -> None:
    picture = draw_grammar(examples.hmm())
    starts = {
        **{"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "tex": b"% hmm", "dot": b"digraph"}
    }
    for ending, start in starts.items():
        path = tmp_path / f"picture.{ending}"
        picture.save(path)
        assert path.read_bytes().startswith(start)


def test_an_unknown_ending_is_refused_and_dot_is_for_rules(tmp_path: Path) -> None:
    with pytest.raises(GrammarError, match=r"the ending `\.gif` is not a picture format"):
        sketch("x").save(tmp_path / "x.gif")
    with pytest.raises(GrammarError, match="only pictures of rules"):
        sketch("x").save(tmp_path / "x.dot")
    with pytest.raises(GrammarError, match="cannot be written"):
        sketch("x").save(tmp_path / "none" / "x.svg")
    assert not list(tmp_path.iterdir())


def test_a_grammar_with_markup_in_its_values_is_drawn_as_text() -> None:
    grammar = fgg.loads(
        'domain W = {"<script>alert(1)</script>"} factor f(W) nonterminal S() start S\n'
        "rule s: S -> f(w)"
    )
    svg = grammar.draw().svg()
    assert "<script" not in svg
    ElementTree.fromstring(svg)
