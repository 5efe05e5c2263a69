"""SVG text."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax import saxutils

from fgg.draw import style
from fgg.draw.geometry import Route
from fgg.draw.marks import Head, Mark, Shape, Stroke, Text
from fgg.draw.picture import Picture
from fgg.draw.scene import clean

FONTS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


def to_svg(picture: Picture) -> str:
    """The picture as a self-contained SVG document."""
    return document(picture.title, picture.width, picture.height, picture.marks)


def document(title: str, wide: float, high: float, painted: Iterable[Mark]) -> str:
    """Marks, back to front, as a self-contained SVG document."""
    width, height = number(wide), number(high)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family={saxutils.quoteattr(FONTS)}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="{style.PAPER}"/>',
        *(_mark(mark) for mark in painted),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """User text as XML has it: markup is escaped, and what XML forbids is replaced."""
    return saxutils.escape(clean(text))


def number(value: float) -> str:
    """A coordinate with up to two decimals and no needless zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _mark(mark: Mark) -> str:
    match mark:
        case Shape():
            return _shape(mark)
        case Stroke(route=route, color=color, width=width):
            return f'<path d="{_path(route)}" fill="none" stroke="{color}" stroke-width="{width}"/>'
        case Head(points=points, color=color):
            corners = " ".join(f"{number(x)},{number(y)}" for x, y in points)
            return f'<polygon points="{corners}" fill="{color}"/>'
        case Text():
            return _text(mark)


def _shape(shape: Shape) -> str:
    box = shape.box
    colors = f'fill="{shape.fill}" stroke="{shape.line}" stroke-width="{shape.width}"'
    title = f"<title>{escape(shape.title)}</title>" if shape.title else ""
    if abs(box.width - box.height) < 0.01 and abs(shape.radius - box.width / 2) < 0.01:
        x, y = box.center
        name = "circle"
        place = f'cx="{number(x)}" cy="{number(y)}" r="{number(shape.radius)}"'
    else:
        name = "rect"
        place = (
            f'x="{number(box.left)}" y="{number(box.top)}" width="{number(box.width)}"'
            f' height="{number(box.height)}" rx="{number(shape.radius)}"'
        )
    return f"<{name} {place} {colors}>{title}</{name}>"


def _path(route: Route) -> str:
    places = [f"{number(x)} {number(y)}" for x, y in route.points]
    if route.is_straight:
        return f"M{places[0]} L{places[1]}"
    return f"M{places[0]} C{', '.join(places[1:])}"


def _text(text: Text) -> str:
    x, y = text.place
    attributes = f'x="{number(x)}" y="{number(y)}" font-size="{text.size}"'
    if text.anchor != "start":
        attributes += f' text-anchor="{text.anchor}"'
    if text.bold:
        attributes += ' font-weight="bold"'
    if text.italic:
        attributes += ' font-style="italic"'
    attributes += ' xml:space="preserve"'
    written = escape(text.text)
    front = f'<text {attributes} fill="{text.color}">{written}</text>'
    if not text.halo:
        return front
    # Painted by a text of its own: many renderers do not know `paint-order`.
    halo = f'fill="none" stroke="{style.PAPER}" stroke-width="2.5" stroke-linejoin="round"'
    return f'<text {attributes} {halo} aria-hidden="true">{written}</text>\n{front}'
