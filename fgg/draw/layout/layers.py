"""The rows of a graph's picture, ordered so that few lines cross."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fgg.draw.layout.levels import levels
from fgg.draw.scene import Graph

SWEEPS = 12


@dataclass(frozen=True)
class Segment:
    """A piece of a link between two adjacent rows; `port` orders the pieces at one vertex."""

    upper: str
    lower: str
    port: int
    weight: float


@dataclass(frozen=True)
class Rows:
    """Vertices row by row; a link that spans rows passes through bends, which count as vertices.

    `bends` gives the keys of a link's bends from its upper to its lower end.
    """

    rows: tuple[tuple[str, ...], ...]
    segments: tuple[Segment, ...]
    bends: Mapping[int, tuple[str, ...]]


def make_rows(graph: Graph) -> Rows:
    """The rows of a connected graph, ordered so that few lines cross."""
    level = levels(graph)
    used = sorted(set(level.values()))
    row_of = {key: used.index(number) for key, number in level.items()}
    rows: list[list[str]] = [[] for _ in used]
    segments: list[Segment] = []
    bends: dict[int, tuple[str, ...]] = {}
    outside = [v for v in graph.vertices if v.external]
    outside.sort(key=lambda vertex: vertex.positions)
    for key in [v.key for v in outside] + [v.key for v in graph.vertices if not v.external]:
        rows[row_of[key]].append(key)
    for i, link in enumerate(graph.links):
        upper, lower = sorted((link.node, link.edge), key=row_of.__getitem__)
        inner = range(row_of[upper] + 1, row_of[lower])
        bends[i] = tuple(f"b{i}.{row}" for row in inner)
        for row, bend in zip(inner, bends[i], strict=True):
            rows[row].append(bend)
        chain = (upper, *bends[i], lower)
        for a, b in pairwise(chain):
            # Long lines are to be straight more than others.
            weight = 1.0 + (a in bends[i]) + 2 * (a in bends[i] and b in bends[i])
            segments.append(Segment(a, b, link.port, weight))
    fixed = bool(outside)
    ordered = _uncross(_first_order(rows, segments, fixed), segments, fixed)
    return Rows(tuple(map(tuple, ordered)), tuple(segments), bends)


def _first_order(
    rows: list[list[str]], segments: Sequence[Segment], fixed: bool
) -> list[list[str]]:
    """The rows in the order of a walk from the first row down, by ports."""
    below: dict[str, list[Segment]] = {}
    above: dict[str, list[Segment]] = {}
    for segment in segments:
        below.setdefault(segment.upper, []).append(segment)
        above.setdefault(segment.lower, []).append(segment)
    place: dict[str, int] = {}

    def walk(key: str) -> None:
        stack = [key]
        while stack:
            top = stack.pop()
            if top in place:
                continue
            place[top] = len(place)
            down = [s.lower for s in sorted(below.get(top, ()), key=lambda s: s.port)]
            up = [s.upper for s in sorted(above.get(top, ()), key=lambda s: s.port)]
            stack.extend(reversed(down + up))

    for row in rows:
        for key in row:
            walk(key)
    return [
        list(row) if fixed and i == 0 else sorted(row, key=place.__getitem__)
        for i, row in enumerate(rows)
    ]


def _uncross(rows: list[list[str]], segments: Sequence[Segment], fixed: bool) -> list[list[str]]:
    """The rows reordered by barycenters, up and down, keeping the order with fewest crossings."""
    best, fewest = rows, crossings(rows, segments)
    current = [list(row) for row in rows]
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        order = range(1, len(current)) if down else range(len(current) - 2, -1, -1)
        for i in order:
            if i == 0 and fixed:
                continue
            neighbour = current[i - 1] if down else current[i + 1]
            current[i] = _by_barycenter(current[i], neighbour, segments, down)
        found = crossings(current, segments)
        if found < fewest:
            best, fewest = [list(row) for row in current], found
    return best


def _by_barycenter(
    row: list[str], neighbour: list[str], segments: Sequence[Segment], down: bool
) -> list[str]:
    place = {key: i for i, key in enumerate(neighbour)}
    here = {key: i for i, key in enumerate(row)}
    pulls: dict[str, list[float]] = {}
    for s in segments:
        key, other = (s.lower, s.upper) if down else (s.upper, s.lower)
        if key in here and other in place:
            pulls.setdefault(key, []).append(place[other] + s.port * 1e-3)

    def center(key: str) -> float:
        pull = pulls.get(key)
        return sum(pull) / len(pull) if pull else here[key]

    return sorted(row, key=lambda key: (center(key), here[key]))


def crossings(rows: Sequence[Sequence[str]], segments: Sequence[Segment]) -> int:
    """The number of pairs of segments that cross."""
    place = {key: i for row in rows for i, key in enumerate(row)}
    row_of = {key: r for r, row in enumerate(rows) for key in row}
    spans: dict[int, list[tuple[int, int]]] = {}
    for s in segments:
        spans.setdefault(row_of[s.upper], []).append((place[s.upper], place[s.lower]))
    total = 0
    for pairs in spans.values():
        for i, (a, b) in enumerate(pairs):
            total += sum((a - c) * (b - d) < 0 for c, d in pairs[i + 1 :])
    return total
