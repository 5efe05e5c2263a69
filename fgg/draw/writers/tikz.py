"""TikZ pictures."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from fgg.draw import style
from fgg.draw.geometry import Point, Route
from fgg.draw.layout.fragment import PlacedGraph
from fgg.draw.layout.labels import Role
from fgg.draw.marks import Head, Mark, Shape, Stroke, Text
from fgg.draw.picture import Picture
from fgg.draw.rules import Panel, RulesPicture, label_text
from fgg.draw.scene import Flow, Vertex
from fgg.draw.writers.svg import number

_COLORS = {
    "fggInk": style.INK,
    "fggLine": style.LINE,
    "fggQuiet": style.QUIET,
    "fggHairline": style.HAIRLINE,
    "fggPath": style.NONTERMINAL.line,
}


def to_tikz(picture: Picture) -> str:
    """The picture as a LaTeX document; pictures of rules have a `tikzpicture` for each rule.

    A coordinate is a pixel of 0.75 points, as in the SVG. The class `standalone` makes a page of
    each picture.
    """
    lines = [
        f"% {_comment(picture.title)}",
        r"% LuaLaTeX or XeLaTeX shows all characters; pdfLaTeX is enough for Latin and Greek ones.",
        r"\documentclass[tikz,multi=tikzpicture,border=4pt]{standalone}",
        r"\usetikzlibrary{arrows.meta}",
        *(f"\\definecolor{{{name}}}{{HTML}}{{{c[1:].upper()}}}" for name, c in _COLORS.items()),
        r"\tikzset{",
        r"  fgg/.style={x=0.75pt, y=-0.75pt, font=\sffamily\fontsize{9}{11}\selectfont},",
        r"  fgg shape/.style={inner sep=0pt, outer sep=0pt, line width=1pt},",
        r"  fgg text/.style={inner sep=0pt, outer sep=0pt},",
        r"  fgg line/.style={draw=fggLine, line width=0.9pt},",
        r"  fgg arrow/.style={fgg line, -{Stealth[length=5pt, width=4.5pt]}},",
        r"  fgg rewrite/.style={draw=fggInk, line width=1.2pt, -{Stealth[length=7pt, width=6pt]}},",
        *_styles(),
        "}",
        r"\begin{document}",
    ]
    if isinstance(picture, RulesPicture):
        parts = [_panel(panel) for panel in picture.panels]
    else:
        parts = [map(_mark, picture.marks)]
    for part in parts:
        lines += [r"\begin{tikzpicture}[fgg]", *part, r"\end{tikzpicture}"]
    lines.append(r"\end{document}")
    return "\n".join(lines) + "\n"


def _styles() -> Iterator[str]:
    for name, look in style.LOOKS.items():
        yield (
            f"  fgg {name}/.style={{fgg shape,"
            f" fill={_color(look.fill)}, draw={_color(look.line)}, text={_color(look.text)}}},"
        )


def _color(color: str) -> str:
    """A colour as TikZ mixes it, without a name."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"{{rgb,255:red,{red};green,{green};blue,{blue}}}"


def _at(point: Point) -> str:
    return f"({number(point[0])},{number(point[1])})"


def _panel(panel: Panel) -> Iterator[str]:
    moved = panel.moved(-panel.frame.left, -panel.frame.top)
    yield f"  % {_comment(panel.scene.caption)}"
    for text in moved.texts:
        yield _text(text)
    yield from _placed(moved.left, "l")
    yield f"  \\draw[fgg rewrite] {_at(moved.arrow.points[0])} -- {_at(moved.arrow.points[1])};"
    yield from _placed(moved.right, "r")


def _placed(placed: PlacedGraph, prefix: str) -> Iterator[str]:
    for link, route in zip(placed.graph.links, placed.routes, strict=True):
        points = route.points[::-1] if link.flow is Flow.INTO_EDGE else route.points
        kind = "line" if link.flow is Flow.NONE else "arrow"
        yield f"  \\draw[fgg {kind}] {_path(Route(points))};"
    for vertex in placed.graph.vertices:
        yield _vertex(vertex, placed.centers[vertex.key], prefix)
    for label in placed.labels:
        text = label_text(label)
        yield _text(text, color="fggPath" if label.role is Role.PATH else None)


