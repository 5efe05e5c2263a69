"""The rows of a fragment's picture: which vertices each has, in which order, and where.

External nodes are in the first row; then edges and nodes take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fgg.draw.scene import Flow, Graph, Kind, Link

SWEEPS = 12
RELAXATIONS = 200
COLUMN = 8.0
"""The weight of a line that is the only one between two rows at both of its ends."""


def components(graph: Graph) -> list[Graph]:
    """The connected parts of a graph, in the order of their first vertices."""
    parent = {vertex.key: vertex.key for vertex in graph.vertices}

    def root(key: str) -> str:
        while parent[key] != key:
            key = parent[key]
        return key

    for link in graph.links:
        parent[root(link.edge)] = root(link.node)
    groups: dict[str, list[str]] = {}
    for vertex in graph.vertices:
        groups.setdefault(root(vertex.key), []).append(vertex.key)
    return [
        Graph(
            vertices=tuple(v for v in graph.vertices if root(v.key) == group),
            links=tuple(link for link in graph.links if root(link.edge) == group),
        )
        for group in groups
    ]


def vertex_levels(graph: Graph) -> dict[str, int]:
    """The level of each vertex, with levels counted in each connected part."""
    return {key: level for part in components(graph) for key, level in levels(part).items()}


def levels(graph: Graph) -> dict[str, int]:
    """The level of each vertex of a connected graph: nodes have even ones, edges odd ones.

    External nodes come first; a factor comes below the nodes it was reached from, and above those
    it reaches; arrows point down where they can; nonterminal edges are leaves where they can be.
    """
    touched: dict[str, list[Link]] = {vertex.key: [] for vertex in graph.vertices}
    for link in graph.links:
        touched[link.edge].append(link)
    level = {vertex.key: 0 for vertex in graph.vertices if vertex.external}
    while len(level) < len(graph.vertices):
        edges = _next_edges(graph, touched, level)
        if not edges and not level:
            level[_first_node(graph)] = 0
            continue
        for edge in edges or [v.key for v in graph.vertices if v.key not in level]:
            above = [level[link.node] for link in touched[edge] if link.node in level]
            level[edge] = max(above, default=0) + 1
        # A node lies below all edges that reach it at the same time.
        reached: dict[str, int] = {}
        for edge in edges:
            for link in touched[edge]:
                if link.node not in level:
                    reached[link.node] = max(reached.get(link.node, 0), level[edge] + 1)
        level.update(reached)
    return level


def _next_edges(
    graph: Graph, touched: Mapping[str, list[Link]], level: Mapping[str, int]
) -> list[str]:
    """The edges to place next, given the levels so far; none if only leaves are left."""
    free = [v for v in graph.vertices if v.kind is not Kind.NODE and v.key not in level]
    factors = [v.key for v in free if v.kind is not Kind.NONTERMINAL]
    if not level:
        # A picture can begin with distributions without condition, `root(-> N)`.
        return [e for e in factors if all(k.flow is Flow.INTO_NODE for k in touched[e])]
    near = [e for e in factors if any(link.node in level for link in touched[e])]
    ready = [
        e for e in near if all(k.node in level for k in touched[e] if k.flow is Flow.INTO_EDGE)
    ]
    leaves = [v.key for v in free if v.kind is Kind.NONTERMINAL]
    new = [
        e
        for e in leaves
        if any(link.node in level for link in touched[e])
        and any(link.node not in level for link in touched[e])
    ]
    return ready or near[:1] or new


def _first_node(graph: Graph) -> str:
    """The vertex to begin with if none is external: a node that no arrow points to, if any."""
    nodes = [v.key for v in graph.vertices if v.kind is Kind.NODE]
    reached = {link.node for link in graph.links if link.flow is Flow.INTO_NODE}
    candidates = [node for node in nodes if node not in reached] or nodes
    return (candidates or [v.key for v in graph.vertices])[0]


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
    """The rows, each ordered by a walk from the first row down that follows ports."""
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
        count = crossings(current, segments)
        if count < fewest:
            best, fewest = [list(row) for row in current], count
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


def spread(
    rows: Rows, left: Mapping[str, float], right: Mapping[str, float], gap: float
) -> dict[str, float]:
    """Places along the rows that make lines short (least squares) and let nothing overlap.

    `left` and `right` say how far a vertex reaches from its center. Each row in turn is placed
    best for the others as they are, until nothing moves. The problem is convex, so this ends at
    the best places of all.
    """
    columns = _columns(rows)
    in_column = {pair for column in columns for pair in pairwise(column)}
    linked: dict[str, list[tuple[str, float]]] = {}
    for s in rows.segments:
        weight = s.weight * (COLUMN if (s.upper, s.lower) in in_column else 1)
        linked.setdefault(s.upper, []).append((s.lower, weight))
        linked.setdefault(s.lower, []).append((s.upper, weight))
    left, right = dict(left), dict(right)
    for column in columns:  # all of a column reach as far as its widest
        left.update(dict.fromkeys(column, max(left[key] for key in column)))
        right.update(dict.fromkeys(column, max(right[key] for key in column)))
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
    for column in columns:  # made vertical if that moves no vertex far
        middle = sum(x[key] for key in column) / len(column)
        if all(abs(x[key] - middle) <= gap / 3 for key in column):
            x.update(dict.fromkeys(column, middle))
    return x


def _columns(rows: Rows) -> list[list[str]]:
    """Chains of vertices from top to bottom in which no line leads aside; no bends."""
    down = Counter(s.upper for s in rows.segments)
    up = Counter(s.lower for s in rows.segments)
    bends = {bend for chain in rows.bends.values() for bend in chain}
    below = {
        s.upper: s.lower
        for s in rows.segments
        if down[s.upper] == up[s.lower] == 1 and not {s.upper, s.lower} & bends
    }
    columns = [[key] for key in below if key not in below.values()]
    for column in columns:
        while column[-1] in below:
            column.append(below[column[-1]])
    return columns


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
