"""Trees as SVG: for derivations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgg.draw import style
from fgg.draw.errors import TooLarge
from fgg.draw.geometry import Box, Route, text_width
from fgg.draw.marks import Mark, Shape, Stroke
from fgg.draw.panel import Text
from fgg.draw.scene import clean
from fgg.draw.writers.svg import document

MAX_NODES = 2000
GAP = 18.0
STEP = 74.0
MARGIN = 16.0


@dataclass(frozen=True)
class TreeNode:
    """A node of a tree: what stands in its box, what beneath it, and its parent."""

    text: str
    below: str
    parent: int | None


def tree_svg(title: str, nodes: Sequence[TreeNode]) -> str:
    """A tree as an SVG document; parents come before their children. Raises TooLarge."""
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
    painted: list[Mark] = []
    for number, node in enumerate(nodes):
        if node.parent is not None:
            start = (centers[node.parent], MARGIN + depth[node.parent] * STEP + 42)
            end = (centers[number], MARGIN + depth[number] * STEP)
            painted.append(Stroke(route=Route((start, end)), color=style.LINE, width=1.2))
    for number, node in enumerate(nodes):
        painted += _node(node, centers[number], MARGIN + depth[number] * STEP)
    wide = max((c + w / 2 for c, w in zip(centers, widths, strict=True)), default=0.0) + MARGIN
    high = MARGIN * 2 + max(depth, default=0) * STEP + 46
    return document(clean(title), wide, high, painted)


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


def _node(node: TreeNode, x: float, top: float) -> list[Mark]:
    inside = text_width(clean(node.text), style.INSIDE) + 18
    look = style.NONTERMINAL
    box = Box.around((x, top + 12), inside, 24)
    found: list[Mark] = [
        Shape(
            box=box, radius=6, fill=look.fill, line=look.line, width=1.2, title=clean(node.below)
        ),
        Text(text=clean(node.text), place=(x, top + 16.5), size=style.INSIDE, anchor="middle"),
    ]
    if node.below:
        found.append(
            Text(
                text=clean(node.below),
                place=(x, top + 37),
                size=style.SMALL + 1,
                color=style.QUIET,
                anchor="middle",
                halo=True,
            )
        )
    return found
