"""Sizes and colours that all writers share; lengths are in pixels (1/96 inch)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fgg.draw.geometry import Box, Point, text_width, unit
from fgg.draw.scene import Kind, Vertex

INSIDE = 12.0  # font sizes
BESIDE = 11.5
SMALL = 8.5
CAPTION = 13.0
CONDITION = 11.5
TITLE = 18.0

DIAMETER = 30.0
SQUARE = 12.0
BOX_HEIGHT = 28.0
RING = 3.0  # between the two rings of a rank node
ARROW = 7.0

MARGIN = 16.0  # around a picture

INK = "#1f2328"
LINE = "#4b535d"
QUIET = "#656d76"
HAIRLINE = "#d8dee4"
PAPER = "#ffffff"


@dataclass(frozen=True)
class Look:
    """The colours of a shape: fill, outline, and the text inside."""

    fill: str
    line: str
    text: str = INK


PALETTE = tuple(
    Look(fill, line)
    for fill, line in (
        ("#ddeafb", "#7ba3d8"),
        ("#fde3d3", "#dba07c"),
        ("#dcf0dc", "#86bd86"),
        ("#f0e0f7", "#b78cc9"),
        ("#fdf3c9", "#cfb85a"),
        ("#d8f0f0", "#7cb9b9"),
        ("#f9dce4", "#d58ba1"),
        ("#e6e6e9", "#a3a6ad"),
        ("#e9ecc8", "#a9b064"),
        ("#e0e0fa", "#9494d6"),
    )
)
"""Light colours that tell tags apart; they repeat if there are more tags."""

NONTERMINAL = Look("#eaf2fd", "#35619c")
LOOKS = {
    "node": Look(PAPER, INK),
    "external": Look(INK, INK, PAPER),
    "observed": Look("#cdd3da", INK),
    "observed external": Look("#6e7781", INK, PAPER),
    "rank": Look("#fff1d0", "#9a6200"),
    "rank external": Look(INK, "#c07a00", PAPER),
    "factor": Look(INK, INK),
    "input factor": Look("#8ab4f0", "#1f5fbf"),
    "nonterminal": NONTERMINAL,
}


def look_name(vertex: Vertex) -> str:
    """The name of a vertex's colours."""
    if vertex.kind is not Kind.NODE:
        return str(vertex.kind.value)
    kind = "observed" if vertex.observed else "rank" if vertex.rank else ""
    return " ".join(filter(None, (kind, "external" if vertex.external else ""))) or "node"


def look(vertex: Vertex) -> Look:
    """The colours of a vertex."""
    return LOOKS[look_name(vertex)]


def size(vertex: Vertex) -> tuple[float, float]:
    """The width and height of a vertex's shape, the outer ring of a rank node included."""
    if vertex.kind in (Kind.FACTOR, Kind.INPUT_FACTOR):
        return SQUARE, SQUARE
    inside = text_width(vertex.text, INSIDE)
    if vertex.kind is Kind.NONTERMINAL:
        return max(inside + 16, 40.0), BOX_HEIGHT
    ring = 2 * RING if vertex.rank else 0.0
    return max(inside + 12, DIAMETER) + ring, DIAMETER + ring


def label_width(vertex: Vertex) -> float:
    """The width of the name beside a vertex, the gap before it included; 0 without a name."""
    return text_width(vertex.name, BESIDE) + 4 if vertex.name else 0.0


def corner(vertex: Vertex) -> float:
    """The corner radius of a vertex's shape."""
    if vertex.kind is Kind.NODE:
        return size(vertex)[1] / 2
    return 6.0 if vertex.kind is Kind.NONTERMINAL else 0.0


def border(vertex: Vertex, center: Point, towards: Point) -> Point:
    """The place where a line from a vertex's center leaves its shape."""
    width, height = size(vertex)
    dx, dy = unit(center, towards)
    reach = min(
        width / 2 / abs(dx) if abs(dx) > 1e-9 else float("inf"),
        height / 2 / abs(dy) if abs(dy) > 1e-9 else float("inf"),
    )
    if vertex.kind is Kind.NODE:
        reach = _round_reach(width / 2 - height / 2, height / 2, dx, dy)
    return center[0] + dx * reach, center[1] + dy * reach


def _round_reach(flat: float, radius: float, dx: float, dy: float) -> float:
    """The distance from the center of a stadium (two half discs around a flat part) to its rim."""
    if abs(dy) * flat >= abs(dx) * radius:  # leaves through the flat part
        return radius / abs(dy)
    # |t (dx, dy) - (flat, 0)| = radius, for the disc on the side of dx
    ahead = abs(dx) * flat
    return ahead + math.sqrt(max(ahead * ahead - flat * flat + radius * radius, 0.0))


def shape_box(vertex: Vertex, center: Point) -> Box:
    """The box around a vertex's shape."""
    return Box.around(center, *size(vertex))
