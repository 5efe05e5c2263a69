"""PNG images, painted with Pillow: no system library and no font is needed."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from fgg.draw import MissingExtra, style
from fgg.draw.geometry import Point
from fgg.draw.marks import Head, Mark, Shape, Stroke, Text
from fgg.draw.picture import Picture

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

SCALE = 2.0
FINER = 3
"""Painted this many times larger than the image and then reduced, for smooth lines."""
MAX_PIXELS = 60_000_000

# In the order in which they are tried; regular, bold, italic.
_FAMILIES = (
    ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-Oblique.ttf"),
    ("LiberationSans-Regular.ttf", "LiberationSans-Bold.ttf", "LiberationSans-Italic.ttf"),
    ("Arial.ttf", "Arial Bold.ttf", "Arial Italic.ttf"),
    ("arial.ttf", "arialbd.ttf", "ariali.ttf"),
)


def to_png(picture: Picture) -> bytes:
    """The picture as a PNG image, with two pixels (fewer for huge pictures) to a unit."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingExtra("Pillow", "writing PNG") from error
    scale, finer = _resolution(picture.width * picture.height)
    size = (max(round(picture.width * scale), 1), max(round(picture.height * scale), 1))
    image = Image.new("RGB", (size[0] * finer, size[1] * finer), style.PAPER)
    pen = ImageDraw.Draw(image)
    for mark in picture.marks:
        _paint(pen, mark, scale * finer)
    target = BytesIO()
    reduced = image.resize(size, Image.Resampling.BOX)
    reduced.save(target, "PNG", dpi=(96 * scale, 96 * scale), optimize=True)
    return target.getvalue()


def _resolution(area: float) -> tuple[float, int]:
    """Pixels to a unit, and how many times finer to paint, so that memory suffices."""
    scale = SCALE
    for finer in range(FINER, 0, -1):
        scale = min(SCALE, math.sqrt(MAX_PIXELS / max(area * finer * finer, 1.0)))
        if scale >= 0.75 * SCALE:
            return scale, finer
    return scale, 1


def _paint(pen: ImageDraw, mark: Mark, scale: float) -> None:
    def places(points: Iterable[Point]) -> list[Point]:
        return [(x * scale, y * scale) for x, y in points]

    match mark:
        case Shape(box=box, radius=radius, width=width):
            outer = box.grown(width / 2)
            corners = places([(outer.left, outer.top), (outer.right, outer.bottom)])
            line = max(round(width * scale), 1)
            round_corner = (radius + width / 2) * scale
            pen.rounded_rectangle(corners, round_corner, mark.fill, mark.line, line)
        case Stroke(route=route, color=color, width=width):
            line = max(round(width * scale), 1)
            pen.line(places(route.flattened()), fill=color, width=line, joint="curve")
        case Head(points=points, color=color):
            pen.polygon(places(points), fill=color)
        case Text():
            _write(pen, mark, scale)


def _write(pen: ImageDraw, text: Text, scale: float) -> None:
    face = 1 if text.bold else 2 if text.italic else 0
    font, is_ascii_only = _font(face, round(text.size * scale * 4))
    written = ascii_text(text.text) if is_ascii_only else text.text
    box = text.box()
    width = font.getlength(written)
    if width > box.width * scale:  # the font is wider than estimated
        fitted = text.size * scale * 4 * box.width * scale / width
        font, _ = _font(face, max(int(fitted), 4))
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[text.anchor]
    place = (text.place[0] * scale, text.place[1] * scale)
    if text.halo:
        width, color = round(1.2 * scale), style.PAPER
        pen.text(place, written, text.color, font, anchor, stroke_width=width, stroke_fill=color)
    pen.text(place, written, text.color, font, anchor)


@lru_cache(maxsize=256)
def _font(face: int, quarters: int) -> tuple[FreeTypeFont | ImageFont, bool]:
    """A font of a size in quarters of a pixel, and whether it has ASCII characters only."""
    from PIL import ImageFont as fonts

    size = quarters / 4
    folders = [""]
    matplotlib = find_spec("matplotlib")  # brings fonts along
    if matplotlib is not None and matplotlib.origin is not None:
        folders.append(str(Path(matplotlib.origin).parent / "mpl-data" / "fonts" / "ttf") + "/")
    for family in _FAMILIES:
        for folder in folders:
            try:
                return fonts.truetype(folder + family[face], size), False
            except OSError:
                continue
    return fonts.load_default(size), True


FINE = 8
"""Dots of a stencil to a pixel."""


@dataclass(frozen=True)
class Stencil:
    """A text as dots, row by row, one bit each, 0 where ink is; sizes are in pixels."""

    bits: bytes
    columns: int
    rows: int
    above: float

    @property
    def width(self) -> float:
        """The width."""
        return self.columns / FINE

    @property
    def height(self) -> float:
        """The height; `above` of it lies above the base line."""
        return self.rows / FINE


def glyphs_width(text: str, size: float) -> float:
    """The width of a text in the font of the stencils."""
    return _stencil_font(size).getlength(text) / FINE


def stencil(text: str, size: float) -> Stencil:
    """A text as dots. Raises `MissingExtra`."""
    from PIL import Image, ImageDraw

    font = _stencil_font(size)
    columns = max(math.ceil(font.getlength(text)), 1)
    above, below = math.ceil(size * FINE * 1.1), math.ceil(size * FINE * 0.4)
    image = Image.new("1", (columns, above + below), 1)
    ImageDraw.Draw(image).text((0, above), text, 0, font, "ls")
    return Stencil(image.tobytes(), columns, above + below, above / FINE)


def _stencil_font(size: float) -> FreeTypeFont | ImageFont:
    try:
        return _font(0, round(size * FINE * 4))[0]
    except ImportError as error:
        raise MissingExtra("Pillow", "writing characters beyond Latin and Greek as PDF") from error


_SIGNS = {"≤": "<=", "≥": ">=", "→": "->", "…": "..."}


def ascii_text(text: str) -> str:
    """The text in ASCII characters: Greek letters by name, others without accents or as `?`."""
    return "".join(map(_ascii_character, text))


def _ascii_character(char: str) -> str:
    base = unicodedata.normalize("NFKD", char)[0]
    if char in _SIGNS or base.isascii():
        return _SIGNS.get(char, base)
    words = unicodedata.name(char, "").split()
    is_greek = words[:1] == ["GREEK"] and "LETTER" in words
    return words[-1].lower() if is_greek else "?"
