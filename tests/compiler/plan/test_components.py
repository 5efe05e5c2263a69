"""Strongly connected components."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from fgg.compiler.plan.components import components

NAMES = "abcdefgh"


@given(st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=24))
def test_components_are_those_of_a_graph_library(edges: set[tuple[str, str]]) -> None:
    graph = {name: sorted(t for s, t in edges if s == name) for name in NAMES}
    found = components(graph)
    other = nx.DiGraph(edges)
    other.add_nodes_from(NAMES)
    assert {frozenset(names) for names in found} == set(
        map(frozenset, nx.strongly_connected_components(other))
    )
    place = {name: i for i, names in enumerate(found) for name in names}
    assert all(place[target] <= place[source] for source, target in edges)


def test_members_come_in_the_order_of_the_graph() -> None:
    assert components({"b": ["a"], "a": ["b"], "c": ["a"]}) == [("b", "a"), ("c",)]


def test_a_long_chain_is_no_deep_recursion() -> None:
    size = 5000
    graph = {str(i): [str(i + 1)] if i + 1 < size else [] for i in range(size)}
    assert len(components(graph)) == size
