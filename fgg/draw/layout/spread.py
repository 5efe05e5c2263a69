"""Places along the rows of a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fgg.draw.layout.layers import Rows

RELAXATIONS = 200
COLUMN = 8.0
"""How much more a line that joins two vertices only pulls them under each other."""


def spread(
    rows: Rows, left: Mapping[str, float], right: Mapping[str, float], gap: float
) -> dict[str, float]:
    """Places along the rows: lines as short as can be (least squares), and nothing overlaps.

    `left` and `right` say how far a vertex reaches from its center. Row after row is placed best
    for fixed others until nothing moves; the problem is convex, so that ends at the best.
    """
    columns = _columns(rows)
    linked: dict[str, list[tuple[str, float]]] = {}
    for s in rows.segments:
        weight = s.weight * (COLUMN if (s.upper, s.lower) in columns else 1)
        linked.setdefault(s.upper, []).append((s.lower, weight))
        linked.setdefault(s.lower, []).append((s.upper, weight))
    left, right = _shared(left, columns), _shared(right, columns)
    x: dict[str, float] = {}
    offsets: list[list[float]] = []
    for row in rows.rows:
        offset, offsets_here = 0.0, []
        for i, key in enumerate(row):
            if i:
                offset += right[row[i - 1]] + left[key] + gap
            offsets_here.append(offset)
        offsets.append(offsets_here)
        x.update((key, at - offset / 2) for key, at in zip(row, offsets_here, strict=True))
    for _ in range(RELAXATIONS):
        moved = 0.0
        for row, offset_row in zip(rows.rows, offsets, strict=True):
            wishes = []
            for key in row:
                pull = linked.get(key, ())
                weight = sum(w for _, w in pull)
                wish = sum(x[other] * w for other, w in pull) / weight if weight else x[key]
                wishes.append((wish, weight or 1e-3))
            for key, at in zip(row, _ordered(wishes, offset_row), strict=True):
                moved = max(moved, abs(x[key] - at))
                x[key] = at
        if moved < 0.005:
            break
    return _straightened(x, columns, gap / 3)


def _columns(rows: Rows) -> dict[tuple[str, str], None]:
    """The pairs of vertices that are joined to each other only, down and up; bends left out."""
    down = Counter(s.upper for s in rows.segments)
    up = Counter(s.lower for s in rows.segments)
    bends = {bend for chain in rows.bends.values() for bend in chain}
    return {
        (s.upper, s.lower): None
        for s in rows.segments
        if down[s.upper] == up[s.lower] == 1 and not {s.upper, s.lower} & bends
    }


def _shared(
    reach: Mapping[str, float], columns: Mapping[tuple[str, str], None]
) -> dict[str, float]:
    """What vertices reach to one side, as far as the widest of their column."""
    shared = dict(reach)
    for _ in columns:  # until nothing changes; a column has no more pairs than there are
        before = dict(shared)
        for upper, lower in columns:
            shared[upper] = shared[lower] = max(shared[upper], shared[lower])
        if shared == before:
            break
    return shared


def _straightened(
    x: dict[str, float], columns: Mapping[tuple[str, str], None], most: float
) -> dict[str, float]:
    """The places with columns made vertical where that moves nothing by more than `most`."""
    above = {lower: upper for upper, lower in columns}
    chains: dict[str, list[str]] = {}
    for key in dict.fromkeys(key for pair in columns for key in pair):
        top = key
        while top in above:
            top = above[top]
        chains.setdefault(top, []).append(key)
    straight = dict(x)
    for chain in chains.values():
        middle = sum(x[key] for key in chain) / len(chain)
        if all(abs(x[key] - middle) <= most for key in chain):
            straight.update(dict.fromkeys(chain, middle))
    return straight


def _ordered(wishes: list[tuple[float, float]], offsets: list[float]) -> list[float]:
    """The places nearest to the wishes that keep all distances (pooling adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for (wish, weight), offset in zip(wishes, offsets, strict=True):
        mean, total, count = wish - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            other_mean, other, n = blocks.pop()
            mean = (mean * total + other_mean * other) / (total + other)
            total, count = total + other, count + n
        blocks.append((mean, total, count))
    places = [mean for mean, _, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(places, offsets, strict=True)]