def _path(route: Route) -> str:
    places = [_at(point) for point in route.points]
    if route.is_straight:
        return " -- ".join(places)
    curves = zip(places[1::3], places[2::3], places[3::3], strict=True)
    return places[0] + "".join(f" .. controls {a} and {b} .. {c}" for a, b, c in curves)


def _vertex(vertex: Vertex, center: Point, prefix: str) -> str:
    width, height = style.size(vertex)
    options = [f"fgg {style.look_name(vertex)}"]
    if vertex.rank:
        width, height = width - 2 * style.RING, height - 2 * style.RING
        options.append(f"double, double distance={number(style.RING * 0.5)}pt")
    options.append(f"minimum width={number(width * 0.75)}pt")
    options.append(f"minimum height={number(height * 0.75)}pt")
    if radius := min(style.corner(vertex), height / 2):
        options.append(f"rounded corners={number(radius * 0.75 - 0.01)}pt")
    text = latex(vertex.text)
    return f"  \\node[{', '.join(options)}] ({prefix}-{vertex.key}) at {_at(center)} {{{text}}};"


def _mark(mark: Mark) -> str:
    match mark:
        case Shape(box=box, radius=radius):
            corners = f", rounded corners={number(radius * 0.75)}pt" if radius else ""
            look = f"fill={_color(mark.fill)}, draw={_color(mark.line)}"
            width = number(mark.width * 0.75)
            a, b = _at((box.left, box.top)), _at((box.right, box.bottom))
            if 2 * radius >= box.width > 0:
                a = f"{_at(box.center)} circle[radius={number(radius * 0.75)}pt]"
                return f"  \\path[{look}, line width={width}pt] {a};"
            return f"  \\path[{look}, line width={width}pt{corners}] {a} rectangle {b};"
        case Stroke(route=route, color=color):
            width = number(mark.width * 0.75)
            return f"  \\draw[draw={_color(color)}, line width={width}pt] {_path(route)};"
        case Head(points=points, color=color):
            corners = " -- ".join(map(_at, points))
            return f"  \\fill[{_color(color)}] {corners} -- cycle;"
        case Text():
            return _text(mark, color=_color(mark.color))


_ANCHORS = {"start": "base west", "middle": "base", "end": "base east"}


def _text(text: Text, color: str | None = None) -> str:
    size = number(text.size * 0.75)
    font = f"\\sffamily\\fontsize{{{size}}}{{{size}}}\\selectfont"
    font += ("\\bfseries" if text.bold else "") + ("\\itshape" if text.italic else "")
    color = color or ("fggQuiet" if text.color == style.QUIET else "fggInk")
    options = f"fgg text, anchor={_ANCHORS[text.anchor]}, text={color}, font={font}"
    return f"  \\node[{options}] at {_at(text.place)} {{{latex(text.text)}}};"


_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "%": r"\%",
    "#": r"\#",
    "&": r"\&",
    "$": r"\$",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",
    "]": "{]}",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "→": r"$\to$",
    "…": r"\dots{}",
}


def latex(text: str) -> str:
    """The text with LaTeX's special characters escaped and Greek letters in mathematics."""
    return "".join(_ESCAPES.get(char) or _greek(char) or char for char in text)


def _greek(char: str) -> str | None:
    words = unicodedata.name(char, "").split()
    if len(words) != 4 or words[0] != "GREEK" or words[2] != "LETTER":
        return None
    name = words[3].lower().replace("lamda", "lambda")
    name = name.capitalize() if words[1] == "CAPITAL" else name
    return f"$\\{name}$" if name in _GREEK else None


_GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau"
    " upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split()
)


def _comment(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())
