"""Which row each vertex of a graph goes to: external nodes first, then edges and nodes in turn."""

from __future__ import annotations

from collections.abc import Mapping

from fgg.draw.scene import Flow, Graph, Kind, Link


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


def levels(graph: Graph) -> dict[str, int]:
    """The level of each vertex: nodes have even ones, edges odd ones.

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
    """The vertex to begin with if nothing is external: a node that no arrow points to, if any."""
    nodes = [v.key for v in graph.vertices if v.kind is Kind.NODE]
    reached = {link.node for link in graph.links if link.flow is Flow.INTO_NODE}
    candidates = [node for node in nodes if node not in reached] or nodes
    return (candidates or [v.key for v in graph.vertices])[0]
