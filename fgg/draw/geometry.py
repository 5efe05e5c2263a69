"""Points, boxes, curves and estimated text sizes; the y axis points down."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle with sides parallel to the axes."""

    left: float
    top: float
    right: float
    bottom: float

    @staticmethod
    def around(center: Point, width: float, height: float) -> Box:
        """The box of a given size around its center."""
        x, y = center
        return Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @staticmethod
    def cover(boxes: Iterable[Box]) -> Box:
        """The smallest box that covers all others; of size 0 at the origin if there are none."""
        all_boxes = tuple(boxes)
        if not all_boxes:
            return Box(0, 0, 0, 0)
        return Box(
            min(b.left for b in all_boxes),
            min(b.top for b in all_boxes),
            max(b.right for b in all_boxes),
            max(b.bottom for b in all_boxes),
        )

    @property
    def width(self) -> float:
        """The extent along x."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """The extent along y."""
        return self.bottom - self.top

    @property
    def center(self) -> Point:
        """The middle."""
        return ((self.left + self.right) / 2, (self.top + self.bottom) / 2)

    def grown(self, margin: float) -> Box:
        """The box with `margin` added on all sides."""
        return Box(self.left - margin, self.top - margin, self.right + margin, self.bottom + margin)

    def moved(self, dx: float, dy: float) -> Box:
        """The box at another place."""
        return Box(self.left + dx, self.top + dy, self.right + dx, self.bottom + dy)

    def overlap(self, other: Box) -> float:
        """The area that two boxes share."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return width * height if width > 0 and height > 0 else 0.0

    def length_inside(self, start: Point, end: Point) -> float:
        """The length of the part of a segment that lies in the box (Liang & Barsky)."""
        (x, y), dx, dy = start, end[0] - start[0], end[1] - start[1]
        low, high = 0.0, 1.0
        for p, q in (
            (-dx, x - self.left),
            (dx, self.right - x),
            (-dy, y - self.top),
            (dy, self.bottom - y),
        ):
            if p == 0:
                if q < 0:
                    return 0.0
            elif p < 0:
                low = max(low, q / p)
            else:
                high = min(high, q / p)
        return max(high - low, 0.0) * math.hypot(dx, dy)


@dataclass(frozen=True)
class Route:
    """A line: two points if it is straight, else the control points of a chain of cubic curves."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        """Check the number of points."""
        assert len(self.points) == 2 or len(self.points) % 3 == 1

    @property
    def is_straight(self) -> bool:
        """Whether the route is one straight segment."""
        return len(self.points) == 2

    def flattened(self) -> tuple[Point, ...]:
        """The route as a chain of short straight segments."""
        if self.is_straight:
            return self.points
        points = [self.points[0]]
        for i in range(0, len(self.points) - 1, 3):
            points.extend(_cubic(self.points[i : i + 4]))
        return tuple(points)

    def moved(self, dx: float, dy: float) -> Route:
        """The route at another place."""
        return Route(tuple((x + dx, y + dy) for x, y in self.points))

    def box(self) -> Box:
        """The smallest box that covers the route."""
        return Box.cover(Box(x, y, x, y) for x, y in self.flattened())


def _cubic(points: tuple[Point, ...]) -> Iterator[Point]:
    steps = max(12, min(60, round(math.dist(points[0], points[-1]) / 5)))
    for i in range(1, steps + 1):
        t = i / steps
        s = 1 - t
        weights = (s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t)
        x, y = (sum(w * point[k] for w, point in zip(weights, points, strict=True)) for k in (0, 1))
        yield x, y


def unit(start: Point, end: Point) -> Point:
    """The direction from one point to another; downwards if they coincide."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy)
    return (dx / length, dy / length) if length > 1e-9 else (0.0, 1.0)


def along(points: tuple[Point, ...], distance: float) -> tuple[Point, Point]:
    """The place at a distance from the start of a chain of segments, and the direction there."""
    for start, end in pairwise(points):
        length = math.hypot(end[0] - start[0], end[1] - start[1])
        if distance <= length and length > 0:
            dx, dy = unit(start, end)
            return (start[0] + dx * distance, start[1] + dy * distance), (dx, dy)
        distance -= length
    return points[-1], unit(points[-2], points[-1])


def length(points: tuple[Point, ...]) -> float:
    """The length of a chain of segments."""
    return sum(math.dist(a, b) for a, b in pairwise(points))


# Widths in em, generous enough for the wider sans-serif fonts (DejaVu, Verdana).
_CLASSES = (
    ("iljI|!'.,:;·", 0.32),
    ('frt()[]{}-/\\ "`*°', 0.42),
    ("mwMW@%—…", 0.96),
    ("+=<>≤≥≠→~^#&", 0.84),
    ("ABCDEFGHJKLNOPQRSTUVXYZ", 0.71),
)
_WIDTHS = {char: width for chars, width in _CLASSES for char in chars}
_JOINERS = ("Mn", "Me", "Cf")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """The estimated width of a text in a sans-serif font; never too small for common fonts."""
    total = 0.0
    for char in text:
        if char in _WIDTHS:
            total += _WIDTHS[char]
        elif char.isascii():
            total += 0.63
        elif unicodedata.category(char) in _JOINERS:
            continue
        elif unicodedata.east_asian_width(char) in ("W", "F") or ord(char) >= 0x1F000:
            total += 1.25
        else:
            total += 0.75
    return total * size * (1.08 if bold else 1.0)
