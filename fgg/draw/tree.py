"""Trees of rules: a box for each step of a derivation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fgg.draw import TooLarge, style
from fgg.draw.geometry import Box, text_width
from fgg.draw.marks import Mark, Shape, Text, segment
from fgg.draw.picture import Picture, Sketch
from fgg.draw.scene import clean
from fgg.draw.style import MARGIN

MAX_NODES = 2000
GAP = 18.0
STEP = 74.0


@dataclass(frozen=True)
class TreeNode:
    """A node of a tree: the text in its box, the text below it, and the number of its parent."""

    text: str
    below: str
    parent: int | None


def box_tree(title: str, nodes: Sequence[TreeNode]) -> Picture:
    """The picture of a tree; parents come before their children. Raises TooLarge."""
    if len(nodes) > MAX_NODES:
        raise TooLarge(f"the tree has {len(nodes):,} nodes, and a picture holds {MAX_NODES:,}")
    children: list[list[int]] = [[] for _ in nodes]
    depth = [0] * len(nodes)
    for number, node in enumerate(nodes):
        if node.parent is not None:
            children[node.parent].append(number)
            depth[number] = depth[node.parent] + 1
    widths = [_width(node) for node in nodes]
    centers = _centers(children, widths)
    marks: list[Mark] = []
    for number, node in enumerate(nodes):
        if node.parent is not None:
            bottom = 42 if nodes[node.parent].below else 24  # of the text below the box, or the box
            start = (centers[node.parent], MARGIN + depth[node.parent] * STEP + bottom)
            end = (centers[number], MARGIN + depth[number] * STEP)
            marks.append(segment(start, end, style.LINE, 1.2))
    for number, node in enumerate(nodes):
        marks += _node(node, centers[number], MARGIN + depth[number] * STEP)
    wide = max((c + w / 2 for c, w in zip(centers, widths, strict=True)), default=0.0) + MARGIN
    high = MARGIN * 2 + max(depth, default=0) * STEP + 46
    return Sketch(title=title, width=wide, height=high, painted=tuple(marks))


def _width(node: TreeNode) -> float:
    inside = text_width(clean(node.text), style.INSIDE) + 18
    return max(inside, text_width(clean(node.below), style.SMALL + 1))


def _centers(children: list[list[int]], widths: list[float]) -> list[float]:
    """Leaves side by side, parents over the middle of their children."""
    centers = [0.0] * len(widths)
    spans = [0.0] * len(widths)  # the room a subtree needs
    for number in reversed(range(len(widths))):
        inner = sum(spans[c] for c in children[number]) + GAP * (len(children[number]) - 1)
        spans[number] = max(widths[number], inner)
    left = [MARGIN] * len(widths)
    for number, below in enumerate(children):
        centers[number] = left[number] + spans[number] / 2
        inner = sum(spans[c] for c in below) + GAP * (len(below) - 1)
        place = left[number] + (spans[number] - inner) / 2
        for child in below:
            left[child] = place
            place += spans[child] + GAP
    return centers


def _node(node: TreeNode, x: float, top: float) -> Iterator[Mark]:
    text, below = clean(node.text), clean(node.below)
    box = Box.around((x, top + 12), text_width(text, style.INSIDE) + 18, 24)
    look = style.NONTERMINAL
    yield Shape(box=box, radius=6, fill=look.fill, line=look.line, width=1.2, title=below)
    yield Text(text=text, place=(x, top + 16.5), size=style.INSIDE, anchor="middle")
    if below:
        yield Text(
            text=below,
            place=(x, top + 37),
            size=style.SMALL + 1,
            color=style.QUIET,
            anchor="middle",
            halo=True,
        )
