"""PDF documents of one page, with text that can be selected and searched.

The fonts are Helvetica and Symbol, which every PDF reader has: they cover Latin and Greek letters
and common signs. Other characters are painted as small images.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import groupby
from unicodedata import normalize

from fgg.draw.geometry import Box, Point, Route
from fgg.draw.marks import Head, Mark, Shape, Stroke, Text
from fgg.draw.picture import Picture
from fgg.draw.scene import clean
from fgg.draw.style import PAPER

POINTS = 0.75  # of a pixel
KAPPA = 0.5523  # of a cubic curve that is nearly a quarter of a circle

FONTS = ("Helvetica", "Helvetica-Bold", "Helvetica-Oblique", "Symbol")
SYMBOL, OTHER = 3, 4

# The widths of the characters from space to tilde, in thousandths of the font size (Adobe's AFM).
_REGULAR = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 "
    "556 556 556 278 278 584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 "
    "722 778 667 778 722 667 611 722 667 944 667 667 611 278 278 278 469 556 333 556 556 500 556 "
    "556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 500 334 "
    "260 334 584"
)
_BOLD = (
    "278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 "
    "556 556 556 333 333 584 584 584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 "
    "722 778 667 778 722 667 611 722 667 944 667 667 611 333 278 333 584 556 333 556 611 556 611 "
    "556 333 611 611 278 278 556 278 889 611 611 611 611 389 556 333 611 556 778 556 556 500 389 "
    "280 389 584"
)
_WIDTHS = tuple(tuple(map(int, text.split())) for text in (_REGULAR, _BOLD, _REGULAR))

_SYMBOLS = {
    char: (code, width)
    for char, code, width in zip(
        "αβχδεφγηικλμνοπθρστυωξψζςΓΔΘΛΞΠΣΥΦΨΩ≤∞≥→←↑↓≠≈∈√\N{MINUS SIGN}⋅∑∏",
        (
            *b"abcdefghiklmnopqrstuwxyzV",
            *b"GDQLXPSUFYW",
            *(0xA3, 0xA5, 0xB3, 0xAE, 0xAC, 0xAD, 0xAF, 0xB9, 0xBB, 0xCE, 0xD6, 0x2D, 0xD7),
            *(0xE5, 0xD5),
        ),
        (
            *(631, 549, 549, 494, 439, 521, 411, 603, 329, 549, 549, 576, 521, 549, 549, 521, 549),
            *(603, 439, 576, 686, 493, 686, 494, 439),
            *(603, 612, 741, 686, 645, 768, 592, 690, 763, 795, 768),
            *(549, 713, 549, 987, 987, 603, 603, 549, 549, 713, 549, 549, 250, 713, 823),
        ),
        strict=True,
    )
}
"""The codes and the widths of the characters that are taken from the font Symbol."""


def to_pdf(picture: Picture) -> bytes:
    """The picture as a PDF document. Raises `MissingExtra` if a character needs Pillow."""
    width, height = picture.width * POINTS, picture.height * POINTS
    # The y axis of a page points up, that of a picture down.
    lines = [f"{_n(POINTS)} 0 0 {_n(-POINTS)} 0 {_n(height)} cm 1 J 1 j"]
    page = Box(0, 0, picture.width, picture.height)
    lines.append(f"{_color(PAPER)} rg {_rectangle(page)} f")
    for mark in picture.marks:
        lines += _mark(mark)
    content = zlib.compress("\n".join(lines).encode("latin-1"))
    fonts = " ".join(f"/F{i} {i + 5} 0 R" for i in range(len(FONTS)))
    title = ("\ufeff" + clean(picture.title)).encode("utf-16-be").hex()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_n(width)} {_n(height)}]"
            f" /Contents 4 0 R /Resources << /Font << {fonts} >> >> >>"
        ).encode(),
        b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        *map(_font, FONTS),
        f"<< /Title <{title}> /Producer (fgg) >>".encode(),
    ]
    return _document(objects)


def _font(name: str) -> bytes:
    encoding = "" if name == "Symbol" else " /Encoding /WinAnsiEncoding"
    return f"<< /Type /Font /Subtype /Type1 /BaseFont /{name}{encoding} >>".encode()


def _document(objects: list[bytes]) -> bytes:
    """A file of numbered objects; the first is the catalog, the last the title."""
    data = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(data)
    count = len(objects) + 1
    data += b"xref\n0 %d\n0000000000 65535 f \n" % count
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\n" % (count, count - 1)
    return bytes(data + b"startxref\n%d\n%%%%EOF\n" % start)


def _n(value: float) -> str:
    """A number with up to three decimals."""
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _color(color: str) -> str:
    return " ".join(_n(int(color[i : i + 2], 16) / 255) for i in (1, 3, 5))


def _at(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _mark(mark: Mark) -> Iterator[str]:
    match mark:
        case Shape():
            colors = f"{_color(mark.fill)} rg {_color(mark.line)} RG {_n(mark.width)} w"
            yield f"{colors} {_outline(mark)} B"
        case Stroke(route=route, color=color, width=width):
            yield f"{_color(color)} RG {_n(width)} w {_path(route)} S"
        case Head(points=points, color=color):
            first, *others = map(_at, points)
            sides = " ".join(f"{place} l" for place in others)
            yield f"{_color(color)} rg {first} m {sides} h f"
        case Text():
            yield from _text(mark)


def _rectangle(box: Box) -> str:
    return f"{_at((box.left, box.top))} {_n(box.width)} {_n(box.height)} re"


def _outline(shape: Shape) -> str:
    """A rectangle whose corners are quarters of circles."""
    box = shape.box
    radius = min(shape.radius, box.width / 2, box.height / 2)
    if not radius:
        return _rectangle(box)
    control = radius * (1 - KAPPA)
    corners = (
        (box.right, box.top, -1, 1),
        (box.right, box.bottom, -1, -1),
        (box.left, box.bottom, 1, -1),
        (box.left, box.top, 1, 1),
    )
    parts = [f"{_at((box.left + radius, box.top))} m"]
    for number, (x, y, right, down) in enumerate(corners):
        level = ((x + right * radius, y), (x + right * control, y))
        upright = ((x, y + down * control), (x, y + down * radius))
        ends = (*level, *upright) if number % 2 == 0 else (*upright[::-1], *level[::-1])
        start, first, second, end = map(_at, ends)
        parts.append(f"{start} l {first} {second} {end} c")
    return " ".join(parts) + " h"


def _path(route: Route) -> str:
    first, *others = map(_at, route.points)
    if route.is_straight:
        return f"{first} m {others[0]} l"
    curves = zip(others[0::3], others[1::3], others[2::3], strict=True)
    return f"{first} m " + " ".join(f"{a} {b} {c} c" for a, b, c in curves)


def _text(text: Text) -> Iterator[str]:
    face = 1 if text.bold else 2 if text.italic else 0
    words = clean(text.text)
    runs = [(font, "".join(chars)) for font, chars in groupby(words, lambda c: _font_of(c, face))]
    width = sum(_width(run, font, text.size) for font, run in runs)
    x = text.place[0] - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
    for halo in (True, False) if text.halo else (False,):
        left = x
        for font, run in runs:
            place = (left, text.place[1])
            if font == OTHER:
                if not halo:
                    yield _picture_of(run, place, text)
            else:
                yield _run(run, font, place, text, halo)
            left += _width(run, font, text.size)


def _font_of(char: str, face: int) -> int:
    """The number of the font that has a character; OTHER if none has."""
    if char in _SYMBOLS:
        return SYMBOL
    try:
        char.encode("cp1252")
    except UnicodeEncodeError:
        return OTHER
    return face


def _width(run: str, font: int, size: float) -> float:
    if font == SYMBOL:
        return sum(_SYMBOLS[char][1] for char in run) * size / 1000
    if font == OTHER:
        from fgg.draw.writers.png import glyphs_width

        return glyphs_width(run, size)
    return sum(_character_width(char, font) for char in run) * size / 1000


def _character_width(char: str, font: int) -> int:
    code = ord(normalize("NFKD", char)[0]) - 32
    return _WIDTHS[font][code] if 0 <= code < 95 else {"—": 1000, "…": 1000}.get(char, 556)


def _run(run: str, font: int, place: Point, text: Text, halo: bool) -> str:
    codes = bytes(_SYMBOLS[char][0] for char in run) if font == SYMBOL else run.encode("cp1252")
    color = f"{_color(PAPER)} RG 2.5 w 1 Tr" if halo else f"{_color(text.color)} rg 0 Tr"
    matrix = f"1 0 0 -1 {_at(place)} Tm"
    return f"BT /F{font} {_n(text.size)} Tf {color} {matrix} <{codes.hex()}> Tj ET"


def _picture_of(run: str, place: Point, text: Text) -> str:
    """Characters as a stencil through which their colour is painted."""
    from fgg.draw.writers.png import stencil

    made = stencil(run, text.size)
    left, top = place[0], place[1] - made.above
    data = made.bits.hex()
    return (
        f"q {_color(text.color)} rg {_n(made.width)} 0 0 {_n(-made.height)}"
        f" {_at((left, top + made.height))} cm"
        f" BI /IM true /W {made.columns} /H {made.rows} /BPC 1 /F /AHx ID {data}> EI Q"
    )
