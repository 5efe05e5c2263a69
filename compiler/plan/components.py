"""Strongly connected components, without a graph library: loading one takes longer than this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def components(graph: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """The strongly connected components of a graph, each after those that it points to.

    Tarjan's algorithm, without recursion. Members come in the order in which `graph` lists them;
    all targets must be listed too. The result depends on these orders alone.
    """
    position = {name: i for i, name in enumerate(graph)}
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: dict[str, None] = {}
    components: list[tuple[str, ...]] = []
    for root in graph:
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        path[root] = None
        work = [(root, iter(graph[root]))]
        while work:
            name, targets = work[-1]
            following = next(targets, None)
            if following is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[name])
                if lowest[name] == number[name]:
                    components.append(tuple(sorted(_popped(path, name), key=position.__getitem__)))
            elif following not in number:
                number[following] = lowest[following] = len(number)
                path[following] = None
                work.append((following, iter(graph[following])))
            elif following in path:
                lowest[name] = min(lowest[name], number[following])
    return components


def _popped(path: dict[str, None], name: str) -> list[str]:
    """Remove the end of a path, from a node on, and return it."""
    members: list[str] = []
    while not members or members[-1] != name:
        members.append(path.popitem()[0])
    return members
