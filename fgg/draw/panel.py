"""The picture of a rule: its left-hand side, an arrow, its fragment, and texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from fgg.draw import style
from fgg.draw.geometry import Box, Point, Route, text_width
from fgg.draw.layout.fragment import Placed
from fgg.draw.scene import RuleScene

PADDING = 14.0
ARROW_LENGTH = 34.0
ARROW_SPACE = 18.0
CONDITION_WIDTH = 300.0
MIDDLE = 140.0
"""Up to this height, a left-hand side without nodes stands in the middle of the fragment's."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """A line of text; `place` is the left end, middle or right end of its base line."""

    text: str
    place: Point
    size: float
    color: str = style.INK
    bold: bool = False
    italic: bool = False
    anchor: Literal["start", "middle", "end"] = "start"
    halo: bool = False

    def moved(self, dx: float, dy: float) -> Text:
        """The text at another place."""
        place = (self.place[0] + dx, self.place[1] + dy)
        return replace(self, place=place)

    def box(self) -> Box:
        """The box that the text is estimated to fill."""
        width = text_width(self.text, self.size, bold=self.bold)
        x, y = self.place
        left = {"start": x, "middle": x - width / 2, "end": x - width}[self.anchor]
        return Box(left, y - self.size * 0.9, left + width, y + self.size * 0.3)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The picture of a rule: two placed graphs, the arrow between them, texts, and a frame."""

    scene: RuleScene
    left: Placed
    right: Placed
    arrow: Route
    texts: tuple[Text, ...]
    frame: Box
    framed: bool = False

    def moved(self, dx: float, dy: float) -> Panel:
        """The panel at another place."""
        return replace(
            self,
            left=self.left.moved(dx, dy),
            right=self.right.moved(dx, dy),
            arrow=self.arrow.moved(dx, dy),
            texts=tuple(text.moved(dx, dy) for text in self.texts),
            frame=self.frame.moved(dx, dy),
        )


def rule_panel(scene: RuleScene, left: Placed, right: Placed) -> Panel:
    """The panel of a rule, with its frame's corner at the origin."""
    texts = [Text(text=scene.caption, place=(PADDING, PADDING + 11), size=style.CAPTION, bold=True)]
    for i, line in enumerate(wrapped(scene.conditions)):
        place = (PADDING, PADDING + 28 + i * 15)
        texts.append(Text(text=line, place=place, size=style.CONDITION, color=style.QUIET))
    top = max(text.box().bottom for text in texts) + 14
    a, b = left.box(), right.box()
    drop_a, drop_b = _drops(left, right)
    arrow_y = top + drop_a + a.height / 2
    arrow_x = PADDING + a.width + ARROW_SPACE
    right_x = arrow_x + ARROW_LENGTH + ARROW_SPACE
    if not right.graph.vertices:
        empty = Text(text="(empty)", place=(0, 0), size=style.INSIDE, color=style.QUIET)
        texts.append(empty.moved(right_x, arrow_y + 4))
    bottom = top + max(drop_a + a.height, drop_b + b.height)
    far = max(right_x + b.width, *(text.box().right for text in texts))
    return Panel(
        scene=scene,
        left=left.moved(PADDING, top + drop_a),
        right=right.moved(right_x, top + drop_b),
        arrow=Route(((arrow_x, arrow_y), (arrow_x + ARROW_LENGTH, arrow_y))),
        texts=tuple(texts),
        frame=Box(0, 0, far + PADDING, bottom + PADDING),
    )


def _drops(left: Placed, right: Placed) -> tuple[float, float]:
    """How far below the top both sides begin: external nodes stand at one height, if any."""
    first, second = _outside_height(left), _outside_height(right)
    if first is not None and second is not None:
        return max(second - first, 0.0), max(first - second, 0.0)
    a, b = left.box().height, right.box().height
    return max((min(b, MIDDLE) - a) / 2, 0.0), max((a - b) / 2, 0.0)


def _outside_height(placed: Placed) -> float | None:
    """The height of a graph's external nodes, or None if it has none."""
    return next((placed.centers[v.key][1] for v in placed.graph.vertices if v.external), None)


def wrapped(text: str, width: float = CONDITION_WIDTH) -> list[str]:
    """The text in lines that are not wider than `width`, broken at spaces."""
    lines: list[str] = []
    for word in text.split(" ") if text else ():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, style.CONDITION) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
