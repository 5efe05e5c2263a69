"""PNG images, painted with Pillow: no system library and no font is needed."""

from __future__ import annotations

import importlib
import math
import unicodedata
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from fgg.draw import style
from fgg.draw.errors import MissingExtra
from fgg.draw.marks import Head, Mark, Shape, Stroke, Text, marks
from fgg.draw.page import Picture

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
    image_module, draw_module = _pillow("Image"), _pillow("ImageDraw")
    scale, finer = _resolution(picture.width * picture.height)
    size = (max(round(picture.width * scale), 1), max(round(picture.height * scale), 1))
    image = image_module.new("RGB", (size[0] * finer, size[1] * finer), style.PAPER)
    pen = draw_module.Draw(image)
    for mark in marks(picture):
        _paint(pen, mark, scale * finer)
    target = BytesIO()
    image.resize(size, image_module.Resampling.BOX).save(
        target, "PNG", dpi=(96 * scale, 96 * scale), optimize=True
    )
    return target.getvalue()


def _resolution(area: float) -> tuple[float, int]:
    """Pixels to a unit, and how many times finer to paint, so that memory suffices."""
    scale = SCALE
    for finer in range(FINER, 0, -1):
        scale = min(SCALE, math.sqrt(MAX_PIXELS / max(area * finer * finer, 1.0)))
        if scale >= 0.75 * SCALE:
            return scale, finer
    return scale, 1


def _pillow(name: str) -> Any:
    try:
        return importlib.import_module(f"PIL.{name}")
    except ImportError as error:
        raise MissingExtra("Pillow", "writing PNG") from error


def _paint(pen: Any, mark: Mark, scale: float) -> None:
    match mark:
        case Shape(box=box, radius=radius):
            width = max(round(mark.width * scale), 1)
            outer = box.grown(mark.width / 2)
            corners = [v * scale for v in (outer.left, outer.top, outer.right, outer.bottom)]
            pen.rounded_rectangle(
                corners, (radius + mark.width / 2) * scale, mark.fill, mark.line, width
            )
        case Stroke(route=route, color=color):
            points = [(x * scale, y * scale) for x, y in route.flattened()]
            width = max(round(mark.width * scale), 1)
            pen.line(points, fill=color, width=width, joint="curve")
        case Head(points=corners_of_head, color=color):
            pen.polygon([(x * scale, y * scale) for x, y in corners_of_head], fill=color)
        case Text():
            _write(pen, mark, scale)


def _write(pen: Any, text: Text, scale: float) -> None:
    face = 1 if text.bold else 2 if text.italic else 0
    font, plain = _font(face, round(text.size * scale * 4))
    written = as_ascii(text.text) if plain else text.text
    box = text.box()
    width = font.getlength(written)
    if width > box.width * scale:  # the font is wider than estimated
        fitted = text.size * scale * 4 * box.width * scale / width
        font, _ = _font(face, max(int(fitted), 4))
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[text.anchor]
    x, y = text.place
    halo = round(1.2 * scale) if text.halo else 0
    pen.text(
        (x * scale, y * scale),
        written,
        font=font,
        fill=text.color,
        anchor=anchor,
        stroke_width=halo,
        stroke_fill=style.PAPER,
    )
    if halo:
        pen.text((x * scale, y * scale), written, font=font, fill=text.color, anchor=anchor)


@lru_cache(maxsize=256)
def _font(face: int, quarters: int) -> tuple[Any, bool]:
    """A font of a size in quarters of a pixel, and whether it knows ASCII characters only."""
    fonts = _pillow("ImageFont")
    size = quarters / 4
    matplotlib = find_spec("matplotlib")  # brings fonts along
    for family in _FAMILIES:
        names = [family[face]]
        if matplotlib is not None and matplotlib.origin is not None:
            folder = Path(matplotlib.origin).parent / "mpl-data" / "fonts" / "ttf"
            names.append(str(folder / family[face]))
        for name in names:
            try:
                return fonts.truetype(name, size), False
            except OSError:
                continue
    return fonts.load_default(size), True


_SIGNS = {"≤": "<=", "≥": ">=", "→": "->", "…": "..."}


def as_ascii(text: str) -> str:
    """The text in ASCII characters: Greek letters by name, others without accents or as `?`."""
    found = ""
    for char in text:
        base = unicodedata.normalize("NFKD", char)[0]
        if char in _SIGNS or base.isascii():
            found += _SIGNS.get(char, base)
        else:
            words = unicodedata.name(char, "").split()
            greek = words[:1] == ["GREEK"] and "LETTER" in words
            found += words[-1].lower() if greek else "?"
    return found
